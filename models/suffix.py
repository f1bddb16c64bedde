"""Keys and values of generated tokens: one row per program and kernel, beside the prompt's shared ones.

A decode step attends to the prompt's keys, read once for all rows of a kernel, and to the row's own generated keys; the two
softmaxes are merged exactly through their log-sum-exps:

    out = w o_1 + (1 - w) o_2,  w = sigmoid(lse_1 - lse_2).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class PromptKeys:
    """A kernel's view of the prompt: keys and values, per layer [kv_head, kept, dim]; all of them or what eviction left."""

    keys: Sequence[Tensor] | Tensor
    values: Sequence[Tensor] | Tensor


class SuffixStore:
    """Generated keys and values, per layer [row, kv_head, horizon, dim]; `allocate` hands out rows."""

    def __init__(self, like: PromptKeys, rows: int, horizon: int) -> None:
        shapes = [(rows, layer.shape[0], horizon, layer.shape[2]) for layer in like.keys]
        self.keys = [
            torch.zeros(shape, dtype=k.dtype, device=k.device) for shape, k in zip(shapes, like.keys, strict=True)
        ]
        self.values = [torch.zeros_like(k) for k in self.keys]
        self.used = 0

    def allocate(self) -> int:
        """A fresh row; the store doubles when it is full."""
        if self.used == self.keys[0].shape[0]:
            for part in (self.keys, self.values):
                part[:] = [torch.cat([tensor, torch.zeros_like(tensor)]) for tensor in part]
        self.used += 1
        return self.used - 1

    def copy(self, source: int, target: int, slots: slice) -> None:
        """Copy some slots of one row to another: same tokens before them, same kernel, hence the same keys and values."""
        for part in (self.keys, self.values):
            for tensor in part:
                tensor[target, :, slots] = tensor[source, :, slots]


class StepContext:
    """The attention of one decode step: one new token a row.

    rows [batch]: rows in the store. slots [batch]: where each row's new token goes; it sees its own slots up to that one.
    groups: (kernel, start, stop), the batch in runs of one kernel.
    """

    def __init__(
        self,
        store: SuffixStore,
        *,
        rows: Sequence[int],
        slots: Sequence[int],
        groups: Sequence[tuple[PromptKeys, int, int]],
    ) -> None:
        device = store.keys[0].device
        self.store, self.groups = store, groups
        self.rows, self.slots = torch.tensor(rows, device=device), torch.tensor(slots, device=device)
        self.longest = max(slots) + 1
        self.hidden = (torch.arange(self.longest, device=device) > self.slots[:, None])[:, None, None]
        # Consecutive rows are read through a view; others cost a copy.
        consecutive = list(rows) == list(range(rows[0], rows[0] + len(rows)))
        self._selection = slice(rows[0], rows[0] + len(rows)) if consecutive else self.rows

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        """Attention output [batch, query_head, 1, dim]."""
        batch, query_heads, _, dim = query.shape
        heads = key.shape[1]
        group = query_heads // heads
        q = query.view(batch, heads, group, dim) * scaling
        keys, values = self.store.keys[layer], self.store.values[layer]
        keys[self.rows, :, self.slots] = key[:, :, 0]
        values[self.rows, :, self.slots] = value[:, :, 0]
        own_keys, own_values = (part[self._selection][:, :, : self.longest] for part in (keys, values))
        out, own_lse = _attend(q, own_keys, own_values, self.hidden)
        for kernel, start, stop in self.groups:
            # [kv_head, row * group, dim]: the prompt's keys are read once for all rows of the kernel.
            stacked = q[start:stop].transpose(0, 1).reshape(heads, -1, dim)
            prompt, lse = (
                part.view(heads, stop - start, group, -1).transpose(0, 1)
                for part in _attend(stacked, kernel.keys[layer], kernel.values[layer], None)
            )
            weight = torch.sigmoid(lse - own_lse[start:stop]).to(prompt.dtype)
            out[start:stop] = torch.lerp(out[start:stop], prompt, weight)
        return out.reshape(batch, query_heads, 1, dim)


def _attend(q: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
    """Softmax attention and its log-sum-exp; q [..., row, dim] already scaled, keys and values [..., time, dim]."""
    scores = (q @ keys.transpose(-1, -2)).float()
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    top = scores.amax(-1, keepdim=True)
    weights = scores.sub_(top).exp_()
    total = weights.sum(-1, keepdim=True)
    return (weights.to(values.dtype) @ values) / total.to(values.dtype), top + total.log()
