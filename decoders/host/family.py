"""A family is all the processes of a submission: its first one and whatever that one started."""

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass

import psutil  # type: ignore[import-untyped, unused-ignore]


@dataclass(frozen=True, slots=True)
class Usage:
    """What the family takes at one moment; cpu_s with all that its ended children took."""

    processes: int
    memory_bytes: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Family:
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
