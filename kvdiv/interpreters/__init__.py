"""Interpreters answer a program's requests: `enumerate` exactly, `simulate` on toy kernels, `lockstep` for any source of rows.

The interpreter for real models, `kvdiv.models.decode`, is `lockstep` with a model behind it.
"""

from kvdiv.interpreters.enumerate import Outcome, enumerate_program, moments
from kvdiv.interpreters.lockstep import Lookup, Run, Side, lockstep
from kvdiv.interpreters.simulate import simulate

__all__ = ["Lookup", "Outcome", "Run", "Side", "enumerate_program", "lockstep", "moments", "simulate"]
