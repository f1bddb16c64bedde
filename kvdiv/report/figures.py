"""The report's figures, each a function of the results alone; drawn with matplotlib's Agg backend, as reproducible SVG."""

import io
from collections.abc import Callable, Mapping
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Results = Mapping[str, Any]
# Okabe and Ito's colours, told apart with every kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
TERM_COLOURS = {"occurrence": "#56B4E9", "exposure": "#0072B2", "rate": "#E69F00"}
STYLE: Any = {
    "font.size": 11,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "svg.hashsalt": "kvdiv",
    "svg.fonttype": "none",
}


def timing(results: Results, axes: Axes) -> None:
    """P(tau <= t) of each action with its band."""
    for colour, (name, action) in _actions(results):
        _band(axes, action["timing"], colour, name)
    axes.set(xlabel="generated tokens t", ylabel="P(tau ≤ t)", ylim=(0, 1.02), xlim=(1, results["horizon"]))
    axes.legend(frameon=False)


def decomposition(results: Results, axes: Axes) -> None:
    """R of each action as O + Pi, with the interval of R."""
    names = list(results["actions"])
    parts = {name: action["quantities"] for name, action in results["actions"].items()}
    first = [parts[name]["occurrence"]["estimate"] for name in names]
    later = [parts[name]["occupation"]["estimate"] for name in names]
    axes.bar(names, first, color="#56B4E9", label="first mismatch (O)")
    axes.bar(names, later, bottom=first, color="#0072B2", label="later mismatches (Pi)")
    risks = [parts[name]["risk"] for name in names]
    axes.errorbar(names, [r["estimate"] for r in risks], yerr=_spread(risks), fmt="none", ecolor="black", capsize=4)
    axes.set(ylabel="share of tokens that differ", ylim=(0, 1.02))
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 1.12), ncols=2)


def attribution(results: Results, axes: Axes) -> None:
    """The terms of each gap, stacked to both sides of zero, with the interval of the gap."""
    gaps = results["gaps"]
    labels = [f"{gap['second']}\nminus {gap['first']}" for gap in gaps]
    above, below = [0.0] * len(gaps), [0.0] * len(gaps)
    for term, colour in TERM_COLOURS.items():
        heights = [100 * gap["terms"][term]["estimate"] for gap in gaps]
        bottoms = [above[i] if height >= 0 else below[i] for i, height in enumerate(heights)]
        axes.bar(labels, heights, bottom=bottoms, color=colour, label=term)
        above = [a + max(height, 0) for a, height in zip(above, heights, strict=True)]
        below = [b + min(height, 0) for b, height in zip(below, heights, strict=True)]
    totals = [gap["terms"]["gap"] for gap in gaps]
    spread = [[100 * s for s in side] for side in _spread(totals)]
    axes.errorbar(
        labels, [100 * t["estimate"] for t in totals], yerr=spread, fmt="D", color="black", capsize=4, label="gap"
    )
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set(ylabel="difference in R, percentage points")
    axes.legend(frameon=False)


def branch_tv(results: Results, axes: Axes) -> None:
    """TV by lag after the first divergence, the same trajectories at every lag."""
    for colour, (name, action) in _actions(results):
        _band(axes, action["branch_tv"], colour, name)
    axes.set(xlabel="tokens after the first difference", ylabel="mean TV", ylim=(0, 1.02))
    axes.legend(frameon=False, loc="lower right")


def windows(results: Results, axes: Axes) -> None:
    """[R_L, R_L + B_L] at a few depths, R as a line."""
    actions = list(_actions(results))
    width = 0.8 / len(actions)
    for index, (colour, (name, action)) in enumerate(actions):
        shown = action["windows"]
        at = [n + (index - (len(actions) - 1) / 2) * width for n in range(len(shown))]
        low = [window["observed"]["estimate"] for window in shown]
        high = [window["upper"]["estimate"] for window in shown]
        axes.bar(
            at,
            [b - a for a, b in zip(low, high, strict=True)],
            width * 0.8,
            bottom=low,
            color=colour,
            alpha=0.5,
            label=name,
        )
        axes.plot(at, low, "_", color=colour, markersize=9)
        axes.axhline(action["quantities"]["risk"]["estimate"], color=colour, linestyle="--", linewidth=1)
        depths = [str(window["depth"]) for window in shown]
        axes.set_xticks(range(len(shown)), depths)
    axes.set(xlabel="depth L: tokens seen from the first difference on", ylabel="R_L to R_L + B_L", ylim=(0, 1.02))
    axes.legend(frameon=False, loc="lower right")


def efficiency(results: Results, axes: Axes) -> None:
    """Variance, variance x evaluations and variance x seconds of SWRB relative to complete rollouts."""
    measures = {"variance_ratio": "variance", "work": "variance × evaluations", "time": "variance × seconds"}
    for colour, (name, action) in _actions(results):
        row = action["estimators"].get("swrb", {})
        points = [(label, row[key]) for key, label in measures.items() if row.get(key) is not None]
        if points:
            axes.plot(*zip(*points, strict=True), "o", color=colour, label=name, markersize=9)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set(ylabel="SWRB relative to rollouts", ylim=(0, None))
    axes.legend(frameon=False)


FIGURES: Mapping[str, Callable[[Results, Axes], None]] = {
    "timing": timing,
    "decomposition": decomposition,
    "attribution": attribution,
    "branch_tv": branch_tv,
    "windows": windows,
    "efficiency": efficiency,
}


def svg(name: str, results: Results) -> str:
    """One figure as an SVG element, the same bytes for the same results."""
    with rc_context(STYLE):
        figure = Figure(figsize=(7.2, 4.0), layout="constrained")
        FIGURES[name](results, figure.subplots())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def overview(results: Results) -> bytes:
    """Three panels as one PNG: when generations differ, how much, and how it goes on."""
    with rc_context(STYLE):
        figure = Figure(figsize=(15, 4.2), layout="constrained", dpi=110)
        panels = figure.subplots(1, 3)
        titles = ("When the first difference comes", "How many tokens differ", "What follows the first difference")
        for axes, title, draw in zip(panels, titles, (timing, decomposition, branch_tv), strict=True):
            draw(results, axes)
            axes.set_title(title)
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _actions(results: Results) -> list[tuple[str, tuple[str, Any]]]:
    actions = list(results["actions"].items())
    return [(COLOURS[n % len(COLOURS)], item) for n, item in enumerate(actions)]


def _band(axes: Axes, curve: Mapping[str, Any], colour: str, label: str) -> None:
    axes.plot(curve["at"], curve["estimate"], color=colour, label=label)
    axes.fill_between(curve["at"], curve["low"], curve["high"], color=colour, alpha=0.15, linewidth=0)


def _spread(intervals: list[Mapping[str, float]]) -> tuple[list[float], list[float]]:
    """Distances from the estimates down and up to the ends; a percentile interval may miss its estimate by rounding."""
    down = [max(0.0, i["estimate"] - i["low"]) for i in intervals]
    up = [max(0.0, i["high"] - i["estimate"]) for i in intervals]
    return down, up
