"""Variances by recursion: Proposition 4.1's gap and the naive variance, on drawn kernel pairs."""

from collections.abc import Iterator
from fractions import Fraction

from hypothesis import given

from kvdiv.testing import kernel_pairs
from kvdiv.theory import coupling_law, naive_variance, variance_gap


def mismatch_counts(pair, x=(), y=()) -> Iterator[tuple[int, Fraction]]:
    """(number of mismatches, mass) over the tree of coupled paths."""
    if len(x) == pair.horizon:
        yield 0, Fraction(1)
        return
    for (a, b), w in coupling_law(pair.p(x), pair.q(y)):
        for count, mass in mismatch_counts(pair, (*x, a), (*y, b)):
            yield count + (a != b), w * mass


@given(kernel_pairs())
def test_naive_variance_is_that_of_the_mismatch_fraction(pair):
    """Var(D) by recursion equals its definition over all paths."""
    law = list(mismatch_counts(pair))
    mean = sum(w * Fraction(n, pair.horizon) for n, w in law)
    assert naive_variance(pair) == sum(w * (Fraction(n, pair.horizon) - mean) ** 2 for n, w in law)


@given(kernel_pairs())
def test_the_gap_lies_between_0_and_the_naive_variance(pair):
    """0 <= E[(1 - M) sum w nu] <= Var(naive): a variance is left over."""
    assert 0 <= variance_gap(pair) <= naive_variance(pair)
