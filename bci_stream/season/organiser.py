"""The organiser's commands for a season: status, changes, export, rerun; and `bci-judge run --engine`.

They work on the store beside a running server; each change is recorded with its time and who made it. By
hand, an entry of `bci-judge run` is a unit: a decoder or submission on all recordings in their order.
"""

import csv
import getpass
import io
import json
import logging
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bci_stream.contest.contest import Contest, TrackPlan
from bci_stream.contest.phases import Phase
from bci_stream.errors import BciError, ContestError
from bci_stream.judge.contest_run import ContestEntry, Journal, Outcome, record
from bci_stream.judge.run_command import Bars, EntryRunner
from bci_stream.leaderboard.ranking import FORMULA_STARTS, to_records
from bci_stream.runlog import make_runs_folder
from bci_stream.season.actions import SHOWN, perform
from bci_stream.season.log_pool import LogPool
from bci_stream.season.queue import PENDING
from bci_stream.season.results import first_difference, keep_log, result_of
from bci_stream.season.standing import counted, phases_of, plan_of, run_recordings, standings
from bci_stream.season.storage.schema import RUN, Submission, UnitResult
from bci_stream.season.storage.store import SeasonStore, open_season_store
from bci_stream.season.units.engines import Engine, parse_engine, run_folder
from bci_stream.season.units.jobs import UnitJob, UnitOutcome, log_of, read_progress, write_job
from tracks.common.reasons import Reason
from tracks.common.words import describe

logger = logging.getLogger(__name__)

STORE: Final = "season.sqlite"
RERUN: Final = "season-rerun"
COLUMNS: Final = (
    "id", "team", "track", "phase", "name", "received", "ended", "stage", "fault", "reason",
    "score", "chosen", "sha256",
)  # fmt: skip


def open_organiser_store(contest: Contest, where: str) -> SeasonStore:
    """The season's store; raises ContestError if the contest has none yet."""
    place = where or str(contest.folder / STORE)
    if "://" not in place and not Path(place).exists():
        raise ContestError(f"there is no season's store {place}: `bci-judge serve` makes it")
    return open_season_store(place)


def status_lines(store: SeasonStore, now: float) -> Iterator[str]:
    """How many submissions are at each stage, what runs, and what failed through the organiser's side."""
    stages = store.stages().items()
    yield ", ".join(f"{count} {stage}" for stage, count in stages) or "no submission yet"
    for unit in store.running():
        what = f"run {unit.number}" if unit.number >= RUN else "check"
        yield f"{what} of submission {unit.submission}: attempt {unit.attempt} on {unit.worker}"
    for each in reversed(store.latest(SHOWN, fault="organiser")):
        yield f"submission {each.id} of {each.team}: {each.stage}; {each.reason}"
    for each_one in store.applications():
        if each_one.state == "waiting":
            contact = f"{each_one.name or 'no display name'}, {each_one.contact}"
            yield f"application {each_one.id} of team {each_one.team} waits ({contact})"
    for at, who, action, about in store.actions(10):
        yield f"{(now - at) / 3600:.1f} h ago, {who}: {action} {about}"


def change(contest: Contest, store: SeasonStore, action: str, **fields: str) -> str:
    """Do an action of the organiser as this user; returns a line that says so."""
    return describe(perform(contest, store, action, fields, getpass.getuser(), time.time()))


def export_text(contest: Contest, store: SeasonStore, form: str) -> str:
    """All submissions, and as "json" all leaderboards too; form: "csv" or "json"."""
    made = store.submissions()
    rows = [{name: getattr(each, name) for name in COLUMNS} for each in made]
    if form == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
        return text.getvalue()
    boards = [
        {
            "phase": phase.name,
            "track": track,
            "rows": to_records(standings(phase, track, made, contest.display_name)),
        }
        for phase in phases_of(contest)
        for track in contest.tracks
        if phase.has_track(track)
    ]
    content = {"contest": contest.name, "submissions": rows, "standings": boards}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _cell(value: Any) -> Any:
    """Spreadsheets run text that looks like a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


# --- rerun ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rerun:
    """A submission that was run again; difference: None if the logs agree."""

    submission: Submission
    difference: str | None


def best_submissions(
    contest: Contest, store: SeasonStore, phase: str, track: str, top: int
) -> tuple[Phase, list[Submission]]:
    """The submissions that count for the first `top` ranks of a phase on a track."""
    found = next((each for each in phases_of(contest) if each.name == phase or not phase), None)
    if found is None or track not in contest.tracks:
        known = ", ".join(each.name for each in phases_of(contest))
        raise ContestError(f"no phase {phase!r} with track {track!r}; there are phases {known}")
    made = store.submissions(phase=found.name, track=track)
    if waiting := [each.id for each in made if each.stage in PENDING]:
        raise ContestError(f"{len(waiting)} submissions of phase {found.name} are not judged yet")
    counting = counted(found, track, made)
    rows = standings(found, track, made)
    ranked = [counting[row.team] for row in rows if row.rank is not None and row.rank <= top]
    if not ranked:
        raise ContestError(f"phase {found.name} has no judged submission on track {track}")
    return found, ranked


def rerun(
    contest: Contest,
    store: SeasonStore,
    phase: Phase,
    submissions: Sequence[Submission],
    engine: Engine,
    logs: LogPool,
    stop: threading.Event,
) -> Iterator[Rerun]:
    """Run submissions again, one after another, and compare the logs. Nothing of the season changes."""
    for submission in submissions:
        first = [unit.log for unit in store.units(submission.id) if unit.number >= RUN]
        plan = plan_of(contest, phase, submission.track)
        for number, played in enumerate(run_recordings(contest, plan, submission.track), RUN):
            job = UnitJob(submission.id, number, 0, submission.team, submission.track, played)
            difference = _rerun_one(contest, plan, job, first[number - RUN], engine, logs, stop)
            if stop.is_set():
                return
            if difference is not None:
                break
        yield Rerun(submission, difference)


def _rerun_one(
    contest: Contest,
    plan: TrackPlan,
    job: UnitJob,
    first: str,
    engine: Engine,
    logs: LogPool,
    stop: threading.Event,
) -> str | None:
    """Where the log of a run differs from the first one's; None if it does not, or this was stopped.

    first: in the contest's folder; empty for a run that left no log.
    """
    folder = contest.folder / RERUN / job.name
    write_job(folder, contest, plan, job, contest.folder / "uploads" / str(job.submission))
    try:
        outcome = run_folder(engine, folder, lambda: not stop.wait(POLL_S))
        if outcome is None:
            return None
        if isinstance(outcome, Reason):
            return f"it could not be run again: {describe(outcome)}"
        if outcome.ending == "stopped":
            return f"it could not be run again: {outcome.detail}"
        if not (first and outcome.log):
            logs_left = [f"{'a' if log else 'no'} run log" for log in (first, outcome.log)]
            same = logs_left[0] == logs_left[1]
            return None if same else f"the end: {logs_left[0]} then, {logs_left[1]} now"
        again = log_of(folder, outcome)
        return logs.call(lambda: not stop.is_set(), first_difference, contest.folder / first, again)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Reruns:
    """Runs submissions again for the console, one at a time; the result is recorded as an action."""

    def __init__(
        self,
        contest: Contest,
        open_store: Callable[[], SeasonStore],
        engine: Engine,
        logs: LogPool,
    ) -> None:
        self._contest = contest
        self._open_store = open_store
        self._engine = engine
        self._logs = logs
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, number: int, who: str) -> None:
        """Raises ContestError if the submission has not run, or another one is run again now."""
        if self._thread is not None and self._thread.is_alive():
            raise ContestError(
                "another submission is run again at this moment; wait until it is over"
            )
        with closing(self._open_store()) as store:
            found = store.submission(number)
            if found is None or not any(unit.log for unit in store.units(number)):
                raise ContestError(f"submission {number} has no run log to compare with")
            store.log_action(who, "rerun", f"submission {number}: begun", time.time())
        self._thread = threading.Thread(target=self._run, args=(found, who), name="rerun")
        self._thread.start()

    def _run(self, submission: Submission, who: str) -> None:
        try:
            with closing(self._open_store()) as store:
                phase = next(p for p in phases_of(self._contest) if p.name == submission.phase)
                for each in rerun(
                    self._contest,
                    store,
                    phase,
                    [submission],
                    self._engine,
                    self._logs,
                    self._stop,
                ):
                    same = (
                        "the same log"
                        if each.difference is None
                        else f"not the same: {each.difference}"
                    )
                    about = f"submission {submission.id}: {same}"
                    store.log_action(who, "rerun", about, time.time())
        except (BciError, OSError, StopIteration) as error:
            logger.error("submission %d could not be run again: %s", submission.id, error)

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()


def print_rerun(
    contest: Contest,
    *,
    store: str,
    phase: str,
    track: str,
    top: int,
    engine: str,
    stop: threading.Event,
) -> bool:
    """Print a line for each submission that is run again; whether all logs agree."""
    agree = True
    with (
        closing(open_organiser_store(contest, store)) as opened,
        closing(parse_engine(engine)) as on,
        closing(LogPool(1)) as logs,
    ):
        found, best = best_submissions(contest, opened, phase, track, top)
        for each in rerun(contest, opened, found, best, on, logs, stop):
            about = f"submission {each.submission.id} of {each.submission.team}"
            if each.difference is None:
                print(f"{about}: the same log, score {each.submission.score:g}")
            else:
                agree = False
                print(f"{about}: not the same; first difference at {each.difference}")
    return agree


WORK: Final = "run-work"
ATTEMPTS: Final = 3
"""At a unit whose process is lost, as with its machine."""
POLL_S: Final = 0.2
SUBMISSION: Final = "--submission"


@contextmanager
def running_on(engine: str, contest: Contest, stop: threading.Event) -> Iterator[EntryRunner]:
    """A runner of entries on an engine, `local:N` or tcp://...; its folders are removed at the end."""
    work = contest.folder / WORK
    shutil.rmtree(work, ignore_errors=True)
    try:
        with closing(parse_engine(engine)) as opened:
            yield lambda entries, bars, resume: run_on_engine(
                opened, contest, entries, bars, stop, work, resume=resume
            )
    finally:
        shutil.rmtree(work, ignore_errors=True)


def run_on_engine(
    engine: Engine,
    contest: Contest,
    entries: Sequence[ContestEntry],
    bars: Bars,
    stop: threading.Event,
    work: Path,
    *,
    resume: bool,
) -> list[Outcome]:
    """Run all entries, as many at a time as the engine takes; a failure affects its own entry only."""
    make_runs_folder(contest.runs)
    contest.keys.public_key()  # made here if absent, so that all units have the same
    journal = Journal(contest.runs / "contest.journal")
    earlier = journal.done() if resume else {}

    def one(number: int, entry: ContestEntry) -> Outcome:
        outcome = earlier.get(entry)
        if outcome is None:
            outcome = record(journal, _run_entry(engine, contest, entry, number, bars, stop, work))
        bars.done(outcome)
        return outcome

    with ThreadPoolExecutor(engine.slots, thread_name_prefix="unit") as pool:
        return list(pool.map(one, range(1, len(entries) + 1), entries))


def _run_entry(
    engine: Engine,
    contest: Contest,
    entry: ContestEntry,
    number: int,
    bars: Bars,
    stop: threading.Event,
    work: Path,
) -> Outcome:
    package, arguments = _split_arguments(entry.decoder_arguments)
    found: UnitResult | Reason | None = Reason("contest_not_begun")
    for attempt in range(1, ATTEMPTS + 1):
        if stop.is_set():
            break
        job = UnitJob(
            number,
            RUN,
            attempt,
            entry.team,
            entry.track,
            list(entry.recordings),
            arguments=arguments,
        )
        folder = work / job.name
        try:
            plan = TrackPlan(rules=contest.rules(entry.track))
            write_job(folder, contest, plan, job, package)

            def go_on(folder: Path = folder) -> bool:
                progress = read_progress(folder)
                bars.played(entry, progress.done, progress.total)
                return not stop.wait(POLL_S)

            outcome = run_folder(engine, folder, go_on)
            if isinstance(outcome, UnitOutcome):
                kept = contest.runs / Path(outcome.log or "none").name
                found = result_of(contest, kept, job, folder, outcome)
                if isinstance(found, UnitResult):
                    keep_log(contest, folder, outcome, kept)
                break
            found = outcome or Reason("contest_stopped")
        except (BciError, OSError) as error:
            found = Reason("unit_failed", detail=str(error))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return _outcome(contest, entry, found)


def _split_arguments(arguments: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The package of a submission, and what else `bci-decode` is given."""
    words = list(arguments)
    if SUBMISSION not in words:
        return None, words
    at = words.index(SUBMISSION)
    return Path(words[at + 1]), words[:at] + words[at + 2 :]


def _outcome(contest: Contest, entry: ContestEntry, found: UnitResult | Reason | None) -> Outcome:
    if not isinstance(found, UnitResult):
        return Outcome(entry, "stopped", describe(found or Reason("contest_stopped")))
    return Outcome(
        entry,
        found.ending,
        found.reason,
        found.score or 0.0,
        contest.folder / found.log if found.log else None,
        list(found.sessions),
    )
