"""SWRB, survival-weighted residual branching: Algorithm 1 of the paper, equations (11)-(17)."""

from kvdiv.estimates import Branch, Rollout, branch_weights
from kvdiv.programs.coupled import coupled
from kvdiv.requests import Choose, Overlap, Overlapped, Probability, Program, Residual


def swrb(horizon: int) -> Program[Branch]:
    """Scan the overlap to H, choose one branch time J ~ w_s/M, start a fresh residual pair there, and couple to H.

    Every depth L is read from the one branch. Cost: the scan (up to H) plus the branch (H - J + 1).
    """
    u: tuple[int, ...] = ()
    tv: list[Probability] = []
    while len(u) < horizon and (not tv or tv[-1] != 1):
        scanned: Overlapped = yield Overlap(u)
        tv.append(scanned.e)
        if scanned.token is not None:
            u = (*u, scanned.token)
    weights = branch_weights(tuple(tv))
    if not any(weights):
        return Branch(horizon, u, tuple(tv), None, None)
    j: int = yield Choose(weights)
    common = u[:j]
    a, b = yield Residual(common)
    start = Rollout((*common, a), (*common, b), tuple(tv[: j + 1]))
    branch = yield from coupled(start, horizon)
    return Branch(horizon, u, tuple(tv), j + 1, branch)
