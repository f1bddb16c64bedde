"""docs/faults.md names tests that exist, and leaves none of the known faults out."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FAULTS = (ROOT / "docs" / "faults.md").read_text()
KNOWN = [f"{n:02}" for n in range(1, 46) if n not in (4, 6, 8, 10, 14, 20, 26, 30, 34, 38)]  # as numbered in the list


def test_every_known_fault_has_a_row():
    """One row for each id, in order."""
    assert re.findall(r"^\| (\d\d) \|", FAULTS, re.MULTILINE) == KNOWN


def test_named_tests_exist():
    """Each `tests/file.py::name` is a function in that file; each `tests/file.py` a file."""
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", FAULTS)
    assert len(named) > 30
    for file, name in named:
        assert (ROOT / file).is_file(), file
        assert not name or f"def {name}(" in (ROOT / file).read_text(), name
