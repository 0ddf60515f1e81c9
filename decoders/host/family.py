"""A family is all the processes of a submission: its first one and whatever that one started."""

import contextlib
import os
import signal
import subprocess
from dataclasses import dataclass

import psutil  # type: ignore[import-untyped, unused-ignore]


@dataclass(frozen=True, slots=True)
class Usage:
    """What the family takes at one moment; cpu_s by process, since processes come and go."""

    processes: int
    memory_bytes: int
    cpu_s: dict[int, float]


@dataclass(frozen=True, slots=True)
class Family:
    """Known by its first process and, where it has one, by its own user: nobody leaves that."""

    first: subprocess.Popen[bytes]
    user: int | None

    def usage(self) -> Usage:
        """Of the descendants: looking through all processes for a user's would cost too much."""
        memory_bytes, cpu_s = 0, {}
        for member in _descendants(self.first.pid):
            with contextlib.suppress(psutil.Error), member.oneshot():
                memory_bytes += member.memory_info().rss
                times = member.cpu_times()
                cpu_s[member.pid] = times.user + times.system
        return Usage(len(cpu_s), memory_bytes, cpu_s)

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
