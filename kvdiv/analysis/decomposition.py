r"""O, Pi, E, C, R of each action and the attribution of a gap between two, on document means.

    R = O + E C (7),    Delta R = Delta O + Delta E * mean C + Delta C * mean E (8)

Both hold exactly for empirical moments; both are checked to rounding here. C is a ratio of means.
"""

from collections.abc import Sequence

import numpy as np

from kvdiv.bootstrap import ROUNDING, Floats, ratio
from kvdiv.records import Replicate
from kvdiv.theory.errors import RecordError

PARTS = ("occurrence", "occupation", "exposure")
QUANTITIES = ("risk", "occurrence", "occupation", "exposure", "rate")
TERMS = ("gap", "occurrence", "exposure", "rate")


def moments(replicates: Sequence[Replicate], documents: Sequence[str]) -> Floats:
    """Means over replicates of (risk, O, Pi, E) and of observed and capacity at every depth, [document, 4 + 2 H].

    From any estimator's records; the exposure is the one that never worsens C. `RecordError` for a document without any.
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


def check_decomposition(mismatch_fraction: float, values: Floats) -> None:
    """(7) to rounding, R counted without tau; values: `quantities` of one mean. `RecordError` otherwise."""
    risk, occurrence, _, exposure, rate = values
    if max(abs(risk - mismatch_fraction), abs(risk - occurrence - exposure * rate)) > ROUNDING:
        raise RecordError(
            f"R = {mismatch_fraction} is not O + E C = {occurrence + exposure * rate} (7) on these records"
        )


def check_attribution(terms: Floats) -> None:
    """(8) to rounding: the terms of one `attribution` add up to its gap; `RecordError` otherwise."""
    if abs(terms[0] - terms[1:].sum()) > ROUNDING:
        raise RecordError(f"the gap {terms[0]} is not the sum {terms[1:].sum()} of its terms (8) on these records")
