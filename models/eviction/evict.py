"""Eviction: once, after the prefill, per layer and KV head; positions of later tokens stay what they were."""

from dataclasses import dataclass

import torch
from torch import Tensor

from kvdiv.models.eviction.budget import Retention, budget
from kvdiv.models.eviction.rule import Rule
from kvdiv.models.prefill import PromptCache


@dataclass(frozen=True)
class Eviction:
    """What a rule left of a prompt's cache.

    kept: positions [layer, kv_head, retained], ascending. keys, values: [layer, kv_head, retained, dim].
    evicted: False where everything was kept, because the rule says so or the prompt is too short; TV is then 0.
    """

    kept: Tensor
    keys: Tensor
    values: Tensor
    evicted: bool

    @property
    def retained(self) -> int:
        """Entries kept per layer and head."""
        return self.keys.shape[2]

    @property
    def bytes(self) -> int:
        """Bytes of the kept keys and values."""
        return 2 * self.keys.numel() * self.keys.element_size()


def evict(cache: PromptCache, rule: Rule | None, retention: Retention) -> Eviction:
    """Apply a rule at a retention; rule None keeps all.

    Everything is kept, and the result flagged as not evicted, where the budget covers the prompt, or where the prompt is
    not longer than the window that the rule scores with.
    """
    layers, heads, length, dim = cache.keys.shape
    count = budget(retention, length)
    if rule is None or count >= length or length <= getattr(rule, "window", 0):
        everything = torch.arange(length, device=cache.keys.device).expand(layers, heads, -1)
        return Eviction(everything, cache.keys, cache.values, evicted=False)
    kept = rule(cache, count)
    index = kept[..., None].expand(-1, -1, -1, dim)
    return Eviction(kept, cache.keys.gather(2, index), cache.values.gather(2, index), evicted=True)
