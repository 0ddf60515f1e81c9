"""Where units run: processes on this machine, or a Dask cluster; and how a unit's folder is run there."""

import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bci_stream.child_process import ChildProcess
from bci_stream.errors import ContestError
from bci_stream.season.units.jobs import UnitOutcome, read_outcome
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
        from bci_stream.season.units.cluster import ClusterEngine

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
