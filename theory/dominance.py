r"""Why SWRB is never worse than the naive estimator per replicate, exactly: Proposition 4.1.

    Var(naive) - Var(Z^R) = E[(1 - M) sum_s w_s nu_s] >= 0,  nu_s = E[D_s^2 | U],

D_s the mismatch fraction of a branch that starts at s from the overlap scan U. Proved in proofs/estimator.v. The gap is computed
here by recursion over histories, without the programs and without enumerating them.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import cache

from kvdiv.theory.coupling import coupling_law, overlap, residual_law
from kvdiv.theory.kernels import History, KernelPair

ZERO = Fraction(0)


def variance_gap(pair: KernelPair) -> Fraction:
    """Var(naive) - Var(SWRB) of the risk, per replicate, on the scale of the mismatch fraction.

    >>> from kvdiv.theory.kernels import KernelPair, iid
    >>> variance_gap(KernelPair(iid([1, 0]), iid(["1/2", "1/2"]), vocabulary=2, horizon=2))
    Fraction(3, 32)
    """
    later = _later_counts(pair)

    def branch_second_moment(u: History) -> Fraction:
        """E[(H D_s)^2 | U_<s = u]: a mismatch at s, then the coupled pair."""
        law = residual_law(pair.p(u), pair.q(u))
        return sum((w * (1 + 2 * m1 + m2) for (a, b), w in law for m1, m2 in [later((*u, a), (*u, b))]), ZERO)

    def scan(u: History, chance: Fraction, survival: Fraction, mass: Fraction, weighted: Fraction) -> Fraction:
        """E over the rest of the overlap scan; mass = sum of w_j, weighted = sum of w_j nu_j so far."""
        if len(u) == pair.horizon or survival == 0:
            return chance * (1 - mass) * weighted
        c = overlap(pair.p(u), pair.q(u))
        e = 1 - sum(c)
        w = survival * e
        mass, weighted = mass + w, weighted + (w * branch_second_moment(u) if w else ZERO)
        if e == 1:
            return chance * (1 - mass) * weighted
        ahead = (scan((*u, a), chance * m / (1 - e), survival - w, mass, weighted) for a, m in enumerate(c) if m)
        return sum(ahead, ZERO)

    return scan((), Fraction(1), Fraction(1), ZERO, ZERO) / pair.horizon**2


def naive_variance(pair: KernelPair) -> Fraction:
    """Var(D) of one complete coupled rollout, by the second-moment recursion."""
    first, second = _later_counts(pair)((), ())
    return (second - first**2) / pair.horizon**2


def _later_counts(pair: KernelPair) -> Callable[[History, History], tuple[Fraction, Fraction]]:
    """Moments of the number of mismatches after a pair of histories."""

    @cache
    def later(x: History, y: History) -> tuple[Fraction, Fraction]:
        """First and second moment of the number of mismatches still to come."""
        if len(x) == pair.horizon:
            return ZERO, ZERO
        first = second = ZERO
        for (a, b), w in coupling_law(pair.p(x), pair.q(y)):
            m1, m2 = later((*x, a), (*y, b))
            step = int(a != b)
            first += w * (step + m1)
            second += w * (step + 2 * step * m1 + m2)
        return first, second

    return later
