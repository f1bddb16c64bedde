"""Filler: ordinary sentences and coined words, made from small vocabularies."""

import random
from collections.abc import Callable, Collection

SUBJECTS = (
    "the baker",
    "a gardener",
    "our neighbour",
    "the old captain",
    "a young teacher",
    "the librarian",
    "the violinist",
    "a carpenter",
    "the postman",
    "my aunt",
    "the night watchman",
    "a travelling merchant",
    "the station master",
    "the apprentice",
    "a tired nurse",
)
VERBS = (
    "repaired",
    "painted",
    "forgot",
    "carried",
    "admired",
    "measured",
    "sold",
    "described",
    "cleaned",
    "lost",
    "borrowed",
    "found",
)
OBJECTS = (
    "a wooden boat",
    "the blue gate",
    "three baskets of apples",
    "an unfinished letter",
    "the kitchen clock",
    "a map of the valley",
    "two copper kettles",
    "the longest ladder",
    "a box of candles",
    "the broken umbrella",
    "a woollen coat",
    "the garden bench",
)
PLACES = (
    "behind the mill",
    "near the river",
    "at the market",
    "in the empty theatre",
    "on the hill",
    "under the bridge",
    "by the harbour",
    "in the courtyard",
    "beside the chapel",
    "along the canal",
    "in the attic",
)
TIMES = (
    "before sunrise",
    "on a rainy Tuesday",
    "last winter",
    "after the concert",
    "during the long break",
    "in early spring",
    "shortly before noon",
    "when the bells rang",
    "at the end of the week",
)
ENDINGS = (
    "and nobody noticed",
    "which surprised everyone",
    "as had been agreed",
    "and went home",
    "though it was late",
    "and wrote it down",
    "without a word",
    "for the second time",
    "and laughed about it",
)
ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z", "br", "tr", "st", "pl", "gr")
VOWELS = ("a", "e", "i", "o", "u", "ai", "ou")
CODAS = ("", "n", "r", "l", "s", "m", "k")


def sentences(seed: int) -> Callable[[int], list[str]]:
    """`filler(amount)`: the first `amount` sentences of an endless seeded sequence, as a fresh list."""
    rng = random.Random(seed)
    made: list[str] = []

    def filler(amount: int) -> list[str]:
        while len(made) < amount:
            subject, verb, thing, place, when, ending = map(
                rng.choice, (SUBJECTS, VERBS, OBJECTS, PLACES, TIMES, ENDINGS)
            )
            shapes = (
                f"{subject} {verb} {thing} {place} {when}",
                f"{when} {subject} {verb} {thing}, {ending}",
                f"{place} {subject} {verb} {thing} {ending}",
            )
            sentence = rng.choice(shapes)
            made.append(f"{sentence[0].upper()}{sentence[1:]}.")
        return made[:amount]

    return filler


def coined_words(rng: random.Random, number: int, *, avoid: Collection[str] = ()) -> list[str]:
    """Distinct words of two or three syllables that no sentence of the filler contains."""
    coined: dict[str, None] = {}
    while len(coined) < number:
        syllables = (rng.choice(ONSETS) + rng.choice(VOWELS) + rng.choice(CODAS) for _ in range(rng.choice((2, 3))))
        word = "".join(syllables)
        if word not in avoid:
            coined[word] = None
    return list(coined)
