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


def render(results: Mapping[str, Any]) -> str:
    """The whole report as HTML; every number in it is one of the results, rounded."""
    environment = Environment(
        loader=PackageLoader("kvdiv.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "number": number, "interval": interval, "points": points}
    figures = {name: Markup(svg(name, results)) for name in FIGURES}  # our own drawing, its texts escaped by matplotlib
    return environment.get_template("report.html.j2").render(results=results, figures=figures)


def write_report(results: Mapping[str, Any], folder: Path) -> None:
    """Write results.json, report.html and overview.png into an existing folder; `RecordError` where that fails."""
    try:
        text = json.dumps(results, indent=1, allow_nan=False)
    except ValueError as error:
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


def percent(value: float) -> str:
    """0.1234 as 12.34 %."""
    return f"{100 * value:.2f} %"


def points(value: float) -> str:
    """0.1234 as +12.34, percentage points."""
    return f"{100 * value:+.2f}"


def number(value: float | None, digits: int = 3) -> str:
    """A number to some significant digits; a dash for None."""
    return "–" if value is None else f"{value:.{digits}g}"


def interval(shown: Mapping[str, Any], kind: str = "percent") -> str:
    """Estimate [low, high], marked where the interval is degenerate."""
    write = points if kind == "points" else lambda value: f"{100 * value:.2f}"
    ends = "no spread" if shown["degenerate"] else f"{write(shown['low'])}, {write(shown['high'])}"
    return f"{write(shown['estimate'])} [{ends}]"
