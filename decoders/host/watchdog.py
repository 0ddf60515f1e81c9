"""The watchdog of one submission: writes its output to a log, and kills it at a limit.

The operating system's limits hold for each process; the sum over all of them is checked here.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil  # type: ignore[import-untyped, unused-ignore]

from decoders.host.cgroup import ControlGroup
from decoders.host.limits import (
    SubmissionDisqualified,
    SubmissionError,
    SubmissionLimit,
    SubmissionLimits,
    SubmissionTimeout,
)

CHECK_EVERY_S = 0.2
DETACHED_EVERY = 5
"""Without a process name space a child can leave the tree: every fifth check looks for those, too."""

_CHUNK_BYTES = 1 << 16
_HELPERS = 2
"""bubblewrap's own two processes, which do not count as the submission's."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What all processes use at one moment; cpu_s includes children that have exited."""

    processes: int
    memory_bytes: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """All processes of a submission: descendants of the first one and, if it has one, of its user."""

    first: subprocess.Popen[bytes]
    user: int | None
    group: ControlGroup | None = None

    def usage(self, detached: bool = False) -> Usage:
        """detached: include processes that were re-parented to init; finding them costs much more."""
        members = self._members() if detached else _descendants(self.first.pid)
        processes, memory_bytes, cpu_s = 0, 0, 0.0
        for member in {each.pid: each for each in members}.values():
            with contextlib.suppress(psutil.Error), member.oneshot():
                memory_bytes += member.memory_info().rss
                cpu_s += sum(member.cpu_times()[:4])
                processes += 1
        if self.group is not None:
            cpu_s = max(cpu_s, self.group.cpu_s())
        return Usage(processes, memory_bytes, cpu_s)

    def kill(self) -> None:
        """Kill all of them, repeatedly, because new ones may be forked meanwhile."""
        if self.group is not None:
            self.group.kill()
        while members := self._members():
            for member in members:
                with contextlib.suppress(psutil.Error):
                    member.kill()
            self._reap()
            if self.user is None:
                break
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.first.pid, signal.SIGKILL)
        self._reap()

    def _reap(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.first.wait(timeout=5)

    def _members(self) -> list[psutil.Process]:
        members = _descendants(self.first.pid) if self.first.poll() is None else []
        return members if self.user is None else members + _processes_of(self.user)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _processes_of(user: int) -> list[psutil.Process]:
    running = psutil.process_iter(["uids", "status"])
    return [
        process
        for process in running
        if process.info["uids"]
        and process.info["uids"].real == user
        and process.info["status"] != psutil.STATUS_ZOMBIE
    ]


class Watchdog(threading.Thread):
    """Reads stdout and stderr and checks the limits, until the processes have exited.

    error: why the watchdog killed them, if it did.
    """

    def __init__(
        self,
        tree: ProcessTree,
        output: IO[bytes],
        log: Path,
        limits: SubmissionLimits,
        scratch: Path | None,
    ) -> None:
        super().__init__(name=f"watchdog of {tree.first.pid}", daemon=True)
        self.error: SubmissionError | None = None
        self._tree = tree
        self._output = output
        self._log = log.open("wb", buffering=0)
        self._limits = limits
        self._scratch = scratch
        self._output_bytes = 0
        self._checks = 0

    def run(self) -> None:
        os.set_blocking(self._output.fileno(), False)
        with selectors.DefaultSelector() as selector, self._log, self._output:
            selector.register(self._output, selectors.EVENT_READ)
            next_check = time.monotonic() + CHECK_EVERY_S
            while self._tree.first.poll() is None and self.error is None:
                if selector.select(CHECK_EVERY_S) and not self._read_output():
                    selector.unregister(self._output)
                if time.monotonic() >= next_check:
                    self._check_limits()
                    next_check = time.monotonic() + CHECK_EVERY_S
            self._tree.kill()
            self._read_output()

    def _read_output(self) -> bool:
        """Write new output to the log, up to its size. Returns False at the end or at the limit."""
        while self._output_bytes <= self._limits.output_bytes:
            try:
                chunk = os.read(self._output.fileno(), _CHUNK_BYTES)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self._write_log(chunk)
        flood = f"more than {_mib(self._limits.output_bytes)} to stdout and stderr"
        self._end_with(SubmissionDisqualified(f"the submission floods its host: it wrote {flood}"))
        return False

    def _write_log(self, chunk: bytes) -> None:
        room = self._limits.log_bytes - self._output_bytes
        self._output_bytes += len(chunk)
        if room <= 0:
            return
        with contextlib.suppress(OSError):  # a full disk: its output is still read, and not kept
            self._log.write(chunk[:room])
            if len(chunk) >= room:
                self._log.write(b"\n[the log is full: what follows is not kept]\n")

    def _check_limits(self) -> None:
        self._checks += 1
        detached = self._scratch is not None and self._checks % DETACHED_EVERY == 0
        usage, limits = self._tree.usage(detached), self._limits
        if usage.processes > limits.processes + _HELPERS:
            self._end_with(_exceeded(f"had more than {limits.processes} processes at once"))
        elif usage.memory_bytes > limits.memory_bytes:
            self._end_with(exceeded_memory(limits))
        elif self._scratch is not None and _disk_bytes(self._scratch) > limits.disk_bytes:
            self._end_with(_exceeded(f"wrote more than {_mib(limits.disk_bytes)} to disk"))
        elif usage.cpu_s > limits.cpu_s:
            used = f"the submission used more than {limits.cpu_s:g} s of processor time"
            self._end_with(SubmissionTimeout(used))

    def _end_with(self, error: SubmissionError) -> None:
        self.error = error
        self._tree.kill()


def exceeded_memory(limits: SubmissionLimits) -> SubmissionLimit:
    return _exceeded(f"used more than {_mib(limits.memory_bytes)} of memory")


def _exceeded(fault: str) -> SubmissionLimit:
    return SubmissionLimit(f"the submission went beyond a limit: it {fault}")


def _disk_bytes(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_blocks * 512
    return total


def _mib(count: int) -> str:
    return f"{count / (1 << 20):g} MiB"
