"""The estimators' own programs, enumerated exactly on toy kernels and compared with the exact layer.

What `kvdiv demo` shows before it touches a model: the code that will run there has exactly the right means, and SWRB's variance
is below the naive one's by exactly E[(1 - M) sum_s w_s nu_s] (Proposition 4.1).
"""

from fractions import Fraction
from typing import Any

from kvdiv.interpreters import enumerate_program, moments
from kvdiv.programs import naive, swrb
from kvdiv.theory import KernelPair, exact_values, iid, table, variance_gap

QUANTITIES = ("risk", "occurrence", "occupation", "exposure", "rate", "sequence_tv")


def toy_pairs() -> dict[str, KernelPair]:
    """Three pairs that differ in what happens after the first mismatch, by a description for the reader."""
    half = Fraction(1, 2)
    departed = {(): (1 - half, half), (0,): (1 - half, half)}
    heals = table(departed | {(1,): (1, 0)})
    persists = table(departed | {(1,): (0, 1)})
    return {
        "independent departures with probability 1/3, H = 4": KernelPair(iid([1, 0]), iid(["2/3", "1/3"]), 2, 4),
        "every departure heals at once, H = 2": KernelPair(iid([1, 0]), heals, 2, 2),
        "every departure persists, H = 2": KernelPair(iid([1, 0]), persists, 2, 2),
    }


def self_check() -> list[dict[str, Any]]:
    """One entry per toy pair, rationals as strings.

    exact: the exact layer's values. estimators: per program, whether all its means (risk, parts, every window and
    capacity) equal them, the exact variance of its risk, and its mean cost. gap: the variance gap of Proposition 4.1;
    `agrees` says that everything is equal.
    """
    return [_entry(name, pair) for name, pair in toy_pairs().items()]


def _entry(name: str, pair: KernelPair) -> dict[str, Any]:
    exact = exact_values(pair)
    depths = range(1, pair.horizon + 1)
    wanted = [exact.risk, exact.occurrence, exact.occupation, exact.exposure, exact.exposure]
    wanted += [exact.observed(depth) for depth in depths] + [exact.capacity(depth) for depth in depths]
    estimators: dict[str, Any] = {}
    variances = {}
    for label, program in {"naive": naive, "swrb": swrb}.items():
        outcomes = list(enumerate_program(lambda program=program: program(pair.horizon), pair))  # type: ignore[misc]
        mean, covariance = moments(outcomes, lambda record: record.estimates().vector())
        variances[label] = covariance[0][0]
        cost = sum((outcome.weight * outcome.cost for outcome in outcomes), Fraction(0))
        estimators[label] = {"unbiased": mean == wanted, "variance": str(covariance[0][0]), "cost": str(cost)}
    gap = variance_gap(pair)
    return {
        "pair": name,
        "exact": {quantity: str(getattr(exact, quantity)) for quantity in QUANTITIES},
        "estimators": estimators,
        "gap": str(gap),
        "agrees": all(e["unbiased"] for e in estimators.values()) and variances["naive"] - variances["swrb"] == gap,
    }
