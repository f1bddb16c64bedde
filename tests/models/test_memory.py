"""Memory planned ahead: the arithmetic by hand, and against what is really allocated."""

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config

from kvdiv.interpreters.lockstep import lockstep
from kvdiv.models.checkpoint import Checkpoint, from_model
from kvdiv.models.decode import Job, ModelRows
from kvdiv.models.memory import GIB, MemoryNeed, available_memory, check_memory, entry_bytes, memory_need
from kvdiv.models.prefill import prefill
from kvdiv.models.suffix import PromptKeys
from kvdiv.programs import fixed_history, naive
from kvdiv.requests import Program
from kvdiv.theory.errors import MemoryNeedError
from kvdiv.uniforms import Stream

SHAPE: dict[str, Any] = {
    "vocab_size": 11, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "eos_token_id": None,
}  # fmt: skip


def planned(config: Any, *, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Checkpoint:
    """A checkpoint of which only the shape is looked at."""
    model = SimpleNamespace(config=config, dtype=dtype, device=torch.device(device))
    return Checkpoint("planned", model, None, (), config.vocab_size)


def test_need_by_hand() -> None:
    """L = 3, h = 2, d = 8, b = 4, V = 11; n = 100, 60 retained, 6 rows, H = 10: every part worked out by hand."""
    need = memory_need(planned(LlamaConfig(**SHAPE)), tokens=100, retained=60, rows=6, horizon=10)
    entry = 2 * 3 * 2 * 8 * 4
    assert entry == 384
    assert need.prompt == 38_400
    assert need.prefill == 38_400 + 100 * (256 + 144) * 4 + 4 * 4 * 4 * 64 * 100
    assert need.retained == 23_040
    assert need.suffix == 4 * 384 * 10 * 6 // 3
    assert need.rows == 9 * 8 * 11 * 6
    assert need.total == need.prompt + need.prefill


def test_total_is_the_larger_phase() -> None:
    """The prompt is there throughout; reading it and generating from it are not there together."""
    assert MemoryNeed(prompt=1, prefill=100, retained=2, suffix=3, rows=4).total == 101
    assert MemoryNeed(prompt=1, prefill=8, retained=2, suffix=3, rows=4).total == 10


def test_entry_follows_precision_and_head_size() -> None:
    """bf16 halves an entry; a head size of its own counts, and a config without one has hidden / heads."""
    assert entry_bytes(planned(LlamaConfig(**SHAPE), dtype=torch.bfloat16)) == 192
    assert entry_bytes(planned(LlamaConfig(**SHAPE, head_dim=16))) == 768
    assert entry_bytes(planned(Qwen2Config(**SHAPE))) == 384


def test_llama_8b_at_32k() -> None:
    """Llama-3.1-8B in fp32: 256 KiB an entry, 8 GiB for 32,768 prompt tokens, a third more than 32 MiB a suffix of 128 tokens."""
    shape: dict[str, Any] = {
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_size": 4096,
    }
    config = LlamaConfig(**shape, intermediate_size=14336, vocab_size=128_256)
    need = memory_need(planned(config), tokens=32_768, retained=0, rows=1, horizon=128)
    assert (need.prompt, need.suffix) == (8 * GIB, 4 * 32 * 2**20 // 3)
    unfused = memory_need(planned(config, device="cuda"), tokens=32_768, retained=0, rows=1, horizon=128)
    assert unfused.prefill - need.prefill == 2 * 4 * 32 * 32_768**2 - 16 * 32 * 64 * 32_768


@pytest.mark.parametrize(("program", "sides"), [(naive, 2), (fixed_history, 3)])
def test_at_least_what_is_allocated(program: Callable[[int], Program[Any]], sides: int) -> None:
    """The prompt's keys and values take exactly the planned bytes; suffixes and kept distributions of a run no more."""
    torch.manual_seed(0)
    checkpoint = from_model(LlamaForCausalLM(LlamaConfig(**SHAPE, initializer_range=1.0)))  # wide: paths part soon
    horizon, jobs = 20, 3
    need = memory_need(checkpoint, tokens=40, retained=25, rows=sides * jobs, horizon=horizon)
    cache = prefill(checkpoint.model, [n % 11 for n in range(40)])
    assert need.prompt == cache.keys.nbytes + cache.values.nbytes
    reference = PromptKeys(cache.keys, cache.values)
    kept = PromptKeys(cache.keys[:, :, :25].clone(), cache.values[:, :, :25].clone())
    assert need.retained == sum(layer.nbytes for part in (kept.keys, kept.values) for layer in part)
    runs: list[Job[Any]] = [Job(program(horizon), Stream(n), reference, kept) for n in range(jobs)]
    rows = ModelRows(checkpoint, cache, runs, horizon)
    lockstep([run.program for run in runs], [run.stream for run in runs], rows)
    store = rows._store
    assert store.used == sides * jobs
    assert need.suffix >= sum(layer.nbytes for part in (store.keys, store.values) for layer in part)
    assert need.rows >= rows._kept.nbytes + 4 * 8 * 11 * sides * jobs


def test_too_much_is_refused_with_both_figures() -> None:
    """One byte too little is a one-line error naming document, needed and available GiB and the way out; enough is silent."""
    need = MemoryNeed(prompt=3 * GIB, prefill=GIB, retained=GIB, suffix=GIB, rows=2 * GIB)
    check_memory(need, 7 * GIB, document="d1")
    with pytest.raises(MemoryNeedError) as error:
        check_memory(need, 7 * GIB - 1, document="d1")
    assert re.fullmatch(
        r"document 'd1' needs 7.0 GiB and 7.0 GiB are free .*fewer replicates.*shorter.*", str(error.value)
    )


def test_the_way_out_of_a_long_prompt_is_a_shorter_one() -> None:
    """Where reading the prompt is the peak, fewer replicates would not help and are not offered."""
    with pytest.raises(MemoryNeedError, match=r"use a shorter prompt$"):
        check_memory(MemoryNeed(prompt=1, prefill=9, retained=1, suffix=1, rows=1), 9, document="d1")


def test_available_on_the_cpu() -> None:
    """On the CPU: what the system has available, which is never more than it has."""
    assert 0 < available_memory(planned(LlamaConfig(**SHAPE))) <= psutil.virtual_memory().total


def test_available_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU: the device's free bytes, and those that torch has reserved and does not use."""
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 9000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 70)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 50)
    assert available_memory(planned(LlamaConfig(**SHAPE), device="cuda")) == 1020
