"""Figures of a report: each function draws one with matplotlib and returns it as SVG text."""

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

import matplotlib as mpl
import mne
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from bci_stream.leaderboard.report.recording import Floats, RecordedLeadQuality
from bci_stream.leaderboard.report.statistics import AccuracyPoint

COLOURS: Final = (
    "#2f62d9", "#d26a00", "#0f8a63", "#b83a86", "#7148c8", "#0a86a8", "#8d6234", "#c43d3d",
)  # fmt: skip
STYLE: Final[dict[Any, Any]] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#8a93a2",
    "axes.labelcolor": "#5a6372",
    "xtick.color": "#5a6372",
    "ytick.color": "#5a6372",
    "axes.grid": True,
    "grid.color": "#e2e5eb",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "bci-stream",
}
TEXT_LIMIT: Final = 12
WIDTH_IN: Final = 4.8
HEIGHT_IN: Final = 3.0
"""Three of these fit side by side on the page."""


def to_svg(figure: Figure) -> str:
    """The SVG element without a date, so that the same runs give the same file."""
    text = io.StringIO()
    with warnings.catch_warnings():
        # Names stay text: the browser's fonts have Chinese characters.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height))
    return figure, figure.subplots()


def draw_scores(teams: Sequence[str], sessions: Sequence[Mapping[str, float]], unit: str) -> str:
    """A bar per team for its score, a dot per subject; none for a team without any."""
    with mpl.rc_context(STYLE):
        figure, axes = _figure(WIDTH_IN, max(HEIGHT_IN, 0.5 + 0.3 * len(teams)))
        for index, scores in enumerate(sessions):
            values = list(scores.values())
            if not values:
                continue
            axes.barh(index, np.mean(values), height=0.6, color=colour(index), alpha=0.85)
            axes.plot(values, [index] * len(values), "o", ms=4, mfc="white", mec="#12151c", mew=0.9)
        axes.set_yticks(range(len(teams)), [literal(team) for team in teams])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(f"score ({unit}); dots: subjects")
        return to_svg(figure)


def draw_confusion(
    labels: Sequence[str], columns: Sequence[str], counts: Sequence[Sequence[int]]
) -> str:
    """Shares of each row (the truth), with counts if there is room."""
    with mpl.rc_context(STYLE):
        side = min(7.0, 1.6 + 0.34 * len(columns))
        figure, axes = _figure(side, side * len(labels) / len(columns) + 0.4)
        fill_confusion(axes, labels, columns, counts)
        return to_svg(figure)


def fill_confusion(
    axes: Axes, labels: Sequence[str], columns: Sequence[str], counts: Sequence[Sequence[int]]
) -> None:
    """Draw the confusion matrix on axes."""
    table = np.asarray(counts, dtype=float)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.grid(visible=False)
    axes.set_xticks(range(len(columns)), [c or "none" for c in columns], rotation=60, ha="right")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_xlabel("reported")
    axes.set_ylabel("truth")
    if len(labels) <= TEXT_LIMIT:
        for (row, column), count in np.ndenumerate(table):
            ink = "white" if shares[row, column] > 0.55 else "#12151c"
            axes.text(column, row, f"{count:.0f}", ha="center", va="center", color=ink)


def draw_accuracy(curves: Mapping[str, Sequence[AccuracyPoint]], unit: str) -> str:
    """Accuracy against the data used, with 95 % intervals."""
    with mpl.rc_context(STYLE):
        figure, axes = _figure(WIDTH_IN, HEIGHT_IN)
        fill_accuracy(axes, curves, unit)
        return to_svg(figure)


def fill_accuracy(axes: Axes, curves: Mapping[str, Sequence[AccuracyPoint]], unit: str) -> None:
    """Draw the accuracy curves on axes."""
    for index, (team, points) in enumerate(curves.items()):
        x = [p.used for p in points]
        y = np.array([p.accuracy for p in points])
        spread = np.abs(np.array([[p.low, p.high] for p in points]).T - y)
        axes.errorbar(
            x, y, spread, fmt="o-", ms=4, lw=1.6, elinewidth=0.9, capsize=2,
            color=colour(index), label=literal(team),
        )  # fmt: skip
    axes.set_ylim(-0.03, 1.03)
    axes.set_xlabel(f"data used ({unit})")
    axes.set_ylabel("accuracy")
    axes.legend(fontsize=8)


def draw_latency(latencies: Mapping[str, Sequence[float]]) -> str:
    """Cumulative distribution of the latencies."""
    with mpl.rc_context(STYLE):
        figure, axes = _figure(WIDTH_IN, HEIGHT_IN)
        for index, (team, values) in enumerate(latencies.items()):
            milliseconds = 1000 * np.maximum(np.asarray(values, dtype=float), 1e-6)
            axes.ecdf(milliseconds, color=colour(index), lw=1.8, label=literal(team))
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("latency of a report, as the judge measured it (ms)")
        axes.set_ylabel("share of reports")
        axes.legend(fontsize=8)
        return to_svg(figure)


def literal(text: str) -> str:
    """Text that matplotlib does not read as mathematics ($...$)."""
    return text.replace("$", r"\$")


COLUMNS = 5
VERDICT_COLOURS = {"good": "#0f8a63", "hum": "#d26a00", "noisy": "#c43d3d", "flat": "#8a93a2"}


def draw_topographies(title: str, info: Any, values: dict[str, Floats]) -> str:
    """One map per class, all on the same scale."""
    limit = max(float(np.abs(value).max()) for value in values.values()) or 1.0
    columns = min(COLUMNS, len(values))
    rows = -(-len(values) // columns)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(1.7 * columns + 0.8, 1.9 * rows + 0.3), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        for axis in axes.flat[len(values) :]:
            axis.set_axis_off()
        for axis, (name, value) in zip(axes.flat, values.items(), strict=False):
            image, _ = mne.viz.plot_topomap(
                value, info, axes=axis, show=False, vlim=(-limit, limit), contours=4, sensors=True
            )
            axis.set_title(literal(name), fontsize=9)
        bar = figure.colorbar(image, ax=axes, shrink=0.7, aspect=16)
        bar.outline.set_visible(False)
        figure.supxlabel(title, fontsize=8, color="#5a6372")
        return to_svg(figure)


def draw_quality(leads: list[RecordedLeadQuality]) -> str:
    """A bar per lead: its spread, in the colour of its quality."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(max(5.0, 0.16 * len(leads) + 1), 2.2))
        axes = figure.subplots()
        colours = [VERDICT_COLOURS[lead.verdict] for lead in leads]
        axes.bar(range(len(leads)), [lead.spread_uv for lead in leads], color=colours, width=0.7)
        axes.set_yscale("symlog", linthresh=1.0)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xticks(
            range(len(leads)), [literal(x.name) for x in leads], rotation=90, fontsize=6
        )
        axes.set_ylabel("spread (uV)")
        axes.grid(axis="x", visible=False)
        for verdict, colour in VERDICT_COLOURS.items():
            if any(lead.verdict == verdict for lead in leads):
                axes.bar([0], [0], color=colour, label=verdict)
        axes.legend(ncols=4, fontsize=8, loc="upper right", bbox_to_anchor=(1, 1.2))
        return to_svg(figure)
