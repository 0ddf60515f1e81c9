"""Sandboxes: how a submission's process is isolated, as far as the machine supports it.

A seccomp filter, bubblewrap (name spaces), or resource limits alone.
"""

import errno
import json
import os
import platform
import secrets
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, Protocol

from bci_stream.files import state_dir
from decoders.host.cgroup import group_place
from decoders.host.environment import Environment
from decoders.host.limits import EnvironmentFailed, EnvironmentUnavailable, SubmissionLimits
from decoders.host.prepare import Prepared

MACHINES = {
    "x86_64": (0xC000003E, 0),
    "aarch64": (0xC00000B7, 1),
}
"""Audit number of an architecture, and its column in the tables of system calls."""

REFUSED = {
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
}
ABSENT = {
    "clone3": (435, 435),  # its flags are in memory, where a filter cannot read them
    "io_uring_setup": (425, 425),
}
"""Answered with ENOSYS, as by an old kernel: programs then use the older calls."""

SOCKETS = {"socket": (41, 198), "socketpair": (53, 199)}
"""Refused for every address family but AF_UNIX, with EAFNOSUPPORT, as by a kernel without it."""

CLONE = (56, 220)
NEW_NAMESPACES = 0x7E020000
"""clone()'s flags for new user, mount, process, network, IPC, UTS or cgroup name spaces."""

_LOAD, _EQUAL, _AT_LEAST, _HAS_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000
_X32_CALLS = 0x40000000


def filter_program(machine: str | None = None) -> bytes | None:
    """The BPF program for this architecture; None where its system calls are not known."""
    machine = machine or platform.machine()
    if machine not in MACHINES or not sys.platform.startswith("linux"):
        return None
    audit, column = MACHINES[machine]
    absent = _answer(_FAIL | errno.ENOSYS)
    steps = [_step(_LOAD, _MACHINE), _step(_EQUAL, audit, 1, 0), absent, _step(_LOAD, _NUMBER)]
    steps += [_step(_AT_LEAST, _X32_CALLS, 0, 1), absent]
    for numbers in ABSENT.values():
        steps += [_step(_EQUAL, numbers[column], 0, 1), absent]
    refused = _answer(_FAIL | errno.EPERM)
    for numbers in REFUSED.values():
        steps += [_step(_EQUAL, numbers[column], 0, 1), refused]
    unknown = _answer(_FAIL | errno.EAFNOSUPPORT)
    for numbers in SOCKETS.values():
        steps += [_step(_EQUAL, numbers[column], 0, 4), _step(_LOAD, _FIRST_ARGUMENT)]
        steps += [_step(_EQUAL, socket.AF_UNIX, 1, 0), unknown, _answer(_ALLOW)]
    steps += [_step(_EQUAL, CLONE[column], 0, 3), _step(_LOAD, _FIRST_ARGUMENT)]
    steps += [_step(_HAS_BITS, NEW_NAMESPACES, 0, 1), refused, _answer(_ALLOW)]
    return b"".join(steps)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """One instruction; if_true, if_false: how many of the next ones to skip."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _answer(value: int) -> bytes:
    return _step(_RETURN, value)


Strength = Literal["auto", "bubblewrap", "limits"]

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/fonts",
)
_NAMESPACES = (
    "--unshare-net",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
)
_DROP = ("--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")

FILTER_FD = "FILTER_FD"
INSIDE = Path(__file__).with_name("inside")
OURS = {
    "shim.py": "shim.py",
    "framework.py": "bci_framework.py",
    "stages.py": "bci_stages.py",
    "launch.py": "launch.py",
    "framework_site.py": "site/sitecustomize.py",
}
"""Our files in the sandbox: their names in INSIDE and below /host."""


@dataclass(frozen=True, slots=True)
class SandboxCommand:
    """How the process of one run is started.

    package, work, home, site: paths as seen inside the sandbox; home is also its TMPDIR, site its
    PYTHONPATH.
    filter: the seccomp program; FILTER_FD in the command stands for the descriptor to read it from.
    scratch: a folder on this machine's disk whose size must be watched, if there is one.
    memory_disk_bytes: the size of all its disks that lie in memory.
    """

    command: tuple[str, ...]
    package: str
    work: str
    home: str
    site: str
    user: int | None
    scratch: Path | None
    memory_disk_bytes: int = 0
    filter: bytes | None = None


class Sandbox(Protocol):
    """title: the isolation that is reached, for a person to read."""

    @property
    def title(self) -> str: ...

    def command(self, prepared: Prepared, limits: SubmissionLimits) -> SandboxCommand:
        """The command for one run of the submission."""


def choose_sandbox(strength: Strength = "auto") -> Sandbox:
    """The strongest sandbox that works here, or the requested one. Raises EnvironmentUnavailable."""
    fault = bubblewrap_fault()
    if strength != "limits" and fault is None:
        return Bubblewrap()
    if strength == "bubblewrap":
        raise EnvironmentUnavailable(f"bubblewrap was requested, and does not work here: {fault}")
    return LimitsOnly(fault or "requested")


def at_least(granted: Strength, wanted: Strength | None) -> Strength:
    """The contest's strength, or the wanted one. Raises EnvironmentFailed if that is weaker."""
    if granted == "bubblewrap" and wanted == "limits":
        raise EnvironmentFailed(
            "the contest's limits.strength is bubblewrap: --strength limits would be weaker"
        )
    return granted if wanted in (None, "auto") else wanted


@lru_cache(maxsize=1)
def bubblewrap_fault() -> str | None:
    """Why bubblewrap can't be used here, or None. Tested by running it: containers often forbid it."""
    bwrap = shutil.which("bwrap")
    if not sys.platform.startswith("linux") or bwrap is None:
        return "bubblewrap is not installed"
    views = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    command = [bwrap, *_NAMESPACES, *views, "/bin/true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return done.stderr.strip() or f"exit code {done.returncode}" if done.returncode else None


class Bubblewrap:
    """Name spaces: only the system, the interpreter and the submission are visible."""

    @property
    def title(self) -> str:
        known = "a filter for system calls" if filter_program() else "no filter for system calls"
        return (
            "contained by bubblewrap: no network, own processes, user and files, a scratch disk in "
            f"memory, {known}, resource limits, {_group_title()}"
        )

    def command(self, prepared: Prepared, limits: SubmissionLimits) -> SandboxCommand:
        root, environment = prepared.root, prepared.environment
        user = _spare_user()
        disks = {"/dev/shm": limits.disk_bytes, "/tmp": limits.disk_bytes}
        disks["/home"] = _tree_bytes(root) + limits.disk_bytes
        command = [shutil.which("bwrap") or "bwrap", *_NAMESPACES, "--hostname", "submission"]
        command += _DROP if os.geteuid() == 0 else ("--unshare-user",)
        program = filter_program()
        command += ["--seccomp", FILTER_FD] if program is not None else []
        for path in _SYSTEM:
            command += _system_folder(Path(path))
        for path in _SETTINGS:
            command += ["--ro-bind-try", path, path]
        command += ["--proc", "/proc", "--dev", "/dev"]
        for place, most in disks.items():
            command += ["--perms", "1777", "--size", str(most), "--tmpfs", place]
        for folder in environment.folders:
            command += [*_open_parents(folder), "--ro-bind", str(folder), str(folder)]
        command += ["--ro-bind", str(root), "/package"]
        command += ["--ro-bind", str(_copy_ours(prepared.folder)), "/host"]
        command += _hide(
            state_dir(), [Path(place) for place in _SYSTEM] + list(environment.folders)
        )
        command += ["--remount-ro", "/dev", "--remount-ro", "/"]
        command += _launched(environment, Path("/host"), user, limits)
        return SandboxCommand(
            tuple(command),
            "/package",
            "/home/submission",
            "/tmp",
            "/host/site",
            user,
            None,
            sum(disks.values()),
            program,
        )


@dataclass(frozen=True, slots=True)
class LimitsOnly:
    """Resource limits and, when started by root, a user of its own; no isolation otherwise."""

    why: str

    @property
    def title(self) -> str:
        root = os.geteuid() == 0
        user = "a user of its own and " if root else ""
        view = "files that others may read" if root else "your files, keys and processes"
        return (
            f"contained by {user}resource limits only ({self.why}; {_group_title()}): the network "
            f"and {view} are in its reach; run untrusted submissions where bubblewrap works"
        )

    def command(self, prepared: Prepared, limits: SubmissionLimits) -> SandboxCommand:
        user = _spare_user()
        folder, environment = prepared.folder, prepared.environment
        work = Path(tempfile.mkdtemp(prefix="work-", dir=folder))
        host = _copy_ours(folder)
        if user is not None:
            python = environment.python
            for path in (python, python.resolve(), environment.base, folder.parent):
                must_be_reachable(path)
            os.chown(work, user, user)
            os.chown(folder, -1, user)  # other teams' users cannot read it
            folder.chmod(0o750)
        command = _launched(environment, host, user, limits)
        place = (str(prepared.root), str(work), str(work), str(host / "site"))
        return SandboxCommand(tuple(command), *place, user, work)


def _copy_ours(folder: Path) -> Path:
    """A folder with our files for the sandbox, which any user may read."""
    host = folder / "host"
    for ours, name in OURS.items():
        target = host / name
        target.parent.mkdir(parents=True, exist_ok=True)
        Path(shutil.copyfile(INSIDE / ours, target)).chmod(0o644)
        target.parent.chmod(0o755)
    return host


def _launched(
    environment: Environment, host: Path, user: int | None, limits: SubmissionLimits
) -> list[str]:
    """The words that drop privileges (`launch.py`), and then run the shim.

    host: the folder of both files, as it is seen inside the sandbox.
    """
    dropped = {"user": user, "rlimits": {**limits.rlimits(), "NPROC": _threads(limits)}}
    launcher = [str(environment.base), "-I", "-S", str(host / "launch.py"), json.dumps(dropped)]
    return [*launcher, str(environment.python), "-u", str(host / "shim.py")]


def _group_title() -> str:
    place, fault = group_place()
    return "a control group" if place is not None else f"no control group ({fault})"


def _system_folder(path: Path) -> list[str]:
    """/lib and the like: a link into /usr on most systems, a folder on others, or absent."""
    if path.is_symlink():
        return ["--symlink", os.readlink(path), str(path)]
    return ["--ro-bind", str(path), str(path)] if path.is_dir() else []


def _hide(secret: Path, shown: list[Path]) -> list[str]:
    """Mount an empty folder over a secret one that lies below a visible one."""
    inside = any(secret.resolve().is_relative_to(place.resolve()) for place in shown)
    return ["--tmpfs", str(secret.resolve())] if inside else []


def _open_parents(folder: Path) -> list[str]:
    """Create the parents with mode 0755: bubblewrap would copy their real modes."""
    above = [str(place) for place in reversed(folder.parents) if place != Path("/")]
    return [word for place in above for word in ("--perms", "0755", "--dir", place)]


def _tree_bytes(root: Path) -> int:
    """Size of its files on a disk with 4 KiB pages."""
    return sum(4096 + (path.lstat().st_size + 4095) // 4096 * 4096 for path in root.rglob("*"))


def _spare_user() -> int | None:
    """For root: an unused user ID, a new one each run, so that teams are separated."""
    if os.geteuid() != 0:
        return None
    if _has_high_users():
        return (1 << 30) + secrets.randbelow(1 << 30)
    return 20_000 + secrets.randbelow(40_000)


def _has_high_users() -> bool:
    """Whether user IDs above 2**31 are mapped; a container may map the first 65536 only."""
    try:
        return int(Path("/proc/self/uid_map").read_text().split()[2]) > 1 << 31
    except (OSError, IndexError, ValueError):
        return False


def _threads(limits: SubmissionLimits) -> int:
    """The limit of threads: it counts all of a user's, so those already running are added."""
    if os.geteuid() == 0:
        return limits.threads
    import psutil  # type: ignore[import-untyped, unused-ignore]

    running = (process.info for process in psutil.process_iter(["uids", "num_threads"]))
    mine = (each for each in running if each["uids"] and each["uids"].real == os.getuid())
    return limits.threads + sum(each["num_threads"] or 0 for each in mine)


def must_be_reachable(path: Path) -> None:
    """Raise EnvironmentUnavailable unless other users can read the path: no submission runs as root."""
    for place in (path, *path.parents):
        if not place.stat().st_mode & (0o001 if place.is_dir() else 0o004):
            raise EnvironmentUnavailable(
                f"without bubblewrap a submission runs as a user of its own, which can't read "
                f"{place}, where {path} is; install bubblewrap, or open that folder to others "
                "(chmod o+x)"
            )
