"""The naive estimator: one complete coupled rollout. Paper section 3."""

from kvdiv.estimates import Rollout
from kvdiv.programs.coupled import coupled
from kvdiv.requests import Program


def naive(horizon: int) -> Program[Rollout]:
    """X, Y from the stepwise maximal coupling, H tokens each; D = (1/H) sum I_t has mean R. Cost: H evaluations."""
    return (yield from coupled(Rollout((), (), ()), horizon))
