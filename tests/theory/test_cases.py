"""Closed forms with exact answers: kernel pairs whose timing law, risk and variances are known in rationals."""

from fractions import Fraction as F  # noqa: N817  # a table of fractions

import pytest

from kvdiv.theory import KernelPair, absorbing, exact_values, iid, naive_variance, table, total_variation, variance_gap
from kvdiv.theory.exact import mean_tv

START = iid([1, 0])  # the point mass at 0, over two tokens


def binary(function):
    """A kernel on {0, 1} from its probability of 1."""
    return lambda history: [1 - F(function(history)), F(function(history))]


def first_one(history):
    """Time of the first 1, from 1; None where there is none."""
    return history.index(1) + 1 if 1 in history else None


def hazard_and_rate(hazard, rate):
    """Departs from all zeros with a hazard, then shows a 1 at a rate: with P = the point mass at 0, I_t = Y_t."""
    return binary(lambda y: rate if 1 in y else hazard)


def summary(pair):
    """(R, O, E, C)."""
    exact = exact_values(pair)
    return exact.risk, exact.occurrence, exact.exposure, exact.rate


def test_same_timing_law_different_risk():
    """C01: departing at 1 with probability eps, then healing (a) or staying (b): same p and sequence TV, R = eps/H or eps."""
    eps, horizon = F(1, 7), 5
    a = exact_values(KernelPair(START, binary(lambda y: eps if not y else 0), 2, horizon))
    b = exact_values(KernelPair(START, binary(lambda y: eps if not y else y[0]), 2, horizon))
    assert a.timing_law == b.timing_law == (eps, 0, 0, 0, 0)
    assert a.sequence_tv == b.sequence_tv == eps
    assert (a.risk, b.risk, a.rate, b.rate) == (F(1, 35), F(1, 7), 0, 1)


@pytest.mark.parametrize(
    ("horizon", "e", "o", "exposure"),
    [
        (4, F(1, 3), F(65, 324), F(43, 108)),
        (3, F(1, 2), F(7, 24), F(5, 12)),
        (6, F(1, 10), F(468559, 6000000), F(131441, 600000)),
    ],
)
def test_independent_departures(horizon, e, o, exposure):
    """C02: I iid Bernoulli(e): R = C = e, O = (1 - (1-e)^H)/H, p_s = (1-e)^(s-1) e."""
    exact = exact_values(KernelPair(START, iid([1 - e, e]), 2, horizon))
    assert (exact.risk, exact.rate, exact.occurrence, exact.exposure) == (e, e, o, exposure)
    assert exact.timing_law == tuple((1 - e) ** s * e for s in range(horizon))


def test_constant_hazard_and_rate():
    """C03: hazard 1/5, rate 2/3, H = 4."""
    pair = KernelPair(START, hazard_and_rate(F(1, 5), F(2, 3)), 2, 4)
    assert summary(pair) == (F(2417, 7500), F(369, 2500), F(131, 500), F(2, 3))


def test_markov_mismatch_chain():
    """C04: after divergence mismatches follow a two-state chain, rho_j = pi + (1 - pi)(a - b)^j, pi = b/(1 - a + b)."""
    lam, a, b, horizon = F(1, 4), F(3, 4), F(1, 3), 4
    pair = KernelPair(START, binary(lambda y: (a if y[-1] else b) if 1 in y else lam), 2, horizon)
    exact, pi = exact_values(pair), b / (1 - a + b)
    for s, row in enumerate(exact.profile):
        assert row == tuple(pi + (1 - pi) * (a - b) ** j for j in range(horizon - s))


def test_deterministic_paths():
    """C05: X = 000, Y = 101: R = 2/3, O = 1/3, E = 2/3, C = 1/2."""
    pair = KernelPair(START, binary(lambda y: (1, 0, 1)[len(y)]), 2, 3)
    assert summary(pair) == (F(2, 3), F(1, 3), F(2, 3), F(1, 2))


def test_compounding_worst_case():
    """C06: fixed-history TV eps, absorbing after departure: H R = H - (1-eps)(1-(1-eps)^H)/eps <= eps H (H+1)/2."""
    eps, horizon = F(1, 10), 5
    exact = exact_values(KernelPair(START, hazard_and_rate(eps, 1), 2, horizon))
    total = horizon - (1 - eps) * (1 - (1 - eps) ** horizon) / eps
    assert exact.fixed_history == eps
    assert exact.risk * horizon == total <= eps * horizon * (horizon + 1) / 2
    assert total == F(131441, 100000)


def test_perfect_healing():
    """C07: only the first step differs, then one order-1 kernel with row TV theta: R = d (1 - theta^H)/((1 - theta) H)."""
    d, theta, horizon = F(1, 3), F(1, 4), 5

    def follow(history):
        return F(1, 2) + theta / 2 if history[-1] else F(1, 2) - theta / 2

    p, q = (binary(lambda h, start=start: start if not h else follow(h)) for start in (F(1, 3), F(2, 3)))
    exact = exact_values(KernelPair(p, q, 2, horizon))
    assert exact.timing_law == (d, 0, 0, 0, 0)
    assert exact.risk == d * (1 - theta**horizon) / ((1 - theta) * horizon)
    assert exact.rate == (theta - theta**horizon) / ((1 - theta) * (horizon - 1))


def test_swap():
    """C08: equal first step, crossed continuations: R = (H - 1)/H, tau = 2 always, sequence TV 1."""
    p = binary(lambda h: F(1, 2) if not h else h[0])
    q = binary(lambda h: F(1, 2) if not h else 1 - h[0])
    exact = exact_values(KernelPair(p, q, 2, 4))
    assert (exact.risk, exact.sequence_tv, exact.timing_law) == (F(3, 4), 1, (0, 1, 0, 0))


def test_stepwise_coupling_is_not_maximal_for_sequences():
    """C12: iid Ber(1/2) against Ber(1/4), H = 2: P(tau <= H) = 7/16 > sequence TV 5/16; R = F = 1/4."""
    exact = exact_values(KernelPair(iid(["1/2", "1/2"]), iid(["3/4", "1/4"]), 2, 2))
    assert (sum(exact.timing_law), exact.sequence_tv, exact.risk, exact.fixed_history) == (
        F(7, 16),
        F(5, 16),
        F(1, 4),
        F(1, 4),
    )


def test_variances_of_independent_departures():
    """C13: H = 2, e = 1/2: Var naive 1/8, gap 3/32, Var SWRB 1/32."""
    pair = KernelPair(START, iid(["1/2", "1/2"]), 2, 2)
    assert (naive_variance(pair), variance_gap(pair)) == (F(1, 8), F(3, 32))


def test_no_gain_where_the_branch_mass_is_0_or_1():
    """C14: P fair then 0, Q copies the first token: M in {0, 1}, R = 1/3, both variances 1/9."""
    p = binary(lambda h: F(1, 2) if not h else 0)
    q = binary(lambda h: F(1, 2) if not h else h[0])
    pair = KernelPair(p, q, 2, 3)
    assert (exact_values(pair).risk, naive_variance(pair), variance_gap(pair)) == (F(1, 3), F(1, 9), 0)


def test_known_fair_reference_leaves_one_risk():
    """C16: fair P, p = (eps, 0): Q must be fair at both common histories, so R = eps/2; the general interval is [eps/2, eps]."""
    eps = F(1, 8)
    q = binary(lambda y: F(1, 2) + eps if not y else F(1, 2))
    exact = exact_values(KernelPair(iid(["1/2", "1/2"]), q, 2, 2))
    assert exact.timing_law == (eps, 0)
    assert exact.risk == eps / 2
    assert (exact.observed(1), exact.observed(1) + exact.capacity(1)) == (eps / 2, eps)


def test_known_fair_reference_interval():
    """C17: fair P, p = (eps, eta), H = 2: R = (eps+eta)/2 + (eps/2) x with x between max(0, 2 eta - 1/2 + eps), min(1/2, 2 eta).

    Q's rows at (0,) and (1,) are 1/2 + u and 1/2 + v with (1/2 - eps)|u| + (1/2)|v| = eta; after a divergence (x, y) = (0, 1)
    the mismatch probability is |v|. The ends are reached at the largest |u| and at the largest |v|.
    """
    eps, eta = F(1, 8), F(1, 4)
    low, high = max(F(0), 2 * eta - F(1, 2) + eps), min(F(1, 2), 2 * eta)
    found = []
    for v in (low, high):
        u = (eta - v / 2) / (F(1, 2) - eps)
        q = binary(lambda y, u=u, v=v: F(1, 2) + eps if not y else F(1, 2) + (v if y[0] else u))
        exact = exact_values(KernelPair(iid(["1/2", "1/2"]), q, 2, 2))
        assert exact.timing_law == (eps, eta)
        found.append(exact.risk)
        assert exact.risk == (eps + eta) / 2 + eps / 2 * v
    assert found == [F(25, 128), F(7, 32)]


@pytest.mark.parametrize(("alpha", "risk"), [(F(0), F(101, 384)), (F(2, 5), F(649, 1920)), (F(1), F(173, 384))])
def test_extremal_construction(alpha, risk):
    """C18, Theorem 3.2: P = the point mass at 0, Q departs with eta_t, follows rho inside the window and alpha after it:
    R = R_L + alpha B_L with R_L = 101/384, B_L = 3/16 at H = 4, L = 2."""
    horizon, depth = 4, 2
    p = [F(1, 4), F(1, 4), F(1, 8), F(1, 8)]
    second = [F(1, 2), F(1, 3), F(3, 4)]  # rho_{s,1}

    def one(y):
        t, s = len(y) + 1, first_one(y)
        if s is None:
            return p[t - 1] / (1 - sum(p[: t - 1], F(0)))
        return second[s - 1] if t - s < depth else alpha

    exact = exact_values(KernelPair(START, binary(one), 2, horizon))
    assert exact.timing_law == tuple(p)
    assert exact.risk == exact.observed(depth) + alpha * exact.capacity(depth)
    assert exact.capacity(depth) == F(3, 16)
    assert [row[1] for row in exact.profile[:3]] == second
    assert (exact.observed(depth), exact.risk) == (F(101, 384), risk)


def test_both_stop():
    """C20: both stop with probability g, mismatch e while alive: R = (e/H)(1 - (1-g)^H)/g, p_s = e (1 - g - e)^(s-1)."""
    g, e, horizon = F(1, 4), F(1, 3), 4
    p = absorbing(iid([g, 1 - g, 0]), 0)
    q = absorbing(iid([g, 1 - g - e, e]), 0)
    exact = exact_values(KernelPair(p, q, 3, horizon))
    assert exact.timing_law == tuple(e * (1 - g - e) ** s for s in range(horizon))
    assert exact.timing_law == (F(1, 3), F(5, 36), F(25, 432), F(125, 5184))


def test_q_stops_early():
    """C21: Q stops with probability e a step, P never does: C = 1, R = 1 - (1-e)(1-(1-e)^H)/(eH)."""
    e, horizon = F(1, 5), 4
    exact = exact_values(KernelPair(iid([0, 1]), absorbing(iid([e, 1 - e]), 0), 2, horizon))
    assert exact.rate == 1
    assert exact.risk == 1 - (1 - e) * (1 - (1 - e) ** horizon) / (e * horizon)


def test_logit_bound_is_attained():
    """C22: a logit error of sup norm ln 3 gives TV tanh(ln(3)/2) = 1/2 at p = (1/4, 3/4) against (3/4, 1/4)."""
    assert total_variation([F(1, 4), F(3, 4)], [F(3, 4), F(1, 4)]) == F(1, 2)


def test_action_contrast():
    """C23: hazard 1/4 rate 1/2 against hazard 1/2 rate 3/4, H = 3: 19/64 = 19/192 + 15/128 + 31/384."""
    a, b = (
        exact_values(KernelPair(START, hazard_and_rate(*hr), 2, 3)) for hr in ((F(1, 4), F(1, 2)), (F(1, 2), F(3, 4)))
    )
    assert (a.exposure, b.exposure) == (F(11, 48), F(5, 12))
    assert b.risk - a.risk == F(19, 64)
    assert b.occurrence - a.occurrence == F(19, 192)
    assert (b.exposure - a.exposure) * (a.rate + b.rate) / 2 == F(15, 128)
    assert (b.rate - a.rate) * (a.exposure + b.exposure) / 2 == F(31, 384)


def test_any_mismatch_law_is_realised():
    """C29: P = the point mass at 0, Q the chain-rule factorisation of a law on {0,1}^H: the mismatch law is that law."""
    law = {(0, 0, 1): F(1, 6), (1, 0, 1): F(1, 3), (1, 1, 0): F(1, 4), (0, 0, 0): F(1, 4)}

    def one(y):
        below = sum((m for path, m in law.items() if path[: len(y)] == y), F(0))
        ones = sum((m for path, m in law.items() if path[: len(y) + 1] == (*y, 1)), F(0))
        return ones / below if below else 0

    pair = KernelPair(START, binary(one), 2, 3)
    assert exact_values(pair).risk == mean_tv(pair) == F(4, 9)


def test_rows_that_are_never_reached_are_not_needed():
    """A table needs rows for reachable histories only."""
    pair = KernelPair(table({(): [1, 0], (0,): [1, 0]}), table({(): [1, 0], (0,): ["1/2", "1/2"]}), 2, 2)
    assert exact_values(pair).timing_law == (0, F(1, 2))
