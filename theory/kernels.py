"""Autoregressive kernels and pairs of them, exactly.

A kernel maps a history (the tokens generated so far; the prompt is understood) to a row: a distribution over V tokens. A
`KernelPair` holds the `reference` P and the `perturbed` Q over one vocabulary, for one horizon H. Each kernel sees only its own
history. Rows are validated exactly when they are first looked up, and kept.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from kvdiv.theory.errors import KernelError

History = tuple[int, ...]
Number = int | str | Fraction
Kernel = Callable[[History], Sequence[Number]]


def exact_row(row: Sequence[Number], vocabulary: int, where: str) -> tuple[Fraction, ...]:
    """The row as Fractions, or `KernelError`: wrong length, a float, a negative entry, or a sum other than 1."""
    if any(isinstance(a, float) for a in row):
        raise KernelError(f"{where}: {row!r} holds floats; exact rows take integers, Fractions or 'a/b' strings")
    exact = tuple(Fraction(a) for a in row)
    if len(exact) != vocabulary:
        raise KernelError(f"{where}: {len(exact)} entries for a vocabulary of {vocabulary}")
    if min(exact) < 0:
        raise KernelError(f"{where}: negative entry {min(exact)}")
    if sum(exact) != 1:
        raise KernelError(f"{where}: sums to {sum(exact)}, not to 1")
    return exact


def table(rows: Mapping[History, Sequence[Number]]) -> Kernel:
    """A kernel given by its rows, keyed by the whole history; `KernelError` for a history without a row."""

    def kernel(history: History) -> Sequence[Number]:
        try:
            return rows[history]
        except KeyError:
            raise KernelError(f"the table has no row for history {history}; add it or shorten the horizon") from None

    return kernel


def iid(row: Sequence[Number]) -> Kernel:
    """The kernel that draws every token from the same row, whatever the history."""
    return lambda history: row


def absorbing(kernel: Kernel, eos: int) -> Kernel:
    """The kernel with an absorbing end of sequence: after `eos` it repeats `eos` with probability 1."""

    def wrapped(history: History) -> Sequence[Number]:
        return [int(u == eos) for u in range(len(kernel(())))] if eos in history else kernel(history)

    return wrapped


@dataclass(frozen=True)
class KernelPair:
    """Reference P and perturbed Q over `vocabulary` tokens, for `horizon` generated tokens.

    `pair.p(x)` and `pair.q(y)` are the rows at a history, tuples of V Fractions; both raise `KernelError` for a row that is
    not a distribution over the vocabulary.
    """

    reference: Kernel
    perturbed: Kernel
    vocabulary: int
    horizon: int
    _rows: dict[tuple[str, History], tuple[Fraction, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if self.vocabulary < 1:
            raise KernelError(f"vocabulary {self.vocabulary}: at least one token is needed")
        if self.horizon < 1:
            raise KernelError(f"horizon {self.horizon}: at least one step is needed")

    def p(self, x: History) -> tuple[Fraction, ...]:
        """P(. | x), the reference row at history x: V Fractions that sum to 1."""
        return self._row("reference", self.reference, x)

    def q(self, y: History) -> tuple[Fraction, ...]:
        """Q(. | y), the perturbed row at history y: V Fractions that sum to 1."""
        return self._row("perturbed", self.perturbed, y)

    def _row(self, side: str, kernel: Kernel, history: History) -> tuple[Fraction, ...]:
        if (side, history) not in self._rows:
            self._rows[side, history] = exact_row(kernel(history), self.vocabulary, f"{side} row at history {history}")
        return self._rows[side, history]
