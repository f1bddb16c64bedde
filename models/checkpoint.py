"""Checkpoints: a model, its tokenizer, and the few facts about it that a measurement depends on.

Arithmetic is fp32 by default, whatever the weights' precision: bf16 arithmetic alone makes generations diverge. No sampling
default of a generation config (temperature, top-k, top-p, penalties) is ever taken: rows are the plain softmax of the logits.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download, try_to_load_from_cache
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig
from transformers.utils import logging

from kvdiv.models.attention import IMPLEMENTATION
from kvdiv.models.smollm import smollm_folder
from kvdiv.theory.errors import KernelError, ModelError

SUPPORTED = ("llama", "mistral", "qwen2", "qwen3")
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}
DOWNLOAD = "KVDIV_DOWNLOAD"  # environment variable; 1 lets a hub id be downloaded
FILES = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model in evaluation mode, without gradients.

    name: the source it was loaded from. vocabulary: V, the width of the logits.
    eos: ALL end-of-sequence ids, in order of generation config, config, tokenizer; the first is the one that is repeated for
    ever. May be empty.
    weights: precision the weights were rounded to, "float32" or "bfloat16"; `dtype` is that of the arithmetic.
    revision: which bytes, as far as known: the hub's commit, or the packaged model's version and hash.
    """

    name: str
    model: Any
    tokenizer: Any
    eos: tuple[int, ...]
    vocabulary: int
    weights: str = "float32"
    revision: str = ""

    @property
    def dtype(self) -> str:
        """Precision of the arithmetic, such as "float32"."""
        return str(self.model.dtype).removeprefix("torch.")

    @property
    def unnamed(self) -> tuple[int, ...]:
        """Ids with a logit but no token in the tokenizer: the padding of the vocabulary. () without a tokenizer."""
        if self.tokenizer is None:
            return ()
        return tuple(sorted(set(range(self.vocabulary)) - set(self.tokenizer.get_vocab().values())))


def load_checkpoint(
    source: str,
    *,
    dtype: str = "float32",
    weights: str = "float32",
    device: str = "cpu",
    attention: str = IMPLEMENTATION,
) -> Checkpoint:
    """Load "smollm2" (the packaged model), a local folder, or a hub id.

    weights="bfloat16" rounds the weights to bf16 and computes in fp32; dtype="bfloat16" also computes in bf16, which is a variant
    to be measured, not a default. A hub id is looked up among what is downloaded already, unless KVDIV_DOWNLOAD=1.
    `ModelError` for a missing, incomplete or unsupported model, an unknown precision or device.
    """
    _check_precision(dtype, weights)
    where = _device(device)
    folder = _folder(source)
    model, tokenizer = _load(folder, source, dtype=PRECISIONS[dtype], attention=attention)
    if weights == "bfloat16":
        _round(model)
    return from_model(
        model.to(where),
        tokenizer,
        name=source,
        attention=attention,
        weights="bfloat16" if "bfloat16" in (dtype, weights) else "float32",
        revision="" if source != "smollm2" and Path(source).expanduser().is_dir() else folder.name,
    )


def from_model(
    model: Any,
    tokenizer: Any = None,
    *,
    name: str = "model",
    attention: str = IMPLEMENTATION,
    weights: str = "float32",
    revision: str = "",
) -> Checkpoint:
    """A checkpoint around a model that is already built, which is changed in place.

    Attention is switched to `attention`, gradients are switched off, and the generation config is emptied but for the
    end-of-sequence ids. `ModelError` for an unsupported model or an end-of-sequence id outside the vocabulary.
    """
    check_supported(model.config, name)
    if model.config._attn_implementation != attention:
        model.set_attn_implementation(attention)
    model.eval().requires_grad_(False)
    vocabulary = model.get_output_embeddings().weight.shape[0]
    generation = getattr(model, "generation_config", None)
    eos = end_ids(*(getattr(holder, "eos_token_id", None) for holder in (generation, model.config, tokenizer)))
    if beyond := [token for token in eos if not 0 <= token < vocabulary]:
        raise ModelError(
            f"model {name!r}: end-of-sequence id {beyond[0]} is outside its vocabulary of {vocabulary}; set eos_token_id in its "
            "config to an id inside, or to None"
        )
    model.generation_config = GenerationConfig.from_dict({"eos_token_id": list(eos) or None})
    return Checkpoint(name, model, tokenizer, eos, vocabulary, weights, revision)


def end_ids(*sources: int | Iterable[int] | None) -> tuple[int, ...]:
    """The union of end-of-sequence ids, in order of appearance; each source is an id, several, or None.

    >>> end_ids([128001, 128008, 128009], [128001, 128008], 128009)
    (128001, 128008, 128009)
    """
    several = [() if source is None else (source,) if isinstance(source, int) else tuple(source) for source in sources]
    return tuple(dict.fromkeys(token for ids in several for token in ids))


def check_supported(config: Any, name: str) -> None:
    """`ModelError` for a model class, an attention or rotary frequencies that the seam does not cover."""
    if config.model_type not in SUPPORTED:
        raise ModelError(f"model {name!r} is of type {config.model_type!r}; supported: {', '.join(SUPPORTED)}")
    layers = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    if (layers is None and window is not None) or set(layers or ()) - {"full_attention"}:
        raise ModelError(
            f"model {name!r} has a sliding window of {window} tokens, which is not supported; use one with full attention, or "
            "set sliding_window in its config to null where prompt and horizon fit into the window"
        )
    rope = (getattr(config, "rope_parameters", None) or {}).get("rope_type", "default")
    if rope in ("dynamic", "longrope"):
        raise ModelError(
            f"model {name!r} has {rope!r} rotary frequencies, which change with the longest sequence of a batch; set rope_type "
            "in its config to a fixed one (default, linear, llama3, yarn)"
        )


def check_same_vocabulary(reference: Checkpoint, perturbed: Checkpoint) -> None:
    """`KernelError` where the two checkpoints' logits are not over the same tokens: other widths, or other tokens by id."""
    pair = f"{reference.name!r} and {perturbed.name!r}"
    if reference.vocabulary != perturbed.vocabulary:
        raise KernelError(
            f"{pair} have {reference.vocabulary} and {perturbed.vocabulary} logits; only kernels over one vocabulary can be "
            "coupled"
        )
    if reference.tokenizer is None or perturbed.tokenizer is None:
        return
    differing = reference.tokenizer.get_vocab().items() ^ perturbed.tokenizer.get_vocab().items()
    if differing:
        index, token = min((index, token) for token, index in differing)
        raise KernelError(
            f"{pair} mean different tokens by their ids, such as {index} ({token!r}); couple models of one tokenizer"
        )


def _check_precision(dtype: str, weights: str) -> None:
    for precision in (dtype, weights):
        if precision not in PRECISIONS:
            raise ModelError(f"precision {precision!r} is unknown; use {' or '.join(PRECISIONS)}")
    matmul = torch.get_float32_matmul_precision()
    if dtype == "float32" and matmul != "highest":
        raise ModelError(
            f"torch multiplies fp32 matrices with precision {matmul!r}; call torch.set_float32_matmul_precision('highest')"
        )


def _device(device: str) -> torch.device:
    try:
        where = torch.device(device)
        torch.empty(0, device=where)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"device {device!r} cannot be used ({_first_line(error)}); try cpu") from error
    return where


def _folder(source: str) -> Path:
    """The folder that holds the source; only where the environment allows it is the network used."""
    if source == "smollm2":
        return smollm_folder()
    folder = Path(source).expanduser()
    if folder.is_dir():
        return folder
    try:
        if os.environ.get(DOWNLOAD) == "1":
            return Path(
                snapshot_download(source, allow_patterns=FILES, ignore_patterns=["consolidated*", "original/*"])
            )
        # Not through transformers: asked for cached files only, the hub's client still looks a user agent up on the network.
        cached = try_to_load_from_cache(source, "config.json")
    except (OSError, ValueError) as error:
        raise _missing(source, f" ({_first_line(error)})") from error
    if not isinstance(cached, str):
        raise _missing(source, "")
    return Path(cached).parent


def _missing(source: str, reason: str) -> ModelError:
    return ModelError(
        f"model {source!r} is not there{reason}: give smollm2, a local folder, a hub id that is downloaded already, or set "
        f"{DOWNLOAD}=1 to download it"
    )


def _load(folder: Path, source: str, *, dtype: torch.dtype, attention: str) -> tuple[Any, Any]:
    """Model and tokenizer; every weight of the model must come from the checkpoint."""
    loader: Any = AutoModelForCausalLM
    try:
        with _no_bars():
            config = AutoConfig.from_pretrained(folder)
            check_supported(config, source)
            model, found = loader.from_pretrained(
                folder, config=config, dtype=dtype, attn_implementation=attention, output_loading_info=True
            )
            tokenizer = AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        raise ModelError(
            f"model {source!r} cannot be loaded from {folder}, which must hold a causal model and its tokenizer "
            f"({_first_line(error)})"
        ) from error
    if lacking := sorted(found["missing_keys"]) or sorted(str(key) for key in found["mismatched_keys"]):
        raise ModelError(f"model {source!r} lacks the weight {lacking[0]}; get a complete causal model")
    return model, tokenizer


def _round(model: Any) -> None:
    """Round the weights to bf16, in the dtype they have. Rotary frequencies are buffers, not weights, and stay exact."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(torch.bfloat16))


@contextmanager
def _no_bars() -> Iterator[None]:
    """No progress bars of transformers: what is local loads in seconds."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # transformers leaves it untyped
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]  # transformers leaves it untyped


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
