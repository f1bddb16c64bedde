"""The one seam into transformers: an attention implementation named "kvdiv" that asks a context object.

The context travels as the keyword `kvdiv` through `model(**kwargs)`; positions are always passed explicitly and no cache object
of transformers is used. So the keys and values of the prompt can be shared by all replicates (`kvdiv.models.decode`) and no
length-derived position can slip in. Works for model classes that go through `AttentionInterface`: Llama, Qwen2, Qwen3, Mistral.
"""

from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import AttentionInterface

from kvdiv.theory.errors import ModelError

IMPLEMENTATION = "kvdiv"


class AttentionContext(Protocol):
    """What answers a layer's attention.

    query [batch, query_head, time, dim], key and value [batch, kv_head, time, dim], all after the rotary embedding; the result
    is [batch, query_head, time, dim].
    """

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        """Attention output of one layer."""
        ...


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    kvdiv: AttentionContext | None = None,
    sliding_window: int | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    if kvdiv is None:
        raise ModelError("this model was loaded for kvdiv's attention; call it through kvdiv.models.prefill or decode")
    if attention_mask is not None or sliding_window is not None:
        raise ModelError(
            "attention masks and sliding windows are not supported; use a checkpoint with full causal attention"
        )
    return kvdiv.attend(module.layer_idx, query, key, value, scaling).transpose(1, 2), None


AttentionInterface.register(IMPLEMENTATION, _attention)


def forward(model: Any, tokens: Tensor, positions: Tensor, context: AttentionContext) -> Tensor:
    """Logits [batch, vocab] of the last position; tokens and positions [batch, time], positions absolute."""
    with torch.inference_mode():
        output = model(tokens, position_ids=positions, use_cache=False, logits_to_keep=1, kvdiv=context)
    logits: Tensor = output.logits[:, -1]
    return logits
