"""The estimators' own programs, enumerated: every mean and variance with ==, and wrong programs caught."""

from fractions import Fraction

import pytest
from hypothesis import given, settings

from kvdiv.estimates import Branch, Estimates, Rollout, branch_weights
from kvdiv.interpreters import enumerate_program
from kvdiv.programs import fixed_history, naive, swrb
from kvdiv.programs.coupled import coupled
from kvdiv.requests import Choose, Overlap, Residual
from kvdiv.testing import enumerated_moments, exact_means, histories, kernel_pairs
from kvdiv.theory import KernelPair, exact_values, iid, naive_variance, table, variance_gap

MANY = settings(max_examples=200)


@pytest.mark.parametrize("program", [naive, swrb])
@MANY
@given(pair=kernel_pairs())
def test_unbiased(program, pair):
    """naive and swrb have exactly the means R, O, Pi, E (both forms), R_L and B_L for every L (11)-(17)."""
    assert enumerated_moments(program, pair)[0] == exact_means(pair)


@MANY
@given(pair=kernel_pairs())
def test_variance_gap(pair):
    """Var(naive) - Var(Z^R) = E[(1 - M) sum w nu] >= 0 (Proposition 4.1), and the naive variance is the recursion's."""
    plain, branched = (enumerated_moments(program, pair)[1][0][0] for program in (naive, swrb))
    assert plain == naive_variance(pair)
    assert plain - branched == variance_gap(pair) >= 0


@settings(max_examples=100)
@given(pair=kernel_pairs())
def test_strictness(pair):
    """The gap is positive if and only if P(0 < M < 1) > 0."""
    outcomes = list(enumerate_program(lambda: swrb(pair.horizon), pair))
    between = any(0 < outcome.value.branch_mass < 1 for outcome in outcomes)
    assert (variance_gap(pair) > 0) == between


def is_positive_semidefinite(matrix):
    """By exact elimination: every pivot non-negative, and a zero pivot has a zero row."""
    rows = [list(row) for row in matrix]
    for k in range(len(rows)):
        pivot = rows[k][k]
        if pivot < 0 or (pivot == 0 and any(rows[k][k:])):
            return False
        for i in range(k + 1, len(rows)):
            if pivot:
                factor = rows[i][k] / pivot
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return True


def covariance_difference(pair):
    plain, branched = (enumerated_moments(program, pair)[1] for program in (naive, swrb))
    return [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(plain, branched, strict=True)]


@settings(max_examples=100)
@given(pair=kernel_pairs())
def test_joint_dominance(pair):
    """Cov(naive) - Cov(SWRB) of (R, O, Pi, E, R_1..R_H) is positive semidefinite with the exposure M (H - J)/H."""
    difference = covariance_difference(pair)
    keep = [0, 1, 2, 3, *range(5, 5 + pair.horizon)]
    assert is_positive_semidefinite([[difference[i][j] for j in keep] for i in keep])


def test_scan_exposure_is_not_jointly_dominated():
    """P = the point mass at 0; Q departs with 1/2 a step and stays: Var(Pi - C E) is 0 naively and with M (H - J)/H, 1/32 with
    sum w (H - s)/H; so the scan's exposure, of smaller variance by itself, can make C worse."""
    pair = KernelPair(iid([1, 0]), table({(): ["1/2", "1/2"], (0,): ["1/2", "1/2"], (1,): [0, 1]}), 2, 2)
    rate = exact_values(pair).rate

    def linearised(program, exposure):
        covariance = enumerated_moments(program, pair)[1]
        return covariance[2][2] - 2 * rate * covariance[2][exposure] + rate**2 * covariance[exposure][exposure]

    assert (linearised(naive, 3), linearised(swrb, 3), linearised(swrb, 4)) == (0, 0, Fraction(1, 32))
    difference = covariance_difference(pair)
    assert not is_positive_semidefinite([[difference[i][j] for j in (2, 4)] for i in (2, 4)])
    assert enumerated_moments(swrb, pair)[1][4][4] < enumerated_moments(swrb, pair)[1][3][3]


@MANY
@given(pair=kernel_pairs())
def test_ranges(pair):
    """0 <= Z_L <= M L/H, 0 <= W_L <= M (H - L)/H, Z_L + W_L <= 1, on every outcome."""
    horizon = pair.horizon
    for outcome in enumerate_program(lambda: swrb(horizon), pair):
        estimates, mass = outcome.value.estimates(), outcome.value.branch_mass
        for depth, (z, w) in enumerate(zip(estimates.observed, estimates.capacity, strict=True), 1):
            assert 0 <= z <= mass * Fraction(depth, horizon)
            assert 0 <= w <= mass * Fraction(horizon - depth, horizon)
            assert z + w <= 1


@settings(max_examples=100)
@given(pair=kernel_pairs())
def test_fixed_history_path(pair):
    """The mean of (1/H) sum f_t is F, f_t = delta_t up to tau, and everything else is the naive program's."""
    outcomes = list(enumerate_program(lambda: fixed_history(pair.horizon), pair))
    mean = sum(o.weight * sum(o.value.forced) for o in outcomes) / pair.horizon
    assert mean == exact_values(pair).fixed_history
    assert enumerated_moments(fixed_history, pair) == enumerated_moments(naive, pair)
    for outcome in outcomes:
        first = outcome.value.first_divergence or pair.horizon
        assert outcome.value.forced[:first] == outcome.value.delta[:first]


@settings(max_examples=50)
@given(pair=kernel_pairs())
def test_costs(pair):
    """naive costs H; swrb the scan's steps and H - J + 1; the fixed-history path H and one for each step after tau."""
    horizon = pair.horizon
    assert all(o.cost == horizon for o in enumerate_program(lambda: naive(horizon), pair))
    for o in enumerate_program(lambda: swrb(horizon), pair):
        branch = 0 if o.value.branch_time is None else horizon - o.value.branch_time + 1
        assert o.cost == len(o.value.tv) + branch
    for o in enumerate_program(lambda: fixed_history(horizon), pair):
        assert o.cost == horizon + (horizon - (o.value.first_divergence or horizon))


@settings(max_examples=50)
@given(pair=kernel_pairs())
def test_branch_records(pair):
    """A branch agrees with the scan before J, mismatches at J, and carries the scan's TVs up to J."""
    for outcome in enumerate_program(lambda: swrb(pair.horizon), pair):
        record = outcome.value
        if record.branch is not None:
            j = record.branch_time
            assert record.branch.first_divergence == j
            assert record.branch.x[: j - 1] == record.branch.y[: j - 1] == record.overlap[: j - 1]
            assert record.branch.delta[:j] == record.tv[:j]


def test_deltas_can_vary_more_than_mismatches():
    """C15: I_1 fair, I_2 = 1 - I_1: sum I = 1 always, sum delta is 1/2 or 3/2, mean 1 and variance 1/4."""
    pair = KernelPair(iid([1, 0]), table({(): ["1/2", "1/2"], (0,): [0, 1], (1,): [1, 0]}), 2, 2)
    law = {}
    for outcome in enumerate_program(lambda: naive(2), pair):
        key = (sum(outcome.value.mismatch), sum(outcome.value.delta))
        law[key] = law.get(key, 0) + outcome.weight
    assert law == {(1, Fraction(1, 2)): Fraction(1, 2), (1, Fraction(3, 2)): Fraction(1, 2)}


def test_worked_example():
    """C24, the paper's figure 3: M = 0.30, J = 3, mismatches at 3 and 5, H = 5: Z^R = 3/25, Z^O = Z^Pi = 3/50; Z_2 = 3/50."""
    branch = Rollout((0, 0, 0, 0, 0), (0, 0, 1, 0, 1), (Fraction(0),) * 5)
    record = Branch(5, (0,) * 5, (Fraction(0), Fraction(0), Fraction(3, 10), Fraction(0), Fraction(0)), 3, branch)
    estimates = record.estimates()
    assert record.branch_mass == Fraction(3, 10)
    assert (estimates.risk, estimates.occurrence, estimates.occupation) == (
        Fraction(3, 25),
        Fraction(3, 50),
        Fraction(3, 50),
    )
    assert estimates.observed[1] == Fraction(3, 50)
    assert estimates.exposure == estimates.scan_exposure == Fraction(3, 10) * Fraction(2, 5)
    assert estimates.capacity == (Fraction(3, 25), Fraction(3, 50), 0, 0, 0)


# Wrong programs. Each is swrb with one mistake; the check of the means must reject it.


def mutant(*, start=0, uniform=False, fresh=True, stop=True, total=None, window=0, tail=0, weigh=branch_weights):
    """swrb with a planted mistake: branch from J + start, J uniform without reweighting, ..."""

    def program(horizon):
        u, tv = (), []
        while len(u) < horizon and (not stop or not tv or tv[-1] != 1):
            token, e = yield Overlap(u)
            tv.append(e)
            if token is None:
                break
            u = (*u, token)
        weights = weigh(tuple(tv))
        if not any(weights):
            return Branch(horizon, u, tuple(tv), None, None)
        j = yield Choose(tuple(Fraction(w != 0) for w in weights) if uniform else weights)
        common = u[: min(j + start, horizon - 1)]
        if fresh:
            a, b = yield Residual(u[:j])
        else:
            a, b = 0, 1
        delta = (Fraction(0),) * (len(common) + 1)
        rollout = yield from coupled(Rollout((*common, a), (*common, b), delta), horizon)
        return Mutated(Branch(horizon, u, tuple(tv), j + 1, rollout), weights, total, window, tail)

    return program


class Mutated:
    """A record whose estimates carry a planted mistake."""

    def __init__(self, branch, weights, total, window, tail):
        self.branch, self.weights, self.total, self.window, self.tail = branch, weights, total, window, tail

    def estimates(self):
        right, true = self.branch.estimates(), self.branch.branch_mass
        mass = self.total if self.total is not None else sum(self.weights)
        scale = mass / true
        observed = [scale * z for z in right.observed]
        if self.window:
            observed = [*observed[1:], observed[-1]]
        capacity = list(right.capacity)
        if self.tail:
            capacity = [*capacity[1:], Fraction(0)]
        return Estimates(
            observed[-1], right.occurrence * scale, right.occupation * scale, right.exposure * scale, right.scan_exposure,
            tuple(observed), tuple(capacity),
        )  # fmt: skip


def unnormalised(tv):
    """Weights without survival: w_s = e_s."""
    return tv


MUTANTS = {
    "weights without survival": mutant(weigh=unnormalised),
    "mass dropped": mutant(total=Fraction(1)),
    "J uniform, not reweighted": mutant(uniform=True),
    "window off by one": mutant(window=1),
    "tail one short": mutant(tail=1),
    "branch from J + 1": mutant(start=1),
    "no residual pair": mutant(fresh=False),
}


def teeth():
    """A pair with H = 3, V = 3 on which no mistake cancels out."""
    known = histories(3, 3)
    p = {h: (["1/2", "1/3", "1/6"] if not h or h[-1] == 0 else ["1/6", "1/3", "1/2"]) for h in known}
    q = {h: (["1/4", "1/4", "1/2"] if sum(h) % 2 else ["1/3", "2/3", 0]) for h in known}
    return KernelPair(table(p), table(q), 3, 3)


def test_the_unmutated_program_passes():
    """The mutants' frame without a mistake is right, so that what rejects them is the mistake."""
    assert enumerated_moments(mutant(), teeth())[0] == exact_means(teeth())


@pytest.mark.parametrize("name", MUTANTS)
def test_wrong_programs_are_rejected(name):
    """Each planted mistake changes some exact mean."""
    assert enumerated_moments(MUTANTS[name], teeth())[0] != exact_means(teeth())
