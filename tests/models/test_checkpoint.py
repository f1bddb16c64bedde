"""Checkpoints: what is loaded, how it is rounded, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    PretrainedConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from kvdiv.models.checkpoint import (
    Checkpoint,
    check_same_vocabulary,
    check_supported,
    end_ids,
    from_model,
    load_checkpoint,
)
from kvdiv.models.oracle import oracle_logits
from kvdiv.theory.errors import KernelError, ModelError

TINY: dict[str, Any] = {
    "vocab_size": 11, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
WORDS = {f"w{n}": n for n in range(9)} | {"<end>": 9, "<stop>": 10}


def tiny(**changes: Any) -> Any:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**{**TINY, "eos_token_id": 9, **changes}))


def words(vocabulary: dict[str, int] = WORDS, **special: Any) -> Any:
    tokenizer: Any = PreTrainedTokenizerFast
    return tokenizer(tokenizer_object=Tokenizer(models.WordLevel(vocabulary)), **special)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved tiny Llama whose generation config names two end ids and every sampling default there is."""
    tiny().save_pretrained(tmp_path)
    words(eos_token="<stop>").save_pretrained(tmp_path)
    sampling = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.05}
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [8, 9], **sampling}))
    return tmp_path


def logits(checkpoint: Checkpoint) -> torch.Tensor:
    return oracle_logits(checkpoint.model, [1, 2, 3], [4], None)


def one_line(error: pytest.ExceptionInfo[Exception], *parts: str) -> bool:
    """The message is one line and holds all parts."""
    message = str(error.value)
    return "\n" not in message and all(part in message for part in parts)


@given(st.lists(st.none() | st.integers(0, 5) | st.lists(st.integers(0, 5))))
def test_end_ids_are_the_union_in_order(sources: list[int | list[int] | None]) -> None:
    """Every id of every source is there once, in order of first appearance."""
    found = end_ids(*sources)
    flat = [
        i for source in sources for i in ([] if source is None else [source] if isinstance(source, int) else source)
    ]
    assert set(found) == set(flat)
    assert [flat.index(i) for i in found] == sorted({flat.index(i) for i in flat})


def test_all_end_ids_generation_config_first(folder: Path) -> None:
    """eos is the union of generation config (8, 9), config (9) and tokenizer (10); the first is the canonical one."""
    assert load_checkpoint(str(folder)).eos == (8, 9, 10)


def test_no_sampling_default_is_taken(folder: Path) -> None:
    """A generation config's temperature, top-p, top-k and penalty are gone after loading, and logits do not depend on them."""
    loaded = load_checkpoint(str(folder))
    kept = loaded.model.generation_config
    assert [kept.temperature, kept.top_p, kept.top_k, kept.repetition_penalty, kept.do_sample] == [None] * 5
    assert torch.equal(logits(loaded), logits(from_model(tiny())))


def test_an_end_id_outside_the_vocabulary_is_refused() -> None:
    """eos 11 in a vocabulary of 11 is a `ModelError`; no end at all is allowed, and eos is empty."""
    with pytest.raises(ModelError) as error:
        from_model(tiny(eos_token_id=11))
    assert one_line(error, "11", "eos_token_id")
    assert from_model(tiny(eos_token_id=None)).eos == ()


def test_loaded_for_measuring(folder: Path) -> None:
    """Evaluation mode, no gradients, fp32, kvdiv's attention, V the width of the logits."""
    loaded = load_checkpoint(str(folder))
    assert not loaded.model.training
    assert not any(parameter.requires_grad for parameter in loaded.model.parameters())
    assert (loaded.dtype, loaded.weights, loaded.vocabulary) == ("float32", "float32", 11)
    assert loaded.model.config._attn_implementation == "kvdiv"
    assert load_checkpoint(str(folder), attention="eager").model.config._attn_implementation == "eager"


def test_bf16_weights_with_fp32_arithmetic(folder: Path) -> None:
    """Weights are rounded to bf16 and computed with in fp32; the rotary frequencies, which are no weights, stay fp32."""
    exact, rounded = load_checkpoint(str(folder)), load_checkpoint(str(folder), weights="bfloat16")
    assert (rounded.dtype, rounded.weights) == ("float32", "bfloat16")
    for a, b in zip(exact.model.parameters(), rounded.model.parameters(), strict=True):
        assert torch.equal(a.bfloat16().float(), b)
    frequencies = exact.model.model.rotary_emb.inv_freq
    assert not torch.equal(frequencies, frequencies.bfloat16().float())
    assert torch.equal(frequencies, rounded.model.model.rotary_emb.inv_freq)


def test_bf16_arithmetic_is_a_variant(folder: Path) -> None:
    """dtype="bfloat16" computes in bf16 and says that its weights are bf16 too."""
    loaded = load_checkpoint(str(folder), dtype="bfloat16")
    assert (loaded.dtype, loaded.weights, logits(loaded).dtype) == ("bfloat16", "bfloat16", torch.bfloat16)


def test_lowered_matmul_precision_is_refused(folder: Path) -> None:
    """fp32 arithmetic is refused while torch may round fp32 products (TF32 or bf16)."""
    torch.set_float32_matmul_precision("medium")
    try:
        with pytest.raises(ModelError) as error:
            load_checkpoint(str(folder))
    finally:
        torch.set_float32_matmul_precision("highest")
    assert one_line(error, "medium", "highest")


@pytest.mark.parametrize(
    ("options", "named"),
    [({"dtype": "float16"}, "float16"), ({"weights": "int8"}, "int8"), ({"device": "abacus"}, "abacus")],
)
def test_unknown_options_are_refused(folder: Path, options: dict[str, str], named: str) -> None:
    """An unknown precision or device is a `ModelError` that names it."""
    with pytest.raises(ModelError) as error:
        load_checkpoint(str(folder), **options)
    assert one_line(error, named)


@pytest.mark.parametrize(
    "config",
    [
        LlamaConfig(**TINY),
        LlamaConfig(**TINY, rope_parameters={
            "rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        }),
        Qwen2Config(**TINY, sliding_window=16, use_sliding_window=False),
        Qwen3Config(**TINY, head_dim=8),
        MistralConfig(**TINY, sliding_window=None),
    ],
    ids=["llama", "llama3-rope", "qwen2", "qwen3", "mistral"],
)  # fmt: skip
def test_supported_classes(config: PretrainedConfig) -> None:
    """Llama, Qwen2, Qwen3 and Mistral with full attention become checkpoints; a window that is switched off does not count."""
    config.eos_token_id = 1
    build: Any = AutoModelForCausalLM.from_config
    assert from_model(build(config)).eos == (1,)


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (GPT2Config(), "'gpt2'"),
        (MistralConfig(**TINY, sliding_window=16), "16"),
        (Qwen2Config(**TINY, sliding_window=16, use_sliding_window=True, max_window_layers=1), "16"),
        (Qwen3Config(**TINY, sliding_window=16, use_sliding_window=True, max_window_layers=0), "16"),
        (LlamaConfig(**TINY, rope_parameters={"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}), "'dynamic'"),
    ],
    ids=["gpt2", "mistral-window", "qwen2-window", "qwen3-window", "dynamic-rope"],
)
def test_unsupported_models_are_refused_by_name(config: PretrainedConfig, named: str) -> None:
    """Another class, an active sliding window, or frequencies that depend on the batch: a `ModelError` that names it."""
    with pytest.raises(ModelError) as error:
        check_supported(config, "mine")
    assert one_line(error, "'mine'", named)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Attempts to use the network, each of which fails; no setting of the environment forbids them."""
    tried: list[object] = []

    def refuse(*address: object, **_: object) -> None:
        tried.append(address)
        raise OSError("no network in tests")

    for function in ("getaddrinfo", "create_connection", "socket.connect"):
        monkeypatch.setattr(f"socket.{function}", refuse)
    for name in ("KVDIV_DOWNLOAD", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    return tried


@pytest.mark.parametrize("source", ["nobody/nothing-of-the-kind", "no/such/folder", "smollm3"])
def test_a_missing_model_is_one_line_without_network(calls: list[object], source: str) -> None:
    """An unknown source is a `ModelError` with the ways out, and nothing tries to reach the network for it."""
    with pytest.raises(ModelError) as error:
        load_checkpoint(source)
    assert one_line(error, repr(source), "smollm2", "local folder", "KVDIV_DOWNLOAD=1")
    assert calls == []


def test_a_folder_needs_no_network(calls: list[object], folder: Path) -> None:
    """A local folder is loaded without an attempt to use the network."""
    load_checkpoint(str(folder))
    assert calls == []


def test_a_downloaded_model_needs_no_network(
    calls: list[object], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub id whose files are in the hub's cache loads from there; its revision is the commit."""
    commit, cache = "0" * 39 + "1", folder.parent / "hub"
    snapshot = cache / "models--some--model" / "snapshots" / commit
    snapshot.parent.mkdir(parents=True)
    folder.rename(snapshot)
    (cache / "models--some--model" / "refs").mkdir()
    (cache / "models--some--model" / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    loaded = load_checkpoint("some/model")
    assert (loaded.name, loaded.revision, calls) == ("some/model", commit, [])


def test_a_download_is_tried_only_where_allowed(calls: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    """With KVDIV_DOWNLOAD=1 the network is tried; when that fails it is the same one-line error."""
    monkeypatch.setenv("KVDIV_DOWNLOAD", "1")
    with pytest.raises(ModelError) as error:
        load_checkpoint("nobody/nothing-of-the-kind")
    assert one_line(error, "nobody/nothing-of-the-kind", "local folder")
    assert calls != []


def test_an_incomplete_checkpoint_is_refused(folder: Path) -> None:
    """A weight that the file lacks is not drawn at random: `ModelError` naming it."""
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError) as error:
        load_checkpoint(str(folder))
    assert one_line(error, "model.layers.1.mlp.up_proj.weight")


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_folder_is_refused(calls: list[object], folder: Path, name: str, damage: str) -> None:
    """A file that is cut in half or gone is a one-line `ModelError` naming the folder; it is not looked for elsewhere."""
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    if damage == "cut":
        (folder / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(ModelError) as error:
        load_checkpoint(str(folder))
    assert one_line(error, str(folder))
    assert calls == []


def test_different_widths_are_refused() -> None:
    """Kernels of 257 and 260 logits are not coupled; the message names both widths."""
    a, b = from_model(tiny(vocab_size=257), name="a"), from_model(tiny(vocab_size=260), name="b")
    check_same_vocabulary(a, from_model(tiny(vocab_size=257)))
    with pytest.raises(KernelError) as error:
        check_same_vocabulary(a, b)
    assert one_line(error, "257", "260", "'a'", "'b'")


def test_same_width_with_other_tokens_is_refused() -> None:
    """Two tokenizers that give an id to different tokens are refused, naming the id."""
    other = {**WORDS, "w3": 4, "w4": 3}
    a, b = (from_model(tiny(), words(vocabulary)) for vocabulary in (WORDS, other))
    check_same_vocabulary(a, a)
    with pytest.raises(KernelError) as error:
        check_same_vocabulary(a, b)
    assert one_line(error, "'w3'")


def test_ids_without_a_token_are_known() -> None:
    """Logits wider than the tokenizer (11 tokens of 14): the padding ids are 11, 12, 13; none without a tokenizer."""
    model = tiny(vocab_size=14)
    assert from_model(model, words()).unnamed == (11, 12, 13)
    assert from_model(model).unnamed == ()
