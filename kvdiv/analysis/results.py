"""The results of a run: one plain dictionary, strict JSON, from which every figure and table of the report is drawn.

A quantity is {estimate, low, high, degenerate, defined}, a 95 % interval. What is conditional on a null event (C without
exposure, the mean tau without divergence) is 0 by convention and `defined` is false; a bootstrap draw without it counts as 0.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kvdiv.analysis.consistency import check_records
from kvdiv.analysis.decomposition import (
    QUANTITIES,
    TERMS,
    attribution,
    check_attribution,
    check_decomposition,
    moments,
    quantities,
)
from kvdiv.analysis.efficiency import COMPLETE, efficiency
from kvdiv.analysis.paths import Paths, paths
from kvdiv.bootstrap import Bootstrap, Floats, Interval, ratio
from kvdiv.records import DocumentRecord, Replicate
from kvdiv.theory.errors import RecordError

SCHEMA = "kvdiv results 1"
FLOOR_FACTOR = 3  # a TV below this many noise floors is flagged


def analyse(
    replicates: Sequence[Replicate],
    documents: Sequence[DocumentRecord],
    *,
    seed: int,
    noise_floor: float,
    seconds: Mapping[str, float],
    draws: int = 10_000,
) -> dict[str, Any]:
    """Everything that is read off the records; intervals are 95 % document bootstraps within strata, paired across actions.

    noise_floor: TV a step. seconds: per estimator, all actions together; an action's share is its share of the evaluations.
    `RecordError` where records are missing or break an identity that holds for every coupled pair.
    """
    check_records(replicates, documents)
    actions = list(dict.fromkeys(replicate.action for replicate in replicates))
    strata = {record.document: record.stratum for record in documents}
    names = list(strata)
    bootstrap = Bootstrap(list(strata.values()), seed=seed, draws=draws)
    mine = {action: [r for r in replicates if r.action == action] for action in actions}
    complete = {action: [r for r in mine[action] if r.estimator in COMPLETE] for action in actions}
    if without := [action for action in actions if not complete[action]]:
        raise RecordError(f"action {without[0]!r} has no complete rollouts ({' or '.join(COMPLETE)}); measure them too")
    means = {action: moments(complete[action], names) for action in actions}
    evaluations = {
        name: sum(r.cost for r in replicates if r.estimator == name) for name in {r.estimator for r in replicates}
    }
    return {
        "schema": SCHEMA,
        "horizon": replicates[0].value.horizon,
        "noise_floor": noise_floor,
        "documents": {
            "count": len(names),
            "strata": {s: list(strata.values()).count(s) for s in dict.fromkeys(strata.values())},
        },
        "few_documents": bootstrap.smallest < 2,
        "actions": {
            action: _action(mine[action], complete[action], means[action], names, bootstrap, noise_floor)
            | {
                "not_evicted": [d.document for d in documents if d.action == action and not d.evicted],
                "retained": [d.retained for d in documents if d.action == action],
                "estimators": _estimators(mine[action], names, bootstrap, seconds, evaluations),
            }
            for action in actions
        },
        "gaps": [
            _gap(actions[i], actions[j], means, bootstrap, noise_floor)
            for i in range(len(actions))
            for j in range(i + 1, len(actions))
        ],
    }


def _action(
    mine: Sequence[Replicate],
    complete: Sequence[Replicate],
    means: Floats,
    names: Sequence[str],
    bootstrap: Bootstrap,
    noise_floor: float,
) -> dict[str, Any]:
    """One action's quantities, timing curve, branch TV by lag, and windows."""
    along = paths(complete, names)
    along.check_clocks()
    (counted,) = bootstrap.plain(along.mismatch.mean((1, 2))[:, None])
    check_decomposition(float(counted), bootstrap.plain(means, quantities))
    horizon = along.horizon
    values = _quantities(means, bootstrap)
    values["later_share"] = _shown(*bootstrap.of(means, _later_share), defined=values["risk"]["estimate"] > 0)
    values["diverged"] = _shown(*bootstrap.of(along.entry()[:, 1:]))
    values["mean_tau"] = _shown(*bootstrap.of(along.entry(), _quotient), defined=values["diverged"]["estimate"] > 0)
    tv = {"rollout_tv": along.delta.mean((1, 2))}
    if along.forced is not None:
        tv["fixed_history"] = along.forced.mean((1, 2))
        tv["history_gap"] = tv["rollout_tv"] - tv["fixed_history"]
    for name, of_documents in tv.items():
        (interval,) = bootstrap.of(of_documents[:, None])
        values[name] = _shown(interval) | {"below_floor": abs(interval.estimate) < FLOOR_FACTOR * noise_floor}
    return {
        "quantities": values,
        "below_floor": values["rollout_tv"]["below_floor"],
        "timing": _curve(range(1, horizon + 1), bootstrap.of(along.timing())),
        "branch_tv": _branch_tv(along, bootstrap, noise_floor),
        "windows": [_window(depth, horizon, means, bootstrap) for depth in depths(horizon)],
    }


def _quantities(means: Floats, bootstrap: Bootstrap) -> dict[str, dict[str, Any]]:
    """R, O, Pi, E and C of one action and estimator; C is defined where there is exposure."""
    shown = dict(zip(QUANTITIES, map(_shown, bootstrap.of(means, quantities)), strict=True))
    shown["rate"]["defined"] = shown["exposure"]["estimate"] > 0
    return shown


def _quotient(mean: Floats) -> Floats:
    """First of two means over the second."""
    return ratio(mean[..., :1], mean[..., 1:])


def _later_share(mean: Floats) -> Floats:
    """Pi/R: of the tokens that differ, those after the first difference."""
    return ratio(mean[..., 2:3], mean[..., :1])


def depths(horizon: int) -> list[int]:
    """Depths L to show: 1, 4, 16, .. below H, then H/2 and H."""
    powers = [4**k for k in range(horizon) if 4**k < horizon]
    return sorted({*powers, max(1, horizon // 2), horizon})


def _window(depth: int, horizon: int, means: Floats, bootstrap: Bootstrap) -> dict[str, Any]:
    pair = means[:, [3 + depth, 3 + horizon + depth]]
    observed, capacity = bootstrap.of(pair)
    upper = bootstrap.of(pair.sum(-1, keepdims=True))[0]
    return {"depth": depth, "observed": _shown(observed), "capacity": _shown(capacity), "upper": _shown(upper)}


def _branch_tv(along: Paths, bootstrap: Bootstrap, noise_floor: float) -> dict[str, Any]:
    """E[delta_{tau+j} | tau <= m] with m = H/2, the same trajectories at every lag (20).

    Not defined without such a trajectory, or without a lag (H = 1).
    """
    cohort = max(1, along.horizon // 2)
    values = along.by_lag(cohort)
    curve = bootstrap.of(values, lambda mean: ratio(mean[..., 1:], mean[..., :1]))
    member = along.tau <= cohort
    return {
        "cohort": cohort,
        "paths": int(member.sum()),
        "documents": int(member.any(1).sum()),
        "defined": bool(member.any()) and cohort < along.horizon,
        "below_floor": any(interval.estimate < FLOOR_FACTOR * noise_floor for interval in curve),
    } | _curve(range(1, along.horizon - cohort + 1), curve)


def _estimators(
    mine: Sequence[Replicate],
    names: Sequence[str],
    bootstrap: Bootstrap,
    seconds: Mapping[str, float],
    evaluations: Mapping[str, int],
) -> dict[str, Any]:
    """Each estimator's quantities beside its variance and cost; seconds are per replicate of this action."""
    shares = {}
    for name in dict.fromkeys(r.estimator for r in mine):
        own = [r for r in mine if r.estimator == name]
        if name in seconds:
            shares[name] = seconds[name] * sum(r.cost for r in own) / evaluations[name] / len(own)
    table: dict[str, Any] = efficiency(mine, shares)
    for name, row in table.items():
        row["quantities"] = _quantities(moments([r for r in mine if r.estimator == name], names), bootstrap)
    return table


def _gap(
    first: str, second: str, means: Mapping[str, Floats], bootstrap: Bootstrap, noise_floor: float
) -> dict[str, Any]:
    """Second minus first: the gap, its three terms (8), and their shares where the gap's interval excludes 0."""
    side_by_side = np.concatenate([means[first], means[second]], -1)
    found = dict(zip(TERMS, bootstrap.of(side_by_side, attribution), strict=True))
    check_attribution(bootstrap.plain(side_by_side, attribution))
    settled = found["gap"].excludes_zero
    shares = (
        bootstrap.of(side_by_side, lambda mean: ratio(attribution(mean)[..., 1:], attribution(mean)[..., :1]))
        if settled
        else []
    )
    return {
        "first": first,
        "second": second,
        "terms": {name: _shown(interval) for name, interval in found.items()},
        "shares": dict(zip(TERMS[1:], map(_shown, shares), strict=True)) if settled else None,
        "below_floor": abs(found["gap"].estimate) < FLOOR_FACTOR * noise_floor,
    }


def _shown(interval: Interval, *, defined: bool = True) -> dict[str, Any]:
    return {
        "estimate": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "degenerate": interval.degenerate,
        "defined": defined,
    }


def _curve(at: range, intervals: Sequence[Interval]) -> dict[str, Any]:
    return {
        "at": list(at),
        "estimate": [interval.estimate for interval in intervals],
        "low": [interval.low for interval in intervals],
        "high": [interval.high for interval in intervals],
    }
