"""The document bootstrap: the exact resampling law at small sizes, pairing, strata, degenerate data, coverage."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdiv.bootstrap import Bootstrap, Interval, ratio
from kvdiv.theory.errors import RecordError


def column(*values):
    return np.array(values, dtype=float)[:, None]


def exact_law(values):
    """The exact law of the mean of a resample: all n^n resamples of the documents."""
    n = len(values)
    law = Counter(sum(Fraction(v) for v in pick) / n for pick in itertools.product(values, repeat=n))
    return {mean: Fraction(times, n**n) for mean, times in law.items()}


@pytest.mark.parametrize("level", [0.95, 0.6])
def test_percentiles_of_the_exact_law(level):
    """Three documents 0, 1/4, 1: the ends are the percentiles of the exact law of the 27 resamples, with ==.

    Each percentile lies inside an atom, at least 7 standard errors of 10,000 draws from its ends: false-alarm rate below 1e-11
    (and the seed is fixed).
    """
    law = sorted(exact_law([0, Fraction(1, 4), 1]).items())
    upto = list(itertools.accumulate(mass for _, mass in law))
    points = ((1 - level) / 2, (1 + level) / 2)
    assert all(abs(float(total) - a) > 7 * (a * (1 - a) / 10_000) ** 0.5 for total in upto for a in points)
    low, high = (next(mean for (mean, _), total in zip(law, upto, strict=True) if total >= a) for a in points)
    (found,) = Bootstrap(["s"] * 3, seed=3, level=level).of(column(0, 0.25, 1))
    assert (found.low, found.high) == (float(low), float(high))


def test_two_documents():
    """Two documents a < b: resamples aa, ab, bb with 1/4, 1/2, 1/4, so the 95 % interval is [a, b] and the 40 % one [m, m]."""
    assert Bootstrap(["s", "s"], seed=0).of(column(0.25, 0.75)) == [Interval(0.5, 0.25, 0.75)]
    assert Bootstrap(["s", "s"], seed=0, level=0.4).of(column(0.25, 0.75)) == [Interval(0.5, 0.5, 0.5)]


def test_strata_weigh_equally():
    """One document of 1 and three of 0: the mean is 1/2, not 1/4, and resampling stays inside the strata."""
    bootstrap = Bootstrap(["a", "b", "b", "b"], seed=0)
    (found,) = bootstrap.of(column(1, 0, 0, 0))
    assert found == Interval(0.5, 0.5, 0.5)
    assert found.degenerate
    assert bootstrap.smallest == 1
    (mixed,) = Bootstrap(["a", "b", "b", "a"], seed=0).of(column(1, 0, 0.5, 1))
    assert mixed == Interval(0.625, 0.5, 0.75)


def test_the_same_documents_for_every_quantity():
    """Documents differ a lot, actions by a constant: the difference has no spread, either action alone has much."""
    rng = np.random.default_rng(0)
    first = rng.random(288)
    values = np.stack([first, first + 0.1], -1)
    bootstrap = Bootstrap(["s"] * 288, seed=0, draws=2000)
    alone = bootstrap.of(values)
    (gap,) = bootstrap.of(values, lambda mean: mean[..., 1:] - mean[..., :1])
    assert gap.degenerate
    assert gap.low == gap.estimate == gap.high == pytest.approx(0.1, abs=1e-12)
    assert min(one.high - one.low for one in alone) > 0.05


@pytest.mark.parametrize("documents", [1, 2, 3, 5, 7, 8, 9, 288])
@pytest.mark.parametrize("strata", [1, 2, 3])
def test_constant_data_is_degenerate(documents, strata):
    """All documents alike: [x, x], marked, never NaN, never outside [0, 1], whatever the rounding of x."""
    names = [f"s{i % strata}" for i in range(max(documents, strata))]
    constants = np.array([0, 0.1, 1 / 3, 0.7, 1])
    for x, found in zip(
        constants, Bootstrap(names, seed=1, draws=500).of(np.tile(constants, (len(names), 1))), strict=True
    ):
        assert found.degenerate
        assert found.low == found.estimate == found.high == pytest.approx(x, abs=1e-15)
        assert 0 <= found.estimate <= 1
        assert not found.excludes_zero or x > 0


@settings(max_examples=60)
@given(
    values=st.lists(st.floats(0, 1), min_size=1, max_size=12),
    strata=st.lists(st.sampled_from("abc"), min_size=12, max_size=12),
)
def test_means_of_fractions_stay_fractions(values, strata):
    """Means of numbers in [0, 1] and their ends are in [0, 1], low <= high, and the estimate is the strata's mean of means."""
    names = strata[: len(values)]
    (found,) = Bootstrap(names, seed=0, draws=200).of(column(*values))
    assert 0 <= found.low <= found.high <= 1
    groups = [[v for v, s in zip(values, names, strict=True) if s == name] for name in sorted(set(names))]
    assert found.estimate == pytest.approx(np.mean([np.mean(group) for group in groups]), abs=1e-12)


def test_ratio_of_means():
    """C = mean Pi/mean E, not the mean of ratios: (1/8 + 3/8)/(1/8 + 7/8) = 1/2, while the ratios average to 5/7."""
    values = np.array([[1 / 8, 1 / 8], [3 / 8, 7 / 8]])
    bootstrap = Bootstrap(["s", "s"], seed=0)
    (found,) = bootstrap.of(values, lambda mean: ratio(mean[..., :1], mean[..., 1:]))
    assert found.estimate == 0.5
    assert (found.low, found.high) == (3 / 7, 1)


def test_a_ratio_without_bottom_is_zero():
    """0/0 is 0 by convention; where only some resamples have it, the interval is still finite."""
    assert ratio(np.zeros(2), np.zeros(2)).tolist() == [0, 0]
    values = np.array([[0.0, 0.0], [0.25, 0.5]])
    (found,) = Bootstrap(["s", "s"], seed=0).of(values, lambda mean: ratio(mean[..., :1], mean[..., 1:]))
    assert found == Interval(0.5, 0, 0.5)


def test_excludes_zero():
    """Only by more than rounding."""
    assert Interval(0.2, 0.1, 0.3).excludes_zero
    assert Interval(-0.2, -0.3, -0.1).excludes_zero
    assert not Interval(0.2, 0, 0.3).excludes_zero
    assert not Interval(1e-17, 1e-17, 1e-17).excludes_zero


def test_seeded_by_name():
    """Equal seeds give equal intervals, other seeds others; a stratum's resamples do not depend on the other strata."""
    values = np.random.default_rng(1).random((9, 1))
    names = ["a"] * 9
    one, again, other = (Bootstrap(names, seed=s, draws=300).of(values)[0] for s in (0, 0, 1))
    assert one == again != other
    alone = Bootstrap(names, seed=0, draws=300)._counts[0]
    beside = Bootstrap([*names, "b", "b"], seed=0, draws=300)._counts[0]
    assert (alone == beside).all()
    assert (alone.sum(-1) == 9).all()


def test_values_that_are_not_finite_are_refused():
    """NaN never reaches an interval; no documents, no bootstrap."""
    with pytest.raises(RecordError, match="document 1 has a value that is not finite"):
        Bootstrap(["s", "s"], seed=0).of(column(0.5, float("nan")))
    with pytest.raises(RecordError, match="no documents"):
        Bootstrap([], seed=0)


def test_coverage_when_documents_differ():
    """Documents draw a rate, replicates scatter around it: the intervals cover the population mean.

    400 data sets of 20 documents in two strata. On 4,000 such data sets the coverage was 0.923, so fewer than 0.85 of 400 has
    probability below 1e-6 (and the seed is fixed); with replicates for the independent unit it was 0.70.
    """
    rng = np.random.default_rng(7)
    covered = 0
    for seed in range(400):
        rates = rng.beta(2, 3, size=20)
        measured = rng.binomial(16, rates) / 16
        (found,) = Bootstrap(["a"] * 10 + ["b"] * 10, seed=seed, draws=400).of(measured[:, None])
        covered += found.low <= 0.4 <= found.high
    assert 0.85 <= covered / 400 <= 0.99
