"""Hypothesis draws the same examples in every CI run, and never fails for being slow on a busy machine."""

import os

from hypothesis import settings

settings.register_profile("kvdiv", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("kvdiv")
