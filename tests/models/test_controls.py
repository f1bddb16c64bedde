"""Controls hold on a right run and fail on a wrong one."""

import dataclasses

import pytest
import torch

from kvdiv.models import decode as decode_module
from kvdiv.models.actions import Action, action
from kvdiv.models.controls import FLOOR_LIMIT, ORACLE_TOLERANCE, Control, controls, document_control, oracle_error
from kvdiv.models.eviction import Recent, SnapKV
from kvdiv.models.measure import measure
from kvdiv.models.prompts import Prompt
from kvdiv.theory.errors import ProgramError

ACTIONS = [Action("snapkv", SnapKV(window=8), 20), Action("recent", Recent(), 20), action("full")]


@pytest.fixture(scope="module")
def measured(tiny):
    """A tiny Llama measured on one prompt of 60 tokens."""
    checkpoint = tiny(eos=3)
    ids = torch.randint(4, 17, (60,), generator=torch.Generator().manual_seed(0)).tolist()
    prompt = Prompt("d", "s", tuple(ids), "")
    return checkpoint, measure(
        checkpoint, prompt, actions=ACTIONS, estimators=["fixed_history", "swrb"], replicates=3, horizon=8, seed=0
    )


def look(checkpoint, one):
    return document_control(checkpoint, one, actions=ACTIONS, horizon=8, seed=0, thorough=True)


def test_a_right_run_passes_every_control(measured):
    """First token and full retention exactly 0, floor, oracle and batching within their limits; the floor is not 0."""
    checkpoint, one = measured
    found, noise = controls(one.replicates, [look(checkpoint, one)])
    assert [control.passed for control in found] == [True] * 5
    assert [control.value for control in found[:2]] == [0, 0]
    assert 0 < noise < FLOOR_LIMIT


def test_an_action_that_keeps_all_has_no_tv(measured):
    """`full` is exactly equal to the reference in every replicate of every estimator, and marked as not evicted."""
    _, one = measured
    mine = [replicate.value for replicate in one.replicates if replicate.action == "full"]
    assert all(not any(value.delta if hasattr(value, "delta") else value.tv) for value in mine)
    assert not one.evictions["full"].evicted
    assert one.evictions["snapkv"].evicted


def test_wrong_positions_fail_the_oracle_control(measured, monkeypatch):
    """A decode that takes positions from the compressed length fails the control by far."""
    checkpoint, one = measured
    right = decode_module.forward
    monkeypatch.setattr(decode_module, "forward", lambda m, tokens, at, context: right(m, tokens, at - 40, context))
    wrong = measure(checkpoint, one.prompt, actions=ACTIONS, estimators=["naive"], replicates=1, horizon=8, seed=0)
    assert oracle_error(checkpoint, wrong) > 100 * ORACLE_TOLERANCE
    assert oracle_error(checkpoint, one) < ORACLE_TOLERANCE


def test_a_touched_first_token_fails(measured):
    """A record with delta_1 > 0 fails `first_token`."""
    checkpoint, one = measured
    first = one.replicates[0]
    touched = dataclasses.replace(first.value, delta=(1e-9, *first.value.delta[1:]))
    found, _ = controls([dataclasses.replace(first, value=touched)], [look(checkpoint, one)])
    assert not found[0].passed


def test_a_high_floor_fails(measured):
    """A floor as high as that of bf16 arithmetic on a real model fails its control, and is the run's floor."""
    checkpoint, one = measured
    noisy = dataclasses.replace(look(checkpoint, one), permuted=(0.0, 0.02, 0.04))
    found, noise = controls(one.replicates, [noisy])
    assert noise == 0.02
    assert [control.name for control in found if not control.passed] == ["noise_floor"]


def test_nan_never_passes():
    """A control whose value is NaN fails."""
    assert not Control("c", float("nan"), 1.0, "").passed


def test_unknown_estimators_are_named(measured):
    """An estimator that does not exist is a ProgramError."""
    checkpoint, one = measured
    with pytest.raises(ProgramError, match="unknown estimator 'swrp'"):
        measure(checkpoint, one.prompt, actions=ACTIONS, estimators=["swrp"], replicates=1, horizon=2, seed=0)
