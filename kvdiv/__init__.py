"""kvdiv: how much, and when, generations diverge once a KV cache has been evicted (or a kernel changed in any way).

In reading order: `kvdiv.theory` computes exactly on small kernel pairs; `kvdiv.programs` are the estimators;
`kvdiv.interpreters` enumerate and simulate them; `kvdiv.models` runs the same programs on language models;
`kvdiv.analysis` and `kvdiv.report` turn records into numbers and pictures; `kvdiv.cli` is the command line.
"""

from kvdiv.theory.errors import KvdivError

__all__ = ["KvdivError"]
__version__ = "0.1.0"
