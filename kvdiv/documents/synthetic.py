"""Synthetic long-context tasks in the manner of RULER (arXiv 2404.06654), any length, seeded, with known answers.

Needle tasks hide statements in filler sentences; variable tracking hides a chain of assignments; the two counting tasks are
lists of words. All text is made here from small vocabularies. A task depends on (seed, kind, index) and its size only.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kvdiv.documents.document import Document
from kvdiv.documents.filler import coined_words, sentences
from kvdiv.documents.sizing import Count, check_band, largest, target, words
from kvdiv.theory.errors import DocumentError

STRATUM = "synthetic"


@dataclass(frozen=True)
class Task:
    """A document and the answers that its question asks for."""

    document: Document
    answers: tuple[str, ...]


@dataclass(frozen=True)
class _Draft:
    """A task before it has a size: `build(amount)` is the message with that much filler."""

    build: Callable[[int], str]
    answers: tuple[str, ...]


def synthetic(kind: str, number: int, *, tokens: tuple[int, int], seed: int, count: Count = words) -> list[Task]:
    """`number` tasks of a kind (a key of `KINDS`), messages of between low and high tokens.

    `DocumentError` for an unknown kind, or a band that is too low for the task or too narrow to hit.
    """
    low, high = tokens
    check_band(low, high)
    if kind not in KINDS:
        raise DocumentError(f"unknown kind of task {kind!r}; known: {', '.join(KINDS)}")
    tasks = []
    for index in range(number):
        draft = KINDS[kind](random.Random(f"{seed}/{kind}/{index}"))
        amount = largest(draft.build, count, limit=target(index, number, low, high))
        message = draft.build(amount)
        if amount == 0 or count(message) < low:
            raise DocumentError(f"task {kind!r} cannot be made {low} to {high} tokens long; widen the band or raise it")
        tasks.append(Task(Document(f"{kind}-{seed}-{index}", STRATUM, (("user", message),)), draft.answers))
    return tasks


def _needles(rng: random.Random, statements: Sequence[str], task: str, question: str, answers: Sequence[str]) -> _Draft:
    """Statements at random depths of a stretch of filler sentences."""
    depths = sorted(rng.random() for _ in statements)
    shuffled = rng.sample(list(statements), len(statements))
    filler = sentences(rng.randrange(2**32))

    def build(amount: int) -> str:
        lines = filler(amount)
        for depth, statement in reversed(list(zip(depths, shuffled, strict=True))):
            lines.insert(int(depth * amount), statement)
        return f"{task}\n\n{' '.join(lines)}\n\n{question}"

    return _Draft(build, tuple(answers))


def _codes(rng: random.Random, number: int) -> list[str]:
    return [str(code) for code in rng.sample(range(1_000_000, 10_000_000), number)]


def _statement(owner: str, code: str) -> str:
    return f"The locker of {owner} opens with the number {code}."


LOCKERS = "Somewhere in the text below it is said which number opens whose locker. Remember it; you will be asked."


def _single_needle(rng: random.Random) -> _Draft:
    (owner,), (code,) = coined_words(rng, 1), _codes(rng, 1)
    return _needles(rng, [_statement(owner, code)], LOCKERS, f"Which number opens the locker of {owner}?", [code])


def _multi_key(rng: random.Random) -> _Draft:
    owners, codes = coined_words(rng, 4), _codes(rng, 4)
    statements = [_statement(owner, code) for owner, code in zip(owners, codes, strict=True)]
    return _needles(rng, statements, LOCKERS, f"Which number opens the locker of {owners[0]}?", codes[:1])


def _multi_value(rng: random.Random) -> _Draft:
    (owner,), codes = coined_words(rng, 1), _codes(rng, 4)
    return _needles(
        rng, [_statement(owner, c) for c in codes], LOCKERS, f"Which four numbers open lockers of {owner}?", codes
    )


def _multi_query(rng: random.Random) -> _Draft:
    owners, codes = coined_words(rng, 4), _codes(rng, 4)
    statements = [_statement(owner, code) for owner, code in zip(owners, codes, strict=True)]
    return _needles(
        rng, statements, LOCKERS, f"Which numbers open the lockers of {', '.join(owners)}? Answer in that order.", codes
    )


def _variable_tracking(rng: random.Random) -> _Draft:
    names = [name.upper() for name in coined_words(rng, 8)]
    value, other = _codes(rng, 2)
    chains = names[:5], names[5:]
    statements = [
        f"Set {name} to {start if i == 0 else chain[i - 1]}."
        for chain, start in zip(chains, (value, other), strict=True)
        for i, name in enumerate(chain)
    ]
    task = "Variables are set in the text below, some to numbers, some to the value of another variable, in any order."
    return _needles(rng, statements, task, f"List all variables whose value is {value}.", chains[0])


def _listed(rng: random.Random, repeated: Mapping[str, int], question: str) -> _Draft:
    """Repeated words among `amount` words that occur once each; every entry has its own seeded place in the order."""
    placed = [(rng.random(), word) for word, times in repeated.items() for _ in range(times)]
    rare: list[tuple[float, str]] = []
    used = set(repeated)

    def build(amount: int) -> str:
        while len(rare) < amount:
            (word,) = coined_words(rng, 1, avoid=used)
            used.add(word)
            rare.append((rng.random(), word))
        listed = " ".join(word for _, word in sorted(placed + rare[:amount]))
        return f"Below is a list of words.\n\n{listed}\n\n{question}"

    return _Draft(build, tuple(repeated))


def _common_words(rng: random.Random) -> _Draft:
    repeated = dict.fromkeys(coined_words(rng, 5), 12)
    return _listed(rng, repeated, "Five words occur in the list more than once. Which ones?")


def _frequent_words(rng: random.Random) -> _Draft:
    chosen = coined_words(rng, 3)
    repeated = {word: 60 // rank**2 for rank, word in enumerate(chosen, 1)}
    return _listed(rng, repeated, "Which three words occur most often in the list? Name the most frequent one first.")


KINDS: Mapping[str, Callable[[random.Random], _Draft]] = {
    "single-needle": _single_needle,
    "multi-key": _multi_key,
    "multi-value": _multi_value,
    "multi-query": _multi_query,
    "variable-tracking": _variable_tracking,
    "common-words": _common_words,
    "frequent-words": _frequent_words,
}
