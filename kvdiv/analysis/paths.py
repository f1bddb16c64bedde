"""Complete rollouts of one action as arrays, and what is read along them: timing, branch TV by lag, fixed history."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvdiv.bootstrap import ROUNDING, Floats
from kvdiv.estimates import Rollout
from kvdiv.records import Replicate
from kvdiv.theory.errors import RecordError


@dataclass(frozen=True)
class Paths:
    """Rollouts of one action, every document with the same number of replicates.

    mismatch: I_t, bool [document, replicate, H]. delta: delta_t, [document, replicate, H]. forced: f_t likewise, or None.
    tau: first divergence counted from 1, H + 1 where there is none, [document, replicate].
    """

    mismatch: Floats
    delta: Floats
    forced: Floats | None
    tau: Floats

    @property
    def horizon(self) -> int:
        """H."""
        return int(self.delta.shape[-1])

    def timing(self) -> Floats:
        """1{tau <= t}, mean over replicates, [document, H]: its document mean is P(tau <= t)."""
        times = np.arange(1, self.horizon + 1)
        reached: Floats = (self.tau[..., None] <= times).mean(1)
        return reached

    def entry(self) -> Floats:
        """(tau 1{tau <= H}, 1{tau <= H}), means over replicates, [document, 2]: the mean tau given divergence is their ratio."""
        diverged = self.tau <= self.horizon
        return np.stack([(self.tau * diverged).mean(1), diverged.mean(1)], -1)

    def by_lag(self, cohort: int) -> Floats:
        """1{tau <= m} and delta_{tau+j} 1{tau <= m} for lags j = 1..H - m, means over replicates, [document, 1 + lags].

        Every trajectory of the cohort tau <= m is there at every lag, so the curve compares the same paths early and late.
        """
        lags = np.arange(1, self.horizon - cohort + 1)
        member = self.tau <= cohort
        # 0-based index of time tau + j is tau + j - 1; non-members read index 0 and count as 0.
        index = np.where(member, self.tau, 0)[..., None] + np.where(member[..., None], lags - 1, 0)
        later = np.take_along_axis(self.delta, index.astype(np.int64), -1) * member[..., None]
        return np.concatenate([member.mean(1)[:, None], later.mean(1)], -1)

    def check_clocks(self) -> None:
        """(19) in the sample: mean I_t = p_t + sum_{s<t} p_s mean(I_t | tau = s), for every t; `RecordError` otherwise."""
        rows = self.mismatch.reshape(-1, self.horizon)
        tau = self.tau.reshape(-1)
        mixture = np.zeros(self.horizon)
        for s in range(1, self.horizon + 1):
            members = rows[tau == s]
            if len(members):
                share = len(members) / len(rows)
                mixture[s - 1] += share
                mixture[s:] += share * members[:, s:].mean(0)
        if np.any(abs(mixture - rows.mean(0)) > ROUNDING):
            raise RecordError(
                "the generation clock's mixture identity (19) fails on these records; they are not coupled rollouts"
            )


def paths(replicates: Sequence[Replicate], documents: Sequence[str]) -> Paths:
    """The arrays of one action's complete rollouts, documents in the given order; `RecordError` where some are missing."""
    by_document: dict[str, list[Rollout]] = {name: [] for name in documents}
    for replicate in replicates:
        if isinstance(replicate.value, Rollout):
            by_document[replicate.document].append(replicate.value)
    counts = {len(rollouts) for rollouts in by_document.values()}
    if len(counts) != 1 or 0 in counts:
        raise RecordError(
            f"documents have {sorted(counts)} complete rollouts; each needs the same number, at least one"
        )
    table = [by_document[name] for name in documents]
    mismatch = np.array([[rollout.mismatch for rollout in row] for row in table], dtype=np.float64)
    delta = np.array([[rollout.delta for rollout in row] for row in table], dtype=np.float64)
    horizon = delta.shape[-1]
    tau = np.array([[rollout.first_divergence or horizon + 1 for rollout in row] for row in table], dtype=np.float64)
    measured = all(rollout.forced is not None for row in table for rollout in row)
    forced = np.array([[rollout.forced for rollout in row] for row in table], dtype=np.float64) if measured else None
    return Paths(mismatch, delta, forced, tau)
