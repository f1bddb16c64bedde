"""What an eviction rule is: a choice of prompt positions, made once after the prefill."""

from typing import Any, Protocol

from torch import Tensor

from kvdiv.models.prefill import PromptCache


class Rule(Protocol):
    """A rule maps a prompt's cache and a budget to the positions it keeps.

    The result is [layer, kv_head, budget], distinct positions in ascending order; `evict` never asks for a budget of n or
    more. `parameters` describes the rule for the records.
    """

    @property
    def parameters(self) -> dict[str, Any]:
        """The rule's name and everything that changes what it keeps."""
        ...

    def __call__(self, cache: PromptCache, budget: int) -> Tensor:
        """Kept positions, [layer, kv_head, budget]."""
        ...
