"""`bci-judge run --engine`: one contest by hand in a season's units, here or on a Dask cluster.

An entry is a unit: a team's decoder or submission on all recordings in their order. Its folder is written,
run and read back as in a season; the log is verified and scored again here, and kept in the contest's runs.
"""

import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from bci_stream.contest.contest import Contest, TrackPlan
from bci_stream.errors import BciError
from bci_stream.judge.contest_run import ContestEntry, Journal, Outcome, record
from bci_stream.judge.run_command import Bars, EntryRunner
from bci_stream.runlog import make_runs_folder
from bci_stream.season.results import keep_log, result_of
from bci_stream.season.storage.schema import RUN, UnitResult
from bci_stream.season.units.engines import Engine, parse_engine, run_folder
from bci_stream.season.units.jobs import UnitJob, UnitOutcome, read_progress, write_job
from tracks.common.reasons import Reason
from tracks.common.words import describe

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
