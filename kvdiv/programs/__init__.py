"""Estimators as programs, in reading order: `coupled` (the common tail), `naive`, `fixed_history`, `swrb`."""

from kvdiv.programs.fixed_history import fixed_history
from kvdiv.programs.naive import naive
from kvdiv.programs.swrb import swrb

__all__ = ["fixed_history", "naive", "swrb"]
