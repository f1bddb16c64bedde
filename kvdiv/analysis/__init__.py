"""From records to results, in reading order: `consistency`, `paths`, `decomposition`, `efficiency`, `results`.

`analyse` is a pure function: the same records give the same results, and everything a report shows is in them.
"""

from kvdiv.analysis.results import analyse

__all__ = ["analyse"]
