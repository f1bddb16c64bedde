"""For test suites: Hypothesis strategies for kernel pairs, and the exact check of an estimator's means.

Needs hypothesis (the extra `dev`). The pairs that estimators fail on are drawn often: zeros in rows, equal kernels, disjoint
kernels, kernels that differ in one row, absorbing end of sequence.
"""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from kvdiv.interpreters import enumerate_program, moments
from kvdiv.requests import Program
from kvdiv.theory import KernelPair, absorbing, exact_values, table
from kvdiv.theory.kernels import History


@st.composite
def rows(draw: st.DrawFn, vocabulary: int) -> tuple[Fraction, ...]:
    """A distribution over `vocabulary` tokens with small integer weights, zeros included; shrinks to a point mass at 0."""
    weights = draw(st.lists(st.integers(0, 4), min_size=vocabulary, max_size=vocabulary))
    if not any(weights):
        weights[0] = 1
    return tuple(Fraction(weight, sum(weights)) for weight in weights)


def histories(vocabulary: int, horizon: int) -> list[History]:
    """All histories shorter than the horizon, shortest first."""
    return [h for t in range(horizon) for h in itertools.product(range(vocabulary), repeat=t)]


@st.composite
def kernel_pairs(
    draw: st.DrawFn, sizes: Sequence[tuple[int, int]] = ((2, 1), (2, 2), (2, 3), (2, 4), (3, 2), (3, 3), (4, 2))
) -> KernelPair:
    """A pair of table kernels; (vocabulary, horizon) one of `sizes`."""
    vocabulary, horizon = draw(st.sampled_from(list(sizes)))
    kind = draw(st.sampled_from(["free", "equal", "disjoint", "one row", "eos"]))
    known = histories(vocabulary, horizon)
    reference = {h: draw(rows(vocabulary)) for h in known}
    if kind == "equal":
        perturbed = dict(reference)
    elif kind == "one row":
        perturbed = dict(reference) | {draw(st.sampled_from(known)): draw(rows(vocabulary))}
    elif kind == "disjoint":
        reference = {h: _half(row, range(vocabulary // 2)) for h, row in reference.items()}
        perturbed = {h: _half(draw(rows(vocabulary)), range(vocabulary // 2, vocabulary)) for h in known}
    else:
        perturbed = {h: draw(rows(vocabulary)) for h in known}
    p, q = table(reference), table(perturbed)
    if kind == "eos":
        p, q = absorbing(p, 0), absorbing(q, 0)
    return KernelPair(p, q, vocabulary, horizon)


def _half(row: Sequence[Fraction], support: range) -> tuple[Fraction, ...]:
    """The row confined to a support and made to sum to 1 again."""
    kept = [mass if token in support else Fraction(0) for token, mass in enumerate(row)]
    total = sum(kept)
    return (
        tuple(mass / total for mass in kept)
        if total
        else tuple(Fraction(token == support[0]) for token in range(len(row)))
    )


def exact_means(pair: KernelPair) -> list[Fraction]:
    """What `Estimates.vector()` must average to: R, O, Pi, E, E, R_1..R_H, B_1..B_H from the exact layer."""
    exact = exact_values(pair)
    depths = range(1, pair.horizon + 1)
    parts = [exact.risk, exact.occurrence, exact.occupation, exact.exposure, exact.exposure]
    return parts + [exact.observed(depth) for depth in depths] + [exact.capacity(depth) for depth in depths]


def enumerated_moments(
    program: Callable[[int], Program[Any]], pair: KernelPair
) -> tuple[list[Fraction], list[list[Fraction]]]:
    """Exact mean and covariance of `Estimates.vector()` under the real program, `program(horizon)` making a fresh one."""
    outcomes = list(enumerate_program(lambda: program(pair.horizon), pair))
    return moments(outcomes, lambda record: record.estimates().vector())
