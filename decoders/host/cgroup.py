"""Control groups (cgroup v2): the kernel bounds all processes of a submission together.

Where a group can be made, it bounds the share of the processors, the memory (with the scratch disks,
which lie in memory, and the kernel's own for them) and the number of threads. Where not, resource
limits and the watchdog remain, and `group_fault` says why.
"""

import contextlib
import os
import re
import secrets
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]

from decoders.host.limits import EnvironmentUnavailable, SubmissionLimits

CONTROLLERS = ("cpu", "memory", "pids")
PERIOD_US = 100_000
"""The processor time of cpu.max is granted for each period of this length."""
WEIGHT = 50
"""Half of the default: the judge comes first where processors are short."""
HELPERS = 8
"""Threads of bubblewrap and of the launcher, in addition to the submission's."""
REMOVE_S = 5.0
_NAME = re.compile(r"bci-(\d+)-[0-9a-f]{8}")
_JOIN = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
"""A shell joins the group before it becomes the program: no child can be outside of it."""


@dataclass(frozen=True, slots=True)
class ControlGroup:
    """The group of one submission's processes."""

    path: Path

    @property
    def prefix(self) -> list[str]:
        """Words before a command that start it inside this group."""
        return ["/bin/sh", "-c", _JOIN, str(self.path)]

    def cpu_s(self) -> float:
        """Processor time of all its processes, also of those that have exited."""
        return self._counts("cpu.stat").get("usage_usec", 0) / 1e6

    def exceeded_memory(self) -> bool:
        """Whether the kernel killed a process because memory.max was reached."""
        return self._counts("memory.events").get("oom_kill", 0) > 0

    def kill(self) -> None:
        """Kill all its processes at once, forks included."""
        with contextlib.suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")

    def remove(self) -> None:
        """Remove the group as soon as its processes are gone; after REMOVE_S it is left to `sweep`."""
        deadline = time.monotonic() + REMOVE_S
        while time.monotonic() < deadline:
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return
            except OSError:  # its processes have not been reaped yet
                time.sleep(0.01)
            else:
                return

    def _counts(self, name: str) -> dict[str, int]:
        try:
            words = [line.split() for line in (self.path / name).read_text().splitlines()]
        except OSError:
            return {}
        return {word[0]: int(word[1]) for word in words if len(word) == 2 and word[1].isdigit()}


def make_group(parent: Path, limits: SubmissionLimits, scratch_bytes: int) -> ControlGroup:
    """Make a group with these limits below `parent`. Raises EnvironmentUnavailable.

    scratch_bytes: the size of all its disks in memory, which are charged to the group as well.
    """
    group = ControlGroup(parent / f"bci-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        group.path.mkdir()
        for name, value in group_settings(limits, scratch_bytes).items():
            (group.path / name).write_text(value)
        _without_swap(group.path)
    except OSError as error:
        group.remove()
        raise EnvironmentUnavailable(
            f"{group.path}: the control group can't be made: {error}"
        ) from None
    return group


def group_settings(limits: SubmissionLimits, scratch_bytes: int) -> dict[str, str]:
    """The values to write, by the names of the kernel's files."""
    return {
        "cpu.max": f"{round(limits.cores * PERIOD_US)} {PERIOD_US}",
        "cpu.weight": str(WEIGHT),
        "memory.max": str(limits.memory_bytes + scratch_bytes),
        "memory.oom.group": "1",
        "pids.max": str(limits.threads + HELPERS),
    }


def _without_swap(path: Path) -> None:
    """A kernel may be built without swap accounting: then the file is absent."""
    swap = path / "memory.swap.max"
    if swap.exists():
        swap.write_text("0")


# --- where groups can be made ----------------------------------------------------------------


@lru_cache(maxsize=1)
def group_place() -> tuple[Path | None, str]:
    """The group below which groups can be made, or None and why there is none. Tested by making one."""
    try:
        mounts, own = (
            Path("/proc/self/mountinfo").read_text(),
            Path("/proc/self/cgroup").read_text(),
        )
    except OSError as error:
        return None, f"no control groups here: {error.strerror}"
    place, fault = find_place(mounts, own)
    if place is None:
        return None, fault
    try:
        make_group(place, SubmissionLimits(), 0).remove()
    except EnvironmentUnavailable as error:
        return None, str(error)
    return place, ""


def find_place(mounts: str, own: str) -> tuple[Path | None, str]:
    """From the texts of /proc/self/mountinfo and /proc/self/cgroup: this process's group or its parent.

    A group that holds processes can't pass controllers on, so it is its parent in most cases.
    """
    mounted = re.search(r"^\S+ \S+ \S+ (\S+) (\S+) .* - cgroup2 ", mounts, re.MULTILINE)
    named = re.search(r"^0::(/.*)$", own, re.MULTILINE)
    if mounted is None or named is None:
        return None, "cgroup v2 is not mounted"
    top = Path(mounted[2])
    here = top / named[1].removeprefix(mounted[1]).strip("/")
    places = [place for place in (here, here.parent) if place.is_relative_to(top)]
    for place in places:
        if _passes_on(place):
            return place, ""
    missing = ", ".join(CONTROLLERS)
    return None, f"cgroup v2 at {here} can't bound {missing}: not delegated to this process"


def _passes_on(place: Path) -> bool:
    """Whether groups below it have all the controllers."""
    try:
        return set(CONTROLLERS) <= set((place / "cgroup.subtree_control").read_text().split())
    except OSError:
        return False


def sweep_groups() -> None:
    """Remove the empty groups of hosts that were killed."""
    place, _ = group_place()
    for path in place.iterdir() if place is not None else ():
        found = _NAME.fullmatch(path.name)
        if found and not psutil.pid_exists(int(found[1])):
            ControlGroup(path).kill()
            ControlGroup(path).remove()
