"""The workers of a season: threads that lease units, start them on an engine and take their results."""

import logging
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from bci_stream.contest.contest import Contest
from bci_stream.contest.phases import Phase
from bci_stream.errors import BciError, StoreError
from bci_stream.season.actions import FAILURES
from bci_stream.season.log_pool import LogPool
from bci_stream.season.results import combined_result, keep_log, log_place, result_of
from bci_stream.season.standing import plan_of, run_recordings
from bci_stream.season.storage.schema import RUN, Submission, UnitLease, UnitResult
from bci_stream.season.storage.store import SeasonStore
from bci_stream.season.units.engines import Engine, run_folder
from bci_stream.season.units.jobs import UnitJob, UnitOutcome, storable, write_job
from tracks.common.reasons import Reason
from tracks.common.words import describe

logger = logging.getLogger(__name__)

LEASE_S: Final = 60.0
RENEW_S: Final = 10.0
IDLE_S: Final = 1.0
"""How often an idle worker looks for units whose time has come."""
POLL_S: Final = 0.2
STORE_RETRY_S: Final = 5.0
"""After the store could not be used."""
MOST_FAILURES: Final = 200
FAILURE_CHARACTERS: Final = 20_000
"""Of each log of a failed unit that is kept for the organiser."""


def keep_failure(folder: Path, name: str, unit: Path) -> None:
    """Keep the end of the logs of a failed unit for the organiser; the oldest of many are removed."""
    parts = []
    for log in sorted((*unit.glob("*.log"), *unit.glob("runs/*.log"))):
        with suppress(OSError):
            parts.append(f"== {log.name}\n{log.read_text(errors='replace')[-FAILURE_CHARACTERS:]}")
    with suppress(OSError):  # it is shown only
        folder.mkdir(exist_ok=True, mode=0o700)
        (folder / f"{name}.log").write_text("\n".join(parts) or "nothing was printed\n")
        for old in sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime)[
            :-MOST_FAILURES
        ]:
            old.unlink(missing_ok=True)


class Workers:
    """As many threads as the engine has slots; each has its own connection to the store.

    packages: the file of a submission's upload. work: the folder of units in progress.
    """

    def __init__(
        self,
        contest: Contest,
        phases: Sequence[Phase],
        engine: Engine,
        open_store: Callable[[], SeasonStore],
        logs: LogPool,
        *,
        packages: Callable[[int], Path],
        work: Path,
        most_a_team: int,
    ) -> None:
        self._contest = contest
        self._phases = {phase.name: phase for phase in phases}
        self._engine = engine
        self._open_store = open_store
        self._logs = logs
        self._packages = packages
        self._work = work
        self._most_a_team = most_a_team
        self._stop = threading.Event()
        self._wake = threading.Condition()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Take back what workers of a killed server held, and begin. Raises StoreError."""
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir(parents=True, mode=0o700)
        store = self._open_store()
        try:
            store.release(self._engine.name, time.time())
            self._judge(store)
        finally:
            store.close()
        for number in range(self._engine.slots):
            thread = threading.Thread(target=self._run, name=f"unit-{number + 1}")
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End the units that run; they wait again, and count as if they had not begun."""
        self._stop.set()
        self.wake()
        for thread in self._threads:
            thread.join()
        try:
            store = self._open_store()
            try:
                store.release(self._engine.name, time.time())
            finally:
                store.close()
        except StoreError as error:
            logger.warning("the leases are released at the next start: %s", error)

    def wake(self) -> None:
        """There may be a new unit."""
        with self._wake:
            self._wake.notify_all()

    def folder(self, job: UnitJob) -> Path:
        return self._work / job.name

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                store = self._open_store()
                try:
                    self._work_off(store)
                finally:
                    store.close()
            except StoreError as error:
                logger.error("%s; trying again in %g s", error, STORE_RETRY_S)
                self._stop.wait(STORE_RETRY_S)

    def _work_off(self, store: SeasonStore) -> None:
        while not self._stop.is_set():
            now = time.time()
            store.expire(now)
            found = store.lease(self._engine.name, now, LEASE_S, self._most_a_team)
            if found is None:
                with self._wake:
                    self._wake.wait(IDLE_S)
            else:
                self._do(store, *found)

    def _do(self, store: SeasonStore, lease: UnitLease, submission: Submission) -> None:
        job = self._job(lease, submission)
        folder = self.folder(job)
        try:
            self._take(store, lease, submission, job, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        self.wake()

    def _take(
        self,
        store: SeasonStore,
        lease: UnitLease,
        submission: Submission,
        job: UnitJob,
        folder: Path,
    ) -> None:
        """Run a unit and store its result, or give it back. Raises StoreError."""
        try:
            result, keep = self._result(store, lease, submission, job, folder)
            if isinstance(result, UnitResult):
                if store.finish(lease, result, time.time(), job.runs, keep):
                    self._judge(store, submission.id)
                else:
                    logger.warning("submission %d: a late result does not count", submission.id)
        except StoreError:
            raise
        except (BciError, OSError) as error:
            result = Reason("unit_failed", detail=str(error))
        except Exception as error:  # a log of a kind that no code expected must not end this thread
            logger.exception("submission %d", submission.id)
            result = Reason("unit_failed", detail=f"{type(error).__name__}: {error}")
        if isinstance(result, Reason):
            keep_failure(self._contest.folder / FAILURES, job.name, folder)
            why = storable(describe(result))
            logger.warning("submission %d: %s", submission.id, why)
            store.give_back(lease, why, time.time())

    def _judge(self, store: SeasonStore, number: int | None = None) -> None:
        """Judge submissions all of whose runs are done: all, or one of a number."""
        for submission in store.to_judge(number):
            runs = [unit for unit in store.units(submission.id) if unit.number >= RUN]
            try:
                result = self._logs.call(self._is_on, combined_result, self._contest, runs)
            except Exception as error:  # as above
                logger.exception("submission %d", submission.id)
                store.hold(submission.id, storable(str(error)), time.time())
            else:
                if result is not None:
                    store.judge(submission.id, result, time.time())

    def _is_on(self) -> bool:
        return not self._stop.is_set()

    def _job(self, lease: UnitLease, submission: Submission) -> UnitJob:
        """Its recordings are empty if contest.toml has no such phase or run any more."""
        runs = self._runs(submission)
        of_unit = runs[max(lease.number, RUN) - RUN : max(lease.number, RUN)]
        return UnitJob(
            lease.submission,
            lease.number,
            lease.attempt,
            submission.team,
            submission.track,
            of_unit[0] if of_unit else [],
            len(runs),
        )

    def _runs(self, submission: Submission) -> list[list[str]]:
        phase = self._phases.get(submission.phase)
        if phase is None:
            return []
        plan = plan_of(self._contest, phase, submission.track)
        return run_recordings(self._contest, plan, submission.track)

    def _result(
        self,
        store: SeasonStore,
        lease: UnitLease,
        submission: Submission,
        job: UnitJob,
        folder: Path,
    ) -> tuple[UnitResult | Reason | None, Callable[[], None]]:
        """The result, None if the unit was stopped or its lease was lost, and what keeps its log."""
        phase = self._phases.get(submission.phase)
        if phase is None or not job.recordings:
            what = f"run {job.number} of phase" if phase is not None else "phase"
            gone = f"contest.toml has no {what} {submission.phase!r} any more"
            return Reason("unit_failed", detail=gone), _no_log
        plan = plan_of(self._contest, phase, job.track)
        write_job(folder, self._contest, plan, job, self._packages(submission.id))
        go_on = self._renewal(store, lease)
        outcome = run_folder(self._engine, folder, go_on)
        if not isinstance(outcome, UnitOutcome):
            return outcome, _no_log
        kept = log_place(self._contest, phase.name, job)
        result = self._logs.call(go_on, result_of, self._contest, kept, job, folder, outcome)
        return result, partial(keep_log, self._contest, folder, outcome, kept)

    def _renewal(self, store: SeasonStore, lease: UnitLease) -> Callable[[], bool]:
        """Waits a moment and renews the lease when it is time; False if it was lost, or all is stopped."""
        renewed = time.monotonic()

        def go_on() -> bool:
            nonlocal renewed
            if self._stop.wait(POLL_S):
                return False
            if time.monotonic() - renewed > RENEW_S:
                renewed = time.monotonic()
                return store.renew(lease, time.time() + LEASE_S)
            return True

        return go_on


def _no_log() -> None:
    """Nothing to keep."""
