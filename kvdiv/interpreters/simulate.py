"""The simulating interpreter: seeded float64 draws on a toy kernel pair, all replicates in lock-step."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kvdiv.interpreters.lockstep import Lookup, Run, lockstep
from kvdiv.requests import NewProgram
from kvdiv.theory.kernels import KernelPair
from kvdiv.uniforms import Stream

T = TypeVar("T")


def simulate(program: NewProgram[T], pair: KernelPair, replicates: int, *, seed: int) -> list[Run[T]]:
    """`replicates` independent runs of `program` on the pair's rows rounded to float64.

    Replicate i draws from the stream keyed (seed, i): the first runs stay what they were when more are asked for.
    """
    rows: dict[tuple[bool, tuple[int, ...]], NDArray[np.float64]] = {}

    def row(lookup: Lookup) -> NDArray[np.float64]:
        reference = lookup.side == "reference"
        key = (reference, lookup.history)
        if key not in rows:
            rows[key] = np.array((pair.p if reference else pair.q)(lookup.history), dtype=np.float64)
        return rows[key]

    def distributions(lookups: Sequence[Lookup]) -> NDArray[np.float64]:
        return np.stack([row(lookup) for lookup in lookups])

    return lockstep([program() for _ in range(replicates)], [Stream(seed, i) for i in range(replicates)], distributions)
