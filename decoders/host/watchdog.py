"""A warden watches over one submission from outside: keeps its output, and ends it at a limit.

The operating system's own limits hold for each process; what all of them take together, only the
warden sees.
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

from decoders.host.errors import (
    SubmissionDisqualified,
    SubmissionError,
    SubmissionLimit,
    SubmissionTimeout,
)
from decoders.host.limits import SubmissionLimits


@dataclass(frozen=True, slots=True)
class Usage:
    """What the family takes at one moment; cpu_s with all that its ended children took."""

    processes: int
    memory_bytes: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """Known by its first process and, where it has one, by its own user: nobody leaves that."""

    first: subprocess.Popen[bytes]
    user: int | None

    def usage(self, everyone: bool = False) -> Usage:
        """everyone: also those who left the family for init; looking for them costs much more."""
        members = self._members() if everyone else _descendants(self.first.pid)
        processes, memory_bytes, cpu_s = 0, 0, 0.0
        for member in {each.pid: each for each in members}.values():
            with contextlib.suppress(psutil.Error), member.oneshot():
                memory_bytes += member.memory_info().rss
                cpu_s += sum(member.cpu_times()[:4])
                processes += 1
        return Usage(processes, memory_bytes, cpu_s)

    def end(self) -> None:
        """Kill all of it; what was forked meanwhile is met in the next round."""
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
        if self.user is not None:
            members += _processes_of(self.user)
        return members


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


LOOK_EVERY_S = 0.2
SCATTERED_EVERY = 5
"""Without a name space of its own a child can leave the family: every so many looks for those, too."""

_CHUNK_BYTES = 1 << 16
_HELPERS = 2
"""bubblewrap's own two processes are not the submission's."""


class Watchdog(threading.Thread):
    """Reads stdout and stderr, and looks at the processes, until they have ended.

    verdict: why the warden ended them, if it did.
    """

    def __init__(
        self,
        family: ProcessTree,
        output: IO[bytes],
        log: Path,
        limits: SubmissionLimits,
        scratch: Path | None,
    ) -> None:
        super().__init__(name=f"warden of {family.first.pid}", daemon=True)
        self.verdict: SubmissionError | None = None
        self._family = family
        self._output = output
        self._log = log.open("wb", buffering=0)
        self._limits = limits
        self._scratch = scratch
        self._output_bytes = 0
        self._looks = 0

    def run(self) -> None:
        os.set_blocking(self._output.fileno(), False)
        with selectors.DefaultSelector() as selector, self._log, self._output:
            selector.register(self._output, selectors.EVENT_READ)
            next_look = time.monotonic() + LOOK_EVERY_S
            while self._family.first.poll() is None and self.verdict is None:
                if selector.select(LOOK_EVERY_S) and not self._drain():
                    selector.unregister(self._output)
                if time.monotonic() >= next_look:
                    self._look()
                    next_look = time.monotonic() + LOOK_EVERY_S
            self._family.end()
            self._drain()

    def _drain(self) -> bool:
        """Keep what was written, as far as there is room; False at its end or limit."""
        while self._output_bytes <= self._limits.output_bytes:
            try:
                chunk = os.read(self._output.fileno(), _CHUNK_BYTES)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            self._keep(chunk)
        flood = f"more than {_mib(self._limits.output_bytes)} to stdout and stderr"
        self._judge(SubmissionDisqualified(f"the submission floods its host: it wrote {flood}"))
        return False

    def _keep(self, chunk: bytes) -> None:
        room = self._limits.log_bytes - self._output_bytes
        self._output_bytes += len(chunk)
        if room > 0:
            self._log.write(chunk[:room])
            if len(chunk) >= room:
                self._log.write(b"\n[the log is full: what follows is not kept]\n")

    def _look(self) -> None:
        self._looks += 1
        scattered = self._scratch is not None and self._looks % SCATTERED_EVERY == 0
        usage, limits = self._family.usage(everyone=scattered), self._limits
        if usage.processes > limits.processes + _HELPERS:
            self._judge(_beyond(f"had more than {limits.processes} processes at once"))
        elif usage.memory_bytes > limits.memory_bytes:
            self._judge(_beyond(f"used more than {_mib(limits.memory_bytes)} of memory"))
        elif self._scratch is not None and _disk_bytes(self._scratch) > limits.disk_bytes:
            self._judge(_beyond(f"wrote more than {_mib(limits.disk_bytes)} to disk"))
        elif usage.cpu_s > limits.cpu_s:
            used = f"the submission used more than {limits.cpu_s:g} s of processor time"
            self._judge(SubmissionTimeout(used))

    def _judge(self, verdict: SubmissionError) -> None:
        self.verdict = verdict
        self._family.end()


def _beyond(fault: str) -> SubmissionLimit:
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
