"""The results page of the decoders' benchmark: one section a track, replaced when the track is run."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from scripts.bench.table import POOLED, Row, Verdict, pooled_verdicts

HEAD = """# Decoders: results

Made by `python scripts/bench/decoders.py --page docs/decoders-results.md`; a section is replaced when its
track is run. Everything is streamed causally, packet by packet, on recordings that were left out of the
training. Ours is in bold. For each measure: the means over recordings, then the paired differences of ours
from each reference, over the recordings that have both; folded, each recording. Intervals: 95 %, bootstrap
over what the table names. "Ahead" and "behind" are written only where the interval of the paired difference
leaves out 0. Times are the method's CPU time for a packet, mean and worst; other work ran on the machine at
the same time.

Read it with care: mi's, turing's and emotion's methods were chosen by leaving people out of these same
recordings. There are few people of each kind, and only recordings that were not used in the development can
show more. A track without a section has not been run since its decoder changed.
"""


NOTES = {
    "erp": """Single flashes are scored by what was learned before their trial, the first trial included, of
which nothing is known without a prior. "Fixed number" is erp-bayes with the number of sequences that is best
over the other people. Synthetic: four people of 16 letters at difficulty 0.4, each with the three others as
training. Real: one run of 4 letters (6x6) and one of 8 letters (bi2012, whose flashes were given groups that
agree with their labels). The prior of the 6x6 run is the one other recording, of other leads and delay.
A session with half its letters right or fewer scores 0, so with 4 letters one letter decides.""",
    "ecog": "One movement in each recording, which stands for all joints; three parts, each left out once.",
    "emotion": """One clip a class: to recognise the clip is to recognise the class. Chance is 0.111. The
ceiling is not known: the published figures at hand are for whole clips.""",
}
"""What a reader of a track's section has to know."""
METHODS_HEAD = (
    "| method | mean | 95 % | recordings | ms a packet | note |",
    "|---|---|---|---|---|---|",
)
PAIRS_HEAD = "| ours | against | difference | 95 % | over | |", "|---|---|---|---|---|---|"
ROWS_HEAD = (
    "| data | method | score | 95 % | n | ms a packet | note |",
    "|---|---|---|---|---|---|---|",
)
SINGLE_HEAD = (
    "| data | ours | against | difference | 95 % | over | |",
    "|---|---|---|---|---|---|---|",
)


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
    """Markdown, for each measure: the means over recordings and the differences from each reference;
    folded, each recording. Where recordings are too few for a mean, each recording only."""
    lines = [f"## {track}", "", f"Run on {day}."]
    if track in NOTES:
        lines += ["", NOTES[track]]
    for measure in dict.fromkeys(row.measure for row in rows):
        own = [row for row in rows if row.measure == measure]
        each = [row for row in own if row.data != POOLED]
        singles = [verdict for verdict in found if verdict.measure == measure]
        lines += ["", f"### {measure}"]
        means = [row for row in own if row.data == POOLED]
        if not means:
            lines += _each_recording(each, singles)
            continue
        lines += ["", *METHODS_HEAD, *map(_mean_line, means)]
        pairs = pooled_verdicts(own)
        if pairs:
            lines += ["", *PAIRS_HEAD, *map(_pair_line, pairs)]
        folded = _each_recording(each, singles)
        lines += ["", "<details><summary>Each recording</summary>", *folded, "", "</details>"]
    return "\n".join(lines) + "\n"


def _each_recording(rows: Sequence[Row], found: Sequence[Verdict]) -> list[str]:
    """A table of rows, and one of paired differences."""
    lines = ["", *ROWS_HEAD, *map(_line, rows)]
    if not found:
        return lines
    pairs = [f"| {_plain(verdict.data)} {_pair_line(verdict)}" for verdict in found]
    return [*lines, "", *SINGLE_HEAD, *pairs]


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
    spread = row.spread.removeprefix("95 % bootstrap over ")
    return _cells(
        row.data,
        _method(row),
        f"{row.score:.3f}",
        f"{row.low:.3f} to {row.high:.3f}, {spread}",
        str(row.n),
        _times(row),
        row.note,
    )


def _mean_line(row: Row) -> str:
    interval = f"{row.low:.3f} to {row.high:.3f}"
    return _cells(_method(row), f"{row.score:.3f}", interval, str(row.n), _times(row), row.note)


def _pair_line(verdict: Verdict) -> str:
    known = verdict.low == verdict.low
    return _cells(
        verdict.ours,
        verdict.theirs,
        f"{verdict.difference:+.3f}",
        f"{verdict.low:+.3f} to {verdict.high:+.3f}" if known else "none",
        verdict.how.removeprefix(" over ").removeprefix(" interval, ").removeprefix(", "),
        verdict.word.removesuffix(" of").removesuffix(" with"),
    )


def _method(row: Row) -> str:
    return f"**{row.method}**" if row.ours else row.method


def _times(row: Row) -> str:
    return "" if row.mean_ms != row.mean_ms else f"{row.mean_ms:.2f} / {row.worst_ms:.1f}"


def _cells(*cells: str) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _plain(text: str) -> str:
    return text.replace("|", "/")
