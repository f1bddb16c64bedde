"""Sizing a text to a band of token counts."""

from collections.abc import Callable

from kvdiv.theory.errors import DocumentError

Count = Callable[[str], int]


def words(text: str) -> int:
    """The default count: the number of words separated by white space."""
    return len(text.split())


def check_band(low: int, high: int) -> None:
    """`DocumentError` unless 0 < low <= high."""
    if not 0 < low <= high:
        raise DocumentError(f"token band {low}..{high}: give 0 < low <= high")


def target(index: int, number: int, low: int, high: int) -> int:
    """Wanted count of the index-th of `number` texts: spread over the upper part of the band, so that none falls below it."""
    return high if number == 1 else low + (high - low) * (index + 1) // number


def largest(build: Callable[[int], str], count: Count, *, limit: int, start: int = 64) -> int:
    """The largest amount with count(build(amount)) <= limit, for a build whose count grows with the amount; 0 if none.

    Doubling, then bisection: about 2 log2(amount) calls of `count`.
    """
    above = start
    while count(build(above)) <= limit:
        above *= 2
    below = 0
    while above - below > 1:
        middle = (below + above) // 2
        if count(build(middle)) <= limit:
            below = middle
        else:
            above = middle
    return below
