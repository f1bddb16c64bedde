r"""The stepwise maximal coupling of two distributions, exactly.

With c = min(p, q) pointwise and e = 1 - sum c = TV(p, q), mass c(u) makes both sides emit u; with the remaining mass e they
emit X from (p - c)/e and, independently, Y from (q - c)/e. Paper equation (2); proved in proofs/coupling.v.

Rows are sequences of exact numbers (`fractions.Fraction`, or anything with exact arithmetic and order). The batched floating
point counterpart that runs on arrays is `kvdiv.draws`.
"""

from collections.abc import Sequence
from fractions import Fraction

Row = Sequence[Fraction]


def total_variation(p: Row, q: Row) -> Fraction:
    """TV(p, q) = (1/2) sum |p - q|, in [0, 1]: half the L1 distance, never the whole of it.

    >>> total_variation([Fraction(1, 2), Fraction(1, 2)], [Fraction(1, 4), Fraction(3, 4)])
    Fraction(1, 4)
    """
    return Fraction(1, 2) * sum((abs(a - b) for a, b in zip(p, q, strict=True)), Fraction(0))


def overlap(p: Row, q: Row) -> tuple[Fraction, ...]:
    """c(u) = min(p(u), q(u)): the mass on which both sides emit u; total mass 1 - TV(p, q).

    >>> overlap([Fraction(1, 2), Fraction(1, 2)], [Fraction(1, 4), Fraction(3, 4)])
    (Fraction(1, 4), Fraction(1, 2))
    """
    return tuple(min(a, b) for a, b in zip(p, q, strict=True))


def residuals(p: Row, q: Row) -> tuple[tuple[Fraction, ...], tuple[Fraction, ...]]:
    """(p - c)/e and (q - c)/e with e = TV(p, q): two distributions with disjoint supports; both all zero where e = 0.

    >>> residuals([Fraction(1, 2), Fraction(1, 2)], [Fraction(1, 4), Fraction(3, 4)])
    ((Fraction(1, 1), Fraction(0, 1)), (Fraction(0, 1), Fraction(1, 1)))
    """
    c = overlap(p, q)
    e = 1 - sum(c)
    if e == 0:
        return (Fraction(0),) * len(c), (Fraction(0),) * len(c)
    return tuple((a - m) / e for a, m in zip(p, c, strict=True)), tuple((b - m) / e for b, m in zip(q, c, strict=True))


def residual_law(p: Row, q: Row) -> list[tuple[tuple[int, int], Fraction]]:
    """The law of one residual pair (X, Y): the product of the two `residuals`; empty where TV(p, q) = 0."""
    r, s = residuals(p, q)
    return [((a, b), r[a] * s[b]) for a in range(len(r)) if r[a] for b in range(len(s)) if s[b]]


def coupling_law(p: Row, q: Row) -> list[tuple[tuple[int, int], Fraction]]:
    """The joint law Gamma of one step: its marginals are p and q, and P(X != Y) = TV(p, q).

    >>> coupling_law([Fraction(1), Fraction(0)], [Fraction(2, 3), Fraction(1, 3)])
    [((0, 0), Fraction(2, 3)), ((0, 1), Fraction(1, 3))]
    """
    c = overlap(p, q)
    e = 1 - sum(c)
    return [((u, u), m) for u, m in enumerate(c) if m] + [(ab, e * w) for ab, w in residual_law(p, q)]
