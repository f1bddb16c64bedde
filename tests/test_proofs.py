"""The table of proofs/README.md is true: theorems stated in main.v, Python names that import, tests that exist."""

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = re.findall(
    r"^\| `(\w+)` \| ([^|]+) \| `([\w.]+)` \| `([\w/.]+)::(\w+)` \|$",
    (ROOT / "proofs" / "README.md").read_text(),
    re.MULTILINE,
)
MAIN = (ROOT / "proofs" / "main.v").read_text()


def test_the_table_holds_every_headline_theorem():
    """Each theorem of main.v has a row, each row a theorem, and each theorem its assumptions printed."""
    stated = re.findall(r"^Theorem (\w+)", MAIN, re.MULTILINE)
    assert sorted(stated) == sorted(row[0] for row in ROWS)
    assert sorted(stated) == sorted(re.findall(r"^Print Assumptions (\w+)\.", MAIN, re.MULTILINE))


@pytest.mark.parametrize("name", sorted({row[2] for row in ROWS}))
def test_python_names_import(name):
    """Module and attribute exist."""
    module, attribute = name.rsplit(".", 1)
    assert hasattr(import_module(module), attribute)


@pytest.mark.parametrize(("file", "test"), sorted({row[3:] for row in ROWS}))
def test_named_tests_exist(file, test):
    """The file defines the test."""
    assert f"def {test}(" in (ROOT / file).read_text()


def test_docstrings_cite_files_that_exist():
    """Every proofs/*.v that the code or the docs cite is there."""
    cited = {
        name
        for folder in ("theory", "kvdiv", "models", "docs")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md")
        for name in re.findall(r"proofs/(\w+\.v)", path.read_text())
    }
    assert cited
    for name in cited:
        assert (ROOT / "proofs" / name).is_file(), name


@pytest.mark.parametrize("path", sorted((ROOT / "proofs").glob("*.v")), ids=lambda path: path.name)
def test_nothing_is_left_open(path):
    """No Admitted, no axiom."""
    assert not re.search(r"\b(Admitted|admit|Abort|Axiom|Parameter|Conjecture)\b", path.read_text())
