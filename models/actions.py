"""Actions: an eviction rule at a retention, by name.

    full                         keep everything (the control)
    snapkv-half, recent-half     floor(n/2) entries
    snapkv-512                   512 entries; any count of 100 or more
    snapkv-90, recent-90         floor(9n/10) entries; any percentage below 100
    snapkv-1/4                   any exact fraction

The paper's actions: snapkv-512, snapkv-half, recent-half, snapkv-90, recent-90, full.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvdiv.models.eviction import Recent, Retention, Rule, SnapKV
from kvdiv.theory.errors import ActionError

PRESETS = ("snapkv-512", "snapkv-half", "recent-half", "snapkv-90", "recent-90", "full")


@dataclass(frozen=True)
class Action:
    """A named intervention. rule None keeps everything."""

    name: str
    rule: Rule | None
    retention: Retention

    @property
    def parameters(self) -> dict[str, Any]:
        """All that defines the action, for the records; retention as a string, positions as they were in the prompt."""
        rule = self.rule.parameters if self.rule is not None else {"rule": "full"}
        return {"action": self.name, **rule, "retention": str(self.retention), "positions": "original"}

    @property
    def window(self) -> int:
        """The number of last prompt queries that the rule scores with; 0 where it needs none."""
        return int(getattr(self.rule, "window", 0))


def action(name: str) -> Action:
    """The action of that name; `ActionError` for an unknown one.

    >>> action("snapkv-90").retention, action("snapkv-512").retention
    (Fraction(9, 10), 512)
    """
    if name == "full":
        return Action(name, None, Fraction(1))
    found = re.fullmatch(r"(snapkv|recent)-(half|\d+|\d+/\d+)", name)
    if found is None or (retention := _retention(found[2])) is None:
        raise ActionError(
            f"unknown action {name!r}; known: {', '.join(PRESETS)}, or <snapkv|recent>-<count>, -<percent>, -<a/b>"
        )
    rule: Rule = SnapKV() if found[1] == "snapkv" else Recent()
    return Action(name, rule, retention)


def _retention(text: str) -> Retention | None:
    if text == "half":
        return Fraction(1, 2)
    if "/" in text:
        top, bottom = map(int, text.split("/"))
        return Fraction(top, bottom) if 0 < top <= bottom else None
    number = int(text)
    return number if number >= 100 else Fraction(number, 100) if number else None
