"""SnapKV: keep what the last queries of the prompt attend to (arXiv 2404.14469), in the form of kvpress.

For each layer, with the last `window` positions w, the others v, and the query heads g of KV head k:

    a_g(v) = mean over w of softmax_causal(q_w . K)(v),   s_g = pool(a_g),   score_k = combine over g of s_g

The window is always kept; the rest of the budget goes to the highest scores. The pooling pads with zeros, which marks down the
first and last few positions (`edge`: "zero"), as the published implementations do. Equal scores: the later position wins, on
every device. The original repository selects per query head and so keeps the group's number of times more; not offered here.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import avg_pool1d, max_pool1d

from kvdiv.models.prefill import PromptCache
from kvdiv.theory.errors import ActionError


@dataclass(frozen=True)
class SnapKV:
    """Keep the last `window` positions and the best-scored others, chosen per layer and KV head.

    A budget of at most `window` entries keeps the most recent ones, as the window comes first.
    """

    window: int = 64
    kernel: int = 5
    pooling: Literal["average", "max"] = "average"
    group: Literal["mean", "max"] = "mean"

    def __post_init__(self) -> None:
        if self.window < 1 or self.kernel < 1 or self.kernel % 2 == 0:
            raise ActionError(
                f"snapkv: window {self.window}, kernel {self.kernel}; give a window >= 1 and an odd kernel"
            )
        if self.pooling not in ("average", "max") or self.group not in ("mean", "max"):
            raise ActionError(
                f"snapkv: pooling {self.pooling!r}, group {self.group!r}; give average or max, mean or max"
            )

    @property
    def parameters(self) -> dict[str, Any]:
        """For the records."""
        return {
            "rule": "snapkv",
            "window": self.window,
            "kernel": self.kernel,
            "pooling": self.pooling,
            "group": self.group,
            "edge": "zero",
        }

    def __call__(self, cache: PromptCache, budget: int) -> Tensor:
        """Kept positions, [layer, kv_head, budget]; one layer's scores in memory at a time."""
        layers, heads, length, _ = cache.keys.shape
        window = torch.arange(length - min(self.window, budget), length, device=cache.keys.device).expand(heads, -1)
        kept = []
        for layer in range(layers):
            best = _highest(self.scores(cache, layer), budget - window.shape[-1])
            kept.append(torch.cat([best, window], -1))
        return torch.stack(kept)

    def scores(self, cache: PromptCache, layer: int) -> Tensor:
        """Scores of the positions before the window, [kv_head, length - window], float32."""
        keys, queries = cache.keys[layer], cache.queries[layer]
        heads, length, dim = keys.shape
        if queries.shape[1] < self.window:
            raise ActionError(f"snapkv needs the last {self.window} queries and the prefill kept {queries.shape[1]}")
        q = queries[:, -self.window :].reshape(heads, -1, dim)
        products = ((q @ keys.transpose(-1, -2)) * cache.scaling).float().view(heads, -1, self.window, length)
        ends = torch.arange(length - self.window, length, device=keys.device)
        future = torch.arange(length, device=keys.device) > ends[:, None]
        attention = products.masked_fill(future, float("-inf")).softmax(-1).to(keys.dtype)
        votes = attention[..., : length - self.window].mean(2)
        pool = avg_pool1d if self.pooling == "average" else max_pool1d
        pooled = pool(votes, self.kernel, stride=1, padding=self.kernel // 2).float()
        return pooled.mean(1) if self.group == "mean" else pooled.amax(1)


def _highest(scores: Tensor, count: int) -> Tensor:
    """Positions of the `count` highest scores in each row, ascending; of equal scores the later position.

    A stable descending sort of the reversed row puts later positions first among equals.
    """
    order = scores.flip(-1).sort(dim=-1, descending=True, stable=True).indices[..., :count]
    return (scores.shape[-1] - 1 - order).sort(-1).values
