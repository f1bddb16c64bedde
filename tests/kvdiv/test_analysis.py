"""From records to results: hand-computed numbers with ==, exact values of toy documents, identities, refusals, strict JSON."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from kvdiv.analysis import analyse
from kvdiv.analysis.decomposition import attribution, check_attribution, check_decomposition
from kvdiv.analysis.efficiency import efficiency, within_variance
from kvdiv.analysis.paths import paths
from kvdiv.analysis.results import depths
from kvdiv.estimates import Branch, Rollout
from kvdiv.records import DocumentRecord, Replicate
from kvdiv.theory import exact_values, naive_variance, variance_gap
from kvdiv.theory.errors import RecordError

FALSE_ALARM = 1e-7  # of each Hoeffding comparison; there are fewer than 200, on a fixed seed
REPLICATES = 1200

# H = 4, two documents, two replicates each. Mismatches of A: (0 1 0 1), none; of B: (1 0 0 0), (1 1 1 1).
ZEROS = (0, 0, 0, 0)
BY_HAND = {
    "A": (
        Rollout(ZEROS, (0, 1, 0, 1), (0.0, 0.25, 0.5, 0.75), (0.0, 0.25, 0.25, 0.25)),
        Rollout(ZEROS, ZEROS, (0.0, 0.0, 0.0, 0.5), (0.0, 0.0, 0.0, 0.5)),
    ),
    "B": (
        Rollout(ZEROS, (1, 0, 0, 0), (0.5, 0.25, 0.0, 0.0), (0.5, 0.0, 0.0, 0.0)),
        Rollout(ZEROS, (1, 1, 1, 1), (1.0, 1.0, 1.0, 1.0), (1.0, 0.5, 0.5, 0.5)),
    ),
}


def records(by_document, action="evict", estimator="fixed_history"):
    return [
        Replicate(document, "s", action, estimator, i, value, value.horizon)
        for document, values in by_document.items()
        for i, value in enumerate(values)
    ]


def documents(names, actions=("evict",)):
    return [DocumentRecord(name, "s", action, 10, "00" * 32, 5, True, 100) for name in names for action in actions]


def results_of(replicates, table, **options):
    options = {"seed": 0, "noise_floor": 0.0, "seconds": {}, "draws": 1000} | options
    return analyse(replicates, table, **options)


def ends(shown):
    return shown["low"], shown["estimate"], shown["high"]


def test_quantities_by_hand():
    """R = 7/16 = O + E C = 3/16 + 1/2 1/2; documents (1/4, 5/8); two documents give the interval [A's value, B's value]."""
    q = results_of(records(BY_HAND), documents("AB"))["actions"]["evict"]["quantities"]
    assert ends(q["risk"]) == (1 / 4, 7 / 16, 5 / 8)
    assert ends(q["occurrence"]) == (1 / 8, 3 / 16, 1 / 4)
    assert ends(q["occupation"]) == (1 / 8, 1 / 4, 3 / 8)
    assert ends(q["exposure"]) == (1 / 4, 1 / 2, 3 / 4)
    assert ends(q["rate"]) == (1 / 2, 1 / 2, 1 / 2)
    assert q["rate"]["degenerate"]
    assert ends(q["later_share"]) == (1 / 2, 4 / 7, 3 / 5)
    assert ends(q["diverged"]) == (1 / 2, 3 / 4, 1)
    assert ends(q["mean_tau"]) == (1, 4 / 3, 2)
    assert ends(q["rollout_tv"]) == (1 / 4, (1 / 4 + 19 / 32) / 2, 19 / 32)
    assert ends(q["fixed_history"]) == (5 / 32, (5 / 32 + 3 / 8) / 2, 3 / 8)
    assert ends(q["history_gap"]) == (3 / 32, (3 / 32 + 7 / 32) / 2, 7 / 32)
    assert all(shown["defined"] for shown in q.values())


def test_curves_by_hand():
    """P(tau <= t) = 1/2, 3/4, 3/4, 3/4; TV by lag in the cohort tau <= 2, which holds three pairs at every lag: 7/12, 7/12."""
    action = results_of(records(BY_HAND), documents("AB"))["actions"]["evict"]
    assert action["timing"]["at"] == [1, 2, 3, 4]
    assert action["timing"]["estimate"] == [1 / 2, 3 / 4, 3 / 4, 3 / 4]
    assert (action["timing"]["low"], action["timing"]["high"]) == ([0, 1 / 2, 1 / 2, 1 / 2], [1, 1, 1, 1])
    curve = action["branch_tv"]
    assert (curve["cohort"], curve["paths"], curve["documents"], curve["defined"]) == (2, 3, 2, True)
    assert curve["at"] == [1, 2]
    assert curve["estimate"] == [pytest.approx(7 / 12, abs=1e-15), pytest.approx(7 / 12, abs=1e-15)]
    assert (curve["low"], curve["high"]) == ([1 / 2, 1 / 2], [5 / 8, 3 / 4])


def test_windows_by_hand():
    """[R_L, R_L + B_L]: (3/16, 1/2), (1/4, 5/16) and (7/16, 0) for L = 1, 2, 4; R_1 = O, B_1 = E, R_H = R."""
    windows = results_of(records(BY_HAND), documents("AB"))["actions"]["evict"]["windows"]
    shown = [
        (w["depth"], w["observed"]["estimate"], w["capacity"]["estimate"], w["upper"]["estimate"]) for w in windows
    ]
    assert shown == [(1, 3 / 16, 1 / 2, 11 / 16), (2, 1 / 4, 5 / 16, 9 / 16), (4, 7 / 16, 0, 7 / 16)]


@pytest.mark.parametrize(
    ("horizon", "expected"),
    [(1, [1]), (2, [1, 2]), (4, [1, 2, 4]), (64, [1, 4, 16, 32, 64]), (128, [1, 4, 16, 64, 128])],
)
def test_depths(horizon, expected):
    """1, 4, 16, .. below H, then H/2 and H."""
    assert depths(horizon) == expected


def test_no_early_late_trap():
    """Branch TV by lag over a fixed cohort: late entrants with small TV, seen at small lags only, are not averaged in.

    H = 4. One pair enters at 1 with TV 1/2 for ever, one enters at 3 with TV 0: the curve is flat at 1/2, not rising from 1/4.
    """
    early = Rollout(ZEROS, (1, 0, 0, 0), (0.5, 0.5, 0.5, 0.5))
    late = Rollout(ZEROS, (0, 0, 1, 0), (0.0, 0.0, 0.5, 0.0))
    action = results_of(records({"A": (early, late)}, estimator="naive"), documents("A"))["actions"]["evict"]
    assert action["branch_tv"]["estimate"] == [1 / 2, 1 / 2]
    assert action["branch_tv"]["paths"] == 1


def test_attribution_by_hand():
    """C23: Delta R = 19/64 = 19/192 (occurrence) + 15/128 (exposure) + 31/384 (rate) (8), and reversed signs the other way."""
    o_a, e_a, o_b, e_b = Fraction(37, 192), Fraction(11, 48), Fraction(7, 24), Fraction(5, 12)
    a = [o_a + e_a / 2, o_a, e_a / 2, e_a]
    b = [o_b + e_b * Fraction(3, 4), o_b, e_b * Fraction(3, 4), e_b]
    expected = [19 / 64, 19 / 192, 15 / 128, 31 / 384]
    assert attribution(np.array([*a, *b], dtype=float)) == pytest.approx(expected, abs=1e-15)
    assert attribution(np.array([*b, *a], dtype=float)) == pytest.approx([-v for v in expected], abs=1e-15)


def test_gap_between_actions_by_hand():
    """Two actions of one rollout a document: mismatches (1 1 1 1) against (0 0 0 1), gap 3/4, all of it exposure and rate.

    First minus second is not shown; O = 1/4 both, E = 3/4 and 0, C = 1 and 0 by convention: terms 0, 3/8, 3/8.
    """
    worse = {name: (Rollout(ZEROS, (1, 1, 1, 1), (1.0,) * 4),) for name in "AB"}
    better = {name: (Rollout(ZEROS, (0, 0, 0, 1), (0.0, 0.0, 0.0, 1.0)),) for name in "AB"}
    replicates = records(better, "late", "naive") + records(worse, "early", "naive")
    results = results_of(replicates, documents("AB", ("late", "early")))
    (gap,) = results["gaps"]
    assert (gap["first"], gap["second"]) == ("late", "early")
    assert {name: ends(term) for name, term in gap["terms"].items()} == {
        "gap": (3 / 4, 3 / 4, 3 / 4),
        "occurrence": (0, 0, 0),
        "exposure": (3 / 8, 3 / 8, 3 / 8),
        "rate": (3 / 8, 3 / 8, 3 / 8),
    }
    assert {name: share["estimate"] for name, share in gap["shares"].items()} == {
        "occurrence": 0,
        "exposure": 1 / 2,
        "rate": 1 / 2,
    }
    assert not results["actions"]["late"]["quantities"]["rate"]["defined"]


def test_shares_are_refused_where_the_gap_may_be_zero():
    """Documents disagree about the sign: shares are None. Two actions with the same records: gap [0, 0], shares None."""
    swapped = {"A": BY_HAND["B"], "B": BY_HAND["A"]}
    for other in (swapped, BY_HAND):
        replicates = records(BY_HAND, "one") + records(other, "two")
        (gap,) = results_of(replicates, documents("AB", ("one", "two")))["gaps"]
        assert gap["terms"]["gap"]["low"] <= 0 <= gap["terms"]["gap"]["high"]
        assert gap["shares"] is None
    assert ends(gap["terms"]["gap"]) == (0, 0, 0)
    assert gap["terms"]["gap"]["degenerate"]


def test_no_divergence_is_not_a_rate_of_zero():
    """Equal kernels: everything is 0, C, mean tau, the later share and the branch curve are marked as not defined."""
    same = {name: (Rollout(ZEROS, ZEROS, (0.0,) * 4),) * 2 for name in "AB"}
    action = results_of(records(same), documents("AB"))["actions"]["evict"]
    undefined = {name for name, shown in action["quantities"].items() if not shown["defined"]}
    assert undefined == {"rate", "mean_tau", "later_share"}
    assert all(ends(shown) == (0, 0, 0) and shown["degenerate"] for shown in action["quantities"].values())
    assert not action["branch_tv"]["defined"]
    assert action["estimators"]["fixed_history"]["variance"] == 0
    assert action["estimators"]["fixed_history"]["variance_ratio"] is None


def test_efficiency_by_hand():
    """Within-document sample variances, costs and their products relative to complete rollouts, by hand.

    Naive risks 0, 1 and 1/2, 1/2: variance (1/2 + 0)/2 = 1/4, cost 2. Branches of mass 1/2 with risk 1/4 or 1/2: variance 1/32
    once, cost 3.
    """
    apart, half, same = (Rollout((0, 0), y, (0.5, 0.5)) for y in ((1, 1), (0, 1), (0, 0)))
    naive = records({"A": (same, apart), "B": (half, half)}, estimator="naive")
    weigh = [Branch(2, (0, 0), (0.5, 0.0), 1, Rollout((0, 0), y, (0.5, 0.0))) for y in ((1, 0), (1, 1))]
    swrb = [dataclasses.replace(r, cost=3) for r in records({"A": weigh, "B": (weigh[0],) * 2}, estimator="swrb")]
    assert within_variance(naive) == 1 / 4
    assert within_variance(swrb) == 1 / 64
    found = efficiency([*swrb, *naive], {"naive": 0.5, "swrb": 2.0})
    assert found["naive"] == {
        "replicates": 4, "variance": 1 / 4, "cost": 2, "seconds": 0.5, "variance_ratio": 1, "work": 1, "time": 1,
    }  # fmt: skip
    assert found["swrb"] == {
        "replicates": 4, "variance": 1 / 64, "cost": 3, "seconds": 2, "variance_ratio": 1 / 16, "work": 3 / 32, "time": 1 / 4,
    }  # fmt: skip


def test_branches_by_hand():
    """SWRB's O, Pi, E, C, R from one branch: weights 1/2, 1/4, mass 3/4, J = 1, mismatches (1 1 0 0): R = 3/8, O = Pi = 3/16.

    E is M (H - J)/H = 9/16, which never makes C worse, not the scan's (1/2 3 + 1/4 2)/4 = 1/2; so C = 1/3.
    """
    branch = Branch(4, ZEROS, (0.5, 0.5, 0.0, 0.0), 1, Rollout(ZEROS, (1, 1, 0, 0), (0.5, 1.0, 0.0, 0.0)))
    replicates = records(BY_HAND) + records({"A": (branch,), "B": (branch,)}, estimator="swrb")
    row = results_of(replicates, documents("AB"))["actions"]["evict"]["estimators"]["swrb"]
    found = {name: shown["estimate"] for name, shown in row["quantities"].items()}
    assert found == {
        "risk": 3 / 8, "occurrence": 3 / 16, "occupation": 3 / 16, "exposure": 9 / 16, "rate": 1 / 3,
    }  # fmt: skip


def test_efficiency_without_variance():
    """One replicate has no variance, rollouts without variance no ratio, no seconds no time: None, never a division by 0."""
    half = Rollout((0, 0), (0, 1), (0.5, 0.5))
    one = records({"A": (half,)}, estimator="naive")
    assert within_variance(one) is None
    assert efficiency(one, {})["naive"]["variance_ratio"] is None
    alike = efficiency(records({"A": (half, half)}, estimator="naive"), {"naive": 1.0})["naive"]
    assert (alike["variance"], alike["variance_ratio"], alike["work"], alike["time"]) == (0, None, None, None)
    apart = Rollout((0, 0), (1, 1), (0.5, 0.5))
    assert efficiency(records({"A": (half, apart)}, estimator="naive"), {})["naive"]["time"] is None


def test_seconds_are_shared_by_evaluations():
    """12 s of an estimator over two actions with 8 and 4 evaluations in 2 replicates each: 4 s and 2 s a replicate."""
    few = [dataclasses.replace(r, cost=4) for r in records({"A": BY_HAND["A"]}, "one", "naive")]
    less = [dataclasses.replace(r, cost=2) for r in records({"A": BY_HAND["A"]}, "two", "naive")]
    actions = results_of([*few, *less], documents("A", ("one", "two")), seconds={"naive": 12.0})["actions"]
    assert [actions[name]["estimators"]["naive"]["seconds"] for name in ("one", "two")] == [4, 2]


def test_flags_below_the_noise_floor():
    """Every TV below three floors is marked: the mean TV 27/64, F 17/64, TV - F 5/32, each lag of the branch, and the gap."""
    replicates = records(BY_HAND, "one") + records(BY_HAND, "two")

    def flags(floor):
        results = results_of(replicates, documents("AB", ("one", "two")), noise_floor=floor)
        action = results["actions"]["one"]
        q = action["quantities"]
        names = ("rollout_tv", "fixed_history", "history_gap")
        below = [q[name]["below_floor"] for name in names]
        return [action["below_floor"], *below, action["branch_tv"]["below_floor"], results["gaps"][0]["below_floor"]]

    assert flags(0.0) == [False] * 6
    assert flags(0.06) == [False, False, False, True, False, True]
    assert flags(0.10) == [False, False, True, True, False, True]
    assert flags(0.15) == [True, True, True, True, False, True]
    assert flags(0.20) == [True] * 6


@pytest.fixture(scope="module")
def toy(toy_run):
    """Five documents in two strata, three actions, H = 6: the run and its results."""
    run = toy_run(6, REPLICATES)
    seconds = {"fixed_history": 3.0, "swrb": 2.0}
    return run, analyse(run.replicates, run.documents, seed=0, noise_floor=1e-6, seconds=seconds, draws=500)


def population(run, action, function):
    """Exact mean over documents, strata weighing equally, of a function of the exact values."""
    strata = {record.document: record.stratum for record in run.documents}
    sizes = {name: list(strata.values()).count(name) for name in strata.values()}
    values = ((d, Fraction(function(exact_values(run.pairs[d, action])))) for d in strata)
    return float(sum(value / sizes[strata[d]] for d, value in values) / len(sizes))


def tolerance(run):
    """Hoeffding: a weighted mean of independent numbers in [0, 1] is off by more with probability FALSE_ALARM at most."""
    per_document = sum(w * w for w in (1 / 6, 1 / 6, 1 / 6, 1 / 4, 1 / 4)) / REPLICATES
    assert len({record.document for record in run.documents}) == 5
    return math.sqrt(math.log(2 / FALSE_ALARM) / 2 * per_document)


@pytest.mark.parametrize("action", ["mild", "strong", "none"])
def test_toy_documents_against_exact_values(toy, action):
    """R (as mismatches and as TV), O, Pi, E, F, P(tau <= t), R_L, R_L + B_L and branch TV of the exact layer, both estimators.

    Every number compared is a mean of 6,000 independent numbers in [0, 1]; false-alarm rate below 200 x 1e-7 in all.
    """
    run, results = toy
    found, eps = results["actions"][action], tolerance(run)
    assert eps < 0.04

    def near(value, function):
        assert abs(value - population(run, action, function)) <= eps

    q = found["quantities"]
    for name in ("risk", "occurrence", "occupation", "exposure", "fixed_history"):
        near(q[name]["estimate"], lambda v, name=name: getattr(v, name))
        if name != "fixed_history":
            near(found["estimators"]["swrb"]["quantities"][name]["estimate"], lambda v, name=name: getattr(v, name))
    near(q["rollout_tv"]["estimate"], lambda v: v.risk)
    for t, estimate in zip(found["timing"]["at"], found["timing"]["estimate"], strict=True):
        near(estimate, lambda v, t=t: sum(v.timing_law[:t]))
    for window in found["windows"]:
        near(window["observed"]["estimate"], lambda v, L=window["depth"]: v.observed(L))
        near(window["upper"]["estimate"], lambda v, L=window["depth"]: v.observed(L) + v.capacity(L))
    curve = found["branch_tv"]
    cohort, member = curve["cohort"], found["timing"]["estimate"][curve["cohort"] - 1]
    for lag, estimate in zip(curve["at"], curve["estimate"], strict=True):
        near(estimate * member, lambda v, j=lag: sum(v.joint[s][j] for s in range(cohort)))


def test_toy_variances_against_exact_values(toy):
    """Within-document variances of the risk: naive's and SWRB's exact ones (Proposition 4.1), SWRB's smaller.

    The sample variance of n numbers in [0, 1] is off by more than sqrt(2 log(2/a)/(n - 1)) sd with probability at most a
    (Maurer and Pontil 2009, Theorem 10), of standard deviations: sqrt(V) within that bound, averaged over documents.
    """
    run, results = toy
    eps = math.sqrt(2 * math.log(2 / FALSE_ALARM) / (REPLICATES - 1))
    for action in ("mild", "strong"):
        rows = results["actions"][action]["estimators"]
        pairs = [run.pairs[d, action] for d in {record.document for record in run.documents}]
        naive = [float(naive_variance(pair)) for pair in pairs]
        swrb = [float(naive_variance(pair) - variance_gap(pair)) for pair in pairs]
        for name, exact in (("fixed_history", naive), ("swrb", swrb)):
            low = np.mean([max(0, math.sqrt(v) - eps) ** 2 for v in exact])
            high = np.mean([(math.sqrt(v) + eps) ** 2 for v in exact])
            assert low <= rows[name]["variance"] <= high
        assert rows["swrb"]["variance"] < rows["fixed_history"]["variance"]
        ratio = rows["swrb"]["variance"] / rows["fixed_history"]["variance"]
        assert rows["swrb"]["variance_ratio"] == ratio
        assert rows["swrb"]["work"] == pytest.approx(ratio * rows["swrb"]["cost"] / rows["fixed_history"]["cost"])
        assert rows["swrb"]["time"] == pytest.approx(ratio * rows["swrb"]["seconds"] / rows["fixed_history"]["seconds"])
    assert results["actions"]["none"]["estimators"]["swrb"]["variance_ratio"] is None


def test_identities_of_the_sample(toy):
    """R = O + E C (7), Pi = E C, terms add up to every gap (8), shares to 1, R_1 = O, B_1 = E, R_H = R, B_H = 0, to rounding."""
    _, results = toy
    for action in results["actions"].values():
        q = {name: shown["estimate"] for name, shown in action["quantities"].items()}
        assert q["risk"] == pytest.approx(q["occurrence"] + q["exposure"] * q["rate"], abs=1e-14)
        assert q["history_gap"] == pytest.approx(q["rollout_tv"] - q["fixed_history"], abs=1e-14)
        first, last = action["windows"][0], action["windows"][-1]
        assert first["observed"]["estimate"] == pytest.approx(q["occurrence"], abs=1e-14)
        assert first["capacity"]["estimate"] == pytest.approx(q["exposure"], abs=1e-14)
        assert (last["observed"]["estimate"], last["capacity"]["estimate"]) == (pytest.approx(q["risk"], abs=1e-14), 0)
    assert [(gap["first"], gap["second"]) for gap in results["gaps"]] == [
        ("mild", "strong"),
        ("mild", "none"),
        ("strong", "none"),
    ]
    for gap in results["gaps"]:
        terms = {name: shown["estimate"] for name, shown in gap["terms"].items()}
        total = terms.pop("gap")
        assert sum(terms.values()) == pytest.approx(total, abs=1e-14)
        assert sum(share["estimate"] for share in gap["shares"].values()) == pytest.approx(1, abs=1e-12)


def test_results_are_strict_json_and_deterministic(toy_run):
    """No NaN, no infinity, plain types only; the same records give the same text, another seed other intervals."""
    run = toy_run(4, 10)
    results, again, other = (results_of(run.replicates, run.documents, seed=seed) for seed in (0, 0, 1))
    text = json.dumps(results, allow_nan=False)
    assert json.loads(text) == results
    assert json.dumps(again) == text != json.dumps(other)


def test_few_documents_are_said():
    """A stratum with one document is flagged; strata are counted."""
    results = results_of(records({"A": BY_HAND["A"]}), documents("A"))
    assert results["few_documents"]
    assert results["documents"] == {"count": 1, "strata": {"s": 1}}
    assert not results_of(records(BY_HAND), documents("AB"))["few_documents"]
    assert all(shown["degenerate"] for shown in results["actions"]["evict"]["quantities"].values())


def test_a_horizon_of_one():
    """H = 1: E = 0, no lag to show, R = O."""
    one = {name: (Rollout((0,), (1,), (0.5,)), Rollout((0,), (0,), (0.5,))) for name in "AB"}
    action = results_of(records(one, estimator="naive"), documents("AB"))["actions"]["evict"]
    assert ends(action["quantities"]["risk"]) == ends(action["quantities"]["occurrence"]) == (1 / 2, 1 / 2, 1 / 2)
    assert not action["quantities"]["rate"]["defined"]
    assert action["branch_tv"]["at"] == []


GOOD = records(BY_HAND)
SCAN = Branch(4, ZEROS, (0.5, 0.0, 0.0, 0.0), 1, Rollout(ZEROS, (1, 0, 0, 0), (0.5, 0.0, 0.0, 0.0)))


def one(value, **changes):
    return [*GOOD, dataclasses.replace(GOOD[0], estimator="swrb", value=value, **changes)]


@pytest.mark.parametrize(
    ("replicates", "table", "words"),
    [
        ([], documents("AB"), "nothing to analyse"),
        (GOOD, [], "nothing to analyse"),
        ([*GOOD, GOOD[0]], documents("AB"), "more than once"),
        (GOOD, documents("A"), "'B' of stratum 's' is not in the documents table"),
        (GOOD, documents("ABC"), "'C' has no replicates"),
        (GOOD[:3], documents("AB"), "complete rollouts; each needs the same number"),
        (
            GOOD,
            [*documents("AB"), dataclasses.replace(documents("A")[0], stratum="t", action="b")],
            "stands in two strata",
        ),
        ([dataclasses.replace(GOOD[0], stratum="t"), *GOOD[1:]], documents("AB"), "of stratum 't'"),
        ([r for r in one(SCAN) if r.estimator == "swrb"], documents("A"), "no complete rollouts"),
        (one(SCAN), documents("AB"), "'B' has no replicates"),
        (one(dataclasses.replace(SCAN, horizon=5)), documents("AB"), "horizon 5, others 4"),
        (one(dataclasses.replace(SCAN, branch_time=2)), documents("AB"), "follow its scan until J = 2"),
        (
            one(Branch(4, ZEROS, (0.0, 0.5, 0.0, 0.0), 2, Rollout((1, 0, 0, 0), (1, 1, 0, 0), (0.0, 0.5, 0.0, 0.0)))),
            documents("AB"),
            "follow its scan until J = 2",
        ),
        (one(Rollout(ZEROS, ZEROS, (0.0,) * 3)), documents("AB"), "lengths"),
        (
            one(Rollout(ZEROS, (0, 1, 0, 0), (0.0, 0.5, 0.5, 0.5), (0.0, 0.25, 0.5, 0.5))),
            documents("AB"),
            "before the first mismatch",
        ),
    ],
)
def test_records_that_do_not_belong_together(replicates, table, words):
    """Missing, repeated or foreign records and records that no coupled program leaves: `RecordError`, one line."""
    with pytest.raises(RecordError, match=words) as caught:
        results_of(replicates, table)
    assert "\n" not in str(caught.value)


def test_broken_identities_are_refused():
    """Each asserted identity can fail: (7) with a wrong risk or rate, (8) with a wrong term, (19) with a mismatch before tau."""
    good = np.array([0.4375, 0.1875, 0.25, 0.5, 0.5])
    check_decomposition(0.4375, good)
    for wrong in (np.array([0.4375, 0.1875, 0.25, 0.5, 0.6]), np.array([0.4375, 0.1876, 0.25, 0.5, 0.5])):
        with pytest.raises(RecordError, match=r"\(7\)"):
            check_decomposition(0.4375, wrong)
    with pytest.raises(RecordError, match=r"\(7\)"):
        check_decomposition(0.43, good)
    check_attribution(np.array([0.75, 0, 0.375, 0.375]))
    with pytest.raises(RecordError, match=r"\(8\)"):
        check_attribution(np.array([0.75, 0, 0.375, 0.37]))
    along = paths(GOOD, ["A", "B"])
    along.check_clocks()
    with pytest.raises(RecordError, match=r"\(19\)"):
        dataclasses.replace(along, tau=along.tau + 1).check_clocks()


@pytest.mark.parametrize(
    ("where", "times"),
    [
        ("kvdiv.analysis.results.check_records", 1),
        ("kvdiv.analysis.results.check_decomposition", 2),
        ("kvdiv.analysis.results.check_attribution", 1),
        ("kvdiv.analysis.paths.Paths.check_clocks", 2),
    ],
)
def test_every_analysis_checks(monkeypatch, where, times):
    """The records once, (7) and (19) for every action, (8) for every gap: at every analysis."""
    calls = []
    monkeypatch.setattr(where, lambda *arguments: calls.append(arguments))
    results_of(records(BY_HAND, "one") + records(BY_HAND, "two"), documents("AB", ("one", "two")))
    assert len(calls) == times
