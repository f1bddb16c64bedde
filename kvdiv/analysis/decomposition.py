r"""O, Pi, E, C, R of each action and the attribution of a gap between two, on document means.

    R = O + E C (7),    Delta R = Delta O + Delta E * mean C + Delta C * mean E (8)

Both hold exactly for empirical moments; both are checked to rounding here. C is a ratio of means.
"""

from collections.abc import Sequence

import numpy as np

from kvdiv.bootstrap import Floats, ratio
from kvdiv.records import Replicate
from kvdiv.theory.errors import RecordError

PARTS = ("occurrence", "occupation", "exposure")
QUANTITIES = ("risk", "occurrence", "occupation", "exposure", "rate")
TERMS = ("gap", "occurrence", "exposure", "rate")
ROUNDING = 1e-12  # a few dozen float64 operations on numbers in [0, 1]


def moments(replicates: Sequence[Replicate], documents: Sequence[str]) -> Floats:
    """Means over replicates of (risk, O, Pi, E) and of observed and capacity at every depth, [document, 4 + 2 H].

    From any estimator's records; the exposure is the one that never worsens C.
    """
    rows: dict[str, list[list[float]]] = {name: [] for name in documents}
    for replicate in replicates:
        e = replicate.value.estimates()
        parts = (e.risk, e.occurrence, e.occupation, e.exposure, *e.observed, *e.capacity)
        rows[replicate.document].append([float(number) for number in parts])
    if missing := [name for name, found in rows.items() if not found]:
        raise RecordError(f"document {missing[0]!r} has no replicates of an estimator that others have")
    return np.array([np.mean(rows[name], axis=0) for name in documents])


def quantities(mean: Floats) -> Floats:
    """(risk, O, Pi, E, ...) to (risk, O, Pi, E, C), along the last axis."""
    return np.concatenate([mean[..., :4], ratio(mean[..., 2], mean[..., 3])[..., None]], -1)


def attribution(mean: Floats) -> Floats:
    """Means of two actions side by side, [..., 2 (4 + ...)], to (gap, occurrence, exposure, rate) of second minus first."""
    half = mean.shape[-1] // 2
    first, second = quantities(mean[..., :half]), quantities(mean[..., half:])
    change, middle = second - first, (first + second) / 2
    terms = np.stack([change[..., 1], change[..., 3] * middle[..., 4], change[..., 4] * middle[..., 3]], -1)
    return np.concatenate([change[..., :1], terms], -1)


def check_identities(values: Floats, terms: Floats) -> None:
    """(7) and (8) to rounding; `RecordError` otherwise. values: `quantities`; terms: `attribution`."""
    risk, occurrence, _, exposure, rate = np.moveaxis(values, -1, 0)
    if np.any(abs(risk - occurrence - exposure * rate) > ROUNDING):
        raise RecordError("R = O + E C fails on these records (7); they are not coupled rollouts")
    if np.any(abs(terms[..., 0] - terms[..., 1:].sum(-1)) > ROUNDING):
        raise RecordError("the attribution's terms do not add up to the gap (8); the records are inconsistent")
