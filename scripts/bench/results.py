"""The results page of the decoders' benchmark: one section a track, replaced when the track is run."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from scripts.bench.table import Row, Verdict

HEAD = """# Decoders: results

Made by `python scripts/bench/decoders.py --page docs/decoders-results.md`; a section is replaced when its
track is run. Everything is streamed causally, packet by packet, on recordings that were left out of the
training. Intervals: 95 %, bootstrap over what the section names. Ours is in bold. "Ahead" and "behind" are
written only where the interval of the paired difference leaves out 0. Times are the method's CPU time for a
packet, mean and worst; other work ran on the machine at the same time.

Read it with care: mi's, turing's and emotion's methods were chosen by leaving people out of these same
recordings. There are few people of each kind, and only recordings that were not used in the development can
show more. A track without a section has not been run since its decoder changed.
"""


HEADER = "| data | method | score | 95 % | n | ms a packet | note |"


def update_page(
    path: Path, track: str, rows: Sequence[Row], found: Sequence[Verdict], day: str
) -> None:
    """Write or replace the section of one track."""
    text = path.read_text(encoding="utf-8") if path.exists() else HEAD
    head, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    others = [section for section in sections if not section.startswith(f"## {track}\n")]
    whole = [head.rstrip() + "\n", *(each.rstrip() + "\n" for each in others)]
    path.write_text("\n".join([*whole, section_of(track, rows, found, day)]), encoding="utf-8")


def section_of(track: str, rows: Sequence[Row], found: Sequence[Verdict], day: str) -> str:
    """Markdown: a table for each measure, then the paired differences."""
    lines = [f"## {track}", "", f"Run on {day}."]
    for measure in dict.fromkeys(row.measure for row in rows):
        own = [row for row in rows if row.measure == measure]
        lines += [
            "",
            f"### {measure}",
            "",
            HEADER,
            "|---|---|---|---|---|---|---|",
            *map(_line, own),
        ]
        pairs = [verdict for verdict in found if verdict.measure == measure]
        if pairs:
            lines += ["", *(f"- {_plain(str(verdict))}" for verdict in pairs)]
    return "\n".join(lines) + "\n"


def read_rows(path: Path) -> tuple[list[Row], list[Verdict], str]:
    """The rows and verdicts that `--json` wrote, and the day. Raises KeyError or TypeError for others."""
    whole = json.loads(path.read_text(encoding="utf-8"))
    found = [{name: v for name, v in each.items() if name != "word"} for each in whole["verdicts"]]
    return (
        [Row(**each) for each in whole["rows"]],
        [Verdict(**each) for each in found],
        whole["day"],
    )


def _line(row: Row) -> str:
    method = f"**{row.method}**" if row.ours else row.method
    cells = (
        row.data,
        method,
        f"{row.score:.3f}",
        f"{row.low:.3f} to {row.high:.3f}, {row.spread.removeprefix('95 % bootstrap over ')}",
        str(row.n),
        "" if row.mean_ms != row.mean_ms else f"{row.mean_ms:.2f} / {row.worst_ms:.1f}",
        row.note,
    )
    return "| " + " | ".join(_plain(cell) for cell in cells) + " |"


def _plain(text: str) -> str:
    return text.replace("|", "/")
