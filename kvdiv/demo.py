"""`kvdiv demo`, the main job: exact toy kernels, enumerated estimators, a real model with an evicted cache, and the report.

Everything is written to a temporary folder beside the wanted one, which takes its place only when all is there.
"""

import contextlib
import dataclasses
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from kvdiv import __version__
from kvdiv.analysis import analyse
from kvdiv.documents import TOKENS, Document, demo_documents, read_documents
from kvdiv.models.actions import Action, action
from kvdiv.models.checkpoint import Checkpoint, load_checkpoint
from kvdiv.models.controls import DocumentControl, controls, document_control
from kvdiv.models.measure import Measured, measure
from kvdiv.models.memory import available_memory, check_memory, memory_need
from kvdiv.models.prompts import Prompt, encode, token_count
from kvdiv.records import DocumentRecord, Replicate, write_records
from kvdiv.report import write_report
from kvdiv.selfcheck import self_check
from kvdiv.theory.errors import KvdivError, RecordError

MIX = 8  # documents of the demo's own
REFRESH = 0.5  # seconds between updates of the progress bar


@dataclass(frozen=True)
class Demo:
    """The demo's settings; `Demo.quick()` is the two-minute version.

    documents: how many; None for all of a file, or 8 of the demo's own, of `tokens` (low, high) tokens each.
    batch: replicates of an action run together; None for all.
    """

    model: str = "smollm2"
    weights: str = "float32"
    document_file: Path | None = None
    documents: int | None = None
    tokens: tuple[int, int] = TOKENS
    actions: tuple[str, ...] = ("snapkv-half", "snapkv-512", "recent-half")
    replicates: int = 8
    horizon: int = 64
    seed: int = 0
    fixed_history: bool = False
    batch: int | None = None

    @classmethod
    def quick(cls) -> "Demo":
        """Four documents of at most 1,600 tokens, three replicates, 32 generated tokens."""
        return cls(documents=4, tokens=(1000, 1600), replicates=3, horizon=32)

    def replace(self, **changes: Any) -> "Demo":
        """The same settings with some changed."""
        return dataclasses.replace(self, **changes)

    @property
    def complete(self) -> str:
        """The estimator by complete rollouts: with the fixed-history path where it is wanted."""
        return "fixed_history" if self.fixed_history else "naive"


def run(demo: Demo, out: Path, *, echo: Callable[[str], None] = print) -> dict[str, Any]:
    """Run the demo into folder `out` and return its results; `out` must be new, empty, or an earlier demo's.

    Writes report.html, results.json, overview.png, records.parquet and documents.parquet. Raises `KvdivError`s, and leaves
    `out` as it was then.
    """
    with _folder(out) as folder:
        toy = self_check()
        if wrong := [entry["pair"] for entry in toy if not entry["agrees"]]:
            raise KvdivError(
                f"enumeration and exact layer disagree on {wrong[0]!r}; nothing measured here could be trusted"
            )
        echo(f"exact: {len(toy)} toy kernel pairs; naive and swrb enumerated, every mean equal to the exact layer's")
        actions = [action(name) for name in dict.fromkeys(demo.actions)]
        started = time.perf_counter()
        checkpoint = load_checkpoint(demo.model, weights=demo.weights)
        echo(f"model: {demo.model}, ready after {time.perf_counter() - started:.0f} s")
        prompts = [encode(checkpoint, document) for document in _documents(demo, checkpoint)]
        _check_memory(demo, checkpoint, prompts, actions)
        finished = _measure(demo, checkpoint, prompts, actions)
        replicates = [replicate for one in finished for replicate in one.replicates]
        checks, noise = controls(replicates, [one.control for one in finished])
        for control in checks:
            verdict = "passed" if control.passed else "FAILED"
            echo(f"control {control.name}: {control.value:.3g} (limit {control.limit:g}) {verdict}")
        documents = [record for one in finished for record in one.documents]
        seconds = {name: sum(one.seconds[name] for one in finished) for name in (demo.complete, "swrb", "prefill")}
        results = analyse(replicates, documents, seed=demo.seed, noise_floor=noise, seconds=seconds)
        results |= {
            "settings": _settings(demo, actions, documents),
            "controls": [dataclasses.asdict(control) | {"passed": control.passed} for control in checks],
            "toy": toy,
            "seconds": seconds,
        }
        write_records(folder, replicates, documents)
        write_report(results, folder)
    echo(f"report: {out / 'report.html'}")
    return results


def _documents(demo: Demo, checkpoint: Checkpoint) -> Sequence[Document]:
    if demo.document_file is not None:
        return read_documents(demo.document_file)[: demo.documents]
    return demo_documents(demo.documents or MIX, seed=demo.seed, count=token_count(checkpoint), tokens=demo.tokens)


def _check_memory(demo: Demo, checkpoint: Checkpoint, prompts: Sequence[Prompt], actions: Sequence[Action]) -> None:
    """Refuse before anything is allocated; prompts are handled one after the other."""
    longest = max(prompts, key=lambda prompt: len(prompt.ids))
    together = min(demo.batch or demo.replicates, demo.replicates)
    need = memory_need(
        checkpoint,
        tokens=len(longest.ids),
        retained=len(actions) * len(longest.ids),
        rows=(3 if demo.fixed_history else 2) * together * len(actions),
        horizon=demo.horizon,
    )
    check_memory(need, available_memory(checkpoint), document=longest.document)


@dataclass(frozen=True)
class _Finished:
    """What is kept of a measured document; its caches are not."""

    replicates: Sequence[Replicate]
    documents: Sequence[DocumentRecord]
    seconds: Mapping[str, float]
    control: DocumentControl


def _measure(
    demo: Demo, checkpoint: Checkpoint, prompts: Sequence[Prompt], actions: Sequence[Action]
) -> list[_Finished]:
    """Every document in turn with its controls, behind a progress bar; the oracle only reads the shortest."""
    shortest = min(prompts, key=lambda prompt: len(prompt.ids))
    finished, shown = [], 0.0
    with tqdm(prompts, unit="document", desc="measuring") as bar:
        for index, prompt in enumerate(bar):

            def progress(live: int, name: str = prompt.document) -> None:
                nonlocal shown
                if time.monotonic() - shown > REFRESH:
                    bar.set_postfix_str(f"{name}, {live} replicates live")
                    shown = time.monotonic()

            one = measure(
                checkpoint,
                prompt,
                actions=actions,
                # In turns, so that a machine that slows down does not favour one of them.
                estimators=(demo.complete, "swrb") if index % 2 == 0 else ("swrb", demo.complete),
                replicates=demo.replicates,
                horizon=demo.horizon,
                seed=demo.seed,
                batch=demo.batch,
                progress=progress,
            )
            control = document_control(
                checkpoint, one, actions=actions, horizon=demo.horizon, seed=demo.seed, thorough=prompt is shortest
            )
            finished.append(_Finished(one.replicates, _records(one), one.seconds, control))
    return finished


def _records(one: Measured) -> list[DocumentRecord]:
    return [
        DocumentRecord(
            document=one.prompt.document,
            stratum=one.prompt.stratum,
            action=name,
            tokens=len(one.prompt.ids),
            sha256=one.prompt.sha256,
            retained=eviction.retained,
            evicted=eviction.evicted,
            cache_bytes=eviction.bytes,
        )
        for name, eviction in one.evictions.items()
    ]


def _settings(demo: Demo, actions: Sequence[Action], documents: Sequence[DocumentRecord]) -> dict[str, Any]:
    """What was run, for the results: plain JSON."""
    return {
        "model": demo.model,
        "weights": demo.weights,
        "arithmetic": "float32",
        "sampling": "softmax at temperature 1, nothing else",
        "horizon": demo.horizon,
        "replicates": demo.replicates,
        "seed": demo.seed,
        "fixed_history": demo.fixed_history,
        "batch": demo.batch,
        "threads": torch.get_num_threads(),
        "kvdiv": __version__,
        "python": platform.python_version(),
        **{package: version(package) for package in ("torch", "transformers", "numpy")},
        "actions": [one.parameters for one in actions],
        "documents": [
            {"document": one.document, "stratum": one.stratum, "tokens": one.tokens, "sha256": one.sha256}
            for one in documents
            if one.action == actions[0].name
        ],
    }


@contextlib.contextmanager
def _folder(out: Path) -> Iterator[Path]:
    """A temporary folder that takes the place of `out` when the block ends well, and vanishes otherwise."""
    out = out.resolve()
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / "results.json").exists())):
        raise RecordError(f"{out} exists and is not an earlier demo's folder; choose another with --out")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=out.parent))
    except OSError as error:
        raise RecordError(f"{out} cannot be made ({error.strerror}); choose another folder with --out") from error
    try:
        yield partial
        _replace(partial, out)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _replace(partial: Path, out: Path) -> None:
    """Put the finished folder in the place of `out`, whose former content goes last."""
    old = partial.with_name(f"{partial.name}-old")
    try:
        partial.chmod(0o755)
        if out.exists():
            out.rename(old)
        partial.rename(out)
    except OSError as error:
        if old.exists() and not out.exists():
            old.rename(out)
        raise RecordError(f"{out} cannot be replaced ({error.strerror}); choose another folder with --out") from error
    shutil.rmtree(old, ignore_errors=True)
