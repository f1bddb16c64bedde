"""One document measured: prefill once, evict once an action, then every replicate of every action through `decode`."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvdiv.models.actions import Action
from kvdiv.models.checkpoint import Checkpoint
from kvdiv.models.decode import Job, decode
from kvdiv.models.eviction import Eviction, evict
from kvdiv.models.prefill import PromptCache, prefill
from kvdiv.models.prompts import Prompt
from kvdiv.models.suffix import PromptKeys
from kvdiv.programs import fixed_history, naive, swrb
from kvdiv.records import Replicate
from kvdiv.requests import Program
from kvdiv.theory.errors import ProgramError
from kvdiv.uniforms import Stream

ESTIMATORS: Mapping[str, Callable[[int], Program[Any]]] = {
    "naive": naive,
    "fixed_history": fixed_history,
    "swrb": swrb,
}


@dataclass(frozen=True)
class Measured:
    """What was measured on one document.

    cache: the prompt's. evictions: by action's name. replicates: of all actions and estimators. seconds: per estimator,
    for all actions together (they share their forward passes); the prefill's under "prefill".
    """

    prompt: Prompt
    cache: PromptCache
    evictions: Mapping[str, Eviction]
    replicates: tuple[Replicate, ...]
    seconds: Mapping[str, float]


def measure(
    checkpoint: Checkpoint,
    prompt: Prompt,
    *,
    actions: Sequence[Action],
    estimators: Sequence[str],
    replicates: int,
    horizon: int,
    seed: int,
    batch: int | None = None,
    progress: Callable[[int], None] = lambda live: None,
) -> Measured:
    """Run `replicates` of each estimator under each action on one prompt.

    `batch` bounds the replicates of an action that run together (all of them by default). A replicate's uniforms are
    keyed (seed, document, action, estimator, replicate), so a batch changes results by floating point rounding only.
    `progress` gets the number of replicates still live after each step.
    """
    if unknown := set(estimators) - set(ESTIMATORS):
        raise ProgramError(f"unknown estimator {sorted(unknown)[0]!r}; known: {', '.join(ESTIMATORS)}")
    started = time.perf_counter()
    cache = prefill(
        checkpoint.model, prompt.ids, window=max(action.window for action in actions), document=prompt.document
    )
    evictions = {action.name: evict(cache, action.rule, action.retention) for action in actions}
    seconds = {"prefill": time.perf_counter() - started}
    reference = PromptKeys(cache.keys, cache.values)
    perturbed = {
        name: PromptKeys(eviction.keys, eviction.values) if eviction.evicted else reference
        for name, eviction in evictions.items()
    }
    found: list[Replicate] = []
    for estimator in estimators:
        started = time.perf_counter()
        step = batch or replicates
        for first in range(0, replicates, step):
            keys = [(name, i) for name in perturbed for i in range(first, min(first + step, replicates))]
            jobs = [
                Job(
                    ESTIMATORS[estimator](horizon),
                    Stream(seed, prompt.document, name, estimator, i),
                    reference,
                    perturbed[name],
                )
                for name, i in keys
            ]
            runs = decode(checkpoint, cache, jobs, horizon=horizon, document=prompt.document, progress=progress)
            found += [
                Replicate(prompt.document, prompt.stratum, name, estimator, i, run.value, run.cost)
                for (name, i), run in zip(keys, runs, strict=True)
            ]
        seconds[estimator] = time.perf_counter() - started
    return Measured(prompt, cache, evictions, tuple(found), seconds)
