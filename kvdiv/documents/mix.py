"""The demo's documents: half real texts, half synthetic tasks of different kinds."""

from kvdiv.documents.document import Document
from kvdiv.documents.installed import installed_texts
from kvdiv.documents.sizing import Count, words
from kvdiv.documents.synthetic import KINDS, synthetic

TOKENS = (1000, 2400)  # a chat template adds some tokens: prompts stay within 1,000 to 2,500
ORDER = (
    "variable-tracking",
    "single-needle",
    "frequent-words",
    "multi-query",
    "common-words",
    "multi-key",
    "multi-value",
)


def demo_documents(number: int, *, seed: int, count: Count = words, tokens: tuple[int, int] = TOKENS) -> list[Document]:
    """`number` documents of two strata, the larger half real texts; lengths spread over the band of message tokens."""
    made = number // 2
    low, high = tokens
    tasks = []
    for index in range(made):
        kind = ORDER[index % len(KINDS)]
        # One task a call, so each gets its own slice of the band.
        top = low + (high - low) * (index + 1) // made
        slice_low = max(low, top - max(1, (high - low) // made))
        tasks.append(
            synthetic(kind, index // len(KINDS) + 1, tokens=(slice_low, top), seed=seed, count=count)[-1].document
        )
    return installed_texts(number - made, tokens=tokens, count=count) + tasks
