"""`bci-judge leaderboard` and `bci-judge report`: what a store or a folder of run logs holds."""

import json
import logging
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from bci_stream.contest.contest import Award
from bci_stream.errors import BciError, LogError, StoreError
from bci_stream.files import atomic_write
from bci_stream.leaderboard.fold import FoldedRun, find_logs, fold
from bci_stream.leaderboard.ranking import LeaderboardRow, Qualifying, rank, to_csv, to_records
from bci_stream.leaderboard.standing import GivenAward, give_awards, standing
from bci_stream.leaderboard.store import Store, open_store, store_exists
from tracks.common.reasons import Reason
from tracks.common.words import describe
from tracks.registry import TRACKS

logger = logging.getLogger(__name__)

PIPED_WIDTH: Final = 120
"""Width in characters of a table that is not printed to a terminal."""


def print_leaderboard(
    where: str,
    *,
    logs: Path | None = None,
    contest: str | None = None,
    track: str | None = None,
    form: str = "table",
    qualifying: Qualifying | None = None,
    expected: Mapping[str, Collection[str]] | None = None,
    awards: Sequence[Award] = (),
    display_name: Callable[[str], str] = lambda _: "",
) -> None:
    """Print the leaderboard of the store `where`; with `logs`, first rebuild it from that folder.

    form: "table", "json" or "csv". Logs that can't be read are left out with a warning. expected: the teams
    of the contest's tracks; those without a run are shown as missing. awards: those that the contest gives.
    display_name: of a team whose log has none.
    """
    if logs is None and not store_exists(where):
        raise StoreError(f"there is no store {where}; make it from run logs: --logs FOLDER")
    store = open_store(where)
    try:
        if logs is not None:
            _rebuild(store, logs, contest or logs.resolve().name)
        _check_contest(store, where, contest)
        rows = store.leaderboard(contest, track, qualifying)
        all_rows = [*rows, *missing_rows(rows, expected or {}, track)]
        named = [replace(row, name=row.name or display_name(row.team)) for row in all_rows]
        shown = rank(named, qualifying)
        PRINTERS[form](shown, give_awards(shown, awards))
    finally:
        store.close()


def missing_rows(
    rows: Sequence[LeaderboardRow], expected: Mapping[str, Collection[str]], track: str | None
) -> list[LeaderboardRow]:
    """A row for each expected team without a run on a track that was played."""
    played = {row.track for row in rows}
    known = {(row.track, row.team) for row in rows}
    why = Reason("did_not_take_part")
    return [
        LeaderboardRow(
            team,
            on,
            TRACKS[on].unit,
            status="missing",
            reason=describe(why),
            reasons=[why.to_json()],
        )
        for on, teams in expected.items()
        for team in teams
        if on in played and track in (None, on) and (on, team) not in known
    ]


def _rebuild(store: Store, folder: Path, contest: str) -> None:
    if not folder.is_dir():
        raise LogError(
            f"there is no folder {folder}: no run has been logged yet, or the logs (*.jsonl) are elsewhere "
            "(--logs FOLDER)"
        )
    for problem in store.rebuild(find_logs(folder), contest).problems:
        logger.warning("left out: %s", problem)


def _check_contest(store: Store, where: str, contest: str | None) -> None:
    """Raise StoreError if the store holds runs of other contests only."""
    held = {run.contest for run in store.runs()}
    if contest is not None and held and contest not in held:
        names = ", ".join(repr(name) for name in sorted(held))
        raise StoreError(
            f"the store {where} holds no run of contest {contest!r}; it holds {names}: "
            "choose with --contest"
        )


def _print_table(rows: Sequence[LeaderboardRow], awards: Sequence[GivenAward]) -> None:
    from rich.console import Console

    from bci_stream.leaderboard.terminal import render_leaderboard, render_results

    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    console.print(render_leaderboard(rows), *render_results(standing(rows), awards))


def _print_json(rows: Sequence[LeaderboardRow], awards: Sequence[GivenAward]) -> None:
    found = {
        "rows": to_records(rows),
        "standing": [asdict(row) for row in standing(rows)],
        "awards": [asdict(award) for award in awards],
    }
    print(json.dumps(found, ensure_ascii=False))


def _print_csv(rows: Sequence[LeaderboardRow], _: Sequence[GivenAward]) -> None:
    print(to_csv(rows), end="")


PRINTERS: Final[dict[str, Callable[[Sequence[LeaderboardRow], Sequence[GivenAward]], None]]] = {
    "table": _print_table,
    "json": _print_json,
    "csv": _print_csv,
}


def fold_all(logs: Sequence[Path]) -> tuple[list[FoldedRun], list[tuple[str, str]]]:
    """The runs, and the logs that can't be scored with the reason of each.

    Raises LogError if no log can be scored.
    """
    runs: list[FoldedRun] = []
    left_out: list[tuple[str, str]] = []
    for path in logs:
        try:
            runs.append(fold(path))
        except (LogError, OSError) as error:
            left_out.append((path.name, str(error).removeprefix(f"{path}: ")))
            logger.warning("left out: %s", error if str(path) in str(error) else f"{path}: {error}")
    if not runs:
        name, why = left_out[0]
        more = f", and {len(left_out) - 1} more" if len(left_out) > 1 else ""
        raise LogError(f"no log can be scored: {name} ({why}){more}")
    return runs, left_out


def write_report(
    logs: Sequence[Path],
    out: Path,
    recordings: Sequence[str | Path] = (),
    title: str = "Contest report",
    awards: Sequence[Award] = (),
) -> None:
    """Write `out` from the run logs (files, or folders of them) and, if given, labelled recordings.

    A recording is anything that `bci-replay` plays; it is read as one of the first log's track. Logs that
    can't be scored (a run that was stopped before anything was played) are listed with the reason.
    """
    from bci_stream.leaderboard.report.page import recording_parts, render_page

    if not logs:
        raise LogError("no run log was given; name at least one RUN")
    found = [log for path in logs for log in (find_logs(path) if path.is_dir() else [path])]
    runs, left_out = fold_all(found)
    track = runs[0].view.track
    parts = [part for source in recordings for part in recording_parts(str(source), track)]
    made_at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    text = render_page(runs, parts, title, made_at, left_out, awards)
    try:
        atomic_write(out, lambda file: file.write(text.encode()))
    except OSError as error:
        raise BciError(f"the report {out} can't be written: {error.strerror}") from error


def publish_results(
    contest_path: Path, folder: Path, *, with_logs: bool, force: bool
) -> Iterator[str]:
    """Publish a contest that is over; yields a line on each thing that was written or left out.

    force: also while a judge of the contest is at work; otherwise that raises ContestError.
    """
    from bci_stream.contest.contest import load_contest
    from bci_stream.judge.verify_command import check_no_judge
    from bci_stream.leaderboard.publish import KEY_FILE, publish

    contest = load_contest(contest_path)
    if not force:
        check_no_judge(
            contest, "its labels would be public; wait until it has ended, or give --force"
        )
    publish(contest, folder, with_logs=with_logs)  # the report warns of the logs that are left out
    title = contest.title or contest.name
    write_report([contest.runs], folder / "report.html", title=title, awards=contest.awards)
    yield f"page: {folder / 'index.html'} (serve the folder, for example: python -m http.server -d {folder})"
    yield f"report: {folder / 'report.html'}; results: {folder / 'results.json'}"
    if with_logs:
        yield f"run logs: bci-judge verify {folder / 'logs'} --public-key {folder / KEY_FILE}"
