"""The leaderboard in a terminal: a table per track, live during a contest or printed once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.ranking import TIE_RULE, LeaderboardRow
from bci_stream.leaderboard.standing import STANDING_RULE, GivenAward, StandingRow
from bci_stream.leaderboard.verdict_rows import LONGEST_REASON, short_text
from tracks.registry import TRACKS

REFRESH_HZ: Final = 4
VERDICTS_SHOWN: Final = 6
ALARMS_SHOWN: Final = 3
SPARK_WIDTH: Final = 16
SPARKS: Final = "▁▂▃▄▅▆▇█"
STYLES: Final = {
    "waiting": "dim",
    "running": "cyan",
    "lagging": "yellow",
    "gone": "yellow",
    "missing": "bold yellow",
    "finished": "green",
    "stopped": "yellow",
    "crashed": "red",
    "timeout": "red",
    "disqualified": "bold red",
}
MARKS: Final = {
    "right": ("✔", "green"),
    "wrong": ("✘", "red"),
    "partly": ("◐", "yellow"),
    "measured": ("●", "cyan"),
    "void": ("∅", "dim"),
    "unscored": ("·", "dim"),
}

History = dict[str, Sequence[Sequence[float]]]


def live_tables(board: Leaderboard, console: Console | None = None) -> Live:
    """A context manager that shows `board`; the last tables stay on the screen."""

    def render() -> RenderableType:
        data = board.snapshot().data
        rows = board.rows()
        titles = {row.team: row.title for row in rows}
        verdicts = [_verdict_line(item, titles) for item in data["verdicts"][-VERDICTS_SHOWN:]]
        alarms = [_alarm_line(alarm) for alarm in data["alarms"][-ALARMS_SHOWN:]]
        line = data["announcement"]
        announced = [Text(f" {line}", style="bold reverse")] if line else []
        return Group(*announced, *alarms, render_leaderboard(rows, data["history"]), *verdicts)

    return Live(
        console=console,
        get_renderable=render,
        refresh_per_second=REFRESH_HZ,
        vertical_overflow="crop",
    )


def render_leaderboard(
    rows: Sequence[LeaderboardRow], history: History | None = None
) -> RenderableType:
    """The tables of all tracks, best team first, and the tie rule."""
    if not rows:
        return Text("No team has joined yet.", style="dim")
    return _Tables(rows, history)


def render_results(
    standing: Sequence[StandingRow], awards: Sequence[GivenAward]
) -> list[RenderableType]:
    """The standing over all tracks, if there are several, and the awards."""
    parts: list[RenderableType] = []
    if standing and len(standing[0].places) > 1:
        table = Table(*("#", "team", *standing[0].places, "sum"), title="All tracks",
                      title_justify="left", box=box.ROUNDED)  # fmt: skip
        for row in standing:
            places = ("–" if place is None else str(place) for place in row.places.values())
            table.add_row(str(row.rank), short_text(row.title), *places, str(row.total))
        parts += [table, Text(STANDING_RULE, style="dim")]
    if awards:
        table = Table("award", "track", "team", "#", "score", "prize", title="Awards",
                      title_justify="left", box=box.ROUNDED)  # fmt: skip
        for given in awards:
            who = (given.award, given.track, short_text(given.title))
            table.add_row(*who, str(given.rank), f"{given.score:.2f}", given.prize)
        parts.append(table)
    return parts


@dataclass(frozen=True)
class _Tables:
    """The tables, with the columns that the terminal has room for."""

    rows: Sequence[LeaderboardRow]
    history: History | None

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        columns = [name for name in CELLS if LEAST_WIDTH.get(name, 0) <= options.max_width]
        for track, rows in groupby(self.rows, lambda row: row.track):
            yield _table(track, list(rows), columns, self.history)
        if any(row.qualifies for row in self.rows):
            yield Text("✓ above the contest's qualifying line", style="green")
        yield Text(f"Ties: {TIE_RULE}", style="dim")


def _table(
    track: str, rows: list[LeaderboardRow], columns: list[str], history: History | None
) -> Table:
    title = Text(f"{TRACKS[track].title} · {TRACKS[track].unit}", style="bold")
    table = Table(title=title, title_justify="left", box=box.ROUNDED, header_style="bold")
    table.add_column("#", justify="right")
    longest = max(cell_len(short_text(row.title)) + 2 for row in rows)
    table.add_column("team", min_width=min(16, longest), max_width=28, overflow="fold")
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    sparks = history is not None and "latency p50/p99" in columns
    if sparks:
        table.add_column("over time", no_wrap=True)
    table.add_column("status", min_width=9, overflow="fold")
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        style = "bold" if row.rank == 1 else ""
        rank = Text("–" if row.rank is None else str(row.rank), style=style)
        team = Text(short_text(row.title), style=style).append(
            " ✓" if row.qualifies else "", style="green"
        )
        cells = [rank, team, *(CELLS[name](row) for name in columns)]
        if history is not None and sparks:
            points = history.get(f"{row.track}/{row.team}", ())
            cells.append(Text(sparkline(points), style="cyan"))
        table.add_row(*cells, _status(row), end_section=_ends_qualified(row, following))
    return table


def _score(row: LeaderboardRow) -> Text:
    scored = row.rank is not None or row.trials > 0
    return Text(f"{row.score:.2f}" if scored else "–", style="bold")


CELLS: Final[dict[str, Callable[[LeaderboardRow], Text]]] = {
    "score": _score,
    "accuracy": lambda row: Text("–" if row.accuracy is None else f"{row.accuracy:.1%}"),
    "data used": lambda row: Text("–" if row.used is None else f"{row.used:.2f} {row.used_unit}"),
    "trials": lambda row: Text(str(row.trials)),
    "latency p50/p99": lambda row: Text(_latency(row)),
}
LEAST_WIDTH: Final = {"accuracy": 64, "trials": 72, "data used": 100, "latency p50/p99": 116}
"""Least width of a terminal, in characters, that shows a column."""


def _status(row: LeaderboardRow) -> Text:
    lag = f" by {row.lag_s:.1f} s" if row.status == "lagging" else ""
    text = Text(row.status + lag, style=STYLES.get(row.status, ""))
    return (
        text.append(f" ({short_text(row.reason, LONGEST_REASON)})", style="dim")
        if row.reason
        else text
    )


def _latency(row: LeaderboardRow) -> str:
    if row.latency_p50_s is None or row.latency_p99_s is None:
        return "–"
    return f"{1000 * row.latency_p50_s:.0f}/{1000 * row.latency_p99_s:.0f} ms"


def _ends_qualified(row: LeaderboardRow, following: LeaderboardRow | None) -> bool:
    """Whether the qualifying line is drawn under this row."""
    return row.qualifies is True and (following is None or not following.qualifies)


def sparkline(points: Sequence[Sequence[float]]) -> str:
    """The last scores as small bars; the highest one is full."""
    values = [point[1] for point in points][-SPARK_WIDTH:]
    top = max(values, default=0.0)
    if top <= 0:
        return SPARKS[0] * len(values)
    return "".join(SPARKS[round(max(v, 0.0) / top * (len(SPARKS) - 1))] for v in values)


def _alarm_line(alarm: dict[str, object]) -> Text:
    times = f" (×{alarm['count']})" if alarm["count"] != 1 else ""
    return Text(f" ⚠ {alarm['reason']}{times}", style="bold yellow")


def _verdict_line(item: dict[str, object], titles: Mapping[str, str]) -> Text:
    sign, style = MARKS[str(item["mark"])]
    where = (
        f"{item['subject']} block {int(str(item['block'])) + 1} trial {int(str(item['trial'])) + 1}"
    )
    line = Text(f" {sign} ", style=style).append(
        short_text(titles.get(str(item["team"]), item["team"])), style="bold"
    )
    return line.append(f"  {where}  {short_text(item['reported'])}  ").append(
        str(item["reason"]), style="dim"
    )
