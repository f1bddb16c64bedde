"""Records of a run: what each replicate drew, in parquet.

One row per step: document, stratum, action, estimator, replicate, cost, path, t, x, y, tv, forced. `path` is `rollout` (a
complete coupled pair), `scan` (the overlap scan of a branching replicate; x = y = its token, null where the rows were disjoint)
or `branch` (its pair of trajectories from the start). t counts from 1, here and nowhere else in the code. tv is the TV of the
two rows the tokens came from, float64; forced is f_t, null where it was not measured.

Files are written under a temporary name, synced, and renamed. Every page carries a checksum, since parquet without one reads a
flipped bit in silence; the footer has none, so the contents' SHA-256 stands there and is compared. Equal records give equal
bytes.
"""

import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from kvdiv.estimates import Branch, Rollout
from kvdiv.requests import Probability
from kvdiv.theory.errors import RecordError

SCHEMA = "kvdiv records 1"
DOCUMENT = {
    "document": "string",
    "stratum": "string",
    "action": "string",
    "tokens": "int64",
    "sha256": "string",
    "retained": "int64",
    "evicted": "bool",
    "cache_bytes": "int64",
}
STEP = {
    "document": "string",
    "stratum": "string",
    "action": "string",
    "estimator": "string",
    "replicate": "int64",
    "cost": "int64",
    "horizon": "int64",
    "path": "string",
    "t": "int64",
    "x": "int64",
    "y": "int64",
    "tv": "double",
    "forced": "double",
}
KEY = ("document", "stratum", "action", "estimator", "replicate", "cost", "horizon")
Row = dict[str, Any]


@dataclass(frozen=True)
class Replicate:
    """One finished replicate: whose it is, what it drew, and its cost in kernel-pair evaluations.

    estimator: the program's name, `naive`, `fixed_history` or `swrb`. replicate: counted from 0.
    """

    document: str
    stratum: str
    action: str
    estimator: str
    replicate: int
    value: Rollout | Branch
    cost: int


@dataclass(frozen=True)
class DocumentRecord:
    """One document under one action: prompt length n, hash of its token ids, entries kept, whether anything was evicted."""

    document: str
    stratum: str
    action: str
    tokens: int
    sha256: str
    retained: int
    evicted: bool
    cache_bytes: int


def write_records(folder: Path, replicates: Sequence[Replicate], documents: Sequence[DocumentRecord]) -> None:
    """Write records.parquet and documents.parquet into an existing folder.

    `RecordError` where that fails, where a replicate or a document is there twice, where a TV is outside [0, 1] (NaN is), and
    for a branch that does not diverge at its branch time: such a record could not be read back as it was.
    """
    _once(((r.document, r.action, r.estimator, r.replicate) for r in replicates), "replicate")
    _once(((d.document, d.action) for d in documents), "document and action")
    _write(folder / "records.parquet", [row for replicate in replicates for row in _rows(replicate)], STEP)
    _write(folder / "documents.parquet", [vars(document) for document in documents], DOCUMENT)


def read_records(folder: Path) -> tuple[list[Replicate], list[DocumentRecord]]:
    """Read both files back, equal to what was written; `RecordError` for a damaged or foreign file."""
    rows = _read(folder / "records.parquet", STEP)
    replicates = [
        _replicate(key, list(group)) for key, group in itertools.groupby(rows, lambda row: [row[k] for k in KEY])
    ]
    return replicates, [DocumentRecord(**row) for row in _read(folder / "documents.parquet", DOCUMENT)]


def _once(keys: Iterable[tuple[str | int, ...]], what: str) -> None:
    if twice := [key for key, times in Counter(keys).items() if times > 1]:
        raise RecordError(f"{what} {twice[0]} is there more than once; each must be recorded exactly once")


def _rows(replicate: Replicate) -> Iterator[Row]:
    value = replicate.value
    key = {name: getattr(replicate, name) for name in KEY if name != "horizon"} | {"horizon": value.horizon}
    if isinstance(value, Rollout):
        yield from _steps(key | {"path": "rollout"}, value.x, value.y, value.delta, value.forced)
        return
    yield from _steps(key | {"path": "scan"}, value.overlap, value.overlap, value.tv, None)
    if value.branch_time != (value.branch.first_divergence if value.branch is not None else None):
        raise RecordError(f"document {replicate.document!r}: the branch does not diverge at J = {value.branch_time}")
    if value.branch is not None:
        yield from _steps(key | {"path": "branch"}, value.branch.x, value.branch.y, value.branch.delta, None)


def _steps(
    key: Row,
    x: Sequence[int],
    y: Sequence[int],
    tv: Sequence[Probability],
    forced: Sequence[Probability] | None,
) -> Iterator[Row]:
    if wrong := [e for e in (*tv, *(forced or ())) if not 0 <= e <= 1]:
        raise RecordError(
            f"document {key['document']!r}, replicate {key['replicate']}: TV {wrong[0]} is outside [0, 1]"
        )
    for t, e in enumerate(tv):
        tokens: dict[str, int | None] = {"x": x[t] if t < len(x) else None, "y": y[t] if t < len(y) else None}
        yield key | {"t": t + 1} | tokens | {"tv": float(e), "forced": None if forced is None else float(forced[t])}


def _replicate(key: Sequence[Any], rows: list[Row]) -> Replicate:
    document, stratum, action, estimator, replicate, cost, horizon = key
    paths = {path: list(steps) for path, steps in itertools.groupby(rows, lambda row: row["path"])}
    value: Rollout | Branch
    if "rollout" in paths:
        value = _rollout(paths["rollout"])
    else:
        branch = _rollout(paths["branch"]) if "branch" in paths else None
        overlap = tuple(row["x"] for row in paths["scan"] if row["x"] is not None)
        tv = tuple(row["tv"] for row in paths["scan"])
        value = Branch(horizon, overlap, tv, branch.first_divergence if branch is not None else None, branch)
    return Replicate(document, stratum, action, estimator, replicate, value, cost)


def _rollout(rows: Iterable[Row]) -> Rollout:
    x, y, tv, forced = zip(*((row["x"], row["y"], row["tv"], row["forced"]) for row in rows), strict=True)
    return Rollout(x, y, tv, None if forced[0] is None else forced)


def _write(path: Path, rows: list[Row], columns: Mapping[str, str]) -> None:
    pa, pq = _arrow()
    schema = _schema(columns).with_metadata({"schema": SCHEMA, "sha256": _digest(rows)})
    table = pa.Table.from_pylist(rows, schema=schema)
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            pq.write_table(table, file, compression="zstd", write_page_checksum=True)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise RecordError(
            f"{path} cannot be written ({error.strerror}); free some space or choose another folder"
        ) from error


def _read(path: Path, columns: Mapping[str, str]) -> list[Row]:
    pa, pq = _arrow()
    try:
        table = pq.read_table(path, page_checksum_verification=True)
        metadata = table.schema.metadata or {}
        rows: list[Row] = table.to_pylist()
        digest = _digest(rows)
    except FileNotFoundError:
        raise RecordError(f"{path} does not exist") from None
    except (OSError, ValueError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise RecordError(f"{path} is damaged ({reason}); run again to make it anew") from error
    if (found := metadata.get(b"schema", b"").decode(errors="replace")) != SCHEMA:
        raise RecordError(f"{path} has schema {found!r}, not {SCHEMA!r}; it is not kvdiv's or of another version")
    if metadata.get(b"sha256") != digest.encode() or not table.schema.equals(_schema(columns)):
        raise RecordError(
            f"{path} is damaged (its contents are not those that were written); run again to make it anew"
        )
    return rows


def _schema(columns: Mapping[str, str]) -> Any:
    pa, _ = _arrow()
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()])


def _digest(rows: Iterable[Row]) -> str:
    """SHA-256 of all names and values; repr tells any two floats apart."""
    total = hashlib.sha256()
    for row in rows:
        total.update(repr(list(row.items())).encode())
    return total.hexdigest()


def _arrow() -> tuple[Any, Any]:
    """pyarrow and its parquet module, which the light core does without."""
    return import_module("pyarrow"), import_module("pyarrow.parquet")
