"""The one family of exceptions: everything kvdiv raises on purpose is a `KvdivError`.

Each message is one line that names the offending value and the way out. The command line prints it and exits with code 2.
"""


class KvdivError(Exception):
    """Root of the family."""


class KernelError(KvdivError):
    """A distribution or a kernel is not one: negative, does not sum to 1, wrong vocabulary, missing row."""


class ProgramError(KvdivError):
    """An estimator's program asked for something that has no answer, such as a residual pair where p = q."""


class DocumentError(KvdivError):
    """A document cannot be read or built, or its tokens are not what a model expects."""


class ActionError(KvdivError):
    """An unknown action, or an eviction rule with impossible parameters."""


class ModelError(KvdivError):
    """A model is missing, unsupported, or cannot be loaded."""


class MemoryNeedError(KvdivError):
    """The run needs more memory than there is."""


class NumericalError(KvdivError):
    """NaN or infinite logits; the message names the document and the step."""


class RecordError(KvdivError):
    """Records or results that cannot be written, read, or do not belong together."""
