"""Records in parquet: exact round trip, equal bytes, and no damage unnoticed."""

import dataclasses
import errno
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvdiv.estimates import Branch, Rollout
from kvdiv.records import DocumentRecord, Replicate, read_records, write_records
from kvdiv.theory.errors import RecordError

DOCUMENTS = [DocumentRecord("ä/1", "texts", "half", 1000, "0f" * 32, 500, True, 2**40)]
ROLLOUT = Rollout((3, 1, 4), (3, 2, 4), (0.0, 0.25, 1.0))
SPLIT = Rollout((7, 1, 0), (7, 0, 0), (0.5, 0.125, 0.1))
VALUES = [
    ("naive", ROLLOUT),
    ("naive", Rollout((0, 0, 0), (0, 0, 0), (0.0, 5e-324, 1 / 3))),
    ("fixed_history", dataclasses.replace(ROLLOUT, forced=(0.0, 0.25, 0.1 + 0.2))),
    ("swrb", Branch(3, (7, 8, 9), (0.5, 0.125, 0.0), 2, SPLIT)),
    ("swrb", Branch(3, (7,), (0.5, 1.0), 2, SPLIT)),  # disjoint rows at step 2: no token there
    ("swrb", Branch(3, (7, 8, 9), (0.0, 0.0, 0.0), None, None)),  # no branch mass
]
REPLICATES = [Replicate("ä/1", "texts", "half", name, i, value, 3 + i) for i, (name, value) in enumerate(VALUES)]

tv = st.floats(0, 1)


@st.composite
def values(draw, horizon):
    """A rollout with or without the fixed-history path, or a branch with or without a pair of trajectories."""
    tokens = st.lists(st.integers(0, 2**31), min_size=horizon, max_size=horizon).map(tuple)
    numbers = st.lists(tv, min_size=horizon, max_size=horizon).map(tuple)
    x, y, delta = draw(tokens), draw(tokens), draw(numbers)
    kind = draw(st.sampled_from(["rollout", "forced", "branch", "none"]))
    if kind in ("rollout", "forced"):
        return Rollout(x, y, delta, draw(numbers) if kind == "forced" else None)
    length = draw(st.integers(0, horizon))
    overlap, scan = x[:length], draw(numbers)[: min(length + 1, horizon)]
    branch = Rollout(x, y, delta) if kind == "branch" and x != y else None
    return Branch(horizon, overlap, scan, branch.first_divergence if branch else None, branch)


@st.composite
def runs(draw):
    """Replicates with text of any kind for names; no replicate twice."""
    horizon = draw(st.integers(1, 4))
    names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)
    found = draw(st.lists(st.tuples(names, names, names, names, values(horizon)), max_size=6))
    return [Replicate(*key, i, value, 2 * horizon) for i, (*key, value) in enumerate(found)]


@settings(max_examples=60)
@given(replicates=runs())
def test_round_trip(replicates):
    """read(write(r)) == r, float64 bits and missing values included."""
    with tempfile.TemporaryDirectory() as name:
        write_records(Path(name), replicates, DOCUMENTS)
        assert read_records(Path(name)) == (replicates, DOCUMENTS)


def test_round_trip_of_each_kind(tmp_path):
    """Every kind of record, with its None cases; repr tells floats apart to the bit."""
    write_records(tmp_path, REPLICATES, DOCUMENTS)
    found, documents = read_records(tmp_path)
    assert (found, documents) == (REPLICATES, DOCUMENTS)
    assert repr(found) == repr(REPLICATES)


def test_equal_records_give_equal_bytes(tmp_path):
    """The files depend on the records alone; nothing else is left in the folder; other records, other bytes."""
    folders = [tmp_path / name for name in "abc"]
    for folder, replicates in zip(folders, (REPLICATES, REPLICATES, REPLICATES[1:]), strict=True):
        folder.mkdir()
        write_records(folder, replicates, DOCUMENTS)
        assert {path.name for path in folder.iterdir()} == {"records.parquet", "documents.parquet"}
    first, second, other = ((folder / "records.parquet").read_bytes() for folder in folders)
    assert first == second != other


def test_the_table(tmp_path):
    """One row per step, t from 1, x = y = the scan's token, null where the rows were disjoint, forced only where measured."""
    write_records(tmp_path, REPLICATES, DOCUMENTS)
    rows = pq.read_table(tmp_path / "records.parquet").to_pylist()
    shown = [tuple(row[k] for k in ("replicate", "path", "t", "x", "y", "tv", "forced", "cost")) for row in rows]
    assert [row for row in shown if row[0] in (0, 2, 4)] == [
        (0, "rollout", 1, 3, 3, 0.0, None, 3),
        (0, "rollout", 2, 1, 2, 0.25, None, 3),
        (0, "rollout", 3, 4, 4, 1.0, None, 3),
        (2, "rollout", 1, 3, 3, 0.0, 0.0, 5),
        (2, "rollout", 2, 1, 2, 0.25, 0.25, 5),
        (2, "rollout", 3, 4, 4, 1.0, 0.1 + 0.2, 5),
        (4, "scan", 1, 7, 7, 0.5, None, 7),
        (4, "scan", 2, None, None, 1.0, None, 7),
        (4, "branch", 1, 7, 7, 0.5, None, 7),
        (4, "branch", 2, 1, 0, 0.125, None, 7),
        (4, "branch", 3, 0, 0, 0.1, None, 7),
    ]


@pytest.mark.parametrize("name", ["records.parquet", "documents.parquet"])
def test_no_flipped_bit_is_silent(tmp_path, name):
    """A flipped bit anywhere in the file is a `RecordError`, unless nothing that was written has changed.

    One bit of every third byte in turn, page data and footer alike.
    """
    write_records(tmp_path, REPLICATES, DOCUMENTS)
    whole, right = (tmp_path / name).read_bytes(), (REPLICATES, DOCUMENTS)
    messages = []
    for at in range(0, len(whole), 3):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << (at // 3 % 8)
        (tmp_path / name).write_bytes(damaged)
        try:
            assert read_records(tmp_path) == right, f"bit {at // 3 % 8} of byte {at}"
        except RecordError as error:
            messages.append(str(error))
    assert len(messages) > len(whole) / 10
    assert not any("\n" in message for message in messages)


def test_truncated_files_are_refused(tmp_path):
    """A file that ends anywhere before its end is damaged."""
    write_records(tmp_path, REPLICATES, DOCUMENTS)
    whole = (tmp_path / "records.parquet").read_bytes()
    for length in (0, 1, 4, len(whole) // 3, len(whole) // 2, len(whole) - 8, len(whole) - 1):
        (tmp_path / "records.parquet").write_bytes(whole[:length])
        with pytest.raises(RecordError, match="damaged"):
            read_records(tmp_path)


def test_foreign_files_are_refused(tmp_path):
    """No file, text, somebody's parquet, another version, records in the place of documents: each named for what it is."""
    with pytest.raises(RecordError, match="does not exist"):
        read_records(tmp_path)
    write_records(tmp_path, REPLICATES, DOCUMENTS)
    path, table = tmp_path / "records.parquet", pq.read_table(tmp_path / "records.parquet")
    path.write_text("document,stratum\n")
    with pytest.raises(RecordError, match="damaged"):
        read_records(tmp_path)
    pq.write_table(pa.table({"a": [1, 2]}), path)
    with pytest.raises(RecordError, match="schema ''"):
        read_records(tmp_path)
    pq.write_table(table.replace_schema_metadata({"schema": "kvdiv records 99"}), path)
    with pytest.raises(RecordError, match="'kvdiv records 99'"):
        read_records(tmp_path)
    write_records(tmp_path, REPLICATES, DOCUMENTS)
    (tmp_path / "documents.parquet").write_bytes(path.read_bytes())
    with pytest.raises(RecordError, match=r"documents\.parquet is damaged"):
        read_records(tmp_path)


def test_rows_cannot_be_taken_away(tmp_path):
    """A valid file without one row carries the digest of all of them: refused."""
    write_records(tmp_path, REPLICATES, DOCUMENTS)
    path = tmp_path / "records.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(RecordError, match="contents are not those that were written"):
        read_records(tmp_path)


def changed(index, **changes):
    return [*REPLICATES[:index], dataclasses.replace(REPLICATES[index], **changes), *REPLICATES[index + 1 :]]


@pytest.mark.parametrize(
    ("replicates", "documents", "words"),
    [
        ([*REPLICATES, REPLICATES[0]], DOCUMENTS, "more than once"),
        (REPLICATES, DOCUMENTS * 2, "more than once"),
        (changed(0, value=dataclasses.replace(ROLLOUT, delta=(0.0, float("nan"), 1.0))), DOCUMENTS, "TV nan"),
        (changed(0, value=dataclasses.replace(ROLLOUT, delta=(0.0, 1.5, 1.0))), DOCUMENTS, "TV 1.5"),
        (changed(2, value=dataclasses.replace(ROLLOUT, forced=(0.0, 0.25, -0.1))), DOCUMENTS, "TV -0.1"),
        (changed(3, value=dataclasses.replace(VALUES[3][1], branch_time=1)), DOCUMENTS, "diverge at J = 1"),
    ],
)
def test_records_that_cannot_be_right_are_not_written(tmp_path, replicates, documents, words):
    """A replicate or document twice, a TV outside [0, 1], a branch elsewhere than at J: `RecordError`, no file."""
    with pytest.raises(RecordError, match=words):
        write_records(tmp_path, replicates, documents)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    """A full disk: `RecordError` with the path, the earlier file intact, no temporary file."""
    write_records(tmp_path, REPLICATES, DOCUMENTS)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecordError, match=r"records.parquet cannot be written \(No space left"):
        write_records(tmp_path, REPLICATES[1:], DOCUMENTS)
    assert {path.name for path in tmp_path.iterdir()} == {"records.parquet", "documents.parquet"}
    assert read_records(tmp_path) == (REPLICATES, DOCUMENTS)


def test_a_missing_folder_is_one_line(tmp_path):
    """Writing where there is no folder: `RecordError` with the path."""
    with pytest.raises(RecordError, match=r"nowhere/records.parquet cannot be written"):
        write_records(tmp_path / "nowhere", REPLICATES, DOCUMENTS)
