"""Many programs in lock-step: in each round every live program has one request, and all rows are looked up in one batch.

Where the rows come from is the caller's: float rows of a toy table (`simulate`) or a language model (`kvdiv.models.decode`). Rows
are float64 arrays, numpy or torch; the coupling itself is `kvdiv.draws`, whatever the source.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from array_api_compat import array_namespace, device

from kvdiv.draws import OVERLAP, PERTURBED, REFERENCE, Array, Split, common, couple, draw, residual, split
from kvdiv.requests import Choose, Couple, Coupled, Forced, Overlap, Overlapped, Program, Request, Residual, evaluations
from kvdiv.theory.errors import ProgramError
from kvdiv.theory.kernels import History
from kvdiv.uniforms import LEVELS, Stream

T = TypeVar("T")
Side = Literal["reference", "perturbed", "forced"]


class Lookup(NamedTuple):
    """A wanted row: of which program (its index), on which side, at which history.

    `forced` is the perturbed kernel on the fixed-history path; a source that keeps state per history holds it apart, so that
    the path of the coupling is not disturbed.
    """

    program: int
    side: Side
    history: History


Distributions = Callable[[Sequence[Lookup]], Array]


@dataclass(frozen=True)
class Run(Generic[T]):
    """A finished program: its value and its cost in kernel-pair evaluations."""

    value: T
    cost: int


def lockstep(
    programs: Sequence[Program[T]],
    streams: Sequence[Stream],
    distributions: Distributions,
    *,
    rounding: bool = False,
    progress: Callable[[int], None] = lambda live: None,
) -> list[Run[T]]:
    """Run all programs to their ends; results in the order of `programs`.

    `distributions(lookups)` returns float64 rows [len(lookups), vocab]; look-ups come in pairs, the reference's first. Each
    program takes its uniforms from its own stream.
    `progress` is called after each round with the number of programs still live.

    With `rounding` the source's rows may change by rounding from one look-up to the next, as a model's do with the batch. A
    scan may then have seen e > 0 where the rows, looked up again, are equal; a residual pair is drawn from the rows themselves
    and kept apart. It weighs no more than that rounding. Without `rounding` asking for it is a `ProgramError`.
    """
    finished: dict[int, Run[T]] = {}
    costs = [0] * len(programs)
    pending: dict[int, Request] = {}

    def advance(index: int, answer: Any) -> None:
        try:
            pending[index] = programs[index].send(answer)
            costs[index] += evaluations(pending[index])
        except StopIteration as done:
            pending.pop(index, None)
            finished[index] = Run(done.value, costs[index])

    for index in range(len(programs)):
        advance(index, None)
    while pending:
        asked = list(pending.items())
        for (index, _), answer in zip(asked, _answers(asked, streams, distributions, rounding), strict=True):
            advance(index, answer)
        progress(len(pending))
    return [finished[index] for index in range(len(programs))]


def _answers(
    asked: list[tuple[int, Request]], streams: Sequence[Stream], distributions: Distributions, rounding: bool
) -> list[Any]:
    """One answer per request, in order."""
    uniforms = np.stack([streams[index].block() for index, _ in asked])
    answers: list[Any] = [None] * len(asked)
    kernel = [n for n, (_, request) in enumerate(asked) if not isinstance(request, Choose)]
    for n, (_, request) in enumerate(asked):
        if isinstance(request, Choose):
            answers[n] = _choice(request, uniforms[n : n + 1, OVERLAP : OVERLAP + LEVELS])
    if kernel:
        lookups = [lookup for n in kernel for lookup in _lookups(*asked[n])]
        rows = distributions(lookups)
        xp = array_namespace(rows)
        u = xp.asarray(uniforms[kernel], device=device(rows))
        for n, answer in zip(
            kernel, _drawn([asked[n][1] for n in kernel], split(rows[0::2], rows[1::2]), u, rounding), strict=True
        ):
            answers[n] = answer
    return answers


def _lookups(program: int, request: Request) -> tuple[Lookup, Lookup]:
    match request:
        case Couple(x, y):
            return Lookup(program, "reference", x), Lookup(program, "perturbed", y)
        case Overlap(u) | Residual(u):
            return Lookup(program, "reference", u), Lookup(program, "perturbed", u)
        case Forced(x, y):
            return Lookup(program, "reference", x), Lookup(program, "forced", y)
    raise ProgramError(f"{request!r} is not a request; see kvdiv.requests")


def _choice(request: Choose, u: Array) -> int:
    weights = np.asarray([[float(w) for w in request.weights]])
    if not weights.sum() > 0 or weights.min() < 0:
        raise ProgramError(f"choice among weights {request.weights}: they must be non-negative with a positive sum")
    return int(draw(weights, u)[0])


def _drawn(requests: list[Request], pieces: Split, u: Array, rounding: bool) -> list[Any]:
    """Answers to kernel requests from their rows' pieces, drawn kind by kind."""
    e: list[float] = pieces.e.tolist()
    answers: list[Any] = list(e)  # right as it stands for Forced
    where = {
        kind: [n for n, request in enumerate(requests) if isinstance(request, kind)]
        for kind in (Couple, Overlap, Residual)
    }
    if n := where[Couple]:
        mine = pieces if len(n) == len(requests) else Split(*(part[n] for part in pieces))
        a, b = couple(mine, u[n])
        for i, x, y in zip(n, a.tolist(), b.tolist(), strict=True):
            answers[i] = Coupled(x, y, e[i])
    for i in where[Overlap]:
        answers[i] = Overlapped(None, e[i])
    if n := [i for i in where[Overlap] if e[i] < 1]:
        for i, token in zip(n, common(pieces, u, n).tolist(), strict=True):
            answers[i] = Overlapped(token, e[i])
    for i in [i for i in where[Residual] if e[i] == 0]:
        if not rounding:
            raise ProgramError(f"{requests[i]!r} asked for where the two rows are equal")
        answers[i] = _apart(Split(*(part[i : i + 1] for part in pieces)), u[i : i + 1])
    if n := [i for i in where[Residual] if e[i] > 0]:
        a, b = residual(pieces, u, n)
        for i, x, y in zip(n, a.tolist(), b.tolist(), strict=True):
            answers[i] = (x, y)
    return answers


def _apart(pieces: Split, u: Array) -> tuple[int, int]:
    """Different tokens from one pair of rows without residuals: the first from p, the other from q without it."""
    a = int(draw(pieces.overlap + pieces.reference, u[:, REFERENCE : REFERENCE + LEVELS])[0])
    others = pieces.overlap + pieces.perturbed
    others[:, a] = 0
    return a, int(draw(others, u[:, PERTURBED : PERTURBED + LEVELS])[0])
