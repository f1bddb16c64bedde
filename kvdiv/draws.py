r"""The stepwise maximal coupling on batches of float64 rows: numpy arrays or torch tensors, on any device.

One float64 vector per row serves delta, overlap, residuals and draws. With c = min(p, q), r = p - c, s = q - c:

    e = min(sum r, sum s), and 1 where sum c = 0,

which is TV(p, q) up to rounding, 0 exactly where either residual is empty, and 1 exactly where the rows are disjoint; so a
residual is never drawn where there is none, nor an overlap. The exact counterpart is `kvdiv.theory.coupling`.

A draw descends a tree of at most 16 children a node, choosing a child by its mass with a uniform of its own at each level. A
model's rows change in the last bits with the batch, by some d in total variation. Inverting one cumulative sum over the
vocabulary would then change the token whenever the uniform falls into cells narrower than d, which in a flat row is the whole
tail; on the tree the chance is at most 16 d a level.
"""

from typing import Any, NamedTuple

from array_api_compat import array_namespace, device

from kvdiv.uniforms import LEVELS

Array = Any
FANOUT = 16
COIN, OVERLAP, REFERENCE, PERTURBED = 0, 1, 1 + LEVELS, 1 + 2 * LEVELS  # where each role's uniforms begin in a block


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
    """Index i with probability mass[., i]/sum, never one of mass 0; mass [row, vocab], u [row, LEVELS] in [0, 1)."""
    xp = array_namespace(mass)
    rows = xp.arange(mass.shape[0], device=device(mass))
    found = xp.zeros_like(rows)
    level = 0
    while mass.shape[1] > 1:
        below = 1
        while below * FANOUT < mass.shape[1]:
            below *= FANOUT
        children = -(-mass.shape[1] // below)
        if spare := children * below - mass.shape[1]:
            padding = xp.zeros((mass.shape[0], spare), dtype=mass.dtype, device=device(mass))
            mass = xp.concat([mass, padding], axis=1)
        tree = xp.reshape(mass, (mass.shape[0], children, below))
        cdf = xp.cumulative_sum(xp.sum(tree, axis=-1), axis=-1)
        # Divided by its last value, so that the last child of positive mass reaches 1 and u < 1 stays below it.
        child = xp.sum(xp.astype(cdf / cdf[:, -1:] <= u[:, level : level + 1], xp.int64), axis=-1)
        found, mass, level = found + child * below, tree[rows, child], level + 1
    return found


def couple(pieces: Split, u: Array) -> tuple[Array, Array]:
    """Tokens (a, b) of one coupled step; u [row, BLOCK] uniforms.

    Residual tokens are drawn only for the rows that split, overlap tokens only for those that do not.
    """
    xp = array_namespace(u)
    apart = u[:, COIN] < pieces.e
    a = xp.zeros_like(u[:, 0], dtype=xp.int64)
    b = xp.zeros_like(a)
    together = ~apart
    if xp.any(together):
        a[together] = common(pieces, u, together)
        b[together] = a[together]
    if xp.any(apart):
        a[apart], b[apart] = residual(pieces, u, apart)
    return a, b


def common(pieces: Split, u: Array, rows: Array) -> Array:
    """A common token for the selected rows, from c/(1 - e); u as in `couple`."""
    return draw(pieces.overlap[rows], u[rows, OVERLAP : OVERLAP + LEVELS])


def residual(pieces: Split, u: Array, rows: Array) -> tuple[Array, Array]:
    """A residual pair (X, Y) for the selected rows: independent draws from r/e and s/e; u as in `couple`."""
    return (
        draw(pieces.reference[rows], u[rows, REFERENCE : REFERENCE + LEVELS]),
        draw(pieces.perturbed[rows], u[rows, PERTURBED : PERTURBED + LEVELS]),
    )
