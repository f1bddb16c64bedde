"""Budgets: how many prompt entries a rule may keep, exactly.

A budget is an integer count or an exact fraction r of the prompt's n entries: kept = max(1, min(n, floor(n r))), in integers.
Floats are refused: int(n * (1 - 0.1)) is one short for thousands of lengths.
"""

from fractions import Fraction

from kvdiv.theory.errors import ActionError

Retention = int | Fraction


def budget(retention: Retention, length: int) -> int:
    """The number of entries to keep of a prompt of `length` >= 1; `ActionError` for a float or a retention below 0.

    >>> budget(Fraction(9, 10), 10), budget(Fraction(1, 2), 7), budget(512, 300)
    (9, 3, 300)
    """
    if isinstance(retention, bool) or not isinstance(retention, int | Fraction):
        raise ActionError(
            f"retention {retention!r}: give an integer count or a Fraction, not a {type(retention).__name__}"
        )
    if retention <= 0 or (isinstance(retention, Fraction) and retention > 1):
        raise ActionError(f"retention {retention}: a count must be at least 1, a fraction in (0, 1]")
    wanted = retention if isinstance(retention, int) else length * retention.numerator // retention.denominator
    return max(1, min(length, wanted))
