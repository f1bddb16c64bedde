"""Memory of a run on one document, planned before anything is allocated.

    prompt KV      2 n L h d b        once for the full cache, and once for what each action keeps
    suffix KV      2 H L h d b        for each row (two a replicate, three with the fixed-history path)
    rows           8 V                for each row, kept, and about six times that while a step is coupled
    prefill        n (hidden + 2 intermediate) b and one layer's window scores

with n prompt tokens, L layers, h KV heads of dimension d, b bytes a number, horizon H, vocabulary V.
"""

from dataclasses import dataclass
from typing import Any

import psutil
import torch

from kvdiv.models.checkpoint import Checkpoint
from kvdiv.theory.errors import MemoryNeedError

GIB = 2**30
COUPLING_COPIES = 7  # the kept row and the temporaries of a coupled step: c, r, s, cumulative sums, quotients


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes, part by part."""

    prompt: int
    suffix: int
    rows: int
    prefill: int

    @property
    def total(self) -> int:
        """All parts together; an upper bound, since the prefill's part is free again when the rows are needed."""
        return self.prompt + self.suffix + self.rows + self.prefill


def memory_need(checkpoint: Checkpoint, *, tokens: int, retained: int, rows: int, horizon: int) -> MemoryNeed:
    """What a prompt of `tokens` needs, with `retained` entries kept by all actions together and `rows` suffix rows."""
    config: Any = checkpoint.model.config
    size = next(checkpoint.model.parameters()).element_size()
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    entry = 2 * config.num_hidden_layers * config.num_key_value_heads * dim * size
    return MemoryNeed(
        prompt=entry * (tokens + retained),
        suffix=entry * horizon * rows,
        rows=8 * checkpoint.vocabulary * rows * COUPLING_COPIES,
        prefill=tokens * (config.hidden_size + 2 * config.intermediate_size) * size * 2
        + 4 * tokens * 64 * config.num_attention_heads,
    )


def available_memory(checkpoint: Checkpoint) -> int:
    """Free bytes where the model is."""
    device = next(checkpoint.model.parameters()).device
    return int(torch.cuda.mem_get_info(device)[0]) if device.type == "cuda" else int(psutil.virtual_memory().available)


def check_memory(need: MemoryNeed, available: int, *, document: str) -> None:
    """`MemoryNeedError` naming both figures where a document's run does not fit."""
    if need.total > available:
        raise MemoryNeedError(
            f"document {document!r} needs {need.total / GIB:.1f} GiB (prompt {need.prompt / GIB:.1f}, suffixes "
            f"{need.suffix / GIB:.1f}, distributions {need.rows / GIB:.1f}) and {available / GIB:.1f} GiB are free; use fewer "
            "replicates together (--batch), a shorter horizon or shorter prompts"
        )
