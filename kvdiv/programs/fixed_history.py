"""A complete coupled rollout with the fixed-history path beside it: three paths a replicate (paper, section 5)."""

from kvdiv.estimates import Rollout
from kvdiv.programs.coupled import coupled
from kvdiv.requests import Program


def fixed_history(horizon: int) -> Program[Rollout]:
    """As `naive`, and F = (1/H) sum f_t with f_t = TV(P(.|X_<t), Q(.|X_<t)); R - F is the `history gap`.

    Up to the first divergence f_t = delta_t. Cost: H evaluations and one more for each step after the first divergence.
    """
    return (yield from coupled(Rollout((), (), ()), horizon, forced=True))
