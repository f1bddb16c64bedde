"""The report's figures, each a function of the results alone; drawn with matplotlib's Agg backend, as reproducible SVG."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

Results = Mapping[str, Any]
# Okabe and Ito's colours, told apart with every kind of colour vision.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
PART_COLOURS = {"occurrence": "#D55E00", "occupation": "#0072B2", "exposure": "#0072B2", "rate": "#E69F00"}
STYLE: Any = {
    "font.size": 11,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "lines.linewidth": 2,
    "svg.hashsalt": "kvdiv",
    "svg.fonttype": "none",
    "text.parse_math": False,  # names are text, whatever signs are in them
}
ABOVE: Any = {
    "loc": "lower left",
    "bbox_to_anchor": (0, 1),
    "frameon": False,
    "borderaxespad": 0.2,
    "columnspacing": 1,
    "handlelength": 1,
    "handletextpad": 0.5,
}


def timing(results: Results, axes: Axes) -> None:
    """P(tau <= t) of each action with its band."""
    for colour, _, action in _actions(results):
        _band(axes, action["timing"], colour)
    ends = [(action["timing"]["estimate"][-1], name, colour) for colour, name, action in _actions(results)]
    axes.set(xlabel="generated tokens t", ylabel="P(tau ≤ t)", ylim=(0, 1.02), xlim=(1, max(2, results["horizon"])))
    _end_labels(axes, ends)


def decomposition(results: Results, axes: Axes) -> None:
    """R of each action as O + Pi, with the interval of R."""
    rows = [(name, action["quantities"]) for _, name, action in _actions(results)]
    names = [name for name, _ in rows]
    first = [q["occurrence"]["estimate"] for _, q in rows]
    later = [q["occupation"]["estimate"] for _, q in rows]
    axes.barh(names, first, color=PART_COLOURS["occurrence"], label="first differences (O)")
    axes.barh(names, later, left=first, color=PART_COLOURS["occupation"], label="later ones (Pi)")
    _error_bars(axes, names, [q["risk"] for _, q in rows])
    axes.set(xlabel="share of tokens that differ (R)", xlim=(0, 1.02))
    axes.invert_yaxis()
    axes.legend(ncols=2, **ABOVE)


def attribution(results: Results, axes: Axes) -> None:
    """The terms of each gap, stacked to both sides of zero, with the interval of the gap."""
    gaps = results["gaps"]
    labels = [f"{gap['second']}\nminus {gap['first']}" for gap in gaps]
    above, below = [0.0] * len(gaps), [0.0] * len(gaps)
    for term in ("occurrence", "exposure", "rate"):
        widths = [100 * gap["terms"][term]["estimate"] for gap in gaps]
        starts = [above[i] if width >= 0 else below[i] for i, width in enumerate(widths)]
        axes.barh(labels, widths, left=starts, color=PART_COLOURS[term], label=term)
        above = [a + max(width, 0) for a, width in zip(above, widths, strict=True)]
        below = [b + min(width, 0) for b, width in zip(below, widths, strict=True)]
    _error_bars(axes, labels, [gap["terms"]["gap"] for gap in gaps], scale=100, fmt="D", label="gap")
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set(xlabel="difference in R, percentage points")
    axes.invert_yaxis()
    axes.legend(ncols=4, **ABOVE)


def branch_tv(results: Results, axes: Axes) -> None:
    """TV by lag after the first divergence, the same trajectories at every lag; an action without any is left out."""
    shown = [entry for entry in _actions(results) if entry[2]["branch_tv"]["defined"]]
    for colour, _, action in shown:
        _band(axes, action["branch_tv"], colour)
    axes.set(xlabel="tokens after the first difference", ylabel="mean TV", ylim=(0, 1.02))
    _end_labels(axes, [(action["branch_tv"]["estimate"][-1], name, colour) for colour, name, action in shown])
    if not shown:
        _say(axes, "no pair differed early enough")


def windows(results: Results, axes: Axes) -> None:
    """[R_L, R_L + B_L] at a few depths, R as a line."""
    actions = _actions(results)
    width = 0.8 / len(actions)
    for index, (colour, _, action) in enumerate(actions):
        shown = action["windows"]
        at = [n + (index - (len(actions) - 1) / 2) * width for n in range(len(shown))]
        low = [window["observed"]["estimate"] for window in shown]
        high = [window["upper"]["estimate"] for window in shown]
        axes.bar(at, [b - a for a, b in zip(low, high, strict=True)], width * 0.8, bottom=low, color=colour, alpha=0.5)
        axes.plot(at, low, "_", color=colour, markersize=9)
        axes.axhline(action["quantities"]["risk"]["estimate"], color=colour, linestyle="--", linewidth=1)
        axes.set_xticks(range(len(shown)), [str(window["depth"]) for window in shown])
    axes.set(xlabel="depth L: tokens seen from the first difference on", ylabel="R_L to R_L + B_L", ylim=(0, 1.02))
    _end_labels(axes, [(a["quantities"]["risk"]["estimate"], f"R, {name}", colour) for colour, name, a in actions])


def efficiency(results: Results, axes: Axes) -> None:
    """Variance, variance x evaluations and variance x seconds of SWRB relative to complete rollouts."""
    measures = {
        "variance_ratio": "variance\na replicate",
        "work": "variance ×\nevaluations",
        "time": "variance ×\nseconds",
    }
    actions = _actions(results)
    drawn = False
    for index, (colour, name, action) in enumerate(actions):
        row = action["estimators"].get("swrb", {})
        shift = 0.5 * (index / max(1, len(actions) - 1) - 0.5) if len(actions) > 1 else 0
        points = [(row[key], n + shift) for n, key in enumerate(measures) if row.get(key) is not None]
        if points:
            drawn = True
            axes.plot(*zip(*points, strict=True), "o", color=colour, label=name, markersize=9)
    axes.set_yticks(range(len(measures)), list(measures.values()))
    axes.set(ylim=(len(measures) - 0.5, -0.5))
    if drawn:
        axes.axvline(1, color="black", linewidth=0.8)
        axes.set(xlabel="SWRB relative to complete rollouts; left of 1 is better", xlim=(0, None))
        axes.legend(ncols=3, **ABOVE)
    else:
        _say(axes, "not defined: too few replicates, or no variance")


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
    rows = {"decomposition": len(results["actions"]), "attribution": len(results["gaps"])}
    height = 3.5 if name not in rows else 1.5 + 0.65 * rows[name]
    with rc_context(STYLE):
        # Some 400 points wide: 11-point type stays legible on a phone.
        figure = Figure(figsize=(5.6, height), layout="constrained")
        FIGURES[name](results, figure.subplots())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def overview(results: Results) -> bytes:
    """Three panels as one PNG: when generations differ, how much, and how it goes on."""
    with rc_context(STYLE):
        figure = Figure(figsize=(16, 4.2), layout="constrained", dpi=110)
        panels = figure.subplots(1, 3)
        titles = ("When the first difference comes", "How many tokens differ", "What follows the first difference")
        for axes, title, draw in zip(panels, titles, (timing, decomposition, branch_tv), strict=True):
            draw(results, axes)
            axes.set_title(title, loc="left", pad=26, weight="bold")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _actions(results: Results) -> list[tuple[str, str, Any]]:
    """(colour, name, results) of each action."""
    return [(COLOURS[n % len(COLOURS)], name, action) for n, (name, action) in enumerate(results["actions"].items())]


def _band(axes: Axes, curve: Mapping[str, Any], colour: str) -> None:
    axes.plot(curve["at"], curve["estimate"], color=colour, marker="" if len(curve["at"]) > 1 else "o")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.fill_between(curve["at"], curve["low"], curve["high"], color=colour, alpha=0.15, linewidth=0)


def _end_labels(axes: Axes, ends: Sequence[tuple[float, str, str]], *, apart: float = 0.075) -> None:
    """Each name in its colour right of the axes, near its line's end; moved up or down so that no two overlap.

    ends: (height in [0, 1], name, colour). apart: least distance of two names, a fraction of the axes' height.
    """
    placed: list[float] = []
    ordered = sorted(ends)
    for height, _, _ in ordered:
        placed.append(max([height, *(p + apart for p in placed[-1:])]))
    excess = max(0.0, placed[-1] - 1) if placed else 0.0
    for index in range(len(placed) - 1, -1, -1):
        ceiling = 1.0 if index == len(placed) - 1 else placed[index + 1] - apart
        placed[index] = min(placed[index], ceiling) if excess else placed[index]
    for (_, name, colour), height in zip(ordered, placed, strict=True):
        axes.text(1.02, height, name, color=colour, weight="bold", va="center", transform=axes.transAxes, clip_on=False)


def _error_bars(
    axes: Axes,
    names: Sequence[str],
    intervals: Sequence[Mapping[str, float]],
    *,
    scale: float = 1,
    fmt: str = "none",
    label: str | None = None,
) -> None:
    """Horizontal error bars from low to high; a percentile interval may miss its estimate by a little."""
    at = [scale * i["estimate"] for i in intervals]
    down = [scale * max(0.0, i["estimate"] - i["low"]) for i in intervals]
    up = [scale * max(0.0, i["high"] - i["estimate"]) for i in intervals]
    axes.errorbar(at, names, xerr=[down, up], fmt=fmt, color="black", ecolor="black", capsize=4, label=label)


def _say(axes: Axes, words: str) -> None:
    axes.text(0.5, 0.5, words, ha="center", va="center", transform=axes.transAxes)
