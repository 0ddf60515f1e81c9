"""Draws a trial of each track on a time line, with its triggers: the pictures of docs/tracks.md.

    python scripts/draw_trials.py [FOLDER]        # default: docs/img

All times and codes come from `tracks`, so that a picture can't tell what the rules do not.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from tracks import emotion, erp, mi, turing
from tracks.common.angles import ANGLE_RATE
from tracks.common.seconds import PACKETS_A_SECOND
from tracks.registry import TRACKS

INK, QUIET, HIDDEN = "#1f2933", "#7b8794", "#c2413b"
REST, CUE, TASK, ACTION = "#e4e7eb", "#fce8b2", "#b3d4fc", "#cfe8cf"

Phase = tuple[float, float, str, str]  # start, length, name, colour
Mark = tuple[float, str, str]  # time, code on the wire, code in the labelled recording
Span = tuple[float, float, str]  # start, end, what counts in it


@dataclass(frozen=True)
class Picture:
    """One trial: its phases, its triggers, and the spans that matter for the score."""

    title: str
    phases: list[Phase]
    marks: list[Mark]
    spans: list[Span]


def draw_mi() -> Picture:
    start = float(mi.CUE_S)
    end = start + mi.IMAGERY_S
    first, second, third = (start + seconds for seconds in (0, 2, 3))
    return Picture(
        "mi: three reports a trial",
        [
            (0, mi.CUE_S, "cue (zeroed)", REST),
            (start, mi.IMAGERY_S, "imagery", TASK),
            (end, mi.REST_S, "rest (zeroed)", REST),
        ],
        [
            (first, str(mi.IMAGERY_START), "11 21 31"),
            (second, str(mi.IMAGERY_2_S), "12 22 32"),
            (third, str(mi.IMAGERY_3_S), "13 23 33"),
            (end, "241", "241"),
        ],
        [
            (start, start + limit, f"report {k}: at most {limit} s of data")
            for k, limit in enumerate(mi.LIMITS_S, start=1)
        ],
    )


def draw_turing() -> Picture:
    task, action = turing.CUE_S, turing.CUE_S + turing.TASK_S
    end = action + turing.ACTION_S
    return Picture(
        "turing: one report a trial, the earlier the better",
        [
            (0, turing.CUE_S, "cue", CUE),
            (task, turing.TASK_S, "task", TASK),
            (action, turing.ACTION_S, "the robots move", ACTION),
        ],
        [
            (0, "240", "240"),
            (task, "behaviour x 8", "behaviour x 8 + task"),
            (end, "241", "241"),
        ],
        [(task, task + turing.LIMIT_S, f"the report: less than {turing.LIMIT_S} s of data")],
    )


def draw_emotion() -> Picture:
    packet = TRACKS["emotion"].packet_samples / TRACKS["emotion"].rate
    grid, clip, length = 0.4, 2.0, 6.0
    seconds = [grid + j for j in range(9)]
    inside = [
        s
        for s in seconds
        if s >= clip + emotion.MARGIN_S and s + 1 <= clip + length - emotion.MARGIN_S
    ]
    spans: list[Span] = [
        (s, s + 1, f"{j}: counts" if s in inside else f"{j}") for j, s in enumerate(seconds)
    ]
    return Picture(
        f"emotion: a decision every {PACKETS_A_SECOND} packets of {packet:g} s (a short clip)",
        [
            (0, clip, "fixation", CUE),
            (clip, length, "clip", TASK),
            (clip + length, 2, "rating", REST),
        ],
        [
            (grid - packet / 2, "242", "242"),
            (clip - emotion.CLIP_NUMBER_LEAD_S, "", "1-28"),
            (clip, "", "240"),
            (clip + length, "", "241"),
            (clip + length + 1.7, "243", "243"),
        ],
        spans,
    )


def draw_ecog() -> Picture:
    track = TRACKS["ecog"]
    packet = 1000 * track.packet_samples / track.rate
    rows = ANGLE_RATE * packet / 1000
    return Picture(
        "ecog: the angles of each packet (ms)",
        [
            (k * packet, packet, f"packet {k}: {track.packet_samples} samples", TASK)
            for k in range(4)
        ],
        [(0, "242", "242"), (packet / 2, "240", "240"), (3.7 * packet, "241", "241")],
        [
            (k * packet, (k + 1) * packet, f"rows {k * rows:.0f}-{(k + 1) * rows - 1:.0f}")
            for k in range(4)
        ],
    )


def draw_erp() -> Picture:
    sequence = len(erp.FLASHES) * erp.FLASH_S
    starts = [erp.CUE_S + k * (sequence + erp.GAP_S) for k in range(erp.SEQUENCES)]
    flashes: list[Mark] = [
        (start + k * erp.FLASH_S, "", "") for start in starts for k in range(len(erp.FLASHES))
    ]
    ends: list[Mark] = [
        (s + sequence, str(erp.SEQUENCE_END), str(erp.SEQUENCE_END)) for s in starts
    ]
    end = starts[-1] + sequence + erp.GAP_S
    third = (erp.FLASHES_THAT_COUNT - 1) * erp.FLASH_S
    counted = [*(start + third for start in starts), end]
    return Picture(
        "erp: one report a trial; the sequences used are what it costs",
        [
            (0, erp.CUE_S, "cue", CUE),
            *((s, sequence, "12 flashes", TASK) for s in starts),
        ],
        [(0, "101", "101-136"), *flashes, *ends, (end, "241", "241")],
        [
            (0 if m == 1 else counted[m - 1], counted[m], f"m = {m}")
            for m in range(1, erp.SEQUENCES + 1)
        ],
    )


PICTURES = {
    "mi": draw_mi,
    "turing": draw_turing,
    "emotion": draw_emotion,
    "ecog": draw_ecog,
    "erp": draw_erp,
}


def draw(picture: Picture, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(10, 2.9), layout="constrained")
    _phases(axes, picture.phases)
    _marks(axes, picture.marks)
    rows = _spans(axes, picture.spans)
    ends = [start + length for start, length, *_ in picture.phases]
    last = max([*ends, *(time for time, *_ in picture.marks)])
    axes.set_xlim(-0.03 * last, 1.03 * last)
    axes.set_ylim(-0.45 * rows - 0.1, 2.15)
    axes.set_title(picture.title, loc="left", color=INK, fontsize=11)
    _key(axes, 1.08, "triggers on the wire", INK)
    _key(axes, 1.0, "and where the labelled recording differs", HIDDEN)
    axes.set_xlabel("ms" if "(ms)" in picture.title else "s", color=QUIET)
    axes.set_yticks([])
    axes.tick_params(axis="x", colors=QUIET)
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(QUIET)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _key(axes: Axes, y: float, text: str, colour: str) -> None:
    axes.text(1, y, text, transform=axes.transAxes, ha="right", color=colour, fontsize=9)


def _phases(axes: Axes, phases: list[Phase]) -> None:
    for start, length, name, colour in phases:
        axes.barh(0.5, length, left=start, height=0.9, color=colour, edgecolor="white")
        axes.text(start + length / 2, 0.5, name, ha="center", va="center", color=INK, fontsize=9)


def _marks(axes: Axes, marks: list[Mark]) -> None:
    """The wire's code above its line, the labelled recording's, where it differs, above that."""
    for number, (time, wire, labelled) in enumerate(marks):
        colour = INK if wire else HIDDEN if labelled else QUIET
        height = 1.35 if wire or labelled else 1.1
        axes.plot([time, time], [0.05, 0.95], color=colour, linewidth=1, alpha=0.3)
        axes.plot([time, time], [0.95, height], color=colour, linewidth=1)
        axes.text(time, 1.38, wire, ha="center", va="bottom", color=INK, fontsize=9)
        if labelled != wire:
            beside = _beside(marks, number)
            axes.text(time, 1.72, labelled, ha=beside, va="bottom", color=HIDDEN, fontsize=9)


def _beside(marks: list[Mark], number: int) -> str:
    """Which side of its line a hidden code stands on, where the next one is too near."""
    near = 0.02 * (marks[-1][0] - marks[0][0])
    time = marks[number][0]
    if number + 1 < len(marks) and 0 < marks[number + 1][0] - time < near:
        return "right"
    return "left" if number and 0 < time - marks[number - 1][0] < near else "center"


def _spans(axes: Axes, spans: list[Span]) -> int:
    """Below the phases, on as many rows as it takes for none to overlap."""
    ends: list[float] = []
    for start, end, text in spans:
        row = next((i for i, taken in enumerate(ends) if taken <= start + 1e-9), len(ends))
        ends[row : row + 1] = [end]
        y = -0.2 - 0.45 * row
        axes.annotate("", (start, y), (end, y), arrowprops={"arrowstyle": "<->", "color": QUIET})
        axes.text((start + end) / 2, y - 0.06, text, ha="center", va="top", color=INK, fontsize=8)
    return len(ends)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/img")
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PICTURES.items():
        path = folder / f"track-{name}.png"
        draw(make(), path)
        print(path)


if __name__ == "__main__":
    main()
