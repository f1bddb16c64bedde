"""Records of a run: what each replicate drew, in parquet."""

from dataclasses import dataclass

from kvdiv.estimates import Branch, Rollout


@dataclass(frozen=True)
class Replicate:
    """One finished replicate: whose it is, what it drew, and its cost in kernel-pair evaluations.

    estimator: the program's name, `naive`, `fixed_history` or `swrb`. replicate: counted from 0.
    """

    document: str
    stratum: str
    action: str
    estimator: str
    replicate: int
    value: Rollout | Branch
    cost: int
