"""The most recent entries, with a few of the first ("sinks"), as in StreamingLLM."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kvdiv.models.prefill import PromptCache
from kvdiv.theory.errors import ActionError


@dataclass(frozen=True)
class Recent:
    """Keep the first `sinks` positions and the most recent ones, the same for every layer and head.

    A budget of at most `sinks` entries keeps the most recent one and the first budget - 1.
    """

    sinks: int = 4

    def __post_init__(self) -> None:
        if self.sinks < 0:
            raise ActionError(f"recent: {self.sinks} sinks; give 0 or more")

    @property
    def parameters(self) -> dict[str, Any]:
        """For the records."""
        return {"rule": "recent", "sinks": self.sinks}

    def __call__(self, cache: PromptCache, budget: int) -> Tensor:
        """Kept positions, [layer, kv_head, budget]."""
        layers, heads, length, _ = cache.keys.shape
        first = min(self.sinks, budget - 1)
        kept = torch.cat([torch.arange(first), torch.arange(length - budget + first, length)])
        return kept.to(cache.keys.device).expand(layers, heads, -1)
