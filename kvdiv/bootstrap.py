"""Bootstrap over documents: the independent unit, resampled within strata, the same documents for every quantity and action.

Strata weigh equally. A quantity is any function of the weighted mean vector of the documents (a ratio, a difference between two
actions), so that everything that is compared is resampled together. Replicates are never resampled by themselves. Percentile
intervals; where all draws are equal to rounding the interval is [x, x], marked degenerate, and never NaN.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvdiv.theory.errors import RecordError
from kvdiv.uniforms import Stream

DRAWS = 10_000
# Relative to max(1, |x|): a mean adds n numbers in [0, 1] with error below n 2^-53, and a few operations follow it; enough for
# n = 1,000 documents. No document's data is believed to that precision, so nothing real is below it.
ROUNDING = 1e-12
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimate with its percentile interval; `degenerate` where every draw gave the same value."""

    estimate: float
    low: float
    high: float

    @property
    def degenerate(self) -> bool:
        """No spread: too few documents, or all alike."""
        return self.low == self.high

    @property
    def excludes_zero(self) -> bool:
        """0 is outside, by more than rounding."""
        return self.low > ROUNDING or self.high < -ROUNDING


class Bootstrap:
    """Document counts of `draws` resamples; `of` turns document values into intervals.

    strata: each document's stratum, in the order of the values' rows. `smallest` is the number of documents of the smallest
    stratum: with one document its interval shows nothing. `RecordError` without documents.
    """

    def __init__(self, strata: Sequence[str], *, seed: int, draws: int = DRAWS, level: float = 0.95) -> None:
        if not strata:
            raise RecordError("there are no documents to resample")
        self.level = level
        names = sorted(set(strata))
        self._members = [np.flatnonzero([stratum == name for stratum in strata]) for name in names]
        self.smallest = min(map(len, self._members))
        self._counts: list[Floats] = []
        for name, members in zip(names, self._members, strict=True):
            uniforms = Stream(seed, "bootstrap", name).many(draws * len(members)).reshape(draws, len(members))
            picks = (uniforms * len(members)).astype(np.int64)
            counts = np.stack([(picks == column).sum(-1) for column in range(len(members))], -1)
            self._counts.append(counts.astype(np.float64))

    def of(self, values: Floats, function: Callable[[Floats], Floats] = lambda mean: mean) -> list[Interval]:
        """Intervals of function(mean); values [document, quantity], function maps [..., quantity] to [..., result].

        `RecordError` where a value is not finite.
        """
        estimate = self.plain(values, function)
        draws = function(self._mean(values, self._counts))
        tail = (1 - self.level) / 2
        low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
        flat = high - low <= ROUNDING * np.maximum(1, abs(estimate))
        low, high = np.where(flat, estimate, low), np.where(flat, estimate, high)
        return [Interval(*map(float, row)) for row in zip(estimate, low, high, strict=True)]

    def plain(self, values: Floats, function: Callable[[Floats], Floats] = lambda mean: mean) -> Floats:
        """function of the documents' mean, strata weighing equally, without resampling; [result]."""
        once = [np.ones((1, len(members))) for members in self._members]
        return function(self._mean(values, once)[0])

    def _mean(self, values: Floats, counts: Sequence[Floats]) -> Floats:
        """Mean over strata of (1/n) sum_d count_d values_d, [draw, quantity].

        Whole counts are multiplied and divided last, so that a mean of values in [0, 1] cannot leave [0, 1] by rounding.
        """
        if not np.isfinite(values).all():
            raise RecordError(f"document {int(np.argwhere(~np.isfinite(values))[0, 0])} has a value that is not finite")
        means = [c @ values[members] / len(members) for c, members in zip(counts, self._members, strict=True)]
        total: Floats = np.sum(means, axis=0)
        return total / len(means)


def ratio(top: Floats, bottom: Floats) -> Floats:
    """top/bottom, defined as 0 where the bottom is 0 (a rate with no exposure); shapes broadcast."""
    top, bottom = np.broadcast_arrays(top, bottom)
    return np.divide(top, bottom, out=np.zeros(top.shape), where=bottom != 0)
