"""Timing law, decomposition, clocks, windows: the statements of the theory on drawn kernel pairs, with ==.

The references here are written out from the definitions over the full joint law of the two trajectories.
"""

from collections import defaultdict
from fractions import Fraction

from hypothesis import given

from kvdiv.testing import kernel_pairs
from kvdiv.theory import coupling_law, exact_values, total_variation
from kvdiv.theory.exact import mean_tv

ZERO = Fraction(0)


def joint_law(pair):
    """[(x, y, mass)] over all trajectories of H tokens."""
    level = {((), ()): Fraction(1)}
    for _ in range(pair.horizon):
        following = defaultdict(Fraction)
        for (x, y), mass in level.items():
            for (a, b), w in coupling_law(pair.p(x), pair.q(y)):
                following[(*x, a), (*y, b)] += mass * w
        level = following
    return [(x, y, mass) for (x, y), mass in level.items()]


def mismatches(x, y):
    return [a != b for a, b in zip(x, y, strict=True)]


def tau(x, y):
    """First divergence, from 1; H + 1 where there is none."""
    return [*mismatches(x, y), True].index(True) + 1


def expect(pair, function):
    return sum((mass * function(x, y) for x, y, mass in joint_law(pair)), ZERO)


def delta(pair, x, y, t):
    """delta_t, t from 1, along two trajectories."""
    return total_variation(pair.p(x[: t - 1]), pair.q(y[: t - 1]))


@given(kernel_pairs())
def test_trajectory_marginals_are_the_kernels_own_laws(pair):
    """X alone has the law of P, Y alone that of Q: each kernel sees only its own history."""
    for side, row in ((0, pair.p), (1, pair.q)):
        marginal = defaultdict(Fraction)
        for entry in joint_law(pair):
            marginal[entry[side]] += entry[2]
        for history, mass in marginal.items():
            own = Fraction(1)
            for t, token in enumerate(history):
                own *= row(history[:t])[token]
            assert own == mass


@given(kernel_pairs())
def test_risk_is_mean_mismatch_and_mean_tv(pair):
    """R = E[D] = (1/H) sum_t E[delta_t] (3), by three separate computations."""
    counted = expect(pair, lambda x, y: Fraction(sum(mismatches(x, y)), pair.horizon))
    assert exact_values(pair).risk == counted == mean_tv(pair)


@given(kernel_pairs())
def test_timing_law_survival_and_hazard(pair):
    """p_s = P(tau = s) = S_s lambda_s, lambda_s = E[delta_s | tau >= s], S_{s+1} = S_s (1 - lambda_s) (5)."""
    exact = exact_values(pair)
    for s in range(1, pair.horizon + 1):
        alive = expect(pair, lambda x, y, s=s: tau(x, y) >= s)
        assert exact.survival[s - 1] == alive
        assert exact.timing_law[s - 1] == expect(pair, lambda x, y, s=s: tau(x, y) == s) == alive * exact.hazard[s - 1]
        if alive:
            assert exact.hazard[s - 1] * alive == expect(
                pair, lambda x, y, s=s: delta(pair, x, y, s) * (tau(x, y) >= s)
            )


@given(kernel_pairs())
def test_decomposition(pair):
    """R = O + Pi = O + E C (7), each part from its definition; C = 0 where E = 0."""
    exact, horizon = exact_values(pair), pair.horizon
    assert exact.occurrence == expect(pair, lambda x, y: Fraction(tau(x, y) <= horizon, horizon))
    later = expect(pair, lambda x, y: Fraction(sum(mismatches(x, y)[tau(x, y) :]), horizon))
    assert exact.occupation == later
    assert exact.exposure == expect(pair, lambda x, y: Fraction(max(0, horizon - tau(x, y)), horizon))
    assert exact.risk == exact.occurrence + exact.occupation
    assert exact.rate == (later / exact.exposure if exact.exposure else 0)
    assert 0 <= exact.rate <= 1


@given(kernel_pairs())
def test_kappa_bounds(pair):
    """1/H <= kappa_s <= (H - s + 1)/H with kappa_s = E[D | tau = s] (4)."""
    exact, horizon = exact_values(pair), pair.horizon
    for s, (p, row) in enumerate(zip(exact.timing_law, exact.profile, strict=True), 1):
        if p:
            assert Fraction(1, horizon) <= sum(row) / horizon <= Fraction(horizon - s + 1, horizon)


@given(kernel_pairs())
def test_first_agreement_identity(pair):
    """H D = sigma - tau + the mismatches after sigma, sigma the first agreement after tau (H + 1 if none), on every path."""
    for x, y, _ in joint_law(pair):
        pattern, first = mismatches(x, y), tau(x, y)
        if first <= pair.horizon:
            sigma = next((t for t in range(first + 1, pair.horizon + 1) if not pattern[t - 1]), pair.horizon + 1)
            assert sum(pattern) == sigma - first + sum(pattern[sigma:])


@given(kernel_pairs(), kernel_pairs())
def test_contrast(a, b):
    """Delta R = Delta O + Delta E mean C + Delta C mean E (8), for any two pairs."""
    first, second = exact_values(a), exact_values(b)
    middle_rate, middle_exposure = (first.rate + second.rate) / 2, (first.exposure + second.exposure) / 2
    terms = (
        second.occurrence - first.occurrence,
        (second.exposure - first.exposure) * middle_rate,
        (second.rate - first.rate) * middle_exposure,
    )
    assert second.risk - first.risk == sum(terms)


@given(kernel_pairs())
def test_generation_clock(pair):
    """E[delta_t] = p_t + sum_{s<t} p_s E[delta_t | tau = s] (19)."""
    exact = exact_values(pair)
    for t in range(1, pair.horizon + 1):
        whole = expect(pair, lambda x, y, t=t: delta(pair, x, y, t))
        after = expect(pair, lambda x, y, t=t: delta(pair, x, y, t) * (tau(x, y) < t))
        assert whole == exact.timing_law[t - 1] + after


@given(kernel_pairs())
def test_branch_clock(pair):
    """E[I_{tau+j} | tau <= m] = E[delta_{tau+j} | tau <= m] for m + j <= H (20), j >= 1."""
    for m in range(1, pair.horizon):
        for j in range(1, pair.horizon - m + 1):

            def mismatch(x, y, m=m, j=j):
                return tau(x, y) <= m and mismatches(x, y)[tau(x, y) + j - 1]

            def tv(x, y, m=m, j=j):
                return delta(pair, x, y, tau(x, y) + j) if tau(x, y) <= m else 0

            assert expect(pair, mismatch) == expect(pair, tv)


@given(kernel_pairs())
def test_windows(pair):
    """R_1 = O, R_H = R, B_H = 0, B_1 = E; R_L grows with L, R_L + B_L shrinks, and R lies between (9), (10)."""
    exact, horizon = exact_values(pair), pair.horizon
    lower = [exact.observed(depth) for depth in range(1, horizon + 1)]
    upper = [exact.observed(depth) + exact.capacity(depth) for depth in range(1, horizon + 1)]
    assert (lower[0], lower[-1], upper[-1]) == (exact.occurrence, exact.risk, exact.risk)
    assert exact.capacity(1) == exact.exposure
    assert lower == sorted(lower)
    assert upper == sorted(upper, reverse=True)


@given(kernel_pairs())
def test_window_definitions(pair):
    """R_L counts the mismatches at lags 0..L-1 from tau; B_L the positions after them."""
    exact, horizon = exact_values(pair), pair.horizon
    for depth in range(1, horizon + 1):
        seen = expect(pair, lambda x, y, depth=depth: Fraction(sum(mismatches(x, y)[tau(x, y) - 1 :][:depth]), horizon))
        rest = expect(pair, lambda x, y, depth=depth: Fraction(max(0, horizon - tau(x, y) - depth + 1), horizon))
        assert (exact.observed(depth), exact.capacity(depth)) == (seen, rest)


@given(kernel_pairs())
def test_sequence_tv_is_at_most_the_divergence_probability(pair):
    """TV of the two sequence laws <= P(tau <= H); the coupling is maximal at each step, not for the whole sequence."""
    exact = exact_values(pair)
    laws = defaultdict(lambda: [ZERO, ZERO])
    for x, y, mass in joint_law(pair):
        laws[x][0] += mass
        laws[y][1] += mass
    assert exact.sequence_tv == sum((abs(p - q) for p, q in laws.values()), ZERO) / 2 <= sum(exact.timing_law)


@given(kernel_pairs())
def test_fixed_history_equals_its_definition(pair):
    """F = (1/H) sum_t E[TV(P(.|X_<t), Q(.|X_<t))]; up to tau it is delta, so F >= 0 and F = R where nothing follows tau."""
    times = range(1, pair.horizon + 1)
    mean = expect(pair, lambda x, y: sum(delta(pair, x, x, t) for t in times)) / pair.horizon
    assert exact_values(pair).fixed_history == mean
