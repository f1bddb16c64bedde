r"""The stepwise maximal coupling on batches of float64 rows: numpy arrays or torch tensors, on any device.

One float64 vector per row serves delta, overlap, residuals and draws. With c = min(p, q), r = p - c, s = q - c:

    e = min(sum r, sum s), and 1 where sum c = 0,

which is TV(p, q) up to rounding, 0 exactly where either residual is empty, and 1 exactly where the rows are disjoint; so a
residual is never drawn where there is none, nor an overlap. A draw inverts the cumulative sum divided by its last value, and so
never returns a token of probability 0. The exact counterpart is `kvdiv.theory.coupling`.
"""

from typing import Any, NamedTuple

from array_api_compat import array_namespace

Array = Any


class Split(NamedTuple):
    """Pieces of a batch of row pairs: overlap c, residual masses r and s (not normalised), [row, vocab]; e, [row]."""

    overlap: Array
    reference: Array
    perturbed: Array
    e: Array


def split(p: Array, q: Array) -> Split:
    """Overlap, residual masses and e = TV(p, q) of float64 rows p, q: [row, vocab]."""
    xp = array_namespace(p, q)
    c = xp.minimum(p, q)
    r, s = p - c, q - c
    e = xp.minimum(xp.sum(r, axis=-1), xp.sum(s, axis=-1))
    e = xp.where(xp.sum(c, axis=-1) == 0, xp.ones_like(e), xp.minimum(e, xp.ones_like(e)))
    return Split(c, r, s, e)


def draw(mass: Array, u: Array) -> Array:
    """Index i with probability mass[., i]/sum: inverse of the cumulative sum at u in [0, 1). mass [row, vocab], u [row]."""
    xp = array_namespace(mass)
    cdf = xp.cumulative_sum(mass, axis=-1)
    return xp.sum(xp.astype(cdf / cdf[:, -1:] <= u[:, None], xp.int64), axis=-1)


def couple(pieces: Split, u: Array) -> tuple[Array, Array]:
    """Tokens (a, b) of one coupled step; u [row, 4] uniforms: coin, overlap, residual x, residual y.

    Residual tokens are drawn only for the rows that split, overlap tokens only for those that do not.
    """
    xp = array_namespace(u)
    apart = u[:, 0] < pieces.e
    a = xp.zeros_like(u[:, 0], dtype=xp.int64)
    b = xp.zeros_like(a)
    together = ~apart
    if xp.any(together):
        a[together] = draw(pieces.overlap[together], u[together, 1])
        b[together] = a[together]
    if xp.any(apart):
        a[apart], b[apart] = residual(pieces, u, apart)
    return a, b


def residual(pieces: Split, u: Array, rows: Array) -> tuple[Array, Array]:
    """A residual pair (X, Y) for the selected rows: independent draws from r/e and s/e; u as in `couple`."""
    return draw(pieces.reference[rows], u[rows, 2]), draw(pieces.perturbed[rows], u[rows, 3])
