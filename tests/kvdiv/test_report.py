"""The report: every number from the results, one self-contained file, equal bytes, and no assumption about what was found."""

import dataclasses
import itertools
import json
import re
import struct
from html.parser import HTMLParser

import pytest

from kvdiv.analysis import analyse
from kvdiv.bootstrap import Interval
from kvdiv.report import render, write_report
from kvdiv.report.figures import FIGURES, overview, svg
from kvdiv.report.page import interval, number, percent
from kvdiv.selfcheck import self_check
from kvdiv.theory.errors import RecordError

NASTY = "<script>alert('x')</script> & $a_b$ \"q\""


def complete(run, *, noise_floor=1e-6, fixed_history=True, seconds=None, controls=None, draws=300):
    """Results with the parts that a run adds: settings, controls, the toy check."""
    seconds = {"fixed_history": 3.21, "swrb": 1.5} if seconds is None else seconds
    results = analyse(run.replicates, run.documents, seed=0, noise_floor=noise_floor, seconds=seconds, draws=draws)
    actions = list(results["actions"])
    first = [d for d in run.documents if d.action == run.documents[0].action]
    return results | {
        "settings": {
            "model": "tiny",
            "horizon": results["horizon"],
            "replicates": 12,
            "seed": 0,
            "fixed_history": fixed_history,
            "numpy": "1.26.4",
            "actions": [{"action": name, "rule": "recent", "sinks": 4} for name in actions],
            "documents": [{k: getattr(d, k) for k in ("document", "stratum", "tokens", "sha256")} for d in first],
        },
        "controls": controls
        or [
            {"name": "first_token", "value": 0.0, "limit": 0.0, "passed": True, "meaning": "Untouched."},
            {"name": "noise_floor", "value": 1.25e-6, "limit": 1e-4, "passed": True, "meaning": "Rounding."},
        ],
        "toy": self_check(),
        "seconds": seconds,
    }


@pytest.fixture(scope="module")
def results(toy_run):
    """Five documents, three actions (one of equal kernels), H = 8, 12 replicates."""
    return complete(toy_run(8, 12))


class Page(HTMLParser):
    """Texts of the tables' cells, of everything that a reader reads outside figures, and all tags and attributes."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.words, self.tags, self.attributes = [], [], [], []
        self.inside = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br", "link"):
            self.inside.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if "svg" in self.inside or "style" in self.inside:
            return
        self.words.append(data)
        if {"td", "th"} & set(self.inside):
            self.cells[-1] += data


NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]\d+)?")


def shown_forms(value):
    """Every way the report may write what stands in the results: rounded, as percent, as points; numbers inside texts."""
    if isinstance(value, dict):
        return {form for key, inner in value.items() for form in {key} | shown_forms(inner) if NUMBER.search(form)}
    if isinstance(value, list):
        lengths = {str(len(value))}
        return lengths.union(*map(shown_forms, value))
    if isinstance(value, str):
        return set(NUMBER.findall(value)) | set(NUMBER.findall(value[:16]))
    if value is None or isinstance(value, bool):
        return set()
    forms = ("{:.2f}", "{:+.2f}")
    wide = {form.format(scale * value) for scale in (1, 100) for form in forms} | {f"{abs(100 * value):.2f}"}
    return wide | {f"{value:.3g}", f"{value:.4g}", f"{value:.0f}", str(value)}


def test_every_number_in_the_tables_is_a_result(results, tmp_path):
    """Each number of each table, and of the headline, is a number of results.json, rounded."""
    write_report(results, tmp_path)
    known = shown_forms(json.loads((tmp_path / "results.json").read_text()))
    page = Page((tmp_path / "report.html").read_text())
    words = "".join(page.words)
    headline = words[: words.index("Can this be believed")]
    found = [(n, cell) for cell in [*page.cells, headline] for n in NUMBER.findall(cell.replace("[no spread]", ""))]
    assert len(found) > 250
    names = {n for name in results["actions"] for n in NUMBER.findall(name)}
    fixed = {"95", "256", "-256"}  # the level of the intervals; SHA-256
    assert {(n, cell) for n, cell in found if n not in known | names | fixed} == set()


def test_the_numbers_stand_where_they_belong(results):
    """R, O, Pi, E, C, mean TV, F and the history gap of each action, in one row and in this order."""
    page = Page(render(results))
    for name, action in results["actions"].items():
        q = action["quantities"]
        expected = [interval(q[k]) for k in ("risk", "occurrence", "occupation", "exposure", "rate", "rollout_tv")]
        expected += [interval(q["fixed_history"]), interval(q["history_gap"], "points")]
        start = next(
            i for i, cell in enumerate(page.cells) if cell == name and page.cells[i + 1 : i + 7] == expected[:6]
        )
        assert [cell.split(" below")[0] for cell in page.cells[start + 1 : start + 9]] == expected
    for gap in results["gaps"]:
        start = page.cells.index(f"{gap['second']} − {gap['first']}")
        terms = [interval(gap["terms"][k], "points") for k in ("gap", "occurrence", "exposure", "rate")]
        assert page.cells[start + 1 : start + 5] == terms


def test_another_result_gives_another_page(results):
    """A changed estimate changes the page: nothing is hard-wired."""
    changed = json.loads(json.dumps(results))
    changed["actions"]["mild"]["quantities"]["risk"]["estimate"] = 0.987654
    assert "98.77 [" not in render(results)
    assert "98.77 [" in render(changed)


def test_self_contained(results):
    """No script, no link, no source, no font, no import from elsewhere; the figures are inside, one per name, without a date."""
    text = render(results)
    page = Page(text)
    assert not {"script", "link", "iframe", "img", "object", "embed"} & set(page.tags)
    assert page.tags.count("svg") == page.tags.count("figcaption") == len(FIGURES)
    outside = [(k, v) for k, v in page.attributes if k in ("src", "href", "xlink:href") and not str(v).startswith("#")]
    assert outside == []
    assert not re.search(r"url\((?!#)|@import|<dc:date>", text)
    assert 'name="viewport"' in text


def test_equal_results_give_equal_bytes(results, tmp_path):
    """Report, results and picture are functions of the results; the picture is a PNG wide enough for a README."""
    for name in "ab":
        (tmp_path / name).mkdir()
        write_report(results, tmp_path / name)
    names = {path.name for path in (tmp_path / "a").iterdir()}
    assert names == {"report.html", "results.json", "overview.png"}
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    picture = (tmp_path / "a" / "overview.png").read_bytes()
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", picture[16:24])[0] > 1200
    assert json.loads((tmp_path / "a" / "results.json").read_text()) == results


def test_texts_are_escaped(toy_run):
    """Names with markup, quotes and dollar signs appear as text, in tables and in figures."""
    run = toy_run(4, 4, actions=("mild", "strong"), documents=("doc 0", "doc 2"))
    names = {"mild": NASTY, "strong": "strong"}

    def renamed(records):
        return [
            dataclasses.replace(r, action=names[r.action], document=r.document + NASTY, stratum=NASTY) for r in records
        ]

    run = dataclasses.replace(run, replicates=renamed(run.replicates), documents=renamed(run.documents))
    results = complete(run)
    results["settings"]["model"] = NASTY
    text = render(results)
    page = Page(text)
    assert "script" not in page.tags
    assert page.cells.count(NASTY) >= 5
    assert "&lt;script&gt;alert" in svg("timing", results)
    assert "$a_b$" in re.sub("<!--.*?-->", "", svg("timing", results), flags=re.DOTALL)


@pytest.mark.parametrize(
    "options",
    [
        {"actions": ("mild",)},
        {"actions": ("none",)},
        {"actions": ("none", "mild"), "documents": ("doc 0",)},
        {"actions": ("strong", "mild"), "estimators": ("naive",)},
        {"actions": ("strong", "mild"), "estimators": ("swrb", "naive")},
    ],
)
@pytest.mark.parametrize(("horizon", "replicates"), [(1, 2), (2, 1), (4, 3)])
def test_poor_runs_are_reported_too(toy_run, options, horizon, replicates):
    """One action, nothing diverged, one document, one replicate, one estimator, H = 1: a page and a picture, no warning.

    Warnings are errors in this suite.
    """
    run = toy_run(horizon, replicates, **options)
    results = complete(run, fixed_history="fixed_history" in {r.estimator for r in run.replicates})
    text = render(results)
    assert "nan" not in text.lower()
    assert overview(results)
    assert ("One action only" in text) == (len(results["actions"]) == 1)
    assert ("fewer than two documents" in text) == results["few_documents"]


def test_many_actions_have_labels_that_do_not_collide(results):
    """Seven actions that end at one height: seven labels, each at least 0.07 of the axes from the next."""
    from matplotlib.figure import Figure

    many = results | {"actions": {f"action {i}": results["actions"]["strong"] for i in range(7)}}
    axes = Figure().subplots()
    FIGURES["timing"](many, axes)
    heights = sorted(text.get_position()[1] for text in axes.texts)
    assert len(heights) == 7
    assert min(b - a for a, b in itertools.pairwise(heights)) > 0.07
    assert heights[0] >= 0
    assert heights[-1] <= 1.001


def test_a_failed_control_is_said_first(results):
    """A failed control stands above every number; so does an estimator that disagrees with the exact layer below it."""
    bad = [{"name": "oracle", "value": 0.5, "limit": 1e-4, "passed": False, "meaning": "Wrong positions."}]
    text = render(results | {"controls": bad})
    assert text.index("A control failed: oracle") < text.index("of the pairs differ")
    assert "FAILED" in text
    assert "A control failed" not in render(results)
    toy = [results["toy"][0] | {"agrees": False}, *results["toy"][1:]]
    text = render(results | {"toy": toy})
    assert "UNEQUAL" in text
    assert "Every possible outcome" not in text


def test_values_below_the_floor_are_marked_in_every_table(toy_run):
    """With a floor above every TV each action's row carries the mark in each of the tables of measured values."""
    run = toy_run(4, 4, actions=("mild", "strong"))
    results = complete(run, noise_floor=0.9)
    marked, clean = render(results), render(complete(run, noise_floor=0.0))
    mark = '<span class="flag" title="below three times the noise floor">below floor</span>'
    assert mark not in clean
    # headline 2 and the widest clear gap; O, Pi, E, C, R 2 x 3; gap 1; branch 2; windows 2; estimators 2 x 2
    assert marked.count(mark) == 17 + any(gap["shares"] for gap in results["gaps"])


def test_refused_shares_and_undefined_rates_are_said(toy_run):
    """Equal actions: the share is refused in words; equal kernels: a dash for C and for the first difference."""
    run = toy_run(4, 4, actions=("none", "mild"))
    results = complete(run)
    page = Page(render(results))
    row = page.cells[page.cells.index("none") :]
    assert "–" in row[:4]
    same = [dataclasses.replace(r, action="again") for r in run.replicates if r.action == "mild"]
    table = [dataclasses.replace(d, action="again") for d in run.documents if d.action == "mild"]
    run = dataclasses.replace(
        run,
        replicates=[r for r in run.replicates if r.action == "mild"] + same,
        documents=[d for d in run.documents if d.action == "mild"] + table,
    )
    text = render(complete(run))
    assert "refused: the gap may be 0" in text
    assert "No gap between two actions is clear" in text


def test_results_that_are_not_json_are_refused(results, tmp_path):
    """NaN or a foreign type in the results: `RecordError`, no file."""
    for wrong in (float("nan"), {1, 2}):
        with pytest.raises(RecordError, match="strict JSON"):
            write_report(results | {"noise_floor": wrong}, tmp_path)
        assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_one_line(results, tmp_path):
    """Writing where there is no folder: `RecordError` with the path."""
    with pytest.raises(RecordError, match=r"nowhere/results.json cannot be written"):
        write_report(results, tmp_path / "nowhere")


def test_formats():
    """The forms in which numbers are shown."""
    shown = dataclasses.asdict(Interval(0.12345, 0.1, 0.2)) | {"degenerate": False, "defined": True}
    assert interval(shown).replace("\N{NO-BREAK SPACE}", " ") == "12.35 [10.00, 20.00]"
    assert interval(shown, "points").replace("\N{NO-BREAK SPACE}", " ") == "+12.35 [+10.00, +20.00]"
    assert interval(shown, "plain").replace("\N{NO-BREAK SPACE}", " ") == "0.12 [0.10, 0.20]"
    assert "no\N{NO-BREAK SPACE}spread" in interval(shown | {"degenerate": True})
    assert interval(shown | {"defined": False}) == percent(shown | {"defined": False}) == number(None) == "–"
    assert percent(shown) == "12.35\N{NO-BREAK SPACE}%"
    assert [number(v) for v in (0.0, 8.79e-7, 0.12345, 12345.6)] == ["0", "8.79e-07", "0.123", "12346"]
