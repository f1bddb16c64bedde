"""Memory of a run on one document, planned before anything is allocated.

    entry      2 L h d b                          keys and values of one token, over all layers
    prompt     n entry                            the full cache, read by the reference
    prefill    n entry + n (8 hidden + 3 inner) b + scores     while the prompt is read, then free again
    retained   entry for each kept prompt token, over all actions
    suffix     4/3 H entry for each row           room doubles when a replicate needs a third row
    rows       9 times 8 V for each row           float64 distributions: the kept one and the temporaries of a coupled step

    total = prompt + max(prefill, retained + suffix + rows)

with n prompt tokens, L layers, h KV heads of dimension d, b bytes a number, inner the width of the MLP, horizon H, vocabulary V.
The 9 is measured: 8.2 vectors a row at the peak of a naive run. The model itself is loaded by then and not counted.
"""

from dataclasses import dataclass
from typing import Any

import psutil
import torch

from kvdiv.models.checkpoint import Checkpoint
from kvdiv.theory.errors import MemoryNeedError

GIB = 2**30
VECTORS = 9


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes, part by part."""

    prompt: int
    prefill: int
    retained: int
    suffix: int
    rows: int

    @property
    def total(self) -> int:
        """Bytes at the peak; the prefill's own part is free again before the first row is made.

        >>> MemoryNeed(prompt=10, prefill=5, retained=4, suffix=2, rows=1).total
        17
        """
        return self.prompt + max(self.prefill, self.retained + self.suffix + self.rows)


def memory_need(checkpoint: Checkpoint, *, tokens: int, retained: int, rows: int, horizon: int) -> MemoryNeed:
    """What a prompt of `tokens` needs.

    retained: prompt entries kept by all actions together. rows: two for each replicate that runs at the same time, three with
    the fixed-history path.
    """
    config: Any = checkpoint.model.config
    size = checkpoint.model.dtype.itemsize
    entry = entry_bytes(checkpoint)
    activations = tokens * (8 * config.hidden_size + 3 * config.intermediate_size) * size
    return MemoryNeed(
        prompt=entry * tokens,
        prefill=entry * tokens + activations + _score_bytes(checkpoint, tokens),
        retained=entry * retained,
        suffix=entry * horizon * rows * 4 // 3,
        rows=VECTORS * 8 * checkpoint.vocabulary * rows,
    )


def entry_bytes(checkpoint: Checkpoint) -> int:
    """2 L h d b: keys and values of one token, over all layers."""
    config: Any = checkpoint.model.config
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    size: int = checkpoint.model.dtype.itemsize
    return 2 * int(config.num_hidden_layers) * int(config.num_key_value_heads) * int(dim) * size


def available_memory(checkpoint: Checkpoint) -> int:
    """Free bytes where the model is; on a GPU also those that torch holds and does not use."""
    device = checkpoint.model.device
    if device.type != "cuda":
        return int(psutil.virtual_memory().available)
    idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0]) + idle


def check_memory(need: MemoryNeed, available: int, *, document: str) -> None:
    """`MemoryNeedError` naming both figures where a document's run does not fit."""
    if need.total <= available:
        return
    reading = need.prefill > need.retained + need.suffix + need.rows
    way_out = "a shorter prompt" if reading else "fewer replicates together, a shorter horizon or a shorter prompt"
    raise MemoryNeedError(
        f"document {document!r} needs {need.total / GIB:.1f} GiB and {available / GIB:.1f} GiB are free (prompt "
        f"{need.prompt / GIB:.1f}, reading it {need.prefill / GIB:.1f}, retained {need.retained / GIB:.1f}, suffixes "
        f"{need.suffix / GIB:.1f}, distributions {need.rows / GIB:.1f}); use {way_out}"
    )


def _score_bytes(checkpoint: Checkpoint, tokens: int) -> int:
    """Attention scores of the prefill: one window's on the CPU, where the kernel never holds a full matrix.

    On CUDA no fused kernel takes fp32 with grouped heads, so scores and weights of a layer, [query_head, n, n], are made.
    """
    config: Any = checkpoint.model.config
    heads: int = config.num_attention_heads
    grouped = heads != config.num_key_value_heads
    if checkpoint.model.device.type == "cuda" and checkpoint.model.dtype == torch.float32 and grouped:
        return 2 * 4 * heads * tokens * tokens
    return 4 * 4 * heads * min(64, tokens) * tokens
