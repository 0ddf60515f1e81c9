"""`bci-judge run`: a contest in lockstep from the command line, with progress bars and a table."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from bci_stream.cli import open_wire
from bci_stream.contest.contest import Contest, SubmissionPlan, TrackPlan
from bci_stream.doctor import Finding
from bci_stream.errors import ContestError, StoreError
from bci_stream.judge.contest_run import ContestEntry, Outcome, Wire, run_entries, team_name
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.fold import fold_log
from bci_stream.leaderboard.measured import MEASURES
from bci_stream.leaderboard.ranking import Qualifying
from bci_stream.leaderboard.store import open_store
from bci_stream.leaderboard.terminal import render_leaderboard
from bci_stream.runlog import read_log
from tracks.common.reasons import Reason
from tracks.common.verdicts import Verdict
from tracks.common.words import describe
from tracks.registry import TRACKS
from tracks.run import Run


def run_contest(
    contest: Contest,
    contest_path: Path | None,
    *,
    track: str,
    decoders: Sequence[str],
    submissions: Sequence[str],
    recordings: Sequence[str],
    calibration: Sequence[str],
    jobs: int,
    as_json: bool,
    resume: bool,
    scope: str,
    lsl_session: str,
    stop: threading.Event,
    runner: "EntryRunner | None" = None,
) -> None:
    """runner: runs the entries elsewhere; None: on this machine, `jobs` at a time."""
    plan = contest.tracks.get(track, TrackPlan())
    played = tuple(recordings or contest.recordings(track)) or (f"synthetic:{track}?set=test",)
    entries = make_entries(track, decoders, submissions, played, contest)
    entries = with_calibration(entries, tuple(calibration or plan.calibration))
    _check_listed(contest, entries)
    check_names(track, [text.partition("=")[0] for text in decoders])
    wire = Wire(open_wire(scope, lsl_session), scope, lsl_session) if runner is None else None
    outcomes = play(
        wire,
        contest,
        contest_path,
        entries,
        jobs=jobs,
        stop=stop,
        resume=resume,
        table=not as_json,
        runner=runner,
    )
    if as_json:
        print(json.dumps([_plain(outcome) for outcome in outcomes], indent=2))
    missing = [outcome for outcome in outcomes if outcome.reason == "stopped"]
    if missing:
        raise ContestError(
            f"{len(missing)} of {len(outcomes)} runs did not end ({missing[0].detail}); the same command "
            "with --resume continues them"
        )
    if not any(outcome.reason == "finished" for outcome in outcomes):
        first = outcomes[0]
        raise ContestError(
            f"no run finished; {first.entry.team} on {track}: {first.reason}"
            + (f" ({first.detail})" if first.detail else "")
        )


NAMES_S = 60.0
"""How long the check of the decoders' names may take."""


def check_names(track: str, names: Sequence[str]) -> None:
    """Raise ContestError for a decoder that is not known; in a process, as decoders are never run here."""
    words = [word for name in names if ":" not in name for word in ("--decoder", name)]
    if not words:
        return
    command = [sys.executable, "-P", "-m", "decoders", "prepare", "--track", track, *words]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=NAMES_S
        )
    except subprocess.TimeoutExpired:
        raise ContestError(
            f"the names of the decoders could not be checked within {NAMES_S:g} s: is this machine "
            "very busy? Try again"
        ) from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ContestError(lines[-1].removeprefix("Error: "))


def submission_findings() -> Iterator[Finding]:
    """What `bci-decode doctor` finds about submissions; in a process, as decoders are never run here."""
    words = ["decoders", "doctor", "--submissions-only", "--json"]
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=NAMES_S,
        )
        yield from (Finding(**finding) for finding in json.loads(done.stdout))
    except (subprocess.TimeoutExpired, ValueError):
        remedy = "run `bci-decode doctor --submissions-only` to see why"
        yield Finding("sandbox", "note", "could not be checked", remedy)


def make_entries(
    track: str,
    decoders: Sequence[str],
    submissions: Sequence[str],
    recordings: tuple[str, ...],
    contest: Contest | None = None,
) -> list[ContestEntry]:
    """The teams of a contest: those that are named or, where none is, the contest file's submissions."""
    plans = {} if contest is None else contest.submissions
    entries = [_decoder_entry(track, text, recordings) for text in decoders]
    entries += [_submission_entry(track, text, recordings, plans) for text in submissions]
    if contest is not None and not entries:
        entries = _planned_entries(contest, track, recordings)
    if not entries:
        raise ContestError(
            "a contest needs at least one team: give --decoder or --submission, or a [submissions.TEAM] "
            "with a `path` for this track in contest.toml"
        )
    return _with_own_names(entries)


def _decoder_entry(track: str, text: str, recordings: tuple[str, ...]) -> ContestEntry:
    name, _, model = text.partition("=")
    arguments = ("--decoder", name, *(("--model", model) if model else ()))
    return ContestEntry(team_name(name), track, recordings, arguments)


SYNTHETIC = "synthetic:"
SUBMISSION_OPTIONS = ("interface", "python", "positions")


def _submission_entry(
    track: str, text: str, recordings: tuple[str, ...], plans: Mapping[str, SubmissionPlan]
) -> ContestEntry:
    """PATH, or PATH?interface=g3&python=3.8&positions=block: options of that submission alone.

    What is not given here comes from the contest file's [submissions.TEAM].
    """
    name, _, query = text.partition("?") if not Path(text).exists() else (text, "", "")
    given = dict(part.partition("=")[::2] for part in query.split("&") if part)
    if unknown := [key for key in given if key not in SUBMISSION_OPTIONS]:
        raise ContestError(
            f"--submission {text}: there is no option {unknown[0]!r}; a submission has "
            f"{', '.join(SUBMISSION_OPTIONS)}"
        )
    team = team_name(Path(name).stem)
    options = {**plans.get(team, SubmissionPlan()).options(), **given}
    return _hosted(team, track, Path(name), options, recordings)


def _planned_entries(
    contest: Contest, track: str, recordings: tuple[str, ...]
) -> list[ContestEntry]:
    return [
        _hosted(team, track, contest.folder / plan.path, plan.options(), recordings)
        for team, plan in contest.submissions.items()
        if plan.path is not None and plan.track in (None, track)
    ]


def _hosted(
    team: str, track: str, path: Path, options: Mapping[str, str], recordings: tuple[str, ...]
) -> ContestEntry:
    """Raises ContestError where there is no such package: that is no fault of the team."""
    if not path.exists():
        raise ContestError(f"team {team}: there is no submission {path}")
    chosen = (word for key, value in options.items() for word in (f"--{key}", value))
    return ContestEntry(team, track, recordings, ("--submission", str(path.resolve()), *chosen))


def with_calibration(entries: Sequence[ContestEntry], given: tuple[str, ...]) -> list[ContestEntry]:
    """Give the labelled recordings to all submissions of tracks that calibrate.

    Where none are given, and only synthetic recordings are played: the training set of the first. Raises
    ContestError for a recording that is played as well: its labels must never reach a submission.
    """
    return [_calibrated(entry, given) for entry in entries]


def _calibrated(entry: ContestEntry, given: tuple[str, ...]) -> ContestEntry:
    if "--submission" not in entry.decoder_arguments or "g5" not in TRACKS[entry.track].interfaces:
        return entry
    uris = given or _training_of(entry.recordings)
    for uri in uris:
        for played in entry.recordings:
            if _same_data(uri, played):
                raise ContestError(
                    f"--calibration {uri}: it is played, too ({played}), so that its labels would reach "
                    "the submissions; calibrate on another recording of these subjects"
                )
    words = (word for uri in uris for word in ("--calibration", uri))
    return replace(entry, decoder_arguments=(*entry.decoder_arguments, *words))


def _training_of(played: Sequence[str]) -> tuple[str, ...]:
    if not all(uri.startswith(SYNTHETIC) for uri in played):
        return ()
    kind, _, query = played[0].partition("?")
    own = ("set", "blocks", "trials")  # a training set has its own length
    kept = [part for part in query.split("&") if part and part.partition("=")[0] not in own]
    return (f"{kind}?{'&'.join([*kept, 'set=train'])}",) if "set=train" not in query else ()


def _same_data(one: str, other: str) -> bool:
    """Whether two recordings may hold the same trials: equal sets of a generator, or nested paths."""
    if one.startswith(SYNTHETIC) and other.startswith(SYNTHETIC):
        return _set_of(one) == _set_of(other)
    if one.startswith(SYNTHETIC) or other.startswith(SYNTHETIC):
        return False
    first, second = (Path(uri.partition("?")[0]).resolve() for uri in (one, other))
    return first.is_relative_to(second) or second.is_relative_to(first)


def _set_of(synthetic: str) -> str:
    chosen = dict(part.partition("=")[::2] for part in synthetic.partition("?")[2].split("&"))
    return chosen.get("set", "test")


def _with_own_names(entries: list[ContestEntry]) -> list[ContestEntry]:
    """Give a decoder that is named twice two team names."""
    seen: dict[str, int] = {}
    named = []
    for entry in entries:
        seen[entry.team] = seen.get(entry.team, 0) + 1
        team = entry.team if seen[entry.team] == 1 else f"{entry.team}-{seen[entry.team]}"
        named.append(ContestEntry(team, entry.track, entry.recordings, entry.decoder_arguments))
    return named


def _check_listed(contest: Contest, entries: Sequence[ContestEntry]) -> None:
    """Refuse teams that are not on the contest's list: replays would not accept them."""
    unlisted = [entry.team for entry in entries if not contest.takes(entry.team, entry.track)]
    if unlisted:
        raise ContestError(
            f"not among the teams of contest {contest.name!r}: {', '.join(unlisted)}. It has "
            f"{', '.join(contest.teams_of(entries[0].track))}: `bci-judge team add` adds the missing ones"
        )


EntryRunner = Callable[[Sequence[ContestEntry], "Bars", bool], list[Outcome]]
"""Runs entries, and shows how far each is; True: those that have a recorded outcome are not run again."""


def play(
    wire: Wire | None,
    contest: Contest,
    contest_path: Path | None,
    entries: Sequence[ContestEntry],
    *,
    jobs: int,
    stop: threading.Event,
    resume: bool = False,
    table: bool = True,
    runner: EntryRunner | None = None,
) -> list[Outcome]:
    """Run all entries with a progress bar each, then print the leaderboard and the folder of the logs.

    wire: needed unless a `runner` runs the entries elsewhere.
    table: whether the leaderboard goes to standard output; if not, to standard error.
    """
    _check_listed(contest, entries)
    qualifying = Qualifying(contest.qualify.top, contest.qualify.least_score)
    board = Leaderboard(
        contest.title or contest.name,
        qualifying,
        teams_of=contest.teams_of,
        display_name=contest.display_name,
    )
    console = Console(stderr=True)
    with Bars(board, entries, console) as bars:
        if runner is not None:
            outcomes = runner(entries, bars, resume)
        else:
            assert wire is not None, "only a runner needs none"
            outcomes = run_entries(
                wire,
                contest,
                entries,
                bars,
                jobs=jobs,
                stop=stop,
                done=bars.done,
                contest_path=contest_path,
                resume=resume,
            )
    board.close()
    out = sys.stdout if table else sys.stderr
    shown = Console(file=out, width=None if out.isatty() else 120)
    shown.print(render_leaderboard(board.rows()))
    if measured := _measured_table(outcomes):
        shown.print(measured)
    console.print(f"run logs: {contest.runs}")
    try:
        _store_runs(contest, outcomes)
    except StoreError as error:
        console.print(f"these runs are not in the store yet: {error}", markup=False)
    return outcomes


def _measured_table(outcomes: Sequence[Outcome]) -> Table | None:
    """A row for each submission of 2026; None where there is none."""
    rows = [outcome for outcome in outcomes if outcome.measured]
    if not rows:
        return None
    table = Table(title="measured by the host", title_justify="left")
    table.add_column("team")
    for title in MEASURES.values():
        table.add_column(title, justify="right")
    for outcome in rows:
        shown = (f"{outcome.measured.get(name, 0):g}" for name in MEASURES)
        table.add_row(outcome.entry.team, *shown)
    return table


def _store_runs(contest: Contest, outcomes: Sequence[Outcome]) -> None:
    store = open_store(str(contest.folder / "contest.sqlite"))
    try:
        for outcome in outcomes:
            if outcome.log is not None:
                store.put(fold_log(outcome.log, contest.name))
    finally:
        store.close()


class TimeLeft(TimeRemainingColumn):
    """The time left; empty for a run that has ended."""

    def render(self, task: Task) -> Text:
        return Text("") if task.stop_time is not None else super().render(task)


class Bars:
    """A sink that forwards to the leaderboard and draws a progress bar for each run."""

    def __init__(
        self, board: Leaderboard, entries: Sequence[ContestEntry], console: Console
    ) -> None:
        self._board = board
        self._progress = Progress(
            TextColumn("{task.description:<28}"),
            BarColumn(),
            TextColumn("{task.fields[state]:<24}"),
            TimeLeft(),
            console=console,
        )
        self._tasks: dict[tuple[str, str], TaskID] = {
            (entry.team, entry.track): self._progress.add_task(
                f"{entry.track} {entry.team}", total=None, state="waiting"
            )
            for entry in entries
        }

    def _board_has(self, entry: ContestEntry) -> bool:
        return self._board.detail(entry.team, entry.track) is not None

    def __enter__(self) -> "Bars":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def team(
        self,
        name: str,
        track: str,
        status: str = "waiting",
        reason: str | Reason = "",
        lag_s: float = 0.0,
    ) -> None:
        self._board.team(name, track, status, reason, lag_s)
        if status == "waiting" and reason:  # its environment is being made
            self._progress.console.print(f"{name}: {describe(reason)}", markup=False)
            status = "environment"
        self._progress.update(self._tasks[name, track], state=status)

    def alarm(self, reason: Reason) -> None:
        self._board.alarm(reason)

    def event(
        self, team: str, track: str, event: dict[str, Any], verdicts: list[Verdict], run: Run
    ) -> None:
        self._board.event(team, track, event, verdicts, run)
        if event["kind"] == "run":
            self._progress.update(self._tasks[team, track], total=event["samples"])
        elif event["kind"] == "packet":
            self._progress.advance(self._tasks[team, track], event["n"])

    def played(self, entry: ContestEntry, done: int, total: int) -> None:
        """Show how many samples of a run elsewhere are played; its leaderboard row comes with its log."""
        state, all_of_it = ("running", total) if total else ("waiting", None)
        task = self._tasks[entry.team, entry.track]
        self._progress.update(task, completed=done, total=all_of_it, state=state)

    def done(self, outcome: Outcome) -> None:
        """Finish the bar; a run from before an interruption is added to the leaderboard from its log."""
        if outcome.log is not None and not self._board_has(outcome.entry):
            run = Run()
            for _, event in read_log(outcome.log):
                self._board.event(
                    outcome.entry.team, outcome.entry.track, event, run.feed(event), run
                )
        task = self._tasks[outcome.entry.team, outcome.entry.track]
        score = "" if outcome.log is None else f" {outcome.score:.2f}"
        self._progress.update(task, state=f"{outcome.reason}{score}")
        self._progress.stop_task(task)


def _plain(outcome: Outcome) -> dict[str, Any]:
    return {
        "team": outcome.entry.team,
        "track": outcome.entry.track,
        "score": outcome.score,
        "reason": outcome.reason,
        "detail": outcome.detail,
        "log": str(outcome.log) if outcome.log else None,
        "sessions": outcome.sessions,
        **({"measured": outcome.measured} if outcome.measured else {}),
    }
