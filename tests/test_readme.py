"""README's code runs and prints what its comments say; its commands and links exist."""

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_code_prints_its_comments(block):
    """Every print of a README block gives the comment at the end of its line."""
    expected = [line.split("# ", 1)[1] for line in block.splitlines() if line.startswith("print(")]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(block, {})
    assert printed.getvalue().splitlines() == expected


def test_commands_are_make_targets():
    """Each `make X` that the README names is a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make ([a-z]+)", README):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(page):
    """Relative links of the documentation point to files of the repository."""
    path = ROOT / page
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), target
