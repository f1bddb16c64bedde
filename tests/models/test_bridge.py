"""The bridge: a tiny model with an evicted prompt cache IS a small kernel pair, and its decode is checked against exact truth.

A random Llama over three or four tokens is run by the oracle on every history; the two tables of rows, made rational, go to the
exact layer. The decode interpreter must give the tables' TVs at every history it visits, and its naive and SWRB means must cover
the exact R, O, Pi, E, R_L and B_L.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.stats import norm

from kvdiv.models import decode as decode_module
from kvdiv.models.decode import Job, decode
from kvdiv.models.oracle import oracle_logits
from kvdiv.models.prefill import prefill
from kvdiv.models.suffix import PromptKeys
from kvdiv.programs import fixed_history, naive, swrb
from kvdiv.testing import enumerated_moments, exact_means, histories
from kvdiv.theory import (
    KernelPair,
    absorbing,
    exact_values,
    naive_variance,
    table,
    total_variation,
    variance_gap,
)
from kvdiv.uniforms import Stream

LENGTH, KEPT = 24, 6
GRID = 2**40  # rows are rounded to multiples of 2^-40, far below fp32's own rounding of some 1e-7
TOLERANCE = 2e-5  # as in test_decode.py
REPLICATES = 2000
FALSE_ALARM = 1e-7  # for all comparisons of this file together, by Bonferroni over at most COMPARISONS of them
COMPARISONS = 500
Z = float(norm.isf(FALSE_ALARM / COMPARISONS / 2))


def rational(row):
    """A float64 row as Fractions that sum to 1: multiples of 2^-40, the largest entry taking up the rest."""
    parts = [Fraction(round(float(a) * GRID), GRID) for a in row]
    parts[int(np.argmax(row))] += 1 - sum(parts)
    return parts


def oracle_table(checkpoint, ids, vocabulary, horizon, kept):
    """{history: row} by the oracle, one forward pass for each longest history, which gives the rows of all its prefixes."""
    rows = {}
    for longest in itertools.product(range(vocabulary), repeat=horizon - 1):
        found = oracle_logits(checkpoint.model, ids, longest, kept).double().softmax(-1).numpy()
        rows |= {longest[:t]: rational(found[t]) for t in range(horizon)}
    assert set(rows) == set(histories(vocabulary, horizon))
    return rows


class Bridge:
    """A tiny model, an eviction, and the exact kernel pair that they are."""

    def __init__(self, checkpoint, vocabulary, horizon, seed):
        generator = torch.Generator().manual_seed(seed)
        self.checkpoint, self.horizon = checkpoint, horizon
        self.ids = torch.randint(0, vocabulary, (LENGTH,), generator=generator).tolist()
        self.cache = prefill(checkpoint.model, self.ids)
        self.kept = torch.stack(
            [
                torch.stack([torch.randperm(LENGTH, generator=generator)[:KEPT].sort().values for _ in range(2)])
                for _ in range(2)
            ]
        )
        kernels = [table(oracle_table(checkpoint, self.ids, vocabulary, horizon, kept)) for kept in (None, self.kept)]
        if checkpoint.eos:
            kernels = [absorbing(kernel, checkpoint.eos[0]) for kernel in kernels]
        self.pair = KernelPair(*kernels, vocabulary, horizon)

    def decode(self, program, replicates, kept=None):
        index = (self.kept if kept is None else kept)[..., None].expand(-1, -1, -1, self.cache.keys.shape[-1])
        reference = PromptKeys(self.cache.keys, self.cache.values)
        perturbed = PromptKeys(self.cache.keys.gather(2, index), self.cache.values.gather(2, index))
        jobs = [
            Job(program(self.horizon), Stream(11, program.__name__, i), reference, perturbed) for i in range(replicates)
        ]
        return decode(self.checkpoint, self.cache, jobs, horizon=self.horizon)


@pytest.fixture(scope="module", params=[(3, 5, None, 0), (4, 4, 1, 3)], ids=["V3-H5", "V4-H4-eos"])
def bridge(tiny, request):
    """Two pairs; F = P(tau <= H) well inside (0, 1), so that overlap, branch and tail all matter."""
    vocabulary, horizon, eos, seed = request.param
    return Bridge(tiny(vocabulary=vocabulary, eos=eos, seed=seed, initializer_range=0.15), vocabulary, horizon, seed)


def test_the_pair_is_not_trivial(bridge):
    """Divergence is likely and not certain, mismatches stop and go: every part of the decomposition is at work."""
    exact = exact_values(bridge.pair)
    assert 0.15 < sum(exact.timing_law) < 0.95
    assert 0.1 < exact.rate < 0.9
    assert exact.timing_law[0] == 0


def test_decode_gives_the_tables_tvs(bridge):
    """delta, f and the scan's e of every visited history equal the exact TVs of the two tables' rows."""
    pair, worst, visited = bridge.pair, 0.0, set()
    for run in bridge.decode(fixed_history, 200):
        path = run.value
        for t in range(bridge.horizon):
            x, y = path.x[:t], path.y[:t]
            visited.add((x, y))
            worst = max(
                worst,
                abs(path.delta[t] - float(total_variation(pair.p(x), pair.q(y)))),
                abs(path.forced[t] - float(total_variation(pair.p(x), pair.q(x)))),
            )
    for run in bridge.decode(swrb, 100):
        for t, e in enumerate(run.value.tv):
            u = run.value.overlap[:t]
            worst = max(worst, abs(e - float(total_variation(pair.p(u), pair.q(u)))))
    assert len(visited) > 50
    assert worst < TOLERANCE


def worst_score(runs, pair):
    """Largest |sample mean - exact mean| over all quantities, in exact standard errors of the naive estimator.

    SWRB's are no larger (Proposition 4.1; its capacities and scan exposure are conditional means of the naive ones). A deviation
    of the model's rows by TOLERANCE moves each mean by at most H times as much, which is granted.
    """
    sample = np.array([[float(v) for v in run.value.estimates().vector()] for run in runs])
    _, covariance = enumerated_moments(naive, pair)
    worst = 0.0
    for i, mean in enumerate(exact_means(pair)):
        excess = max(0.0, abs(sample[:, i].mean() - float(mean)) - pair.horizon * TOLERANCE)
        deviation = float(covariance[i][i] / len(runs)) ** 0.5
        worst = max(worst, excess / deviation if deviation else (np.inf if excess else 0.0))
    return worst


def variance_score(runs, exact):
    """|sample variance of the risk - exact variance| in standard errors, these from the sample's fourth moment."""
    risks = np.array([float(run.value.estimates().risk) for run in runs])
    fourth = float(((risks - risks.mean()) ** 4).mean())
    return abs(risks.var(ddof=1) - float(exact)) / ((fourth - float(exact) ** 2) / len(runs)) ** 0.5


@pytest.mark.parametrize("program", [naive, swrb])
def test_decoded_means_cover_the_exact_values(bridge, program):
    """2,000 replicates on the model: every mean within Z exact standard errors of the exact layer's value (1e-7 over all), the
    risk's sample variance within Z of its own (normal approximation)."""
    runs, pair = bridge.decode(program, REPLICATES), bridge.pair
    exact = naive_variance(pair) - (variance_gap(pair) if program is swrb else 0)
    assert worst_score(runs, pair) < Z
    assert variance_score(runs, exact) < Z


def test_the_check_rejects_wrong_positions(bridge, monkeypatch):
    """Positions from the compressed length: visited TVs miss the tables by far more than the tolerance."""
    right = decode_module.forward
    shift = LENGTH - KEPT
    monkeypatch.setattr(decode_module, "forward", lambda m, tokens, at, context: right(m, tokens, at - shift, context))
    errors = [
        abs(run.value.delta[t] - float(total_variation(bridge.pair.p(run.value.x[:t]), bridge.pair.q(run.value.y[:t]))))
        for run in bridge.decode(naive, 50)
        for t in range(1, bridge.horizon)
    ]
    assert max(errors) > 100 * TOLERANCE


def test_the_check_rejects_another_eviction(bridge):
    """Keeping the first prompt entry alone instead of the table's: the means no longer cover the exact values."""
    other = torch.zeros(2, 2, 1, dtype=torch.long)
    assert worst_score(bridge.decode(naive, REPLICATES, kept=other), bridge.pair) > Z
