r"""What one replicate says about a kernel pair: estimates of R, O, Pi, E and of R_L, B_L at every depth L.

Both records, `Rollout` (a complete coupled pair of trajectories) and `Branch` (one SWRB replicate), carry what was drawn; their
`estimates()` turn it into the numbers of the paper's sections 3 and 4. Every expectation is exact for every kernel pair; proved
in proofs/estimator.v and enumerated in tests/kvdiv/test_programs.py. Means over replicates and documents are taken elsewhere;
the rate C = Pi/E is a ratio of means, never a mean of ratios.
"""

from dataclasses import dataclass
from fractions import Fraction

from kvdiv.requests import Probability
from kvdiv.theory.kernels import History


@dataclass(frozen=True)
class Estimates:
    """One replicate's unbiased estimates; fractions of the horizon H, each in [0, 1].

    `observed[L - 1]` and `capacity[L - 1]` estimate R_L and B_L for depth L = 1..H, the first mismatch included; so
    `observed[0]` is the occurrence and `observed[-1]` the risk.

    A scan offers two exposures. `exposure`, M (H - J)/H, is jointly dominated by the complete rollout's, so the ratio
    estimate of C built from it is never worse. `scan_exposure`, (1/H) sum_s w_s (H - s), has the smaller variance by
    itself, but can make C worse. A rollout has one form, in both places.
    """

    risk: Probability
    occurrence: Probability
    occupation: Probability
    exposure: Probability
    scan_exposure: Probability
    observed: tuple[Probability, ...]
    capacity: tuple[Probability, ...]

    def vector(self) -> tuple[Probability, ...]:
        """All of it in one flat tuple: risk, occurrence, occupation, exposure, scan_exposure, observed, capacity."""
        return (
            self.risk,
            self.occurrence,
            self.occupation,
            self.exposure,
            self.scan_exposure,
            *self.observed,
            *self.capacity,
        )


@dataclass(frozen=True)
class Rollout:
    """A coupled pair of trajectories of H tokens.

    x, y: the tokens of the reference and of the perturbed kernel, H each.
    delta: delta_t = TV(P(.|x_<t), Q(.|y_<t)), H numbers.
    forced: f_t = TV(P(.|x_<t), Q(.|x_<t)), the fixed-history path; H numbers, or None where it was not asked for.
    """

    x: History
    y: History
    delta: tuple[Probability, ...]
    forced: tuple[Probability, ...] | None = None

    @property
    def horizon(self) -> int:
        """H."""
        return len(self.x)

    @property
    def mismatch(self) -> tuple[bool, ...]:
        """I_t = 1{X_t != Y_t}, H booleans."""
        return tuple(a != b for a, b in zip(self.x, self.y, strict=True))

    @property
    def first_divergence(self) -> int | None:
        """tau, counted from 1; None where the trajectories agree to the end (tau = infinity)."""
        return self.mismatch.index(True) + 1 if self.x != self.y else None

    def estimates(self) -> Estimates:
        """The plain estimates: risk D = (1/H) sum I_t, exposure (H - tau)/H, and so on; all 0 where tau is infinite."""
        return weighted_estimates(
            Fraction(1), self, capacity_of((self.first_divergence,), (Fraction(1),), self.horizon)
        )


@dataclass(frozen=True)
class Branch:
    """One SWRB replicate (Algorithm 1).

    horizon: H.
    overlap: U_1.., the overlap scan's tokens; shorter than H where the scan stopped at disjoint rows.
    tv: e_1.., the TV at each common history of the scan; one longer than `overlap` where it stopped early.
    branch_time: J, counted from 1; None where the branch mass is 0.
    branch: the trajectories from the start, equal before J, a residual pair at J, coupled after it; None as J.
    """

    horizon: int
    overlap: History
    tv: tuple[Probability, ...]
    branch_time: int | None
    branch: Rollout | None

    @property
    def weights(self) -> tuple[Probability, ...]:
        """w_s = S~_s e_s, S~_s = prod_{j < s} (1 - e_j); as many as the scan's steps."""
        return branch_weights(self.tv)

    @property
    def branch_mass(self) -> Probability:
        """M = sum_s w_s, the probability of divergence within H given the overlap scan."""
        return sum(self.weights, Fraction(0))

    def estimates(self) -> Estimates:
        """Z^R = M D_J, Z^O = M/H, Z^Pi = M (D_J - 1/H), Z_L = M D_{J,L}, W_L = (1/H) sum_s w_s (H - s - L + 1)+ (11)-(17)."""
        times = tuple(range(1, len(self.tv) + 1))
        return weighted_estimates(self.branch_mass, self.branch, capacity_of(times, self.weights, self.horizon))


def branch_weights(tv: tuple[Probability, ...]) -> tuple[Probability, ...]:
    """w_s = e_s prod_{j < s} (1 - e_j) for the TVs of an overlap scan.

    In floats the product may underflow to 0 after some 1e-308 of survival: those weights are then lost, and their sum with
    them, which is far below the rounding of M.
    """
    survival: Probability = Fraction(1)
    weights: list[Probability] = []
    for e in tv:
        weights.append(survival * e)
        survival = survival * (1 - e)
    return tuple(weights)


def capacity_of(
    times: tuple[int | None, ...], weights: tuple[Probability, ...], horizon: int
) -> tuple[Probability, ...]:
    """(1/H) sum_s w_s (H - s - L + 1)+ for L = 1..H; a time of None (no divergence) adds nothing."""
    return tuple(
        sum(
            (w * max(0, horizon - s - depth + 1) for s, w in zip(times, weights, strict=True) if s is not None),
            Fraction(0),
        )
        / horizon
        for depth in range(1, horizon + 1)
    )


def weighted_estimates(mass: Probability, rollout: Rollout | None, capacity: tuple[Probability, ...]) -> Estimates:
    """The estimates of one diverged pair of trajectories, weighted with `mass`; all 0 where nothing diverged."""
    horizon = len(capacity)
    tau = rollout.first_divergence if rollout is not None else None
    if rollout is None or tau is None:
        zero = Fraction(0)
        return Estimates(zero, zero, zero, zero, capacity[0], (zero,) * horizon, capacity)
    window = [0]
    for mismatch in rollout.mismatch[tau - 1 :]:
        window.append(window[-1] + mismatch)
    counts = window[1:] + window[-1:] * (tau - 1)
    observed = tuple(mass * Fraction(count, horizon) for count in counts)
    return Estimates(
        risk=observed[-1],
        occurrence=mass * Fraction(1, horizon),
        occupation=mass * Fraction(counts[-1] - 1, horizon),
        exposure=mass * Fraction(horizon - tau, horizon),
        scan_exposure=capacity[0],
        observed=observed,
        capacity=capacity,
    )
