"""`kvdiv demo` end to end: files, identical records, errors of one line, nothing half-written."""

import json
import re
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from kvdiv.analysis import analyse
from kvdiv.cli import main
from kvdiv.models import decode as decode_module
from kvdiv.records import read_records


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    """A tiny random Llama with a word tokenizer, saved as a user's checkpoint would be."""
    path = tmp_path_factory.mktemp("checkpoint")
    words = ["<unk>", "<end>", *(f"w{i}" for i in range(30))]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="<unk>", eos_token="<end>").save_pretrained(path)
    tiny(vocabulary=32, eos=1).model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """Ten documents of two strata, 90 to 180 words."""
    path = tmp_path_factory.mktemp("documents") / "mine.jsonl"
    lines = []
    for i in range(10):
        prompt = " ".join(f"w{(7 * i + j * j) % 30}" for j in range(90 + 10 * i))
        lines.append(json.dumps({"id": f"doc {i}", "stratum": "ab"[i % 2], "prompt": prompt}))
    path.write_text("\n".join(lines) + "\n")
    return path


def kvdiv(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def demo(folder, documents, out, *more):
    sizes = ("--replicates", 3, "--horizon", 6, "--action", "snapkv-half", "--action", "recent-half")
    return kvdiv("demo", "--model", folder, "--document-file", documents, "--out", out, *sizes, *more)


@pytest.fixture(scope="module")
def done(folder, documents, tmp_path_factory):
    """One finished demo."""
    out = tmp_path_factory.mktemp("runs") / "with space"
    result = demo(folder, documents, out, "--fixed-history")
    assert result.exit_code == 0, result.output
    return out


def test_the_folder_is_complete(done):
    """Report, results, picture and both record files; the report loads nothing from elsewhere; controls passed."""
    names = {"report.html", "results.json", "overview.png", "records.parquet", "documents.parquet"}
    assert {path.name for path in done.iterdir()} == names
    page = (done / "report.html").read_text()
    assert not re.findall(r"(?:src|href)=[\"']?(?:https?:)?//", page)
    assert "<script" not in page
    results = json.loads((done / "results.json").read_text())
    assert all(control["passed"] for control in results["controls"])
    assert results["documents"] == {"count": 10, "strata": {"a": 5, "b": 5}}
    assert [control["name"] for control in results["controls"]] == [
        "first_token", "full_retention", "noise_floor", "oracle", "batching",
    ]  # fmt: skip
    assert list(done.parent.iterdir()) == [done]


def test_results_follow_from_the_records(done):
    """results.json is what `analyse` makes of the parquet files, number by number."""
    results = json.loads((done / "results.json").read_text())
    replicates, documents = read_records(done)
    again = analyse(
        replicates,
        documents,
        seed=results["settings"]["seed"],
        noise_floor=results["noise_floor"],
        seconds={name: value for name, value in results["seconds"].items() if name != "prefill"},
    )
    assert json.loads(json.dumps(again)) == {name: results[name] for name in again}


def test_the_reports_table_shows_the_results(done):
    """R, O, Pi, E, C of each action in the page's table are those of results.json, rounded."""
    page, results = (done / "report.html").read_text(), json.loads((done / "results.json").read_text())
    for action in results["actions"].values():
        for quantity in ("risk", "occurrence", "occupation", "exposure", "rate", "fixed_history"):
            shown = action["quantities"][quantity]
            assert f"{100 * shown['estimate']:.2f} [" in page


def test_the_same_seed_gives_the_same_records(folder, documents, done):
    """A second run replaces the first folder with byte-identical records; another seed changes them."""
    before = (done / "records.parquet").read_bytes()
    assert demo(folder, documents, done, "--fixed-history").exit_code == 0
    assert (done / "records.parquet").read_bytes() == before
    assert demo(folder, documents, done.parent / "other", "--fixed-history", "--seed", 1).exit_code == 0
    assert (done.parent / "other" / "records.parquet").read_bytes() != before


def test_batches_give_the_same_tokens(folder, documents, done, tmp_path):
    """One replicate at a time: equal tokens, TVs within 2e-5 (fp32 rounding; see test_decode.py)."""
    assert demo(folder, documents, tmp_path / "run", "--fixed-history", "--batch", 1).exit_code == 0
    together, apart = (
        {(r.document, r.action, r.estimator, r.replicate): r.value for r in read_records(path)[0]}
        for path in (done, tmp_path / "run")
    )
    assert together.keys() == apart.keys()
    for key, one in together.items():
        first, second = (value if key[2] != "swrb" else value.branch for value in (one, apart[key]))
        assert (first is None) == (second is None)
        if first is not None:
            assert (first.x, first.y) == (second.x, second.y)
            assert max(abs(a - b) for a, b in zip(first.delta, second.delta, strict=True)) < 2e-5


def test_more_replicates_leave_the_first_unchanged(folder, documents, done, tmp_path):
    """With four replicates the first three carry the same tokens as before."""
    assert demo(folder, documents, tmp_path / "run", "--fixed-history", "--replicates", 4).exit_code == 0
    many = {(r.document, r.action, r.estimator, r.replicate): r.value for r in read_records(tmp_path / "run")[0]}
    for r in read_records(done)[0]:
        if r.estimator == "fixed_history":
            assert many[r.document, r.action, r.estimator, r.replicate].x == r.value.x


def test_short_prompts_are_flagged(folder, tmp_path):
    """A prompt shorter than SnapKV's window keeps everything: no crash, TV 0, flagged as not evicted and below the floor."""
    path = tmp_path / "short.txt"
    path.write_text("w1 w2 w3 w4 w5")
    result = demo(folder, path, tmp_path / "run")
    assert result.exit_code == 0, result.output
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    action = results["actions"]["snapkv-half"]
    assert action["not_evicted"] == ["short"]
    assert action["below_floor"]
    assert action["quantities"]["risk"]["estimate"] == 0
    assert results["few_documents"]
    assert "below floor" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--action", "snapkw-half"), "unknown action 'snapkw-half'"),
        (("--model", "no/such-model"), "'no/such-model'"),
        (("--document-file", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_errors_are_one_line(folder, documents, tmp_path, more, words):
    """An unknown action, a missing model, missing documents: exit code 2, one line that names the value, nothing written."""
    result = demo(folder, documents, tmp_path / "run", *more)
    assert result.exit_code == 2
    lines = [line for line in result.output.splitlines() if line.startswith("kvdiv: ")]
    assert len(lines) == 1
    assert words in lines[0]
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_is_refused(folder, documents, tmp_path, monkeypatch):
    """A run that does not fit is refused before it starts, with both figures."""
    monkeypatch.setattr("kvdiv.demo.available_memory", lambda checkpoint: 1000)
    result = demo(folder, documents, tmp_path / "run")
    assert result.exit_code == 2
    assert re.search(r"MemoryNeedError: document 'doc 9' needs .* GiB and 0.0 GiB are free", result.output)
    assert list(tmp_path.iterdir()) == []


def test_logits_that_are_not_finite_leave_nothing_behind(folder, documents, tmp_path, monkeypatch):
    """NaN logits in the middle of a run: exit code 2, document and step named, no folder."""
    right = decode_module.forward

    def poisoned(model, tokens, positions, context):
        logits = right(model, tokens, positions, context)
        return torch.full_like(logits, float("nan")) if int(positions.max()) >= 113 else logits

    monkeypatch.setattr(decode_module, "forward", poisoned)
    result = demo(folder, documents, tmp_path / "run")
    assert result.exit_code == 2
    assert re.search(r"NumericalError: document 'doc 2': NaN or infinite logits at step 5", result.output)
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_folder_is_not_replaced(folder, documents, tmp_path):
    """A folder with somebody's files in it is refused and left alone."""
    (tmp_path / "thesis.txt").write_text("precious")
    result = demo(folder, documents, tmp_path)
    assert result.exit_code == 2
    assert "not an earlier demo's folder" in result.output
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_a_folder_that_cannot_be_made_is_named(folder, documents, tmp_path):
    """A file where the folder should be, or where its parent should be, is one line and exit code 2."""
    (tmp_path / "file").write_text("x")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        result = demo(folder, documents, out)
        assert result.exit_code == 2
        assert str(out) in result.output
    assert (tmp_path / "file").read_text() == "x"


def test_an_interrupted_replacement_restores_the_old_run(folder, documents, tmp_path, monkeypatch):
    """Where the last rename fails, the earlier run is back in its place and nothing else is left."""
    out = tmp_path / "run"
    assert demo(folder, documents, out).exit_code == 0
    before = (out / "records.parquet").read_bytes()
    right = Path.rename

    def failing(self, target):
        if self.name.startswith(".run-") and not self.name.endswith("-old"):
            raise OSError(28, "No space left on device")
        return right(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    result = demo(folder, documents, out, "--seed", 5)
    assert result.exit_code == 2
    assert "No space left on device" in result.output
    assert (out / "records.parquet").read_bytes() == before
    assert list(tmp_path.iterdir()) == [out]


def test_a_traceback_is_there_for_those_who_ask(folder, documents, tmp_path):
    """--traceback lets the exception through."""
    result = kvdiv("--traceback", "demo", "--model", folder, "--action", "nonsense", "--out", tmp_path / "run")
    assert type(result.exception).__name__ == "ActionError"


def test_exit_codes_and_version():
    """--version and --help exit with 0, an unknown option with 2."""
    assert kvdiv("--version").exit_code == 0
    assert "demo" in kvdiv("--help").output
    assert kvdiv("demo", "--nonsense").exit_code == 2


def test_a_failed_control_is_an_exit_code(folder, documents, tmp_path, monkeypatch):
    """Where a control fails the report is there, says so, and the exit code is 3."""
    monkeypatch.setattr("kvdiv.models.controls.ORACLE_TOLERANCE", 0.0)
    result = demo(folder, documents, tmp_path / "run")
    assert result.exit_code == 3
    assert "control oracle failed" in result.output
    assert "FAILED" in (tmp_path / "run" / "report.html").read_text()
