"""The process of one unit: checks a submission, or runs it on the recordings of its phase.

Started by an engine as `python -m bci_stream.season FOLDER`. It ends with the process that started it. The
uploaded code runs in the sandbox of `bci-decode`, a child of this process, and nowhere else.
"""

import logging
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bci_stream.child_process import ChildProcess
from bci_stream.contest.contest import Contest, load_contest
from bci_stream.errors import HOST_FAILED, ContestError
from bci_stream.judge.contest_run import PREPARE_S, ContestEntry, Wire, run_entries
from bci_stream.judge.run_command import with_calibration
from bci_stream.season.units.jobs import (
    UnitJob,
    UnitOutcome,
    UnitProgress,
    file_sha256,
    read_job,
    write_outcome,
    write_progress,
)
from bci_stream.season.units.recordings import recordings_here
from tracks.common.reasons import Reason
from tracks.common.verdicts import Verdict
from tracks.common.words import describe
from tracks.run import Run

logger = logging.getLogger(__name__)

CHECK_S: Final = 600.0
"""How long a check may take, without the environment, which is made before."""
PROGRESS_S: Final = 1.0
BOUND_VARIABLE: Final = "BCI_ENVIRONMENTS_GB"
"""Environment variable with the bound of the environments on this machine in gigabytes."""
BOUND_GB: Final = "50"
OUTPUT_CHARACTERS: Final = 4000
"""Of the end of what a submission printed in a run: it has seen the recordings of the phase."""


def run_unit(folder: Path, stop: threading.Event) -> None:
    """Do the unit of a folder, and write its outcome."""
    job = read_job(folder)
    os.environ["BCI_HOME"] = str(folder / "home")  # the submission's output goes there
    work = _check if job.is_check else _run
    write_outcome(folder, work(folder, job, stop))


def _check(folder: Path, job: UnitJob, stop: threading.Event) -> UnitOutcome:
    package = ["--track", job.track, "--submission", str(folder / "package")]
    code, printed = _child(folder, "prepare", package, PREPARE_S, stop)
    if code == 0:
        bound = os.environ.get(BOUND_VARIABLE, BOUND_GB)
        pruned, printed_there = _child(folder, "cache", ["--max-gb", bound], CHECK_S, stop)
        if pruned != 0:
            logger.warning("environments were not pruned to %s GB: %s", bound, printed_there)
        arguments = [*package, "--contest", str(folder)]
        code, printed = _child(folder, "check", arguments, CHECK_S, stop)
    printed = printed.replace(f"{folder}/", "")
    match code:
        case 0:
            return UnitOutcome("passed", report=printed)
        case 1:
            return UnitOutcome("rejected", describe(Reason("check_failed")), printed)
        case None if not stop.is_set():
            return UnitOutcome(
                "rejected", describe(Reason("check_too_long", limit_s=CHECK_S)), printed
            )
        case None:
            return UnitOutcome("stopped", describe(Reason("contest_stopped")))
    detail = printed.splitlines()[-1] if code == HOST_FAILED and printed else f"exit code {code}"
    return UnitOutcome("stopped", detail)


def _child(
    folder: Path, command: str, arguments: list[str], limit_s: float, stop: threading.Event
) -> tuple[int | None, str]:
    """(exit code, output) of a command of bci-decode; the code is None if it was ended from here."""
    log = folder / f"{command}.log"
    child = ChildProcess("decoders", [command, *arguments], log)
    deadline = time.monotonic() + limit_s
    while child.exit_code() is None and time.monotonic() < deadline and not stop.wait(0.1):
        pass
    code = child.exit_code()
    child.end()
    return code, log.read_text(errors="replace").strip()[-20 * OUTPUT_CHARACTERS :]


def _run(folder: Path, job: UnitJob, stop: threading.Event) -> UnitOutcome:
    contest = load_contest(folder)
    try:
        with (
            recordings_here(job.recordings) as played,
            recordings_here(contest.tracks[job.track].calibration) as calibration,
        ):
            return _play(folder, job, contest, played, calibration, stop)
    except ContestError as error:
        return UnitOutcome("stopped", str(error))


def _play(
    folder: Path,
    job: UnitJob,
    contest: Contest,
    played: list[str],
    calibration: list[str],
    stop: threading.Event,
) -> UnitOutcome:
    """Run the submission on recordings that are on this machine."""
    from bci_stream.cli import open_wire

    package = folder / "package"
    arguments = ["--submission", str(package)] if package.exists() else []
    arguments += job.arguments
    entry = ContestEntry(job.team, job.track, tuple(played), tuple(arguments))
    if "--calibration" not in arguments:
        (entry,) = with_calibration([entry], tuple(calibration))
    session = f"season-{os.getpid()}-{job.name}"
    wire = Wire(open_wire("machine", session), "machine", session)
    progress = ProgressSink(folder)
    (outcome,) = run_entries(
        wire, contest, [entry], progress, jobs=1, stop=stop, contest_path=folder
    )
    has_log = outcome.log is not None
    return UnitOutcome(
        outcome.reason,
        outcome.detail.replace(f"{folder}/", ""),
        _output(folder),
        outcome.log.name if outcome.log is not None else "",
        file_sha256(outcome.log) if has_log and outcome.log is not None else "",
    )


def _output(folder: Path) -> str:
    """The end of what the submission printed."""
    printed = ""
    for log in sorted((folder / "home" / "submissions").glob("*.log")):
        with suppress(OSError):
            printed += log.read_text(errors="replace")
    shown = printed.strip()[-OUTPUT_CHARACTERS:]
    return f"the end of what it printed in the run:\n{shown}" if shown else ""


class ProgressSink:
    """A judge's sink that writes how far a run is to the unit's folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._total = self._done = self._subject = 0
        self._written = 0.0

    def team(
        self,
        name: str,
        track: str,
        status: str = "",
        reason: str | Reason = "",
        lag_s: float = 0.0,
    ) -> None:
        """Nothing to show."""

    def alarm(self, reason: Reason) -> None:
        """Nothing to show."""

    def event(
        self, team: str, track: str, event: dict[str, Any], verdicts: list[Verdict], run: Run
    ) -> None:
        match event["kind"]:
            case "run":
                self._total = int(event.get("samples", 0))
            case "session":
                self._subject += 1
            case "packet":
                self._done += int(event["n"])
        if time.monotonic() - self._written > PROGRESS_S:
            self._written = time.monotonic()
            write_progress(self._folder, UnitProgress(self._done, self._total, self._subject))
