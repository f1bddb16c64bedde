"""From a document to token ids: chat template once, one BOS, a pinned date, and a hash of what came out.

Two documents are compared by token ids only, never by text that is tokenised again.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kvdiv.documents import Document
from kvdiv.models.checkpoint import Checkpoint
from kvdiv.theory.errors import DocumentError

DATE = "26 Jul 2024"  # templates that print a date get this one, so that a prompt does not depend on the day


@dataclass(frozen=True)
class Prompt:
    """A document's tokens: n = len(ids); sha256 of the ids as little-endian int64."""

    document: str
    stratum: str
    ids: tuple[int, ...]
    sha256: str


def encode(checkpoint: Checkpoint, document: Document) -> Prompt:
    """Tokenise a document for a checkpoint.

    With a chat template the messages go through it once, with the generation prompt; without one their contents are joined
    and tokenised. `DocumentError` for an empty prompt, two leading BOS ids, or ids outside the vocabulary.
    """
    tokenizer = checkpoint.tokenizer
    if tokenizer is None:
        raise DocumentError(f"document {document.id!r} cannot be encoded: {checkpoint.name!r} has no tokenizer")
    if tokenizer.chat_template:
        messages = [{"role": role, "content": content} for role, content in document.messages]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, date_string=DATE)
        # The template writes its own BOS where the model wants one.
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    else:
        ids = tokenizer("\n\n".join(content for _, content in document.messages))["input_ids"]
    return checked(checkpoint, document, tuple(int(token) for token in ids))


def checked(checkpoint: Checkpoint, document: Document, ids: tuple[int, ...]) -> Prompt:
    """A prompt of these ids, or `DocumentError`."""
    if not ids:
        raise DocumentError(f"document {document.id!r} has no tokens")
    bos = getattr(checkpoint.tokenizer, "bos_token_id", None)
    start_of_turn = checkpoint.tokenizer is not None and checkpoint.tokenizer.chat_template
    if bos is not None and ids[:2] == (bos, bos):
        kind = "its first message or the template" if start_of_turn else "its text"
        raise DocumentError(f"document {document.id!r} starts with two BOS ids ({bos}); remove the one in {kind}")
    if beyond := [token for token in ids if not 0 <= token < checkpoint.vocabulary]:
        raise DocumentError(
            f"document {document.id!r}: token id {beyond[0]} is outside the vocabulary of {checkpoint.vocabulary}"
        )
    digest = hashlib.sha256(np.array(ids, dtype="<i8").tobytes()).hexdigest()
    return Prompt(document.id, document.stratum, ids, digest)


def token_count(checkpoint: Checkpoint) -> Callable[[str], int]:
    """The number of tokens of a text, for sizing documents."""
    return lambda text: len(checkpoint.tokenizer(text, add_special_tokens=False)["input_ids"])
