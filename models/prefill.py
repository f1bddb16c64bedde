"""Prefill: the prompt is read once a document, with full attention; eviction comes after it.

So the first generated token's law is the same for every action: delta_1 = 0 exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from kvdiv.models.attention import forward
from kvdiv.theory.errors import DocumentError, NumericalError


@dataclass(frozen=True)
class PromptCache:
    """What a prefill leaves behind.

    keys, values: [layer, kv_head, time, dim], after the rotary embedding, in prompt order.
    queries: [layer, query_head, window, dim], those of the last `window` prompt positions (all of them in a shorter prompt).
    logits: [vocab], of the last prompt position.
    scaling: the factor on query-key products, as the model gives it to its attention.
    """

    keys: Tensor
    values: Tensor
    queries: Tensor
    logits: Tensor
    scaling: float

    @property
    def length(self) -> int:
        """n, the prompt's number of tokens; generated token t (from 0) has position n + t under every action."""
        return self.keys.shape[2]


class _Prefill:
    """Full causal attention that keeps keys, values and the last queries of each layer."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self.queries: list[Tensor] = []
        self.scaling = 0.0

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        self.keys.append(key[0])
        self.values.append(value[0])
        self.queries.append(query[0, :, query.shape[2] - min(self.window, query.shape[2]) :].clone())
        self.scaling = scaling
        grouped = query.shape[1] != key.shape[1]
        return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=grouped)


def prefill(model: Any, ids: Sequence[int], *, window: int = 64, document: str = "") -> PromptCache:
    """Read a prompt; `window` is the number of last queries to keep for rules that score with them.

    `document` is named in the `NumericalError` for NaN or infinite logits. An empty prompt is a `DocumentError`.
    """
    if not ids:
        raise DocumentError(f"document {document!r} has an empty prompt")
    device = next(model.parameters()).device
    context = _Prefill(window)
    tokens = torch.tensor([list(ids)], device=device)
    logits = forward(model, tokens, torch.arange(len(ids), device=device)[None], context)[0]
    if not bool(torch.isfinite(logits).all()):
        raise NumericalError(f"document {document!r}: NaN or infinite logits after the prompt of {len(ids)} tokens")
    return PromptCache(
        keys=torch.stack(context.keys),
        values=torch.stack(context.values),
        queries=torch.stack(context.queries),
        logits=logits,
        scaling=context.scaling,
    )
