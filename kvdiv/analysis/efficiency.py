"""Estimators side by side: variance within a document, cost in kernel-pair evaluations and seconds, and their products."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kvdiv.records import Replicate

COMPLETE = ("naive", "fixed_history")  # estimators by complete rollouts


def efficiency(replicates: Sequence[Replicate], seconds: Mapping[str, float]) -> dict[str, dict[str, float | None]]:
    """Per estimator: replicates, variance of the risk over replicates of a document (mean over documents), cost, seconds.

    `variance_ratio`, `work` = variance x evaluations and `time` = variance x seconds are relative to complete rollouts: below 1
    is better than they are. None where a variance is not defined (one replicate) or the complete rollouts' is 0 (then nothing
    can be better, and a quotient would say nothing). seconds: per replicate of this action, by estimator.
    """
    names = list(dict.fromkeys(replicate.estimator for replicate in replicates))
    complete = next(name for name in COMPLETE if name in names)
    table: dict[str, dict[str, Any]] = {}
    for name in names:
        mine = [replicate for replicate in replicates if replicate.estimator == name]
        cost = float(np.mean([replicate.cost for replicate in mine]))
        variance = within_variance(mine)
        table[name] = {"replicates": len(mine), "variance": variance, "cost": cost, "seconds": seconds.get(name)}
    for row in table.values():
        row["variance_ratio"] = _product(row, table[complete], ())
        row["work"] = _product(row, table[complete], ("cost",))
        row["time"] = _product(row, table[complete], ("seconds",))
    return table


def within_variance(replicates: Sequence[Replicate]) -> float | None:
    """Mean over documents of the sample variance of the risk over a document's replicates; None with fewer than two."""
    risks: dict[str, list[float]] = {}
    for replicate in replicates:
        risks.setdefault(replicate.document, []).append(float(replicate.value.estimates().risk))
    variances = [float(np.var(values, ddof=1)) for values in risks.values() if len(values) > 1]
    return float(np.mean(variances)) if variances else None


def _product(row: Mapping[str, Any], complete: Mapping[str, Any], factors: Sequence[str]) -> float | None:
    if row["variance"] is None or not complete["variance"] or any(row[f] is None or not complete[f] for f in factors):
        return None
    result = row["variance"] / complete["variance"]
    for factor in factors:
        result *= row[factor] / complete[factor]
    return float(result)
