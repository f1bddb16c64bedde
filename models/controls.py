"""Controls: what must hold before a measured divergence is believed.

- `first_token`: eviction comes after the prefill, so delta_1 = 0 exactly under every action.
- `full_retention`: all entries kept, same path, same batch: TV exactly 0 at every step.
- `noise_floor`: all entries kept but stored in another order. Exact arithmetic would give 0; what floating point gives instead is
  the floor, and no TV below three times it is to be believed. (Full against full in one order is bit-equal even in bf16 and
  proves nothing.)
- `oracle`: stock eager attention over the whole sequence with the evicted keys masked, which knows the positions n + t by itself.
- `batching`: replicates run alone instead of together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kvdiv.estimates import Rollout
from kvdiv.models.actions import Action
from kvdiv.models.checkpoint import Checkpoint
from kvdiv.models.decode import Job, decode
from kvdiv.models.measure import Measured, measure
from kvdiv.models.oracle import oracle_logits
from kvdiv.models.suffix import PromptKeys
from kvdiv.programs import fixed_history
from kvdiv.records import Replicate
from kvdiv.theory.errors import RecordError
from kvdiv.uniforms import Stream

ORACLE_TOLERANCE = 1e-4  # fp32: rounding of some 1e-4 in logits moves a TV by less; measured 1e-5 and below
FLOOR_LIMIT = 1e-4  # fp32 gives some 1e-6; bf16 arithmetic gives 1e-2 and is not to be used unnoticed


@dataclass(frozen=True)
class Control:
    """One control: its largest `value` found, the `limit` it must not exceed, and what it means in a sentence."""

    name: str
    value: float
    limit: float
    meaning: str

    @property
    def passed(self) -> bool:
        """value <= limit; a NaN never passes."""
        return self.value <= self.limit


@dataclass(frozen=True)
class DocumentControl:
    """One document's controls.

    full_retention, permuted: TV a step with everything kept, in order and in another order. oracle, batching: largest
    errors, None where they were not looked at.
    """

    full_retention: tuple[float, ...]
    permuted: tuple[float, ...]
    oracle: float | None = None
    batching: float | None = None


def document_control(
    checkpoint: Checkpoint,
    measured: Measured,
    *,
    actions: Sequence[Action],
    horizon: int,
    seed: int,
    thorough: bool,
) -> DocumentControl:
    """Both keep-all kernels along the reference's own path, in one batch; with `thorough` also the oracle and batching."""
    cache, document = measured.cache, measured.prompt.document
    order = torch.randperm(cache.length, generator=torch.Generator().manual_seed(seed)).to(cache.keys.device)
    reference = PromptKeys(cache.keys, cache.values)
    kernels = {
        "full": PromptKeys(cache.keys, cache.values),
        "permuted": PromptKeys(cache.keys[:, :, order], cache.values[:, :, order]),
    }
    jobs = [
        Job(fixed_history(horizon), Stream(seed, document, "control", name), reference, kernel)
        for name, kernel in kernels.items()
    ]
    full, permuted = (run.value for run in decode(checkpoint, cache, jobs, horizon=horizon, document=document))
    return DocumentControl(
        full_retention=_forced(full),
        permuted=_forced(permuted),
        oracle=oracle_error(checkpoint, measured) if thorough else None,
        batching=batching_error(checkpoint, measured, actions=actions, horizon=horizon, seed=seed)
        if thorough
        else None,
    )


def _forced(rollout: Rollout) -> tuple[float, ...]:
    return tuple(float(f) for f in rollout.forced or ())


def oracle_error(checkpoint: Checkpoint, measured: Measured) -> float:
    """Largest |delta_t - TV of the oracle's rows| over the first complete rollout of each action, up to an end of sequence."""
    worst = 0.0
    model, ids, ends = checkpoint.model, measured.prompt.ids, set(checkpoint.eos)
    for name, eviction in measured.evictions.items():
        rollout = next(r.value for r in measured.replicates if r.action == name and isinstance(r.value, Rollout))
        alive = sum(1 for t in range(rollout.horizon) if ends.isdisjoint(rollout.x[:t] + rollout.y[:t]))
        p = oracle_logits(model, ids, rollout.x[: alive - 1], None).double().softmax(-1)
        q = oracle_logits(model, ids, rollout.y[: alive - 1], eviction.kept).double().softmax(-1)
        delta = torch.tensor([float(d) for d in rollout.delta[:alive]], dtype=torch.float64, device=p.device)
        worst = max(worst, float(((p - q).abs().sum(-1) / 2 - delta).abs().max()))
    return worst


def batching_error(
    checkpoint: Checkpoint, measured: Measured, *, actions: Sequence[Action], horizon: int, seed: int
) -> float:
    """Largest change of a TV when the first replicate of each action runs alone; 1 where a token changes."""
    estimator = next(r.estimator for r in measured.replicates if isinstance(r.value, Rollout))
    alone = [
        replicate
        for action in actions
        for replicate in measure(
            checkpoint,
            measured.prompt,
            actions=[action],
            estimators=[estimator],
            replicates=1,
            horizon=horizon,
            seed=seed,
        ).replicates
    ]
    together = [r for r in measured.replicates if r.estimator == estimator and r.replicate == 0]
    return max(_difference(a, b) for a, b in zip(alone, together, strict=True))


def _difference(a: Replicate, b: Replicate) -> float:
    """Largest difference of two complete rollouts' TVs; 1 where a token differs."""
    if not (isinstance(a.value, Rollout) and isinstance(b.value, Rollout)):
        raise RecordError("batching is compared on complete rollouts; measure them first")
    if (a.value.x, a.value.y) != (b.value.x, b.value.y):
        return 1.0
    return max(abs(float(s) - float(t)) for s, t in zip(a.value.delta, b.value.delta, strict=True))


def controls(replicates: Sequence[Replicate], documents: Sequence[DocumentControl]) -> tuple[list[Control], float]:
    """All controls of a run, and its noise floor: the mean TV a step between two orders of the same keys."""
    first = max(float(r.value.delta[0] if isinstance(r.value, Rollout) else r.value.tv[0]) for r in replicates)
    full = max(tv for one in documents for tv in one.full_retention)
    permuted = [tv for one in documents for tv in one.permuted]
    noise = sum(permuted) / len(permuted)
    oracle = max(one.oracle for one in documents if one.oracle is not None)
    batching = max(one.batching for one in documents if one.batching is not None)
    return [
        Control(
            "first_token", first, 0.0, "Eviction comes after the prompt was read: the first token's law is untouched."
        ),
        Control(
            "full_retention", full, 0.0, "With everything kept, both kernels give the same distribution at every step."
        ),
        Control(
            "noise_floor",
            noise,
            FLOOR_LIMIT,
            "Mean TV a step between the same keys in two orders: rounding, not eviction.",
        ),
        Control(
            "oracle",
            oracle,
            ORACLE_TOLERANCE,
            "Largest TV error against stock attention, evicted keys masked, positions n + t.",
        ),
        Control(
            "batching", batching, FLOOR_LIMIT, "Largest TV change when a replicate runs alone instead of in a batch."
        ),
    ], noise
