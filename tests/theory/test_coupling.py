"""Facts of the stepwise maximal coupling on one pair of distributions."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvdiv.testing import rows
from kvdiv.theory import coupling_law, overlap, residuals, total_variation
from kvdiv.theory.errors import KernelError
from kvdiv.theory.kernels import KernelPair, absorbing, iid, table

PAIRS = st.integers(1, 5).flatmap(lambda v: st.tuples(rows(v), rows(v)))
HALF = Fraction(1, 2)


@given(PAIRS)
def test_marginals_are_p_and_q(pair):
    """The coupled step's marginals are exactly p and q."""
    p, q = pair
    law = coupling_law(p, q)
    assert tuple(sum((w for (a, _), w in law if a == u), Fraction(0)) for u in range(len(p))) == p
    assert tuple(sum((w for (_, b), w in law if b == u), Fraction(0)) for u in range(len(q))) == q


@given(PAIRS)
def test_mismatch_probability_is_half_the_l1_distance(pair):
    """P(X != Y) = TV(p, q) = (1/2) sum |p - q| = 1 - sum min(p, q)."""
    p, q = pair
    mismatch = sum((w for (a, b), w in coupling_law(p, q) if a != b), Fraction(0))
    assert (
        mismatch
        == total_variation(p, q)
        == HALF * sum(abs(a - b) for a, b in zip(p, q, strict=True))
        == 1 - sum(overlap(p, q))
    )


@given(PAIRS, st.data())
def test_no_coupling_does_better(pair, data):
    """Any joint law with marginals p, q agrees with probability at most sum min(p, q): checked on random mixtures of couplings.

    A transport plan is built greedily in a random order of cells; all couplings are mixtures of such plans.
    """
    p, q = map(list, pair)
    limit = sum(overlap(p, q))
    agree = Fraction(0)
    for a, b in data.draw(st.permutations([(a, b) for a in range(len(p)) for b in range(len(q))])):
        moved = min(p[a], q[b])
        p[a] -= moved
        q[b] -= moved
        agree += moved if a == b else 0
    assert sum(p) == sum(q) == 0
    assert agree <= limit


@given(PAIRS)
def test_residuals_are_disjoint_distributions(pair):
    """Residual supports are disjoint, so a residual pair always mismatches; each sums to 1 where e > 0, to 0 where e = 0."""
    p, q = pair
    r, s = residuals(p, q)
    assert all(a == 0 or b == 0 for a, b in zip(r, s, strict=True))
    assert sum(r) == sum(s) == (1 if total_variation(p, q) else 0)


@given(PAIRS)
def test_overlap_mixture_gives_back_the_rows(pair):
    """p = c + e (p - c)/e, and the same for q."""
    p, q = pair
    c, e = overlap(p, q), total_variation(p, q)
    for row, residual in zip((p, q), residuals(p, q), strict=True):
        assert tuple(m + e * r for m, r in zip(c, residual, strict=True)) == row


def test_total_variation_of_disjoint_and_equal_rows():
    """TV is 1 on disjoint supports and 0 on equal rows: never the un-halved L1 distance."""
    assert total_variation([Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)]) == 1
    assert total_variation([HALF, HALF], [HALF, HALF]) == 0


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (["1/2", "1/3"], "sums to 5/6"),
        (["3/2", "-1/2"], "negative entry -1/2"),
        ([1], "1 entries for a vocabulary of 2"),
        ([0.5, 0.5], "holds floats"),
    ],
)
def test_a_row_that_is_no_distribution_is_named(row, words):
    """A wrong row is a KernelError that names the side, the history and the value."""
    pair = KernelPair(iid([1, 0]), table({(): [1, 0], (0,): row}), 2, 2)
    assert pair.q(()) == (1, 0)
    with pytest.raises(KernelError, match=rf"perturbed row at history \(0,\).*{words}"):
        pair.q((0,))


def test_a_missing_row_and_empty_sizes_are_named():
    """A table without a wanted row, and a vocabulary or horizon below 1, are KernelErrors."""
    with pytest.raises(KernelError, match=r"no row for history \(1,\)"):
        KernelPair(table({(): [0, 1]}), iid([1, 0]), 2, 2).p((1,))
    with pytest.raises(KernelError, match="vocabulary 0"):
        KernelPair(iid([]), iid([]), 0, 1)
    with pytest.raises(KernelError, match="horizon 0"):
        KernelPair(iid([1]), iid([1]), 1, 0)


def test_absorbing_repeats_the_end_of_sequence():
    """After EOS an absorbing kernel is a point mass at EOS, whatever came before."""
    kernel = absorbing(iid(["1/3", "2/3"]), 1)
    assert kernel((0, 0)) == ["1/3", "2/3"]
    assert list(kernel((0, 1))) == list(kernel((1, 0))) == [0, 1]
