"""Checkpoints: a model, its tokenizer, and the few facts about it that a measurement depends on.

Arithmetic is fp32 by default, whatever the weights' precision: bf16 arithmetic makes spurious divergences (docs/noise.md). No
sampling default of a generation config (temperature, top-k, top-p, penalties) is ever read: rows are plain softmax.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging

from kvdiv.models.attention import IMPLEMENTATION
from kvdiv.models.smollm import smollm_folder
from kvdiv.theory.errors import KernelError, ModelError

SUPPORTED = ("llama", "mistral", "qwen2", "qwen3")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model.

    name: where it came from. eos: ALL its end-of-sequence ids, the one that is repeated for ever first; may be empty.
    vocabulary: width of the logits, V. arithmetic, weights: precisions, "float32" or "bfloat16".
    """

    name: str
    model: Any
    tokenizer: Any
    eos: tuple[int, ...]
    vocabulary: int
    arithmetic: str = "float32"
    weights: str = "float32"


def load_checkpoint(
    source: str, *, arithmetic: str = "float32", weights: str = "float32", device: str = "cpu"
) -> Checkpoint:
    """Load "smollm2" (the packaged model), a local folder, or a hub id.

    weights="bfloat16" rounds the weights to bf16; with fp32 arithmetic they are then widened again. `ModelError` for a
    missing or unsupported model.
    """
    for precision in (arithmetic, weights):
        if precision not in PRECISIONS:
            raise ModelError(f"precision {precision!r} is unknown; use {' or '.join(PRECISIONS)}")
    # Loading rounds, widening never narrows: a later cast to bf16 would also round the rotary frequencies.
    stored = torch.bfloat16 if "bfloat16" in (arithmetic, weights) else torch.float32
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers does not annotate it
    path = str(smollm_folder()) if source == "smollm2" else source
    try:
        config = AutoConfig.from_pretrained(path)
        check_supported(config, source)
        model: Any = AutoModelForCausalLM.from_pretrained(path, dtype=stored, attn_implementation=IMPLEMENTATION)
        tokenizer = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        where = (
            "folder"
            if Path(path).is_dir()
            else "local folder, or a hub id that is downloaded already or can be reached"
        )
        raise ModelError(
            f"model {source!r} cannot be loaded ({reason}); give 'smollm2' or a {where} with a causal model"
        ) from error
    model.to(device)
    if arithmetic == "float32":
        model = model.float()
    return from_model(model, tokenizer, name=source, arithmetic=arithmetic, weights=weights)


def from_model(
    model: Any, tokenizer: Any = None, *, name: str = "model", arithmetic: str = "float32", weights: str = "float32"
) -> Checkpoint:
    """A checkpoint around a model that is already built; its attention is switched to kvdiv's, gradients are switched off."""
    check_supported(model.config, name)
    if model.config._attn_implementation != IMPLEMENTATION:
        model.set_attn_implementation(IMPLEMENTATION)
    model.eval().requires_grad_(False)
    generation: GenerationConfig | None = getattr(model, "generation_config", None)
    eos = end_ids(
        getattr(generation, "eos_token_id", None), model.config.eos_token_id, getattr(tokenizer, "eos_token_id", None)
    )
    width = model.get_output_embeddings().weight.shape[0]
    if beyond := [token for token in eos if not 0 <= token < width]:
        raise ModelError(f"model {name!r}: end-of-sequence id {beyond[0]} is outside its vocabulary of {width}")
    return Checkpoint(name, model, tokenizer, eos, width, arithmetic, weights)


def end_ids(*sources: int | Iterable[int] | None) -> tuple[int, ...]:
    """The union of end-of-sequence ids, in order of appearance."""
    ids = [
        token for source in sources if source is not None for token in ([source] if isinstance(source, int) else source)
    ]
    return tuple(dict.fromkeys(ids))


def check_supported(config: Any, name: str) -> None:
    """`ModelError` for a model class or an attention that the seam does not cover."""
    if config.model_type not in SUPPORTED:
        raise ModelError(f"model {name!r} is of type {config.model_type!r}; supported: {', '.join(SUPPORTED)}")
    kinds = set(getattr(config, "layer_types", None) or ()) - {"full_attention"}
    if kinds or (config.model_type == "mistral" and getattr(config, "sliding_window", None)):
        raise ModelError(
            f"model {name!r} uses sliding-window attention, which is not supported; use one with full attention"
        )


def check_same_vocabulary(reference: Checkpoint, perturbed: Checkpoint) -> None:
    """`KernelError` naming both widths where two checkpoints' logits cannot be compared."""
    if reference.vocabulary != perturbed.vocabulary:
        raise KernelError(
            f"{reference.name!r} has {reference.vocabulary} logits and {perturbed.name!r} has {perturbed.vocabulary}; "
            "only kernels over one vocabulary can be coupled"
        )
