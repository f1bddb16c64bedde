"""Eviction rules: budgets exact, edges, ties, grouping by hand, and SnapKV's picks against kvpress's."""

import importlib.util
import json
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvdiv.models.actions import PRESETS, Action, action
from kvdiv.models.eviction import Recent, SnapKV, budget, evict
from kvdiv.models.prefill import PromptCache, prefill
from kvdiv.theory.errors import ActionError

FIXTURES = Path(__file__).parent / "fixtures"
RECORDED = json.loads((FIXTURES / "snapkv_kvpress.json").read_text())["cases"]
LAYERS, HEADS, GROUP, DIM = 2, 2, 3, 4


def formula_models():
    spec = importlib.util.spec_from_file_location("formula_model", FIXTURES / "formula_model.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cache(length, window=64, seed=0, constant=False):
    """A prompt's cache with random keys and queries; constant ones give every position the same attention."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.zeros(shape) if constant else torch.randn(shape, generator=generator)

    return PromptCache(
        keys=draw(LAYERS, HEADS, length, DIM),
        values=torch.randn(LAYERS, HEADS, length, DIM, generator=generator),
        queries=draw(LAYERS, HEADS * GROUP, min(window, length), DIM),
        logits=torch.zeros(5),
        scaling=DIM**-0.5,
    )


@pytest.mark.parametrize(
    "retention", [Fraction(1, 10), Fraction(3, 10), Fraction(1, 2), Fraction(7, 10), Fraction(9, 10)]
)
def test_budgets_are_exact_floors(retention):
    """kept = floor(n r), at least 1, for every n up to 20,000 (fault 11, where int(n (1 - ratio)) is wrong for thousands)."""
    for n in range(1, 20_001):
        kept = budget(retention, n)
        assert kept == max(1, n * retention.numerator // retention.denominator)


def test_float_floors_are_wrong_for_thousands_of_lengths():
    """What the integers avoid: keeping a tenth as int(n * (1 - 0.9)) differs from floor(n/10) for 2,000 of n <= 20,000."""
    assert sum(int(n * (1 - 0.9)) != n // 10 for n in range(1, 20_001)) == 2000


@pytest.mark.parametrize("wrong", [0.5, True, 0, -1, Fraction(0), Fraction(3, 2)])
def test_other_budgets_are_refused(wrong):
    """Floats, booleans, nothing and more than everything are ActionErrors."""
    with pytest.raises(ActionError, match="retention"):
        budget(wrong, 10)


@pytest.mark.parametrize(
    "recorded", RECORDED, ids=lambda r: f"{r['case']}, n={r['length']}, w={r['window']}, keep={r['budget']}"
)
def test_snapkv_keeps_what_kvpress_keeps(recorded):
    """The same positions in every layer and head, on models whose weights follow a formula."""
    models = formula_models()
    model = models.build(recorded["case"])
    model.set_attn_implementation("kvdiv")
    prompt = prefill(model, models.prompt(recorded["length"]), window=recorded["window"])
    rule = SnapKV(window=recorded["window"], kernel=recorded["kernel"])
    assert rule(prompt, recorded["budget"]).tolist() == recorded["kept"]


def test_the_fixture_discriminates():
    """Another kernel, max pooling, or no mean over the group would not give kvpress's positions."""
    models = formula_models()
    recorded = next(r for r in RECORDED if r["case"] == "llama grouped")
    model = models.build(recorded["case"])
    model.set_attn_implementation("kvdiv")
    prompt = prefill(model, models.prompt(recorded["length"]), window=recorded["window"])
    for rule in (SnapKV(kernel=7), SnapKV(pooling="max"), SnapKV(group="max"), SnapKV(window=63)):
        assert rule(prompt, recorded["budget"]).tolist() != recorded["kept"]


def test_grouping_by_hand():
    """Two KV heads, two query heads each: a head keeps what its own two queries look at, on average.

    Keys are unit vectors by position; query heads 0 and 1 (KV head 0) look at positions 0 and 1, heads 2 and 3 at 2 and 2.
    """
    n, dim = 6, 6
    keys = torch.eye(n, dim).expand(1, 2, n, dim)
    looks = torch.tensor([0, 1, 2, 2])
    queries = 50 * torch.eye(n, dim)[looks][None, :, None, :]
    prompt = PromptCache(keys, keys, queries, torch.zeros(3), scaling=1.0)
    rule = SnapKV(window=1, kernel=1)
    assert torch.allclose(rule.scores(prompt, 0), torch.tensor([[0.5, 0.5, 0, 0, 0], [0, 0, 1.0, 0, 0]]), atol=1e-6)
    assert rule(prompt, 3).tolist() == [[[0, 1, 5], [2, 4, 5]]]


def test_pooling_marks_down_the_edges():
    """Equal attention, kernel 5, zero padding: scores rise .6 .8 1 at the start and fall at the end (fault 12)."""
    prompt = cache(20, window=4, constant=True)
    scores = SnapKV(window=4, kernel=5).scores(prompt, 0)[0]
    assert torch.allclose(scores / scores.max(), torch.tensor([0.6, 0.8, *[1.0] * 12, 0.8, 0.6]), atol=1e-6)


def test_equal_scores_keep_the_later_positions():
    """Of equal scores the later positions are kept, in ascending order (fault 13)."""
    kept = SnapKV(window=4, kernel=1)(cache(20, window=4, constant=True), 9)
    assert kept.tolist() == [[list(range(11, 20))] * HEADS] * LAYERS


def test_recent_keeps_sinks_and_the_end():
    """Four sinks and the most recent ones, the budget exact; a budget of at most the sinks keeps the last one."""
    assert Recent()(cache(20), 9)[0, 0].tolist() == [0, 1, 2, 3, 15, 16, 17, 18, 19]
    assert Recent(sinks=0)(cache(20), 3)[1, 1].tolist() == [17, 18, 19]
    assert Recent()(cache(20), 3)[0, 0].tolist() == [0, 1, 19]
    assert Recent()(cache(20), 1)[0, 0].tolist() == [19]


@given(
    st.integers(1, 90),
    st.integers(1, 100),
    st.sampled_from([Recent(), Recent(sinks=0), SnapKV(window=16), SnapKV(window=64)]),
)
def test_every_budget_is_kept_exactly(length, count, rule):
    """Any length and budget: kept positions ascending, distinct, in range, exactly the budget; or all, flagged not evicted."""
    prompt = cache(length)
    found = evict(prompt, rule, count)
    assert found.kept.shape == (LAYERS, HEADS, found.retained)
    assert (found.kept.diff() > 0).all()
    assert (found.kept >= 0).all()
    assert (found.kept < length).all()
    covered = count >= length or length <= getattr(rule, "window", 0)
    assert found.evicted is not covered
    assert found.retained == (length if covered else count)
    index = found.kept[..., None].expand(-1, -1, -1, DIM)
    assert torch.equal(found.keys, prompt.keys.gather(2, index))
    assert torch.equal(found.values, prompt.values.gather(2, index))


@pytest.mark.parametrize("length", [1, 63, 64, 65, 511, 512, 513])
@pytest.mark.parametrize("name", PRESETS)
def test_edges_of_the_presets(name, length):
    """Prompts around the window and the budget, and of one token: never a crash, never empty (fault 09)."""
    one = action(name)
    found = evict(cache(length), one.rule, one.retention)
    assert 1 <= found.retained <= length
    assert found.evicted == (found.retained < length)


def test_budgets_inside_the_window_keep_the_most_recent():
    """SnapKV with a budget of at most its window keeps the last positions."""
    assert SnapKV(window=16)(cache(40), 5)[0, 0].tolist() == list(range(35, 40))


@pytest.mark.parametrize(("a", "b"), [("snapkv-half", "recent-half"), ("snapkv-90", "recent-90")])
@pytest.mark.parametrize("length", [200, 201, 999])
def test_equal_retention_means_equal_bytes(a, b, length):
    """At equal retention SnapKV and recent keep exactly as many bytes."""
    first, second = (evict(cache(length), action(name).rule, action(name).retention) for name in (a, b))
    assert first.bytes == second.bytes == 2 * LAYERS * HEADS * first.retained * DIM * 4


def test_keeping_all_copies_nothing():
    """An action that keeps all hands out the cache's own tensors."""
    prompt = cache(100)
    assert evict(prompt, None, Fraction(1)).keys is prompt.keys


def test_action_names():
    """Presets have the paper's rules and retentions; below 100 a number is a percentage, from 100 on a count."""
    assert [action(name).retention for name in PRESETS] == [
        512, Fraction(1, 2), Fraction(1, 2), Fraction(9, 10), Fraction(9, 10), 1,
    ]  # fmt: skip
    assert action("snapkv-512").rule == SnapKV(window=64, kernel=5, pooling="average", group="mean")
    assert action("recent-half").rule == Recent(sinks=4)
    assert (action("recent-99").retention, action("recent-100").retention) == (Fraction(99, 100), 100)
    assert action("snapkv-1/4").retention == Fraction(1, 4)
    assert action("full").rule is None


@pytest.mark.parametrize(
    "name", ["", "snapkv", "snapkv-", "snapkv-0", "snapkv-3/2", "snapkv-0/2", "h2o-half", "snapkv-half-90", "full-2"]
)
def test_unknown_actions_are_named(name):
    """Whatever is no action is an ActionError that lists the known ones."""
    with pytest.raises(ActionError, match="known: snapkv-512, snapkv-half"):
        action(name)


def test_parameters_describe_the_action():
    """The records' description holds all that changes the result, as plain JSON, positions' convention included (fault 03)."""
    described = action("snapkv-90").parameters
    assert json.loads(json.dumps(described)) == described
    assert described == {
        "action": "snapkv-90", "rule": "snapkv", "window": 64, "kernel": 5, "pooling": "average", "group": "mean",
        "edge": "zero", "retention": "9/10", "positions": "original",
    }  # fmt: skip
    assert Action("mine", Recent(sinks=2), 7).parameters["sinks"] == 2


@pytest.mark.parametrize(
    "parameters", [{"window": 0}, {"kernel": 4}, {"kernel": 0}, {"pooling": "sum"}, {"group": "sum"}]
)
def test_impossible_parameters_are_refused(parameters):
    """A window below 1, an even kernel, an unknown pooling or group rule are ActionErrors; so are negative sinks."""
    with pytest.raises(ActionError, match="snapkv"):
        SnapKV(**parameters)
    with pytest.raises(ActionError, match="sinks"):
        Recent(sinks=-1)


def test_a_prefill_with_too_few_queries_is_refused():
    """SnapKV's window must have been kept by the prefill."""
    with pytest.raises(ActionError, match="last 64 queries"):
        SnapKV(window=64).scores(cache(100, window=16), 0)
