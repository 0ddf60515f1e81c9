"""Short units for the tests of a season: replay, decoder and judge in one process, without LSL.

    python -m scripts.season_rig FOLDER             do the unit of a folder, as a worker's process
    python -m scripts.season_rig serve CONTEST      a season's server with such workers

A package is the bytes of `package(...)`: what the unit does with it. Server, store, queue, uploads,
verification and scoring are the real ones. Used by tests/season and scripts/season_faults.py.
"""

import json
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from bci_stream.child_process import end_with_parent
from bci_stream.contest.contest import load_contest
from bci_stream.season.units.engines import Engine, EngineMachine, LocalEngine
from bci_stream.season.units.jobs import (
    UnitOutcome,
    UnitProgress,
    file_sha256,
    read_job,
    write_outcome,
    write_progress,
)

HEAD = b"PK\x03\x04"
HANG_S = 600.0
WORK_S = 2.0
"""Processor time of a unit that does `work`, as a compute-bound decoder."""
RETRY_S = 0.1
"""Instead of the delay that a machine in trouble needs."""


def package(do: str = "finish", seed: int = 0, only: int = 0) -> bytes:
    """do: finish, reject, crash, fail (on the organiser's side), die (without an outcome), hang, exit, work.

    seed: an even one gives the right answers; each gives another log. only: the run in which it does so, in
    others it finishes; 0 for all.
    """
    return HEAD + json.dumps({"do": do, "seed": seed, "only": only}).encode()


def do_unit(folder: Path, stop: threading.Event) -> None:
    """Do a unit as its package says."""
    job = read_job(folder)
    wanted = json.loads((folder / "package").read_bytes().removeprefix(HEAD))
    do = wanted["do"] if wanted["only"] in (0, job.number) else "finish"
    if job.is_check and do != "fail":
        ending = "rejected" if do == "reject" else "passed"
        write_outcome(folder, UnitOutcome(ending, report=f"checked: {ending}"))
    elif do == "hang":
        write_progress(folder, UnitProgress(40, 100, 1))
        stop.wait(HANG_S)
    elif do == "fail":
        write_outcome(folder, UnitOutcome("stopped", "the registry is out of reach"))
    elif do == "exit":
        write_outcome(folder, UnitOutcome("crashed", "it exited before its run"))
    elif do != "die":
        if do == "work":
            _compute(WORK_S)
        _play(folder, job.team, wanted["seed"], crash=do == "crash")


def _compute(seconds: float) -> None:
    """Use so much processor time of this process."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        sum(range(10_000))


def _play(folder: Path, team: str, seed: int, *, crash: bool) -> None:
    from bci_stream.wire.memory import MemoryTransport
    from tests.playground import Recorder, erp_recording, play, program

    answers = {9: "E" if seed % 2 == 0 else "A", 24: 20, 27: 1 + seed % 36}

    def answer(number: int, _packet: Any) -> list[object]:
        if crash and number == 20:
            raise RuntimeError("boom")
        return [answers[number]] if number in answers else []

    contest = load_contest(folder)
    contest.runs.mkdir(mode=0o700)
    decoder = Recorder(answer)
    played = play(MemoryTransport(), contest, program("erp", erp_recording()), {team: decoder})
    run = played.runs[team]
    log = run.path
    outcome = UnitOutcome(
        run.ended or "stopped", run.detail, f"printed {seed}", log.name, file_sha256(log)
    )
    write_outcome(folder, outcome)


class ThreadEngine:
    """Units in threads of this process."""

    def __init__(
        self, slots: int = 1, do: Callable[[Path, threading.Event], None] = do_unit
    ) -> None:
        self.name = "threads"
        self.slots = slots
        self.started = 0
        self._do = do

    def start(self, folder: Path) -> "RunningThread":
        self.started += 1
        return RunningThread(self._do, folder)

    def machines(self) -> list[EngineMachine]:
        return [EngineMachine("threads of this process", self.slots)]

    def close(self) -> None:
        """Nothing to close."""


class RunningThread:
    """A unit in a thread."""

    def __init__(self, do: Callable[[Path, threading.Event], None], folder: Path) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(do, folder))
        self._thread.start()

    def _run(self, do: Callable[[Path, threading.Event], None], folder: Path) -> None:
        with suppress(FileNotFoundError):  # the folder is removed when the unit is ended early
            do(folder, self._stop)

    def exit_code(self) -> int | None:
        return None if self._thread.is_alive() else 0

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


def serve(folder: Path, store: str, slots: int, scheduler: str = "") -> None:
    """A season's server with quick workers, here or on a Dask cluster; writes its port to FOLDER/port."""
    from bci_stream.cli import configure_logging, stop_on_signals
    from bci_stream.page_server import listen
    from bci_stream.season.log_pool import LogPool
    from bci_stream.season.serve_command import Season, log_processes, only_server
    from bci_stream.season.storage import store as season_store
    from bci_stream.season.uploads import UploadLimits

    configure_logging()
    season_store.retry_delay_s = lambda _failures: RETRY_S
    stop = stop_on_signals()
    contest = load_contest(folder)
    engine = _engine(slots, scheduler)
    with (
        only_server(contest),
        listen("127.0.0.1", 0) as listening,
        closing(LogPool(log_processes(engine))) as logs,
    ):
        season = Season(
            contest,
            engine=engine,
            logs=logs,
            store=store,
            limits=UploadLimits(an_hour=10_000, spare_bytes=0),
            units_a_team=slots,
        )
        (folder / "port").write_text(str(listening.getsockname()[1]))
        season.run(listening, None, stop)


def _engine(slots: int, scheduler: str) -> Engine:
    if not scheduler:
        return LocalEngine(slots, module="scripts.season_rig")
    from bci_stream.season.units.engines import ClusterEngine

    return ClusterEngine(scheduler, module="scripts.season_rig")


if __name__ == "__main__":
    end_with_parent()
    if sys.argv[1] == "serve":
        serve(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), *sys.argv[5:6])
    else:
        do_unit(Path(sys.argv[1]), threading.Event())
