"""The interpreter for real models: many programs in lock-step, one batched forward pass for all kernels and rows of a step.

Each program holds one suffix row per side. A wanted history is *sought*: the row is cut back to the common prefix and fed what
is missing, normally one token, so going back to U_<J after a scan costs one step and no copy. The new token t (from 0) has
position n + t, n the prompt's length, under every kernel.

The end of sequence is absorbing: after any of the checkpoint's end ids a kernel repeats the first of them with probability 1,
and its row leaves the batch. Rows are softmax of the logits in float64, temperature 1, no other transform.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import Tensor

from kvdiv.interpreters.lockstep import Lookup, Run, Side, lockstep
from kvdiv.models.attention import forward
from kvdiv.models.checkpoint import Checkpoint
from kvdiv.models.prefill import PromptCache
from kvdiv.models.suffix import PromptKeys, StepContext, SuffixStore
from kvdiv.requests import Program
from kvdiv.theory.errors import NumericalError, ProgramError
from kvdiv.theory.kernels import History
from kvdiv.uniforms import Stream

T = TypeVar("T")


@dataclass(frozen=True)
class Job(Generic[T]):
    """One replicate: a fresh program, its uniforms, and its two kernels' views of the prompt."""

    program: Program[T]
    stream: Stream
    reference: PromptKeys
    perturbed: PromptKeys


@dataclass
class _Lane:
    """One program's row for one side: which kernel, which tokens its keys are of, and the history its kept row is at."""

    kernel: int
    row: int
    fed: History = ()
    at: History | None = None


@dataclass
class ModelRows:
    """The source of rows behind `lockstep`: `rows(lookups)` gives float64 probabilities [len(lookups), vocab].

    passes: forward passes made. row_steps: tokens fed, over all rows and passes.
    """

    checkpoint: Checkpoint
    prompt: PromptCache
    jobs: Sequence[Job[object]]
    horizon: int
    document: str = ""
    passes: int = 0
    row_steps: int = 0
    _lanes: dict[tuple[int, Side], _Lane] = field(default_factory=dict)

    def __post_init__(self) -> None:
        kernels = {id(kernel): kernel for job in self.jobs for kernel in (job.reference, job.perturbed)}
        self._kernels = list(kernels.values())
        self._store = SuffixStore(self._kernels[0], 2 * len(self.jobs), self.horizon)
        self._kept = self.prompt.logits.new_zeros((2 * len(self.jobs), self.checkpoint.vocabulary), dtype=torch.float64)
        self._first = self.prompt.logits.double().softmax(-1)
        self._ends = frozenset(self.checkpoint.eos)
        self._ended = torch.zeros_like(self._first)
        self._ended[list(self.checkpoint.eos[:1])] = 1

    def __call__(self, lookups: Sequence[Lookup]) -> Tensor:
        """Rows of the kernels at the wanted histories; look-ups come in pairs, the reference's first."""
        pairs = zip(lookups[::2], lookups[1::2], strict=True)
        lookups = [lookup for first, second in pairs for lookup in (first, self._shared(first, second))]
        self._open([lookup for lookup in lookups if (lookup.program, lookup.side) not in self._lanes])
        wanted: dict[tuple[int, Side], History] = {}
        for program, side, history in lookups:
            if len(history) > self.horizon:
                raise ProgramError(
                    f"a history of {len(history)} tokens was asked for, and the horizon is {self.horizon}"
                )
            if history and not self._over(history) and self._lanes[program, side].at != history:
                wanted[program, side] = history
                self._seek(program, side, history)
        while wanted:
            wanted = self._feed(wanted)
        rows = self._kept[[self._lanes[program, side].row for program, side, _ in lookups]]
        for n, (_, _, history) in enumerate(lookups):
            if not history:
                rows[n] = self._first
            elif self._over(history):
                rows[n] = self._ended
        return rows

    def _shared(self, first: Lookup, second: Lookup) -> Lookup:
        """Where both kernels are one object, one history is read from one lane: the rows are equal, not only to rounding."""
        job = self.jobs[second.program]
        return first if job.perturbed is job.reference and first.history == second.history else second

    def _over(self, history: History) -> bool:
        return not self._ends.isdisjoint(history)

    def _open(self, lookups: Sequence[Lookup]) -> None:
        """Rows for lanes that are new, those of one kernel side by side, so that a full batch is one consecutive view."""
        kernels = {(lookup.program, lookup.side): self._kernel(lookup.program, lookup.side) for lookup in lookups}
        for key in sorted(kernels, key=kernels.__getitem__):
            self._lanes[key] = _Lane(kernels[key], self._store.allocate())
        if self._store.used > len(self._kept):
            self._kept = torch.cat([self._kept, torch.zeros_like(self._kept)])

    def _kernel(self, program: int, side: Side) -> int:
        job = self.jobs[program]
        kernel = job.reference if side == "reference" else job.perturbed
        return next(n for n, known in enumerate(self._kernels) if known is kernel)

    def _seek(self, program: int, side: Side, history: History) -> None:
        """Cut the lane back to what it shares with `history`, or copy a longer common part from its sibling."""
        lane = self._lanes[program, side]
        shared = _common(lane.fed, history)
        other: Side = "forced" if side == "perturbed" else "perturbed"
        if side != "reference" and (sibling := self._lanes.get((program, other))) is not None:
            longer = _common(sibling.fed, history)
            if longer > shared:
                self._store.copy(sibling.row, lane.row, slice(shared, longer))
                shared = longer
        lane.fed = history[: min(shared, len(history) - 1)]

    def _feed(self, wanted: dict[tuple[int, Side], History]) -> dict[tuple[int, Side], History]:
        """One forward pass, one token for each wanted lane; returns the lanes that still lack tokens."""
        batch = sorted(wanted, key=lambda key: (self._lanes[key].kernel, self._lanes[key].row))
        lanes = [self._lanes[key] for key in batch]
        slots = [len(lane.fed) for lane in lanes]
        rows = [lane.row for lane in lanes]
        context = StepContext(self._store, rows=rows, slots=slots, groups=self._groups([lane.kernel for lane in lanes]))
        tokens = torch.tensor(
            [[wanted[key][slot]] for key, slot in zip(batch, slots, strict=True)], device=self._kept.device
        )
        logits = forward(self.checkpoint.model, tokens, self.prompt.length + context.slots[:, None], context)
        self.passes += 1
        self.row_steps += len(batch)
        for key, lane in zip(batch, lanes, strict=True):
            lane.fed = wanted[key][: len(lane.fed) + 1]
        ready = [n for n, key in enumerate(batch) if lanes[n].fed == wanted[key]]
        self._keep([lanes[n] for n in ready], logits[ready])
        return {key: wanted[key] for n, key in enumerate(batch) if n not in set(ready)}

    def _keep(self, lanes: Sequence[_Lane], logits: Tensor) -> None:
        """Remember the rows that lanes have arrived at, in float64."""
        finite = torch.isfinite(logits.sum(-1))  # a NaN or an infinity anywhere leaves no finite sum
        if not bool(finite.all()):
            step = len(lanes[int(finite.logical_not().nonzero()[0])].fed) + 1
            raise NumericalError(f"document {self.document!r}: NaN or infinite logits at step {step}")
        self._kept[[lane.row for lane in lanes]] = logits.double().softmax(-1)
        for lane in lanes:
            lane.at = lane.fed

    def _groups(self, kernels: Sequence[int]) -> list[tuple[PromptKeys, int, int]]:
        """Runs of one kernel in a sorted batch: (kernel, start, stop)."""
        ends = itertools.accumulate(len(list(run)) for _, run in itertools.groupby(kernels))
        starts = [0]
        starts.extend(ends)
        return [(self._kernels[kernels[a]], a, b) for a, b in itertools.pairwise(starts)]


def decode(
    checkpoint: Checkpoint,
    prompt: PromptCache,
    jobs: Sequence[Job[T]],
    *,
    horizon: int,
    document: str = "",
    progress: Callable[[int], None] = lambda live: None,
) -> list[Run[T]]:
    """Run every job's program to its end on one prompt; results in the order of `jobs`.

    `document` is named in the `NumericalError` for NaN or infinite logits.
    """
    rows = ModelRows(checkpoint, prompt, jobs, horizon, document)  # type: ignore[arg-type]  # Job is read-only in T
    return lockstep([job.program for job in jobs], [job.stream for job in jobs], rows, rounding=True, progress=progress)


def _common(a: History, b: History) -> int:
    """Length of the longest common prefix."""
    return next((n for n, (s, t) in enumerate(zip(a, b, strict=False)) if s != t), min(len(a), len(b)))
