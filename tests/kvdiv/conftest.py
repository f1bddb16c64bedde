"""A toy run: documents that are small kernel pairs, whose exact values are known, measured by the real programs."""

import random
from dataclasses import dataclass
from fractions import Fraction

import pytest

from kvdiv.interpreters import simulate
from kvdiv.programs import fixed_history, naive, swrb
from kvdiv.records import DocumentRecord, Replicate
from kvdiv.testing import histories
from kvdiv.theory import KernelPair, table

PROGRAMS = {"naive": naive, "fixed_history": fixed_history, "swrb": swrb}
STRATA = {"doc 0": "texts", "doc 1": "texts", "doc 2": "tasks", "doc 3": "texts", "doc 4": "tasks"}
STRENGTH = {"mild": Fraction(1, 4), "strong": Fraction(3, 4), "none": Fraction(0)}


@dataclass(frozen=True)
class ToyRun:
    """pairs: the kernel pair of each (document, action). The rest is what a run leaves behind."""

    pairs: dict[tuple[str, str], KernelPair]
    replicates: list[Replicate]
    documents: list[DocumentRecord]


def toy_pair(document, action, horizon):
    """Q = (1 - s) P + s A with random binary rows, those of one document the same for every action."""
    rng = random.Random(document)

    def row():
        a = Fraction(rng.randint(1, 9), 10)
        return (a, 1 - a)

    known = histories(2, horizon)
    p, other = ({h: row() for h in known} for _ in range(2))
    s = STRENGTH[action]
    q = {h: tuple((1 - s) * a + s * b for a, b in zip(p[h], other[h], strict=True)) for h in known}
    return KernelPair(table(p), table(q), 2, horizon)


@pytest.fixture(scope="session")
def toy_run():
    """`toy_run(horizon, replicates, actions=..., estimators=..., documents=...)` measures and returns a `ToyRun`."""

    def run(
        horizon,
        replicates,
        *,
        actions=("mild", "strong", "none"),
        estimators=("fixed_history", "swrb"),
        documents=tuple(STRATA),
    ):
        pairs = {(d, a): toy_pair(d, a, horizon) for d in documents for a in actions}
        found = []
        for (document, action), pair in pairs.items():
            for estimator in estimators:
                seed = int.from_bytes(f"{document}{action}{estimator}".encode()) % 2**60
                runs = simulate(lambda e=estimator: PROGRAMS[e](horizon), pair, replicates, seed=seed)
                found += [
                    Replicate(document, STRATA[document], action, estimator, i, one.value, one.cost)
                    for i, one in enumerate(runs)
                ]
        records = [DocumentRecord(d, STRATA[d], a, 100, "ab" * 32, 50, a != "none", 1000) for d, a in pairs]
        return ToyRun(pairs, found, records)

    return run
