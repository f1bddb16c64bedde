"""Eviction rules, in reading order: `budget`, `rule`, `recent`, `snapkv`, `evict`. Keeping everything needs no rule."""

from kvdiv.models.eviction.budget import Retention, budget
from kvdiv.models.eviction.evict import Eviction, evict
from kvdiv.models.eviction.recent import Recent
from kvdiv.models.eviction.rule import Rule
from kvdiv.models.eviction.snapkv import SnapKV

__all__ = ["Eviction", "Recent", "Retention", "Rule", "SnapKV", "budget", "evict"]
