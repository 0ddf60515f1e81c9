"""Maps of the scalp by class, and the quality of the leads, drawn from a labelled recording."""

from typing import Any

import matplotlib as mpl
import mne
import numpy as np
from matplotlib.figure import Figure

from bci_stream.board.report.figures import STYLE, literal, to_svg
from bci_stream.board.report.recording import MAPS, Floats, LeadQuality

COLUMNS = 5
VERDICT_COLOURS = {"good": "#0f8a63", "hum": "#d26a00", "noisy": "#c43d3d", "flat": "#8a93a2"}


def draw_topographies(track: str, info: Any, values: dict[str, Floats]) -> str:
    """One head a class, all on the same scale."""
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
        figure.supxlabel(MAPS[track].title, fontsize=8, color="#5a6372")
        return to_svg(figure)


def draw_quality(leads: list[LeadQuality]) -> str:
    """A bar a lead: its spread, in the colour of what it is good for."""
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
