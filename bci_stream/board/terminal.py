"""The leaderboard in a terminal: a table a track, live while a contest runs, or printed once."""

from collections.abc import Sequence
from itertools import groupby
from types import TracebackType
from typing import Final, Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bci_stream.board.feed import Board
from bci_stream.board.record import brief
from bci_stream.board.standing import TIE_RULE, Row
from tracks import TRACKS

REFRESH_HZ: Final = 4
VERDICTS_SHOWN: Final = 6
SPARK_WIDTH: Final = 16
SPARKS: Final = "▁▂▃▄▅▆▇█"
STYLES: Final = {
    "waiting": "dim",
    "running": "cyan",
    "lagging": "yellow",
    "gone": "yellow",
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
    "unscored": ("·", "dim"),
}

History = dict[str, Sequence[Sequence[float]]]


class TerminalBoard:
    """Shows `board` for as long as the context lasts, and leaves the last table standing."""

    def __init__(self, board: Board, console: Console | None = None) -> None:
        self._board = board
        self._live = Live(
            console=console,
            get_renderable=self.render,
            refresh_per_second=REFRESH_HZ,
            vertical_overflow="crop",
        )

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def render(self) -> RenderableType:
        data = self._board.snapshot().data
        verdicts = [_verdict_line(item) for item in data["verdicts"][-VERDICTS_SHOWN:]]
        return Group(render_leaderboard(self._board.rows(), data["history"]), *verdicts)


def render_leaderboard(rows: Sequence[Row], history: History | None = None) -> RenderableType:
    """The tables of all tracks, best team first, with the tie rule beneath them."""
    if not rows:
        return Text("No team has joined yet.", style="dim")
    tables: list[RenderableType] = [
        _table(track, list(group), history) for track, group in groupby(rows, lambda row: row.track)
    ]
    return Group(*tables, Text(f"Ties: {TIE_RULE}", style="dim"))


def _table(track: str, rows: list[Row], history: History | None) -> Table:
    title = Text(f"{TRACKS[track].title} · {TRACKS[track].unit}", style="bold")
    table = Table(title=title, title_justify="left", box=box.ROUNDED, header_style="bold")
    table.add_column("#", justify="right")
    table.add_column("team", max_width=28, overflow="fold")
    for name in ("score", "accuracy", "data used", "trials", "latency p50/p99"):
        table.add_column(name, justify="right", no_wrap=True)
    if history is not None:
        table.add_column("over time", no_wrap=True)
    table.add_column("status")
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        table.add_row(*_cells(row, history), end_section=_ends_qualified(row, following))
    return table


def _cells(row: Row, history: History | None) -> list[Text]:
    scored = row.rank is not None or row.trials > 0
    cells = [
        Text("–" if row.rank is None else str(row.rank), style="bold" if row.rank == 1 else ""),
        Text(brief(row.team), style="bold" if row.rank == 1 else ""),
        Text(f"{row.score:.2f}" if scored else "–", style="bold"),
        Text("–" if row.accuracy is None else f"{row.accuracy:.1%}"),
        Text("–" if row.used is None else f"{row.used:.2f} {row.used_unit}"),
        Text(str(row.trials)),
        Text(_latency(row)),
    ]
    if history is not None:
        cells.append(Text(sparkline(history.get(f"{row.track}/{row.team}", ())), style="cyan"))
    return [*cells, _status(row)]


def _status(row: Row) -> Text:
    lag = f" by {row.lag_s:.1f} s" if row.status == "lagging" else ""
    text = Text(row.status + lag, style=STYLES.get(row.status, ""))
    return text.append(f" ({brief(row.reason)})", style="dim") if row.reason else text


def _latency(row: Row) -> str:
    if row.latency_p50_s is None or row.latency_p99_s is None:
        return "–"
    return f"{1000 * row.latency_p50_s:.0f}/{1000 * row.latency_p99_s:.0f} ms"


def _ends_qualified(row: Row, following: Row | None) -> bool:
    """The qualifying line is drawn under the last team above it."""
    return row.qualifies is True and (following is None or not following.qualifies)


def sparkline(points: Sequence[Sequence[float]]) -> str:
    """The last scores as small bars, the highest one full."""
    values = [point[1] for point in points][-SPARK_WIDTH:]
    top = max(values, default=0.0)
    if top <= 0:
        return SPARKS[0] * len(values)
    return "".join(SPARKS[round(max(v, 0.0) / top * (len(SPARKS) - 1))] for v in values)


def _verdict_line(item: dict[str, object]) -> Text:
    sign, style = MARKS[str(item["mark"])]
    where = (
        f"{item['subject']} block {int(str(item['block'])) + 1} trial {int(str(item['trial'])) + 1}"
    )
    line = Text(f" {sign} ", style=style).append(brief(item["team"]), style="bold")
    return line.append(f"  {where}  {brief(item['reported'])}  ").append(
        str(item["reason"]), style="dim"
    )
