"""What an estimator's program may ask for, and what it gets back.

A program is a generator: it yields requests and receives answers, and owns no randomness, no tensors and no kernels. The same
generator is enumerated exactly (`kvdiv.interpreters.enumerate`), simulated on toy kernels (`kvdiv.interpreters.simulate`) and
run on real models (`kvdiv.models.decode`). Histories are tuples of tokens, the generated ones only.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, TypeVar

from kvdiv.theory.kernels import History

Probability = Fraction | float
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Couple:
    """One step of the stepwise maximal coupling of P(.|x) and Q(.|y). Answer: `Coupled`."""

    x: History
    y: History


@dataclass(frozen=True, slots=True)
class Overlap:
    """One token from c/(1 - e) at the common history u. Answer: `Overlapped`; its token is None where e = 1."""

    u: History


@dataclass(frozen=True, slots=True)
class Residual:
    """One residual pair at the common history u: X from (p - c)/e and, independently, Y from (q - c)/e. Answer: (X, Y).

    Asking where e = 0 is a `ProgramError`.
    """

    u: History


@dataclass(frozen=True, slots=True)
class Forced:
    """TV(P(.|x), Q(.|y)) with nothing drawn (the fixed-history path takes y = x). Answer: a number in [0, 1]."""

    x: History
    y: History


@dataclass(frozen=True, slots=True)
class Choose:
    """An index drawn in proportion to non-negative weights; no kernel is evaluated. Answer: an int.

    All weights zero is a `ProgramError`.
    """

    weights: tuple[Probability, ...]


class Coupled(NamedTuple):
    """Answer to `Couple`: tokens a (reference) and b (perturbed), and delta = TV of the two rows they came from."""

    a: int
    b: int
    delta: Probability


class Overlapped(NamedTuple):
    """Answer to `Overlap`: the common token, or None where the rows are disjoint (e = 1), and e = TV of the two rows."""

    token: int | None
    e: Probability


Request = Couple | Overlap | Residual | Forced | Choose
Program = Generator[Request, Any, T]
NewProgram = Callable[[], Program[T]]


def evaluations(request: Request) -> int:
    """Kernel-pair evaluations a request costs: 1 for each that looks at the two rows, 0 for `Choose`."""
    return 0 if isinstance(request, Choose) else 1
