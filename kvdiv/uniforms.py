"""Uniform random numbers by name: a Philox stream keyed by (seed, document, action, program, replicate).

The n-th request of a replicate takes the n-th block of its own stream, so nothing that a replicate draws depends on the order,
the batch or the worker in which it runs. The numbers of a block have fixed roles: the coin, then LEVELS each for the overlap, the
residual x and the residual y; `Choose` takes the overlap's.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

LEVELS = 5  # uniforms of one draw, a level of the tree each: enough for 16^5 tokens
BLOCK = 1 + 3 * LEVELS


class Stream:
    """The uniforms of one replicate; `stream.block()` returns the next BLOCK, float64 in [0, 1)."""

    def __init__(self, *key: int | str) -> None:
        """`key` is any tuple of integers and strings; equal keys give equal streams."""
        digest = blake2b(repr(key).encode(), digest_size=16).digest()
        self._generator = np.random.Generator(np.random.Philox(key=np.frombuffer(digest, dtype=np.uint64)))

    def block(self) -> NDArray[np.float64]:
        """The next BLOCK uniforms."""
        return self._generator.random(BLOCK)

    def many(self, count: int) -> NDArray[np.float64]:
        """The next `count` uniforms at once."""
        return self._generator.random(count)
