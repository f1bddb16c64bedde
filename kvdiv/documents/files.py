"""A user's own documents: JSONL, a text file, or a folder of text files.

JSONL: one object a line with `id`, either `prompt` (one user message) or `messages` (a list of {"role", "content"}), and, if
wanted, `stratum` (default "user"). A text file is one document, its name the id.
"""

import json
from pathlib import Path
from typing import Any

from kvdiv.documents.document import Document
from kvdiv.theory.errors import DocumentError

STRATUM = "user"


def read_documents(path: Path) -> list[Document]:
    """The documents of a .jsonl file, a text file, or the .txt files of a folder; `DocumentError` names the file and line."""
    if path.is_dir():
        files = sorted(path.glob("*.txt"))
        documents = [_text(file) for file in files]
    elif path.suffix in (".jsonl", ".json"):
        documents = [_entry(path, n, line) for n, line in enumerate(_read(path).split("\n"), 1) if line.strip()]
    else:
        documents = [_text(path)]
    if not documents:
        raise DocumentError(f"{path} holds no documents; give JSONL, a text file, or a folder of .txt files")
    seen: set[str] = set()
    for document in documents:
        if document.id in seen:
            raise DocumentError(f"{path}: two documents have the id {document.id!r}; ids must be unique")
        seen.add(document.id)
    return documents


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{path}: byte {error.start} is not UTF-8; is the file cut short or in another encoding?"
        ) from None
    except OSError as error:
        raise DocumentError(f"{path} cannot be read ({error.strerror})") from None


def _text(path: Path) -> Document:
    return Document(path.stem, STRATUM, (("user", _read(path)),))


def _entry(path: Path, line: int, text: str) -> Document:
    where = f"{path}, line {line}"
    try:
        entry: Any = json.loads(text)
    except json.JSONDecodeError as error:
        raise DocumentError(f"{where}: not JSON ({error.msg}); is the file cut short?") from None
    if not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
        raise DocumentError(f"{where}: an object with a string 'id' is needed")
    if ("prompt" in entry) == ("messages" in entry):
        raise DocumentError(f"{where}: document {entry['id']!r} needs either 'prompt' or 'messages'")
    messages = entry.get("messages", [{"role": "user", "content": entry.get("prompt")}])
    try:
        pairs = tuple((message["role"], message["content"]) for message in messages)
    except (KeyError, TypeError):
        pairs = ((None, None),)
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise DocumentError(
            f"{where}: document {entry['id']!r}: messages are objects with strings 'role' and 'content'"
        )
    stratum = entry.get("stratum", STRATUM)
    if not isinstance(stratum, str):
        raise DocumentError(f"{where}: document {entry['id']!r}: 'stratum' must be a string")
    return Document(entry["id"], stratum, pairs)
