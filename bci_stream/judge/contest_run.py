"""A whole contest in lockstep: each entry has its own replay and decoder process; entries run in parallel."""

import json
import math
import re
import secrets
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import structs

from bci_stream.child_process import ChildProcess
from bci_stream.contest.contest import Contest
from bci_stream.errors import HOST_FAILED, BciError, LogError
from bci_stream.judge.judge import Judge
from bci_stream.judge.session.sink import Sink
from bci_stream.judge.session.team_run import TeamRun
from bci_stream.leaderboard.measured import write_measured
from bci_stream.runlog import make_runs_folder
from bci_stream.wire.transport import Transport
from tracks.common.reasons import Reason
from tracks.common.words import describe


@dataclass(frozen=True)
class ContestEntry:
    """One team on one track: the arguments of its decoder, and the recordings."""

    team: str
    track: str
    recordings: tuple[str, ...]
    decoder_arguments: tuple[str, ...] = ()


@dataclass
class Outcome:
    """How an entry's run ended; measured: what the host measured of a submission of 2026."""

    entry: ContestEntry
    reason: str
    detail: str = ""
    score: float = 0.0
    log: Path | None = None
    sessions: list[dict[str, object]] = field(default_factory=list)
    measured: dict[str, float] = field(default_factory=dict)


class Journal:
    """Records finished runs, one JSON line each, so that an interrupted contest can be resumed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, outcome: Outcome) -> None:
        """Record an outcome, unless the run was stopped: then it is run again."""
        if outcome.reason == "stopped":
            return
        line = {
            "entry": asdict(outcome.entry),
            "reason": outcome.reason,
            "detail": outcome.detail,
            "score": outcome.score,
            "log": str(outcome.log) if outcome.log else None,
            "sessions": outcome.sessions,
            "measured": outcome.measured,
        }
        with self.path.open("a") as file:
            # The newline ends a line that an earlier judge was writing when it was killed.
            file.write("\n" + json.dumps(line) + "\n")

    def done(self) -> dict[ContestEntry, Outcome]:
        """The recorded outcomes whose run logs still exist."""
        outcomes = (_outcome(line) for line in self._lines())
        return {
            outcome.entry: outcome
            for outcome in outcomes
            if outcome.log is None or outcome.log.exists()
        }

    def _lines(self) -> Iterator[dict[str, Any]]:
        if not self.path.exists():
            return
        for line in self.path.read_text(errors="replace").splitlines():
            with suppress(json.JSONDecodeError):  # incomplete: that run is run again
                yield json.loads(line)


def _outcome(line: dict[str, Any]) -> Outcome:
    made = line["entry"]
    entry = ContestEntry(
        made["team"], made["track"], tuple(made["recordings"]), tuple(made["decoder_arguments"])
    )
    log = Path(line["log"]) if line["log"] else None
    found = (line["reason"], line["detail"], line["score"], log, line["sessions"])
    return Outcome(entry, *found, line.get("measured", {}))


START_S = 120.0
"""How long a replay and a decoder may take to start: imports, models."""
PREPARE_S = 7200.0
"""How long a submission's environment may take: it is made before anything else starts."""


@dataclass(frozen=True)
class Wire:
    """LSL options, the same for all processes of a contest."""

    transport: Transport
    scope: str
    lsl_session: str


def run_entries(
    wire: Wire,
    contest: Contest,
    entries: Sequence[ContestEntry],
    sink: Sink,
    *,
    jobs: int,
    stop: threading.Event,
    done: Callable[[Outcome], None] = lambda _: None,
    contest_path: Path | None = None,
    resume: bool = False,
) -> list[Outcome]:
    """Run all entries, `jobs` at a time; a failure affects its own entry only.

    done: called after each run. resume: entries that have a recorded outcome are not run again.
    """
    make_runs_folder(contest.runs)
    journal = Journal(contest.runs / "contest.journal")
    earlier = journal.done() if resume else {}

    def one(entry: ContestEntry) -> Outcome:
        outcome = earlier.get(entry)
        if outcome is None:
            outcome = _run_entry(wire, contest, entry, sink, stop, contest_path)
            outcome = record(journal, outcome)
        done(outcome)
        return outcome

    with ThreadPoolExecutor(jobs, thread_name_prefix="run") as pool:
        return list(pool.map(one, entries))


def _run_entry(
    wire: Wire,
    contest: Contest,
    entry: ContestEntry,
    sink: Sink,
    stop: threading.Event,
    contest_path: Path | None,
) -> Outcome:
    if stop.is_set():
        why = Reason("contest_not_begun")
        sink.team(entry.team, entry.track, "stopped", why)
        return Outcome(entry, "stopped", describe(why))
    try:
        return _OneRun(wire, contest, entry, sink, stop, contest_path).run()
    except (
        LogError,
        OSError,
    ) as error:  # such as a full disk: not the team's fault, so it is run again
        sink.team(entry.team, entry.track, "stopped", str(error))
        return Outcome(entry, "stopped", str(error))
    except BciError as error:
        sink.team(entry.team, entry.track, "crashed", str(error))
        return Outcome(entry, "crashed", str(error))


def record(journal: Journal, outcome: Outcome) -> Outcome:
    """Record an outcome; if it can't be recorded, the run counts as stopped and is run again."""
    try:
        journal.add(outcome)
    except OSError as error:
        return Outcome(outcome.entry, "stopped", f"can't write {journal.path}: {error.strerror}")
    return outcome


REPLAY_END_S = 1.0
"""A decoder exits, too, where its replay fails before the start: so long the replay may take to end."""

RETURN_S = 1.0
"""How long the judge waits for a decoder whose stream has ended: here it is not started again."""


@dataclass
class _OneRun:
    """One replay, one decoder and one judge, in a contest name of their own (--room)."""

    _wire: Wire
    _contest: Contest
    _entry: ContestEntry
    _sink: Sink
    _stop: threading.Event
    _contest_path: Path | None

    def __post_init__(self) -> None:
        self._room = secrets.token_hex(4)
        limits = structs.replace(self._contest.limits, return_s=RETURN_S)
        name = f"{self._contest.name}.{self._room}"
        self._contest = replace(self._contest, name=name, limits=limits)
        self._begun = self._wire.transport.now()
        self._failure: tuple[str, str | Reason] | None = None
        self._decoder_gone_at = math.inf

    def run(self) -> Outcome:
        self._sink.team(self._entry.team, self._entry.track, "waiting")
        if not self._prepare():
            return self._outcome([])
        self._begun = self._wire.transport.now()
        judge = Judge(
            self._wire.transport,
            self._contest,
            self._sink,
            stop=self._stop,
            may_start=lambda teams: self._entry.team in teams,
        )
        with ExitStack() as children:
            self._replay = self._start_replay()
            children.callback(self._replay.end)
            self._decoder = self._start_decoder()
            children.callback(self._decoder.end)
            judge.judge(self._is_over, START_S)
        return self._outcome(judge.runs)

    def _prepare(self) -> bool:
        """Make a submission's environment; False where that failed, or the contest was stopped."""
        if "--submission" not in self._entry.decoder_arguments:
            return True
        arguments = ["prepare", "--track", self._entry.track, *self._entry.decoder_arguments]
        child = ChildProcess("decoders", arguments, self._log("decoder"))
        deadline = self._wire.transport.now() + PREPARE_S
        shown = 0
        while child.exit_code() is None and self._wire.transport.now() < deadline:
            lines = child.lines()
            for line in lines[shown:]:
                self._sink.team(self._entry.team, self._entry.track, "waiting", line)
            shown = len(lines)
            if self._stop.wait(0.1):
                break
        code = child.exit_code()
        child.end()
        if code is None and not self._stop.is_set():
            self._failure = ("stopped", f"its environment was not made within {PREPARE_S:g} s")
        elif code is not None and code != 0:
            self._failure = preparation_failure(code, child.last_line())
        return code == 0

    def _start_replay(self) -> ChildProcess:
        arguments = [
            *("start", *self._entry.recordings, "--track", self._entry.track, "--pace", "lockstep"),
            *("--foreground", "--name", f"{self._entry.track}-{self._room}"),
            *("--team", self._entry.team, "--wait", str(START_S)),
        ]
        return ChildProcess("replay", [*arguments, *self._common()], self._log("replay"))

    def _start_decoder(self) -> ChildProcess:
        token = self._contest.keys.token_file(self._entry.team)
        arguments = [
            *("--track", self._entry.track, "--team", self._entry.team, "--token", str(token)),
            *self._entry.decoder_arguments,
            *("--wait", str(START_S), "--measured", str(self._log("measured"))),
        ]
        return ChildProcess("decoders", [*arguments, *self._common()], self._log("decoder"))

    def _common(self) -> list[str]:
        path = ["--contest", str(self._contest_path)] if self._contest_path else []
        wire = ["--scope", self._wire.scope, "--lsl-session", self._wire.lsl_session]
        return [*path, "--room", self._room, *wire]

    def _log(self, role: str) -> Path:
        return (
            self._contest.runs / f"{self._entry.track}-{self._entry.team}-{self._room}.{role}.log"
        )

    def _is_over(self, judge: Judge) -> bool:
        if judge.all_over():
            return True
        runs = judge.runs
        if runs and runs[0].ended is not None:
            return False  # the session ends by itself
        if self._replay.exit_code() not in (None, 0):
            self._failure = ("stopped", Reason("replay_failed", detail=self._replay.last_line()))
        elif self._decoder.exit_code() is not None and not runs:
            now = self._wire.transport.now()
            self._decoder_gone_at = min(self._decoder_gone_at, now)
            if now - self._decoder_gone_at > REPLAY_END_S:
                code = self._decoder.exit_code()
                self._failure = (_ending_of(code), self._decoder.last_line())
        elif not runs and self._wire.transport.now() - self._begun > START_S:
            self._failure = ("timeout", Reason("did_not_start", limit_s=START_S))
        return self._failure is not None

    def _outcome(self, runs: Sequence[TeamRun]) -> Outcome:
        if not runs:
            reason, detail = self._failure or ("stopped", Reason("contest_stopped"))
            self._sink.team(self._entry.team, self._entry.track, reason, detail)
            return Outcome(self._entry, reason, describe(detail))
        result, measured = runs[0].run.result(), self._measured()
        if runs[0].path is not None:
            write_measured(runs[0].path, measured)
        return Outcome(
            self._entry,
            runs[0].ended or "stopped",
            runs[0].detail,
            float(result["score"]),
            runs[0].path,
            list(result["sessions"]),
            measured,
        )

    def _measured(self) -> dict[str, float]:
        """What our own worker, outside of the sandbox, has written; {} where it wrote nothing."""
        try:
            found: dict[str, float] = json.loads(self._log("measured").read_text())
        except (OSError, ValueError):
            return {}
        return found


def preparation_failure(exit_code: int, printed: str) -> tuple[str, str]:
    """The ending, and why, of a run whose environment could not be made; no code of the team runs there."""
    if exit_code < 0:
        name = signal.Signals(-exit_code).name
        return "stopped", f"the process that made its environment was ended by {name}"
    return _ending_of(exit_code), printed


def _ending_of(exit_code: int | None) -> str:
    """The ending of a decoder that exited before its run: `stopped` runs are tried again."""
    return "stopped" if exit_code == HOST_FAILED else "crashed"


def team_name(text: str) -> str:
    """A team name made from a decoder's or submission's name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-.")[:64] or "team"
