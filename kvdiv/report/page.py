"""The page: a template filled from the results; no script, no network, no font from elsewhere."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kvdiv.report.figures import FIGURES, overview, svg
from kvdiv.theory.errors import RecordError

NO_BREAK = "\N{NO-BREAK SPACE}"


def render(results: Mapping[str, Any]) -> str:
    """The whole report as HTML; every number in it is one of the results, rounded.

    results: what `analyse` returns, with `settings`, `controls` and `toy` beside it.
    """
    environment = Environment(
        loader=PackageLoader("kvdiv.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "number": number, "interval": interval}
    wanted = [name for name in FIGURES if name != "attribution" or results["gaps"]]
    figures = {name: Markup(svg(name, results)) for name in wanted}  # our own drawing, its texts escaped by matplotlib
    clear = [gap for gap in results["gaps"] if gap["shares"]]
    widest = max(clear, key=lambda gap: abs(gap["terms"]["gap"]["estimate"]), default=None)
    template = environment.get_template("report.html.j2")
    return template.render(results=results, figures=figures, widest=widest)


def write_report(results: Mapping[str, Any], folder: Path) -> None:
    """Write results.json, report.html and overview.png into an existing folder; `RecordError` where that fails."""
    try:
        text = json.dumps(results, indent=1, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RecordError(f"the results cannot be written as strict JSON ({error})") from error
    for name, content in (
        ("results.json", text.encode()),
        ("report.html", render(results).encode()),
        ("overview.png", overview(results)),
    ):
        try:
            with (folder / name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise RecordError(
                f"{folder / name} cannot be written ({error.strerror}); free some space or choose another folder"
            ) from error


def percent(shown: Mapping[str, Any]) -> str:
    """A quantity 0.1234 as 12.34 %; a dash where it is not defined."""
    return f"{100 * shown['estimate']:.2f}{NO_BREAK}%" if shown["defined"] else "–"


def number(value: float | None, digits: int = 3) -> str:
    """A number to some significant digits, whole from 1000 on; a dash for None."""
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"


def interval(shown: Mapping[str, Any], kind: str = "percent") -> str:
    """Estimate [low, high]: `percent` of a share, signed percentage `points`, or the `plain` number; breaks before [ only.

    A dash where the quantity is not defined; `no spread` where the interval is degenerate.
    """
    if not shown["defined"]:
        return "–"
    scale, form = {"percent": (100, ".2f"), "points": (100, "+.2f"), "plain": (1, ".2f")}[kind]
    low, estimate, high = (format(scale * shown[key], form) for key in ("low", "estimate", "high"))
    ends = "no spread" if shown["degenerate"] else f"{low}, {high}"
    return f"{estimate} [{ends.replace(' ', NO_BREAK)}]"
