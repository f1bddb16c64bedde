"""Enumerate, simulate and lockstep: weights, order of requests, Monte Carlo against exact values."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings

from kvdiv.interpreters import enumerate_program, lockstep, moments, simulate
from kvdiv.interpreters.enumerate import law
from kvdiv.programs import fixed_history, naive, swrb
from kvdiv.requests import Choose, Couple, Forced, Overlap, Residual
from kvdiv.testing import enumerated_moments, exact_means, kernel_pairs
from kvdiv.theory import KernelPair, exact_values, iid, table
from kvdiv.theory.errors import ProgramError
from kvdiv.uniforms import Stream

EQUAL = KernelPair(iid(["1/2", "1/2"]), iid(["1/2", "1/2"]), 2, 2)
APART = KernelPair(iid([1, 0]), iid([0, 1]), 2, 2)
Z = 6.5  # two-sided normal tail of 8e-11: with a few thousand comparisons the false-alarm rate stays below 1e-6


@settings(max_examples=50)
@given(pair=kernel_pairs())
def test_weights_sum_to_one(pair):
    """The outcomes of every program carry all of the probability."""
    for program in (naive, fixed_history, swrb):
        assert sum(o.weight for o in enumerate_program(lambda program=program: program(pair.horizon), pair)) == 1


def test_answers_of_single_requests():
    """Residual draws never agree, an overlap of disjoint rows has no token, Forced draws nothing, Choose is proportional."""
    pair = KernelPair(iid(["1/2", "1/2", 0]), iid(["1/4", 0, "3/4"]), 3, 1)
    assert law(Overlap(()), pair) == [((0, Fraction(3, 4)), 1)]
    assert dict(law(Residual(()), pair)) == {(0, 2): Fraction(1, 3), (1, 2): Fraction(2, 3)}
    assert law(Forced((), ()), pair) == [(Fraction(3, 4), 1)]
    assert law(Overlap(()), APART) == [((None, 1), 1)]
    assert law(Choose((Fraction(0), Fraction(1, 6), Fraction(1, 3))), pair) == [
        (1, Fraction(1, 3)),
        (2, Fraction(2, 3)),
    ]
    assert sum(w for _, w in law(Couple((), ()), pair)) == 1


def residual_at_start():
    return (yield Residual(()))


def choice_of_nothing():
    return (yield Choose((Fraction(0), Fraction(0))))


def nonsense():
    return (yield "overlap")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (residual_at_start, "equal"),
        (choice_of_nothing, "positive sum"),
        (nonsense, "not a request"),
    ],
)
def test_impossible_requests_are_program_errors(program, words):
    """A residual where p = q, a choice without weight and an unknown request fail in every interpreter."""
    with pytest.raises(ProgramError, match=words):
        list(enumerate_program(program, EQUAL))
    with pytest.raises(ProgramError, match=words):
        simulate(program, EQUAL, 3, seed=0)


def covers(program, pair, *, replicates, seed):
    """Largest |sample mean - exact mean| in exact standard errors, over all quantities; 0/0 counts as 0."""
    runs = simulate(lambda: program(pair.horizon), pair, replicates, seed=seed)
    sample = np.mean([[float(v) for v in run.value.estimates().vector()] for run in runs], axis=0)
    _, covariance = enumerated_moments(program, pair)
    worst = 0.0
    for found, mean, row in zip(sample, exact_means(pair), range(len(covariance)), strict=True):
        error, deviation = abs(found - float(mean)), float(covariance[row][row] / replicates) ** 0.5
        if error > 1e-12:
            worst = max(worst, error / deviation if deviation else np.inf)
    return worst


def mixed_pair():
    p = {(): ["1/2", "1/3", "1/6"]} | {(a,): ["1/4", "1/2", "1/4"] for a in range(3)}
    p |= {(a, b): ["1/3", "1/3", "1/3"] for a in range(3) for b in range(3)}
    q = {h: (["1/4", "1/4", "1/2"] if sum(h) % 2 else ["1/3", "2/3", 0]) for h in p}
    return KernelPair(table(p), table(q), 3, 3)


@pytest.mark.parametrize("program", [naive, swrb])
@pytest.mark.parametrize("seed", range(3))
def test_simulation_covers_the_exact_means(program, seed):
    """4,000 replicates: every sample mean within 6.5 exact standard errors (false-alarm rate below 1e-8 over all)."""
    assert covers(program, mixed_pair(), replicates=4000, seed=seed) < Z


def test_simulation_covers_the_exact_fixed_history():
    """4,000 replicates: the mean of (1/H) sum f_t within 6.5 exact standard errors of F, which is not R on this pair."""
    pair = mixed_pair()
    outcomes = list(enumerate_program(lambda: fixed_history(3), pair))
    mean, covariance = moments(outcomes, lambda record: [sum(record.forced) / 3])
    runs = simulate(lambda: fixed_history(3), pair, 4000, seed=0)
    found = np.mean([float(sum(run.value.forced)) / 3 for run in runs])
    assert mean == [exact_values(pair).fixed_history] != [exact_values(pair).risk]
    assert abs(found - float(mean[0])) < Z * float(covariance[0][0] / 4000) ** 0.5


def test_simulation_has_teeth():
    """The same check at the same size rejects a kernel pair whose Q differs in its first row."""
    pair = mixed_pair()
    shifted = KernelPair(pair.reference, lambda h: pair.perturbed(h) if h else [0, 1, 0], 3, 3)
    runs = simulate(lambda: naive(3), shifted, 4000, seed=0)
    mean = np.mean([float(run.value.estimates().risk) for run in runs])
    deviation = float(enumerated_moments(naive, pair)[1][0][0] / 4000) ** 0.5
    assert abs(mean - float(exact_values(pair).risk)) > Z * deviation


def test_more_replicates_leave_the_first_unchanged():
    """Replicate i depends on (seed, i) only."""
    few, many = (simulate(lambda: swrb(3), mixed_pair(), n, seed=5) for n in (4, 9))
    assert few == many[:4]
    assert simulate(lambda: swrb(3), mixed_pair(), 4, seed=6) != few


def test_simulated_extremes():
    """Equal kernels never diverge; disjoint ones diverge at once, and the overlap has no token."""
    assert all(run.value.x == run.value.y for run in simulate(lambda: naive(2), EQUAL, 50, seed=0))
    assert all(run.value.branch_mass == 0 for run in simulate(lambda: swrb(2), EQUAL, 50, seed=0))
    for run in simulate(lambda: swrb(2), APART, 10, seed=0):
        assert (run.value.overlap, run.value.tv, run.value.branch_time) == ((), (1.0,), 1)
        assert (run.value.branch.x, run.value.branch.y) == ((0, 0), (1, 1))
    for run in simulate(lambda: naive(2), APART, 10, seed=0):
        assert run.value.estimates().risk == 1


def test_simulated_and_enumerated_costs_agree():
    """Both interpreters charge the same evaluations."""
    exact = sum(o.weight * o.cost for o in enumerate_program(lambda: naive(3), mixed_pair()))
    assert {run.cost for run in simulate(lambda: naive(3), mixed_pair(), 20, seed=0)} == {exact}


def test_rows_that_round_differently_when_looked_up_again():
    """A scan that saw e = 1e-9 where the rows are later equal: with `rounding` the pair is drawn apart and weighs 1e-9."""
    looked_up = set()

    def distributions(lookups):
        rows = []
        for lookup in lookups:
            again = lookup in looked_up
            looked_up.add(lookup)
            shift = 0.0 if again or lookup.side == "reference" else 1e-9
            rows.append([0.5 + shift, 0.5 - shift])
        return np.array(rows)

    (run,) = lockstep([swrb(2)], [Stream(0)], distributions, rounding=True)
    assert run.value.branch.first_divergence == run.value.branch_time
    assert 0 < run.value.estimates().risk <= run.value.branch_mass < 3e-9
    looked_up.clear()
    with pytest.raises(ProgramError, match="equal"):
        lockstep([swrb(2)], [Stream(0)], distributions)
