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
            mask = _mask(None if kept is None else kept[index], n, total, attention.num_key_value_groups).to(device)
            hooks.append(attention.register_forward_pre_hook(_with_mask(mask), with_kwargs=True))
        with torch.inference_mode():
            tokens = torch.tensor([[*prompt, *generated]], device=device)
            output = model(tokens, position_ids=torch.arange(total, device=device)[None], use_cache=False)
    finally:
        model.set_attn_implementation(usual)
        for hook in hooks:
            hook.remove()
    logits: Tensor = output.logits[0, n - 1 :]
    return logits


def _mask(kept: Tensor | None, n: int, total: int, group: int) -> Tensor:
    """Additive mask [1, query_head or 1, total, total]: causal, and evicted prompt keys hidden from generated queries."""
    visible = torch.ones(total, total).tril().bool()[None]
    if kept is not None:
        in_prompt = torch.zeros(kept.shape[0], total).bool()
        in_prompt.scatter_(1, kept.cpu(), True)
        in_prompt[:, n:] = True
        visible = visible.repeat(kept.shape[0], 1, 1)
        visible[:, n:] &= in_prompt[:, None]
        visible = visible.repeat_interleave(group, 0)
    return torch.zeros(visible.shape).masked_fill(~visible, float("-inf"))[None]


def _with_mask(mask: Tensor) -> Any:
    def hook(module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {**kwargs, "attention_mask": mask}

    return hook
