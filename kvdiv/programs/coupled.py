"""The coupled continuation to the horizon that every program ends with. Paper equations (2), (3)."""

from dataclasses import replace

from kvdiv.estimates import Rollout
from kvdiv.requests import Couple, Coupled, Forced, Probability, Program


def coupled(start: Rollout, horizon: int, *, forced: bool = False) -> Program[Rollout]:
    """Continue `start` step by step under the maximal coupling until H tokens are there.

    With `forced` the perturbed kernel is also evaluated on the reference's own history, f_t = TV(P(.|x_<t), Q(.|x_<t)); while
    x = y that is delta_t itself and costs nothing.
    """
    x, y = start.x, start.y
    delta = list(start.delta)
    fixed: list[Probability] = list(start.forced or ())
    while len(x) < horizon:
        answer: Coupled = yield Couple(x, y)
        if forced:
            fixed.append((yield Forced(x, x)) if x != y else answer.delta)
        x, y = (*x, answer.a), (*y, answer.b)
        delta.append(answer.delta)
    return replace(start, x=x, y=y, delta=tuple(delta), forced=tuple(fixed) if forced else None)
