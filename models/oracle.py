"""The oracle for decode: stock eager attention of transformers, no cache, the whole sequence at once, evicted keys masked.

Shares no code with `kvdiv.models.attention`, `prefill`, `suffix` or `decode`. One forward pass over prompt and generated tokens;
prompt positions attend causally to everything, generated positions do not see what eviction dropped, per layer and KV head.
Positions are 0..n + t - 1, passed explicitly. Slow on purpose; for tests and for the control that `kvdiv demo` runs.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def oracle_logits(model: Any, prompt: Sequence[int], generated: Sequence[int], kept: Tensor | None) -> Tensor:
    """Logits [len(generated) + 1, vocab]: row t is the law of generated token t (from 0) given generated[:t].

    model: any Llama, Qwen2, Qwen3 or Mistral causal model of transformers, whatever attention it was loaded with.
    kept: prompt positions left by eviction, [layer, kv_head, kept]; None keeps all.
    """
    n, total = len(prompt), len(prompt) + len(generated)
    device = next(model.parameters()).device
    usual = model.config._attn_implementation
    model.set_attn_implementation("eager")
    hooks = []
    try:
        for index, layer in enumerate(model.model.layers):
            attention = layer.self_attn
            of_layer = None if kept is None else kept[index].to(device)
            hook = _with_mask(of_layer, n, total, attention.num_key_value_groups, device)
            hooks.append(attention.register_forward_pre_hook(hook, with_kwargs=True))
        with torch.inference_mode():
            tokens = torch.tensor([[*prompt, *generated]], device=device)
            positions = torch.arange(total, device=device)[None]
            wanted = len(generated) + 1
            output = model(tokens, position_ids=positions, use_cache=False, logits_to_keep=wanted)
    finally:
        model.set_attn_implementation(usual)
        for hook in hooks:
            hook.remove()
    logits: Tensor = output.logits[0]
    return logits


def _mask(kept: Tensor | None, n: int, total: int, group: int, device: torch.device) -> Tensor:
    """Additive mask [1, query_head or 1, total, total]: causal, and evicted prompt keys hidden from generated queries."""
    visible = torch.ones(1, total, total, dtype=torch.bool, device=device).tril()
    if kept is not None:
        seen = torch.zeros(kept.shape[0], total, dtype=torch.bool, device=device)
        seen.scatter_(1, kept, True)
        seen[:, n:] = True
        visible = visible.repeat(kept.shape[0], 1, 1)
        visible[:, n:] &= seen[:, None]
        visible = visible.repeat_interleave(group, 0)
    return torch.zeros(visible.shape, device=device).masked_fill_(~visible, float("-inf"))[None]


def _with_mask(kept: Tensor | None, n: int, total: int, group: int, device: torch.device) -> Any:
    """A hook that gives a layer its mask; made when the layer is reached, so that one layer's is in memory at a time."""

    def hook(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {**kwargs, "attention_mask": _mask(kept, n, total, group, device)}

    return hook
