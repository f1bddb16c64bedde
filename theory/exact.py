r"""Everything about a small kernel pair, exactly: timing law, profile, decomposition, windows, sequence TV.

One forward pass over the reachable pairs of histories. A pair of histories fixes tau, so the mass that splits at each pair gives
p_s and the numerators p_s rho_{s,j} directly; O, E, Pi, C, R_L and B_L are sums of these (6), (7), (9). The risk is computed a
second time by a different recursion, `mean_tv`, the mean of the stepwise TVs (3), and `exact_values` insists on equality:
R = O + E C is checked at every call. Proved in proofs/decomposition.v. Cost grows as the number of reachable pairs: for V = 2,
H = 8 a second or so.
"""

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

from kvdiv.theory.coupling import coupling_law, total_variation
from kvdiv.theory.kernels import History, KernelPair

ZERO = Fraction(0)


@dataclass(frozen=True)
class ExactValues:
    """Exact quantities of a kernel pair; all fractions of the horizon H are per token, in [0, 1].

    timing_law: p_s = P(tau = s), s = 1..H.
    joint: joint[s - 1][j] = P(tau = s, I_{s+j} = 1), j = 0..H - s.
    sequence_tv: TV of the two laws of whole sequences, at most P(tau <= H).
    fixed_history: (1/H) sum_t E[TV(P(.|X_<t), Q(.|X_<t))] along the reference.
    """

    timing_law: tuple[Fraction, ...]
    joint: tuple[tuple[Fraction, ...], ...]
    sequence_tv: Fraction
    fixed_history: Fraction

    @property
    def horizon(self) -> int:
        """H."""
        return len(self.timing_law)

    @cached_property
    def survival(self) -> tuple[Fraction, ...]:
        """S_s = P(tau >= s), s = 1..H."""
        return tuple(1 - sum(self.timing_law[:s], ZERO) for s in range(self.horizon))

    @cached_property
    def hazard(self) -> tuple[Fraction, ...]:
        """lambda_s = p_s/S_s = E[delta_s | tau >= s]; 0 where S_s = 0 (5)."""
        return tuple(p / s if s else ZERO for p, s in zip(self.timing_law, self.survival, strict=True))

    @cached_property
    def profile(self) -> tuple[tuple[Fraction, ...], ...]:
        """rho_{s,j} = P(I_{s+j} = 1 | tau = s), j = 0..H - s; all 0 where p_s = 0."""
        return tuple(
            tuple(m / p if p else ZERO for m in row) for p, row in zip(self.timing_law, self.joint, strict=True)
        )

    @cached_property
    def occurrence(self) -> Fraction:
        """O = (1/H) sum_s p_s, the first mismatches."""
        return sum(self.timing_law, ZERO) / self.horizon

    @cached_property
    def occupation(self) -> Fraction:
        """Pi = (1/H) E sum_t I_t 1{tau < t}, the mismatches after the first."""
        return sum((sum(row[1:], ZERO) for row in self.joint), ZERO) / self.horizon

    @cached_property
    def exposure(self) -> Fraction:
        """E = (1/H) sum_s p_s (H - s), the positions after the first mismatch."""
        return self.capacity(1)

    @cached_property
    def rate(self) -> Fraction:
        """C = Pi/E, the mismatch rate after divergence; defined as 0 where E = 0."""
        return self.occupation / self.exposure if self.exposure else ZERO

    @cached_property
    def risk(self) -> Fraction:
        """R = O + E C, the mean mismatch fraction."""
        return self.occurrence + self.exposure * self.rate

    def observed(self, depth: int) -> Fraction:
        """R_L = (1/H) sum_s p_s sum_{j < min(L, H - s + 1)} rho_{s,j}, first mismatch included; L = 1..H."""
        return sum((sum(row[:depth], ZERO) for row in self.joint), ZERO) / self.horizon

    def capacity(self, depth: int) -> Fraction:
        """B_L = (1/H) sum_s p_s (H - s - L + 1)+; with the same profile the risks are exactly [R_L, R_L + B_L]."""
        later = (p * max(0, self.horizon - s - depth + 1) for s, p in enumerate(self.timing_law, 1))
        return sum(later, ZERO) / self.horizon


def exact_values(pair: KernelPair) -> ExactValues:
    """All of `ExactValues` for a pair small enough to visit every reachable pair of histories.

    >>> from kvdiv.theory.kernels import KernelPair, iid
    >>> values = exact_values(KernelPair(iid([1, 0]), iid(["2/3", "1/3"]), vocabulary=2, horizon=4))
    >>> values.occurrence, values.exposure, values.rate, values.risk
    (Fraction(65, 324), Fraction(43, 108), Fraction(1, 3), Fraction(1, 3))
    """
    horizon = pair.horizon
    joint = [[ZERO] * (horizon - s) for s in range(horizon)]
    level: dict[tuple[History, History, int | None], Fraction] = {((), (), None): Fraction(1)}
    for t in range(horizon):
        following: dict[tuple[History, History, int | None], Fraction] = defaultdict(Fraction)
        for (x, y, tau), mass in level.items():
            for (a, b), w in coupling_law(pair.p(x), pair.q(y)):
                first = t if tau is None and a != b else tau
                if a != b and first is not None:
                    joint[first][t - first] += mass * w
                following[(*x, a), (*y, b), first] += mass * w
        level = following
    values = ExactValues(
        timing_law=tuple(row[0] for row in joint),
        joint=tuple(map(tuple, joint)),
        sequence_tv=sequence_tv(pair),
        fixed_history=fixed_history(pair),
    )
    if values.risk != mean_tv(pair):
        raise AssertionError(f"R = {values.risk} from the decomposition, {mean_tv(pair)} from the mean TV")
    return values


def mean_tv(pair: KernelPair) -> Fraction:
    """R = (1/H) sum_t E[delta_t] by backward recursion over pairs of histories, without tau or mismatches (3)."""

    @cache
    def later(x: History, y: History) -> Fraction:
        if len(x) == pair.horizon:
            return ZERO
        p, q = pair.p(x), pair.q(y)
        ahead = (w * later((*x, a), (*y, b)) for (a, b), w in coupling_law(p, q))
        return total_variation(p, q) + sum(ahead, ZERO)

    return later((), ()) / pair.horizon


def sequence_tv(pair: KernelPair) -> Fraction:
    """TV of the two laws on sequences of H tokens: (1/2) sum_x |P(x) - Q(x)|; at most P(tau <= H)."""

    def below(history: History, p: Fraction, q: Fraction) -> Fraction:
        if p == 0 or q == 0 or len(history) == pair.horizon:
            return abs(p - q)
        rows = zip(pair.p(history), pair.q(history), strict=True)
        return sum((below((*history, u), p * a, q * b) for u, (a, b) in enumerate(rows)), ZERO)

    return below((), Fraction(1), Fraction(1)) / 2


def fixed_history(pair: KernelPair) -> Fraction:
    """F = (1/H) sum_t E[TV(P(.|X_<t), Q(.|X_<t))], X from the reference: both kernels on the reference's own history."""

    def below(x: History, mass: Fraction) -> Fraction:
        if mass == 0 or len(x) == pair.horizon:
            return ZERO
        p = pair.p(x)
        ahead = (below((*x, u), mass * w) for u, w in enumerate(p))
        return mass * total_variation(p, pair.q(x)) + sum(ahead, ZERO)

    return below((), Fraction(1)) / pair.horizon
