"""Where units run: processes on this machine, or a Dask cluster (extra `cluster`).

On a cluster a task writes the unit's folder on its machine, starts `python -m bci_stream.season FOLDER`
there and returns outcome and run log: no Dask process imports or unpickles what a team has uploaded. The
folder, with the contest's key, is readable by the worker's own user alone, and is removed with the task.
"""

import logging
import os
import platform
import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from uuid import uuid4

from filelock import FileLock, Timeout

from bci_stream.child_process import ChildProcess
from bci_stream.errors import ContestError
from bci_stream.season.units.jobs import (
    KEY_FILES,
    UnitOutcome,
    UnitProgress,
    read_outcome,
    read_progress,
    write_progress,
)
from tracks.common.reasons import Reason


class RunningUnit(Protocol):
    """A unit that an engine has started."""

    def exit_code(self) -> int | None:
        """None while it runs."""

    def end(self) -> None: ...


@dataclass(frozen=True, slots=True)
class EngineMachine:
    """A machine that runs units; slots: at the same time."""

    name: str
    slots: int


class Engine(Protocol):
    """Where units run. name: of its workers in the store. slots: units at the same time."""

    name: str
    slots: int

    def start(self, folder: Path) -> RunningUnit:
        """Start the unit of a folder. Raises OSError."""

    def machines(self) -> list[EngineMachine]:
        """Those that there are now."""

    def close(self) -> None: ...


class LocalEngine:
    """Processes on this machine; they end with this process, however it ends."""

    def __init__(self, slots: int, module: str = "bci_stream.season") -> None:
        self.name = "local"
        self.slots = slots
        self._module = module

    def start(self, folder: Path) -> RunningUnit:
        return ChildProcess(self._module, [str(folder)], folder / "unit.log")

    def machines(self) -> list[EngineMachine]:
        return [EngineMachine(platform.node() or "this machine", self.slots)]

    def close(self) -> None:
        """Nothing to close: each unit is ended by whoever started it."""


def parse_engine(text: str) -> Engine:
    """`local:N`, or the address of a Dask scheduler. Raises ContestError."""
    kind, _, count = text.partition(":")
    if kind == "local" and count.isdecimal() and int(count) >= 1:
        return LocalEngine(int(count))
    if kind in ("tcp", "tls"):
        return ClusterEngine(text)
    raise ContestError(
        f"no engine {text!r}: give local:N, N units at the same time on this machine, or the address of a "
        "Dask scheduler, such as tcp://scheduler:8786"
    )


def run_folder(
    engine: Engine, folder: Path, go_on: Callable[[], bool]
) -> UnitOutcome | Reason | None:
    """Do the unit of a folder on an engine.

    go_on: waits a moment and says whether to wait on; if not, the unit is ended and the result is None. A
    unit whose process left no outcome is a reason: not the team's fault. Raises OSError or ContestError.
    """
    running = engine.start(folder)
    try:
        while (code := running.exit_code()) is None:
            if not go_on():
                return None
    finally:
        running.end()
    outcome = read_outcome(folder)
    if outcome is None:
        return Reason("unit_failed", detail=f"its process ended with exit code {code}")
    return outcome


logger = logging.getLogger(__name__)

RESOURCE: Final = "unit"
"""A worker is started with as many of it as units may run on it: dask worker --resources "unit=4"."""
CONNECT_S: Final = 20.0
POLL_S: Final = 0.3
UNIT: Final = "bci-unit-"
"""How the names of the units' folders on a worker's machine begin."""
LOCK: Final = "worker.lock"
"""In such a folder; locked while its worker lives."""
SENT: Final = ("contest.toml", "unit.json", "package", *(f"keys/{name}" for name in KEY_FILES))


class ClusterEngine:
    """Units as tasks of a Dask cluster. slots: how many its workers take when this is made."""

    def __init__(self, address: str, module: str = "bci_stream.season") -> None:
        self.name = "cluster"
        self._address = address
        self._module = module
        self._lock = threading.Lock()
        self._topic = f"bci-progress-{uuid4().hex}"
        self._folders: dict[str, Path] = {}
        self._client = self._connect()
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        self.slots = int(sum(worker["resources"].get(RESOURCE, 0) for worker in workers))
        if self.slots < 1:
            self.close()
            raise ContestError(
                f"the cluster {address} has no worker for units: start one with "
                f'dask worker {address} --resources "{RESOURCE}=1"'
            )

    def _connect(self) -> Any:
        """A client of the scheduler. Raises ContestError."""
        try:
            from distributed import Client
        except ImportError as error:
            raise ContestError(
                "an engine on a cluster needs Dask; install it with: pip install 'bci-stream[cluster]'"
            ) from error
        # Dask logs tracebacks of connections that break; what matters here is logged by this module.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            client = Client(self._address, timeout=CONNECT_S, set_as_default=False)
            client.subscribe_topic(self._topic, self._take_progress)
            return client
        except (OSError, ValueError) as error:
            raise ContestError(
                f"no Dask scheduler at {self._address}: {error or 'it does not answer'}"
            ) from error

    def _take_progress(self, event: tuple[float, tuple[str, int, int, int]]) -> None:
        """Write what a worker says of a unit to the unit's folder here; called by Dask's own thread."""
        _, (name, *numbers) = event
        if (folder := self._folders.get(name)) is not None:
            write_progress(folder, UnitProgress(*numbers))

    def start(self, folder: Path) -> "RemoteUnit":
        """Submit the unit of a folder. Raises OSError or ContestError if the scheduler is away."""
        with self._lock:
            if self._client.status != "running":
                self._client.close(timeout=1)
                self._client = self._connect()
            client = self._client
        files = {name: (folder / name).read_bytes() for name in SENT if (folder / name).exists()}
        # In a list: Dask would take the names of a dict as keys, and mix up the files of two units.
        (held,) = client.scatter([files], hash=False, timeout=CONNECT_S)
        future = client.submit(
            run_on_worker, held, self._module, self._topic, folder.name,
            pure=False, resources={RESOURCE: 1}, retries=0,
        )  # fmt: skip
        self._folders[folder.name] = folder
        return RemoteUnit(future, folder, lambda: self._folders.pop(folder.name, None))

    def machines(self) -> list[EngineMachine]:
        """The workers that the scheduler knows; none while it is away."""
        try:
            workers = self._client.scheduler_info(n_workers=-1)["workers"]
        except Exception:  # noqa: BLE001 - shown only; Dask raises whatever went wrong
            return []
        return [
            EngineMachine(address, int(worker["resources"].get(RESOURCE, 0)))
            for address, worker in workers.items()
        ]

    def close(self) -> None:
        self._client.close(timeout=1)


class RemoteUnit:
    """A task; its files are written to the unit's folder when it is over. ended: called by `end`."""

    def __init__(self, future: Any, folder: Path, ended: Callable[[], object]) -> None:
        self._future = future
        self._folder = folder
        self._ended = ended
        self._code: int | None = None

    def exit_code(self) -> int | None:
        if self._code is None and self._future.done():
            self._code = self._take()
        return self._code

    def _take(self) -> int:
        """0 if the task returned files; 1 if it was lost with its worker or the scheduler."""
        try:
            files: dict[str, bytes] = self._future.result(timeout=CONNECT_S)
        except Exception as error:  # noqa: BLE001 - Dask raises whatever went wrong there
            logger.warning("a unit was lost on the cluster: %s: %s", type(error).__name__, error)
            return 1
        for name, content in files.items():
            path = self._folder / name
            path.parent.mkdir(exist_ok=True, mode=0o700)
            path.write_bytes(content)
        return 0

    def end(self) -> None:
        """Cancel the task: its worker ends the unit's process."""
        self._ended()
        with suppress(Exception):
            self._future.cancel()
            self._future.release()


def run_on_worker(files: dict[str, bytes], module: str, topic: str, unit: str) -> dict[str, bytes]:
    """Do a unit on this machine; returns its outcome and run log by name. Called by a Dask worker.

    topic, unit: Dask's topic to which its progress is sent, and the unit's name there.
    """
    from distributed import get_worker

    worker, sent = get_worker(), UnitProgress()

    def send_progress() -> None:
        nonlocal sent
        if (present := read_progress(folder)) != sent:
            sent = present
            worker.log_event(topic, (unit, sent.done, sent.total, sent.subject))

    _remove_left()
    folder = Path(tempfile.mkdtemp(prefix=UNIT))
    try:
        with FileLock(folder / LOCK):
            for name, content in files.items():
                path = folder / name
                path.parent.mkdir(exist_ok=True, mode=0o700)
                path.touch(mode=0o600)
                path.write_bytes(content)
            _run_child(folder, module, _cancelled(), send_progress)
            return _returned(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_left() -> None:
    """Remove the folders of units whose workers were killed: they hold the contest's key."""
    for folder in Path(tempfile.gettempdir()).glob(f"{UNIT}*"):
        with suppress(OSError, Timeout):
            is_own = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
            if is_own and (folder / LOCK).exists():
                with FileLock(folder / LOCK, timeout=0):
                    shutil.rmtree(folder, ignore_errors=True)


def _run_child(
    folder: Path, module: str, cancelled: Callable[[], bool], send_progress: Callable[[], None]
) -> None:
    child = ChildProcess(module, [str(folder)], folder / "unit.log")
    try:
        while child.exit_code() is None and not cancelled():
            threading.Event().wait(POLL_S)
            send_progress()
    finally:
        child.end()


def _cancelled() -> Callable[[], bool]:
    """Whether this task was cancelled; Dask does not interrupt a task by itself."""
    from distributed import get_worker

    worker = get_worker()
    key = worker.get_current_task()

    def check() -> bool:
        task = worker.state.tasks.get(key)
        return task is None or task.state == "cancelled"

    return check


def _returned(folder: Path) -> dict[str, bytes]:
    outcome = read_outcome(folder)
    names = ["outcome.json"] if outcome is not None else []
    names += ["unit.log"]
    if outcome is not None and outcome.log:
        names.append(f"runs/{Path(outcome.log).name}")
    return {name: (folder / name).read_bytes() for name in names if (folder / name).exists()}
