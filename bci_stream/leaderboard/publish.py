"""`bci-judge publish`: a folder that any web server can serve, and that `bci-judge verify` accepts.

It holds a copy of the page with its data in files, the report, the results as JSON and CSV, the public key,
and the run logs byte for byte.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from bci_stream.contest.contest import Contest
from bci_stream.errors import ContestError, LogError
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.fold import find_logs, fold_log
from bci_stream.leaderboard.measured import measured_file, read_measured
from bci_stream.leaderboard.ranking import (
    LeaderboardRow,
    Qualifying,
    best_runs,
    rank,
    to_csv,
    to_records,
)
from bci_stream.leaderboard.standing import STANDING_RULE, give_awards, standing
from bci_stream.leaderboard.web.server import STATIC
from bci_stream.runlog import read_log
from tracks.common.reasons import Reason
from tracks.common.words import LANGUAGES
from tracks.run import Run

KEY_FILE: Final = "public-key.txt"
NOT_COPIED: Final = ("index.html", "openapi.json")


def publish(contest: Contest, folder: Path, *, with_logs: bool = True) -> list[str]:
    """Write the folder; returns the logs that were left out, each with the reason.

    with_logs: also copy the run logs; they hold the labels of the recordings. Raises ContestError if the
    folder exists and is not empty, LogError if no run can be scored.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ContestError(f"{folder} is not empty: choose another folder, or remove it first")
    if not contest.runs.is_dir():
        raise LogError(f"there is no folder {contest.runs}: no run has been logged yet")
    scored, counted, rows, left_out = _best_logs(contest)
    folder.mkdir(parents=True, exist_ok=True)
    _write_results(contest, folder, rows)
    _write_page(contest, folder, counted, rows)
    (folder / KEY_FILE).write_text(contest.keys.public_key().raw.hex() + "\n")
    if with_logs:
        _copy_logs(contest, scored, folder / "logs")
    return left_out


def _best_logs(
    contest: Contest,
) -> tuple[list[Path], list[Path], list[LeaderboardRow], list[str]]:
    """All logs, the one that counts of each team and track, the ranked rows, and what can't be scored."""
    runs, left_out = {}, []
    for path in find_logs(contest.runs):
        try:
            row = fold_log(path, contest.name).row
            runs[path] = replace(row, name=row.name or contest.display_name(row.team))
        except (LogError, OSError) as error:
            left_out.append(str(error))
    if not runs:
        raise LogError(f"no log in {contest.runs} can be scored: {left_out[0]}")
    best = best_runs(runs.values())
    counted = {
        (row.track, row.team): path
        for path, row in runs.items()
        if unranked(row) in map(unranked, best)
    }
    return list(runs), list(counted.values()), rank(best, qualifying(contest)), left_out


def unranked(row: LeaderboardRow) -> LeaderboardRow:
    return replace(row, rank=None, qualifies=None)


def qualifying(contest: Contest) -> Qualifying:
    return Qualifying(contest.qualify.top, contest.qualify.least_score)


def results(contest: Contest, rows: Sequence[LeaderboardRow]) -> dict[str, Any]:
    """The results of a contest for programs."""
    return {
        "contest": contest.name,
        "title": contest.title or contest.name,
        "rows": to_records(rows),
        "standing": [asdict(row) for row in standing(rows)],
        "standing_rule": STANDING_RULE,
        "awards": [asdict(award) for award in give_awards(rows, contest.awards)],
    }


def _write_results(contest: Contest, folder: Path, rows: Sequence[LeaderboardRow]) -> None:
    found = results(contest, rows)
    (folder / "results.json").write_text(
        json.dumps(found, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )
    (folder / "results.csv").write_text(to_csv(rows), encoding="utf-8")


# --- the page ---------------------------------------------------------------------------------


def _write_page(
    contest: Contest, folder: Path, logs: Sequence[Path], rows: Sequence[LeaderboardRow]
) -> None:
    """The page's own files, and what the judge's API would answer, as files."""
    shutil.copytree(STATIC, folder / "static", ignore=lambda *_: NOT_COPIED)
    index = (STATIC / "index.html").read_text(encoding="utf-8")
    (folder / "index.html").write_text(published_index(index), encoding="utf-8")
    board = _filled_board(contest, logs)
    api = folder / "api"
    found = results(contest, rows)
    overall = {
        "standing": found["standing"] if len({row.track for row in rows}) > 1 else [],
        "awards": found["awards"],
    }
    _write_json(api / "snapshot.json", board.snapshot().data | overall | {"signal": {}})
    _write_json(api / "words.json", {name: asdict(found) for name, found in LANGUAGES.items()})
    for track, team in board.team_keys():
        _write_json(api / "teams" / track / f"{team}.json", board.detail(team, track))


def published_index(text: str) -> str:
    """The page's index with relative addresses; the attribute makes it read files beside it."""
    links = (
        '<a href="report.html">Report, awards and all tracks</a> <a href="results.csv">CSV</a> '
        '<a href="results.json">JSON</a>'
    )
    return (
        text.replace('"/static/', '"static/')
        .replace("<html ", "<html data-published ", 1)
        .replace('<a href="/api/v1/openapi.json">API</a>', links)
    )


def _filled_board(contest: Contest, logs: Sequence[Path]) -> Leaderboard:
    """The leaderboard of the whole contest, as it stood at its end."""
    board = Leaderboard(
        contest.title or contest.name,
        qualifying(contest),
        teams_of=contest.teams_of,
        display_name=contest.display_name,
    )
    for path in logs:
        run = Run()
        for _, event in read_log(path):
            verdicts = run.feed(event)
            assert run.track is not None, "the log was folded before"
            board.event(run.team, run.track.name, event, verdicts, run)
        if run.track is not None and (figures := read_measured(path)):
            board.measured(run.team, run.track.name, figures)
    for track in {track for track, _ in board.team_keys()}:
        for team in contest.teams_of(track):
            if (track, team) not in board.team_keys():
                board.team(team, track, "missing", Reason("did_not_take_part"))
    board.close()
    return board


def _write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(value))


# --- the logs ---------------------------------------------------------------------------------


def _copy_logs(contest: Contest, logs: Sequence[Path], folder: Path) -> None:
    """Copy the logs byte for byte, for everyone to read."""
    for path in logs:
        copy = folder / path.relative_to(contest.runs)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
        if measured_file(path).exists():
            measured_file(copy).write_bytes(measured_file(path).read_bytes())
