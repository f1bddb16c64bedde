"""Bootstrap over documents: the independent unit, resampled within strata, the same documents for every quantity and action.

Strata weigh equally. A quantity is any function of the weighted mean vector of the documents (a ratio, a difference between two
actions), so that everything that is compared is resampled together. Replicates are never resampled by themselves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvdiv.uniforms import Stream

DRAWS = 10_000
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


class Bootstrap:
    """Document weights of the sample and of `draws` resamples; `of` turns document values into intervals.

    strata: each document's stratum, in the order of the values' rows.
    """

    def __init__(self, strata: Sequence[str], *, seed: int, draws: int = DRAWS, level: float = 0.95) -> None:
        self.level = level
        names = sorted(set(strata))
        self.smallest = min(strata.count(name) for name in names)
        self._plain = np.zeros(len(strata))
        self._weights = np.zeros((draws, len(strata)))
        for name in names:
            members = np.flatnonzero([stratum == name for stratum in strata])
            share = 1 / (len(members) * len(names))
            self._plain[members] = share
            uniforms = Stream(seed, "bootstrap", name).many(draws * len(members)).reshape(draws, len(members))
            picks = (uniforms * len(members)).astype(np.int64)
            for column, member in enumerate(members):
                self._weights[:, member] = (picks == column).sum(-1) * share

    def of(self, values: Floats, function: Callable[[Floats], Floats] = lambda mean: mean) -> list[Interval]:
        """Intervals of function(mean); values [document, quantity], function maps [..., quantity] to [..., result]."""
        estimate = self.plain(values, function)
        draws = function(self._weights @ values).reshape(len(self._weights), -1)
        tail = (1 - self.level) / 2
        low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
        return [Interval(*map(float, row)) for row in zip(estimate, low, high, strict=True)]

    def plain(self, values: Floats, function: Callable[[Floats], Floats] = lambda mean: mean) -> Floats:
        """function of the documents' mean, strata weighing equally, without resampling; [result]."""
        return np.atleast_1d(function(self._plain @ values))


def ratio(top: Floats, bottom: Floats) -> Floats:
    """top/bottom, defined as 0 where the bottom is 0 (a rate with no exposure); shapes broadcast."""
    top, bottom = np.broadcast_arrays(top, bottom)
    return np.divide(top, bottom, out=np.zeros(top.shape), where=bottom != 0)
