"""From a document to token ids: chat template once, one BOS, a pinned date, and a hash of what came out.

Ids are made here once and compared as ids ever after; no text is tokenised a second time. Control tokens spelled out in a
document's text are read as those tokens, as the chat template's own are.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from jinja2 import TemplateError

from kvdiv.documents import Document
from kvdiv.models.checkpoint import Checkpoint
from kvdiv.theory.errors import DocumentError, ModelError

DATE = date(2024, 7, 26)  # what templates that print a date get: Llama 3.1's own default, the same on every day


@dataclass(frozen=True)
class Prompt:
    """A document's tokens. ids: n of them. sha256: of the ids as little-endian int64, in hexadecimal."""

    document: str
    stratum: str
    ids: tuple[int, ...]
    sha256: str


def encode(checkpoint: Checkpoint, document: Document, *, day: date = DATE) -> Prompt:
    """Tokenise a document for a checkpoint.

    With a chat template the messages go through it once, with the generation prompt and `day` for a date; without one their
    contents are joined by blank lines. A BOS goes in front where the tokenizer uses one and the text does not start with it.
    `ModelError` without a tokenizer; `DocumentError` as in `checked`, and where the template refuses the messages.
    """
    tokenizer = _tokenizer(checkpoint)
    if tokenizer.chat_template:
        text = _rendered(tokenizer, document, day)
    else:
        text = "\n\n".join(content for _, content in document.messages)
    ids = _ids(tokenizer, text)
    bos = tokenizer.bos_token_id
    if _adds_bos(tokenizer) and ids[:1] != [bos]:
        ids = [bos, *ids]
    return checked(checkpoint, document, tuple(ids))


def checked(checkpoint: Checkpoint, document: Document, ids: tuple[int, ...]) -> Prompt:
    """The prompt of these ids.

    `DocumentError` for no ids, two leading BOS, ids outside the vocabulary, or more ids than the model has positions.
    """
    if not ids:
        raise DocumentError(f"document {document.id!r} has no tokens; give it a text")
    bos = getattr(checkpoint.tokenizer, "bos_token_id", None)
    if bos is not None and ids[:2] == (bos, bos):
        raise DocumentError(f"document {document.id!r} starts with two BOS ids ({bos}); take the one in its text away")
    if beyond := [token for token in ids if not 0 <= token < checkpoint.vocabulary]:
        raise DocumentError(
            f"document {document.id!r}: token id {beyond[0]} is outside the vocabulary of {checkpoint.vocabulary}; use the "
            "tokenizer of this model"
        )
    positions = checkpoint.model.config.max_position_embeddings
    if len(ids) > positions:
        raise DocumentError(
            f"document {document.id!r} has {len(ids)} tokens, more than the {positions} positions of {checkpoint.name!r}; "
            "shorten it"
        )
    digest = hashlib.sha256(np.array(ids, dtype="<i8").tobytes()).hexdigest()
    return Prompt(document.id, document.stratum, ids, digest)


def token_count(checkpoint: Checkpoint) -> Callable[[str], int]:
    """The number of tokens of a text, without template or BOS; for sizing documents."""
    tokenizer = _tokenizer(checkpoint)
    return lambda text: len(_ids(tokenizer, text))


def _tokenizer(checkpoint: Checkpoint) -> Any:
    if checkpoint.tokenizer is None:
        raise ModelError(f"model {checkpoint.name!r} has no tokenizer; load it from a folder or hub id that has one")
    return checkpoint.tokenizer


def _rendered(tokenizer: Any, document: Document, day: date) -> str:
    """The messages as the chat template writes them; both ways in which templates ask for a date give `day`."""
    messages = [{"role": role, "content": content} for role, content in document.messages]
    template: str = tokenizer.get_chat_template()
    if "strftime_now" in template:
        template = _clock(day) + template
    try:
        text: str = tokenizer.apply_chat_template(
            messages,
            chat_template=template,
            tokenize=False,
            add_generation_prompt=True,
            date_string=day.strftime("%d %b %Y"),
        )
    except TemplateError as error:
        reason = next(iter(str(error).splitlines()), "no reason given")
        raise DocumentError(f"document {document.id!r}: the chat template refuses its messages ({reason})") from error
    return text


def _clock(day: date) -> str:
    """A template macro `strftime_now` that stands before the function of that name, which reads the clock.

    transformers passes only plain data to templates, no function. The line's end goes with the tag (trim_blocks), so that the
    template after it renders as it would alone.
    """
    values = {f"%{code}": day.strftime(f"%{code}") for code in ("-d", "-m", *"aAbBcdeFfGHIjmMpSuUVwWxXyY", "%")}
    filters = "".join(f" | replace({code!r}, {value!r})" for code, value in values.items())
    return f"{{% macro strftime_now(format) %}}{{{{ format{filters} }}}}{{% endmacro %}}\n"


def _ids(tokenizer: Any, text: str) -> list[int]:
    """Ids of the text alone: what the template wrote, nothing added to it."""
    return list(tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])


def _adds_bos(tokenizer: Any) -> bool:
    """Whether the tokenizer itself puts a BOS in front of a text."""
    with_special: list[int] = tokenizer("x", verbose=False)["input_ids"]
    return with_special[:1] == [tokenizer.bos_token_id] and with_special[:1] != _ids(tokenizer, "x")[:1]
