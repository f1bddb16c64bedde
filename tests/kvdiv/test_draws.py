"""The floating point coupling: edge cases, agreement with the exact one, and the law of what it draws."""

from fractions import Fraction
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from kvdiv.draws import COIN, FANOUT, couple, draw, residual, split
from kvdiv.testing import rows
from kvdiv.theory import coupling_law, total_variation
from kvdiv.uniforms import BLOCK, LEVELS, Stream

PAIRS = st.integers(1, 6).flatmap(lambda v: st.tuples(rows(v), rows(v)))
TOP = np.nextafter(1.0, 0.0)


def block(coin, rest):
    """One row of uniforms: the coin, and all other roles alike."""
    u = np.full((1, BLOCK), rest)
    u[0, COIN] = coin
    return u


def floats(*table):
    return np.array([[float(a) for a in row] for row in table])


@given(PAIRS)
def test_e_is_total_variation(pair):
    """e equals the exact TV to V roundings of 2^-53; exactly 0 for equal rows, exactly 1 for disjoint ones."""
    p, q = pair
    e, exact = float(split(floats(p), floats(q)).e[0]), total_variation(p, q)
    assert abs(e - float(exact)) <= len(p) * 2**-53 * 2
    if exact in (0, 1):
        assert e == exact


@pytest.mark.parametrize("u", [0.0, 0.5, TOP])
def test_draws_never_have_probability_zero(u):
    """Even at the ends of [0, 1) a draw has positive mass, with zeros before, between and after."""
    mass = np.array([[0.0, 0.25, 0.0, 0.5, 0.0]])
    assert mass[0, draw(mass, np.full((1, LEVELS), u))[0]] > 0


@pytest.mark.parametrize("size", [1, 2, 15, 16, 17, 255, 256, 257, 5000])
def test_draws_of_any_width(size):
    """One token, around the powers of 16, thousands: ends reachable, zeros never drawn, right frequencies."""
    weights = np.arange(1.0, size + 1) * (np.arange(size) % 3 != 1)
    n = 5000
    u = Stream(size, "width").many(n * LEVELS).reshape(n, LEVELS)
    tokens = draw(np.repeat(weights[None], n, 0), u)
    assert (weights[tokens] > 0).all()
    # Frequencies in at most ten bins of equal count of tokens: chi-square below its 1 - 1e-9 quantile.
    bins = np.arange(size) * min(10, size) // size
    expected = np.bincount(bins, weights) / weights.sum() * n
    found = np.bincount(bins[tokens], minlength=len(expected))
    positive = expected > 0
    statistic = ((found - expected)[positive] ** 2 / expected[positive]).sum()
    assert statistic < chi2.ppf(1 - 1e-9, max(1, positive.sum() - 1))
    assert draw(weights[None], np.zeros((1, LEVELS)))[0] == np.flatnonzero(weights)[0]
    assert draw(weights[None], np.full((1, LEVELS), TOP))[0] == np.flatnonzero(weights)[-1]


def test_rounding_seldom_changes_a_token():
    """Half of the mass on the first of 50,000 tokens, moved by d = 1e-6: at most 16 d a level of 5,000 draws change.

    Their number is Poisson with mean at most 0.32, above 12 with probability below 1e-15. Inverting one cumulative sum shifts
    every later cell by d, a tenth of its width, and changes hundreds.
    """
    size, n, d = 50_000, 5000, 1e-6
    row = np.full(size, 0.5 / (size - 1))
    row[0] = 0.5
    moved = row * (1 - 2 * d)
    moved[0] = 0.5 + d
    changed = 0
    for first in range(0, n, 200):
        u = Stream(0, "rounding", first).many(200 * LEVELS).reshape(200, LEVELS)
        changed += (draw(np.repeat(row[None], 200, 0), u) != draw(np.repeat(moved[None], 200, 0), u)).sum()
    assert FANOUT * 4 * d * n <= 0.32
    assert changed <= 12
    u = Stream(0, "flat").many(n)
    flat = [np.searchsorted(np.cumsum(r) / r.sum(), u, side="right") for r in (row, moved)]
    assert (flat[0] != flat[1]).sum() > 100


def test_rows_one_ulp_apart():
    """Rows that differ by one unit in the last place: no NaN, e is 0 or tiny, and what is drawn has positive mass."""
    p = np.array([[0.1, 0.2, 0.7]])
    q = p.copy()
    q[0, 2] = np.nextafter(0.7, 1)
    for a, b in ((p, q), (q, p)):
        pieces = split(a, b)
        assert pieces.e[0] == 0  # one residual is empty, so none is ever drawn
        x, y = couple(pieces, block(0.0, TOP))
        assert x == y


def test_equal_rows_never_split_and_disjoint_rows_always_do():
    """A coin of 0 does not split equal rows; a coin just below 1 splits disjoint ones, whose sums are not exactly 1."""
    same = floats([Fraction(1, 3)] * 3)
    x, y = couple(split(same, same), block(0.0, 0.3))
    assert x == y
    p, q = np.array([[0.1] * 7 + [0.3 - 1e-16, 0.0]]), np.array([[0.0] * 8 + [1.0]])
    pieces = split(p, q)
    assert pieces.e[0] == 1
    x, y = couple(pieces, block(TOP, TOP))
    assert (x[0] < 8, y[0]) == (True, 8)


def test_shared_zeros_give_no_nan():
    """A token that both kernels forbid stays forbidden, and every piece is finite."""
    p, q = np.array([[0.0, 0.5, 0.5]]), np.array([[0.0, 0.25, 0.75]])
    pieces = split(p, q)
    assert all(np.isfinite(part).all() for part in pieces)
    uniforms = np.random.default_rng(0).random((1000, BLOCK))
    many = split(np.repeat(p, 1000, 0), np.repeat(q, 1000, 0))
    x, y = couple(many, uniforms)
    assert x.min() >= 1
    assert y.min() >= 1


def test_the_law_of_a_coupled_step():
    """200,000 coupled draws against the exact joint law: chi-square below its 1 - 1e-9 quantile, impossible pairs absent."""
    p, q = (
        [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6), Fraction(0)],
        [Fraction(1, 4), Fraction(0), Fraction(1, 4), Fraction(1, 2)],
    )
    n = 200_000
    pieces = split(np.repeat(floats(p), n, 0), np.repeat(floats(q), n, 0))
    x, y = couple(pieces, Stream(0, "law").many(n * BLOCK).reshape(n, BLOCK))
    expected = dict(coupling_law(p, q))
    found = {ab: int(((x == ab[0]) & (y == ab[1])).sum()) for ab in expected}
    assert sum(found.values()) == n
    statistic = sum((found[ab] - n * float(w)) ** 2 / (n * float(w)) for ab, w in expected.items())
    assert statistic < chi2.ppf(1 - 1e-9, len(expected) - 1)


def test_residual_pairs_are_independent_and_apart():
    """Residual draws come from (p - c) and (q - c), independently: four cells, chi-square below its 1 - 1e-9 quantile."""
    n = 100_000
    p, q = np.array([[0.5, 0.3, 0.1, 0.1]]), np.array([[0.1, 0.1, 0.4, 0.4]])
    x, y = residual(
        split(np.repeat(p, n, 0), np.repeat(q, n, 0)),
        Stream(1, "residual").many(n * BLOCK).reshape(n, BLOCK),
        slice(None),
    )
    cells = {(a, b): (2 / 3, 1 / 3)[a] * 0.5 for a in (0, 1) for b in (2, 3)}
    found = {ab: int(((x == ab[0]) & (y == ab[1])).sum()) for ab in cells}
    assert sum(found.values()) == n
    assert sum((found[ab] - n * w) ** 2 / (n * w) for ab, w in cells.items()) < chi2.ppf(1 - 1e-9, 3)


def test_streams_are_named_by_their_keys():
    """Equal keys give equal streams, different ones different; the next block is another one."""
    assert (Stream(0, "a", 1).block() == Stream(0, "a", 1).block()).all()
    keys = [(seed, document, i) for seed in range(3) for document in ("a", "b", "a1") for i in range(40)]
    blocks = {tuple(Stream(*key).block()) for key in keys}
    assert len(blocks) == len(keys)
    stream = Stream(0, "document", "snapkv-half", "naive", 3)
    first = stream.block()
    assert len(first) == BLOCK
    assert not (stream.block() == first).any()


def test_a_stream_is_philox_with_a_hashed_key():
    """The uniforms are numpy's Philox under the BLAKE2b digest of the key's text."""
    key = np.frombuffer(blake2b(repr((7, "d")).encode(), digest_size=16).digest(), dtype=np.uint64)
    assert (Stream(7, "d").many(8) == np.random.Generator(np.random.Philox(key=key)).random(8)).all()
