"""Draws the processes of a contest and the streams between them: the picture of docs/architecture.md.

python scripts/draw_architecture.py [FILE]        # default: docs/img/architecture.png
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

INK, QUIET = "#1f2933", "#52606d"
PROCESS, DATA, PEOPLE = "#dbeafe", "#e4e7eb", "#fce8b2"
WIDTH, HEIGHT = 2.5, 1.0

Box = tuple[float, float, str, str]  # centre, words, colour
BOXES: dict[str, Box] = {
    "recording": (0.0, 6.4, "recording", DATA),
    "amplifier": (0.0, 4.6, "amplifier", DATA),
    "replay": (4.0, 5.5, "bci-replay\nowns the data", PROCESS),
    "decoder": (9.6, 7.6, "bci-decode\none for each team", PROCESS),
    "submission": (14.4, 7.6, "submission\nsandboxed process", PROCESS),
    "judge": (9.6, 3.4, "bci-judge\nowns rules, truth, clock", PROCESS),
    "client": (4.0, 8.4, "any LSL client", PEOPLE),
    "log": (9.6, 0.8, "run log", DATA),
    "board": (14.4, 0.8, "leaderboard, report,\nstore", PEOPLE),
    "page": (14.4, 3.4, "page\nits own process", PROCESS),
    "browsers": (14.4, 5.5, "browsers", PEOPLE),
}
Arrow = tuple[str, str, str, float, float, float]  # from, to, words, bend, where the words stand
ARROWS: list[Arrow] = [
    ("recording", "replay", "", 0, 0, 0),
    ("amplifier", "replay", "", 0, 0, 0),
    ("replay", "client", "markers, codes", 0, 3.85, 7.1),
    ("replay", "decoder", "signal, control (signed)", -0.12, 6.2, 7.45),
    ("decoder", "replay", "results, packet requests", -0.12, 7.0, 6.1),
    ("replay", "judge", "truth, packets, order (sealed)", 0.12, 5.7, 3.75),
    ("judge", "replay", "go, ready (signed)", 0.12, 6.9, 4.85),
    ("decoder", "judge", "results\n(signed or sealed)", 0.15, 9.0, 5.35),
    ("judge", "decoder", "closed,\nresend", 0.15, 10.45, 5.7),
    ("decoder", "submission", "pipe", 0, 12.05, 7.8),
    ("judge", "log", "", 0, 0, 0),
    ("log", "board", "", 0, 0, 0),
    ("judge", "page", "socket pair:\nwhat may be shown", 0, 12.0, 3.95),
    ("page", "browsers", "HTTP, events", 0, 14.4, 4.45),
]


def draw(axes: Axes) -> None:
    """Draw boxes and arrows."""
    patches = {}
    for name, (x, y, words, colour) in BOXES.items():
        patches[name] = FancyBboxPatch(
            (x - WIDTH / 2, y - HEIGHT / 2), WIDTH, HEIGHT, boxstyle="round,pad=0.05,rounding_size=0.15",
            facecolor=colour, edgecolor=QUIET, linewidth=1,
        )  # fmt: skip
        axes.add_patch(patches[name])
        axes.text(x, y, words, ha="center", va="center", fontsize=9, color=INK)
    for source, target, words, bend, x, y in ARROWS:
        axes.add_patch(
            FancyArrowPatch(
                BOXES[source][:2],
                BOXES[target][:2],
                patchA=patches[source],
                patchB=patches[target],
                connectionstyle=f"arc3,rad={bend}",
                arrowstyle="-|>",
                mutation_scale=11,
                color=QUIET,
            )
        )
        axes.text(
            x, y, words, ha="center", va="center", fontsize=7.5, color=INK,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )  # fmt: skip
    axes.set(xlim=(-1.5, 16), ylim=(0, 9.2), aspect="equal")
    axes.axis("off")


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/img/architecture.png")
    figure, axes = plt.subplots(figsize=(12, 6.4), layout="constrained")
    draw(axes)
    figure.savefig(path, dpi=110, facecolor="white")
    print(path)


if __name__ == "__main__":
    main()
