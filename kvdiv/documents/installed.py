"""Real long texts that are on every machine: the long descriptions of installed distributions, through importlib.metadata."""

import re
from importlib.metadata import Distribution, distributions

from kvdiv.documents.document import Document
from kvdiv.documents.sizing import Count, check_band, largest, target, words
from kvdiv.theory.errors import DocumentError

STRATUM = "texts"
MARKUP = re.compile(
    r"<!--.*?-->|<[^<>]+>|!\[[^\]]*\]\([^)]*\)|^\s*\.\. (image|\|).*$|^\s*:[a-z-]+:.*$", re.MULTILINE | re.DOTALL
)
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def installed_texts(number: int, *, tokens: tuple[int, int], count: Count = words) -> list[Document]:
    """`number` documents of low to high tokens each, from the first distributions by name that are long enough.

    Each carries one distribution's description, cut at a word, and asks what the package is for. The id names the version,
    since another one is another text. `DocumentError` where the machine has too few.
    """
    low, high = tokens
    check_band(low, high)
    found: list[Document] = []
    seen: set[str] = set()
    for distribution in sorted(distributions(), key=_name):
        name = _name(distribution)
        if len(found) == number or name in seen:
            continue
        seen.add(name)
        text = clean(str(distribution.metadata.json.get("description", "")))
        message = _cut(name, text, count, target(len(found), number, low, high))
        if count(message) >= low:
            found.append(Document(f"{name}-{distribution.version}", STRATUM, (("user", message),)))
    if len(found) < number:
        raise DocumentError(
            f"{len(found)} installed packages have descriptions of {low} tokens or more and {number} are needed; ask for fewer"
        )
    return found


def _cut(name: str, text: str, count: Count, limit: int) -> str:
    """The message about a text, as many of its words as fit the limit."""
    if count(whole := _message(name, text)) <= limit:
        return whole
    pieces = text.split(" ")

    def build(amount: int) -> str:
        return _message(name, " ".join(pieces[:amount]))

    return build(largest(build, count, limit=limit))


def clean(text: str) -> str:
    """A description without images, badges, HTML and link targets, with single blank lines."""
    text = LINK.sub(r"\1", MARKUP.sub("", text))
    lines = [re.sub(r"[ \t]+", " ", line).strip() for line in text.splitlines()]
    return re.sub(
        r"\n{3,}", "\n\n", "\n".join(line for line in lines if not re.fullmatch(r"[|\s]+", line) or not line)
    ).strip()


def _name(distribution: Distribution) -> str:
    return re.sub(r"[-_.]+", "-", str(distribution.metadata["Name"] or "")).lower()


def _message(name: str, text: str) -> str:
    return (
        f"This is the description that comes with the software package {name}.\n\n{text}\n\n"
        f"In a few sentences of your own: what is {name} for, who would use it, and what would they do first?"
    )
