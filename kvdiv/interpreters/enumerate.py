"""The exact interpreter: every outcome of a program with its exact weight.

A generator cannot be copied, so each branch of the tree of answers replays the program from its start with the answers so far.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

from kvdiv.requests import (
    Choose,
    Couple,
    Coupled,
    Forced,
    NewProgram,
    Overlap,
    Overlapped,
    Request,
    Residual,
    evaluations,
)
from kvdiv.theory.coupling import coupling_law, overlap, residual_law, total_variation
from kvdiv.theory.errors import ProgramError
from kvdiv.theory.kernels import KernelPair

T = TypeVar("T")


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """One outcome of a program: its value, its exact weight (weights sum to 1), and its cost in kernel-pair evaluations."""

    value: T
    weight: Fraction
    cost: int


def enumerate_program(program: NewProgram[T], pair: KernelPair) -> Iterator[Outcome[T]]:
    """All outcomes of `program` on a kernel pair; two outcomes may carry equal values.

    `program` makes a fresh generator at each call, as in `enumerate_program(lambda: naive(3), pair)`.
    """
    stack: list[tuple[tuple[Any, ...], Fraction, int]] = [((), Fraction(1), 0)]
    while stack:
        answers, weight, cost = stack.pop()
        run = program()
        try:
            request = next(run)
            for answer in answers:
                request = run.send(answer)
        except StopIteration as done:
            yield Outcome(done.value, weight, cost)
            continue
        spent = cost + evaluations(request)
        stack.extend(((*answers, answer), weight * w, spent) for answer, w in law(request, pair))


def law(request: Request, pair: KernelPair) -> list[tuple[Any, Fraction]]:
    """The answers to one request and their exact probabilities."""
    match request:
        case Couple(x, y):
            p, q = pair.p(x), pair.q(y)
            delta = total_variation(p, q)
            return [(Coupled(a, b, delta), w) for (a, b), w in coupling_law(p, q)]
        case Overlap(u):
            c = overlap(pair.p(u), pair.q(u))
            e = 1 - sum(c)
            return (
                [(Overlapped(a, e), m / (1 - e)) for a, m in enumerate(c) if m]
                if e < 1
                else [(Overlapped(None, e), Fraction(1))]
            )
        case Residual(u):
            pairs = residual_law(pair.p(u), pair.q(u))
            if not pairs:
                raise ProgramError(f"residual pair asked for at history {u}, where the two rows are equal")
            return [(ab, w) for ab, w in pairs]
        case Forced(x, y):
            return [(total_variation(pair.p(x), pair.q(y)), Fraction(1))]
        case Choose(weights):
            total = sum(weights)
            if not total > 0 or min(weights) < 0:
                raise ProgramError(f"choice among weights {weights}: they must be non-negative with a positive sum")
            return [(i, Fraction(w) / Fraction(total)) for i, w in enumerate(weights) if w]
    raise ProgramError(f"{request!r} is not a request; see kvdiv.requests")


def moments(
    outcomes: Sequence[Outcome[T]], vector: Callable[[T], Sequence[Any]]
) -> tuple[list[Fraction], list[list[Fraction]]]:
    """Exact mean (n) and covariance matrix (n x n) of `vector(value)` over the outcomes."""
    rows = [(vector(outcome.value), outcome.weight) for outcome in outcomes]
    size = range(len(rows[0][0]))
    mean = [sum((w * Fraction(v[i]) for v, w in rows), Fraction(0)) for i in size]
    second = [[sum((w * Fraction(v[i] * v[j]) for v, w in rows), Fraction(0)) for j in size] for i in size]
    return mean, [[second[i][j] - mean[i] * mean[j] for j in size] for i in size]
