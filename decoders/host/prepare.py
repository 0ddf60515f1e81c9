"""Prepares a submission: unpacks it, detects its interface and makes its environment.

A package is untrusted before it runs, too: a small archive can unpack to gigabytes, and a short file
can take minutes to parse. So it is unpacked and read by a child process with limits of its own:

    python -m decoders.host.prepare < request.json > answer.json
"""

import os
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from decoders.host.cgroup import sweep_groups
from decoders.host.detect import INTERFACES, EntryPoint, detect
from decoders.host.environment import Environment, environment_for
from decoders.host.install import ended_with_host
from decoders.host.limits import (
    MIB,
    EnvironmentUnavailable,
    PackageError,
    SubmissionLimits,
    SubmissionStopped,
    escape_text,
    unavailable,
)
from decoders.host.package import lay_out
from decoders.host.requested import RequestedEnvironment, requested_environment
from decoders.host.venv import Lease, remove_leased, sweep_environments, try_lease

UNPACK_CPU_S, READ_CPU_S = 60, 5
"""Processor time to unpack a package (2 GiB take about 20 s), and then to read its files."""
MEMORY_BYTES = 512 * MIB
WAIT_S = 300.0
"""Time for all of it: much more than the processor time, for a busy machine or a slow disk."""
STOP_POLL_S = 0.5
"""The longest time until a wait notices that the run was stopped."""
OPEN_FILES = 256


class ReadRequest(msgspec.Struct, frozen=True):
    """What the child process is asked to do: `package` is unpacked into the folder `into`."""

    package: str
    into: str
    track: str
    interface: str | None
    python: str | None
    package_bytes: int
    package_files: int


class PackageFacts(msgspec.Struct, frozen=True):
    """What was found in a package; root: the framework's root below `into`."""

    root: str
    entry: EntryPoint
    requested: RequestedEnvironment


class ReadAnswer(msgspec.Struct, frozen=True):
    """The facts, or why the package is refused; ours: a fault of this machine, not of the package."""

    facts: PackageFacts | None = None
    refusal: str = ""
    ours: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """folder: a private copy, removed by close(); root: the framework's root in it."""

    folder: Path
    root: Path
    entry: EntryPoint
    environment: Environment
    lock: Lease | None = None

    @property
    def title(self) -> str:
        """What was detected, for a person to read."""
        entry, title = self.entry, INTERFACES[self.entry.interface].title
        found = f"{entry.file}: {title} (because {entry.why}), run by {self.environment.title}"
        return escape_text(found)

    def close(self) -> None:
        self.environment.close()
        remove_leased(self.folder, self.lock)


def prepare(
    package: Path,
    track: str,
    interface: str | None = None,
    python: str | None = None,
    limits: SubmissionLimits | None = None,
    cache: Path | None = None,
    stop: threading.Event | None = None,
) -> Prepared:
    """Unpack it, detect its interface, and make its environment (minutes, the first time).

    Raises a SubmissionError, whose ending is `stopped` where this machine failed.
    """
    try:
        sweep_folders()
        sweep_groups()
        sweep_environments(cache)
        folder, lock = make_folder()
    except OSError as error:
        raise unavailable(f"{package}: no folder can be made for it", error) from error
    try:
        facts = read_package(package, folder / "package", track, interface, python, limits, stop)
        environment = environment_for(facts.requested, cache, stop)
    except OSError as error:
        remove_leased(folder, lock)
        raise unavailable(f"{package}: its environment can't be made", error) from error
    except BaseException:
        remove_leased(folder, lock)
        raise
    return Prepared(folder, Path(facts.root), facts.entry, environment, lock)


# --- folders of runs, and what a killed host has left ------------------------------------------

PREFIX = "bci-submission-"


def make_folder() -> tuple[Path, Lease]:
    """A new folder, and its lock, which the system releases when this host ends."""
    while True:
        folder = Path(tempfile.gettempdir()) / f"{PREFIX}{secrets.token_hex(8)}"
        lock = try_lease(folder.with_suffix(".lock"), flags=os.O_CREAT | os.O_EXCL)
        if lock is not None:  # no other host is sweeping it
            folder.mkdir(mode=0o700)
            return folder, lock


def sweep_folders() -> None:
    """Remove the folders of this user's hosts that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*.lock"):
        with suppress(OSError):
            if path.lstat().st_uid != os.getuid():
                continue
            lock = try_lease(path, flags=0)
            if lock is not None:  # its host is gone
                remove_leased(path.with_suffix(""), lock)


# --- in the host -----------------------------------------------------------------------------


def read_package(
    package: Path,
    into: Path,
    track: str,
    interface: str | None = None,
    python: str | None = None,
    limits: SubmissionLimits | None = None,
    stop: threading.Event | None = None,
) -> PackageFacts:
    """Unpack the package into a folder and read it, in a limited child process.

    Raises PackageError, EnvironmentUnavailable where this machine failed, and SubmissionStopped.
    """
    limits = limits or SubmissionLimits()
    size = (limits.package_bytes, limits.package_files)
    request = ReadRequest(str(package.absolute()), str(into), track, interface, python, *size)
    # -P: without this folder, which may be the submission's own.
    command = [sys.executable, "-P", "-m", "decoders.host.prepare"]
    path = os.pathsep.join(os.path.abspath(each) for each in sys.path if each)
    environ = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        ended_with_host(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environ,
    ) as done:
        try:
            printed, errors = _answer(done, msgspec.json.encode(request), package, stop)
        finally:
            done.kill()
    if done.returncode == -signal.SIGKILL:  # its own limits end it by SIGXCPU, or by an error
        raise EnvironmentUnavailable(
            f"{package}: the process that read the submission was killed; is this machine out of memory?"
        )
    if done.returncode != 0:
        raise PackageError(f"{package}: {_why_it_ended(done.returncode, errors)}")
    answer = msgspec.json.decode(printed, type=ReadAnswer)
    if answer.facts is None:
        raise (
            EnvironmentUnavailable(answer.refusal) if answer.ours else PackageError(answer.refusal)
        )
    return answer.facts


def _answer(
    process: subprocess.Popen[bytes], request: bytes, package: Path, stop: threading.Event | None
) -> tuple[bytes, bytes]:
    """What the reading process printed. Its own processor time is limited: this waits for a slow machine."""
    deadline = time.monotonic() + WAIT_S
    asked: bytes | None = request
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(asked, timeout=STOP_POLL_S)
        asked = None  # it is sent once
        if stop is not None and stop.is_set():
            raise SubmissionStopped("stopped while the submission was read")
        if time.monotonic() > deadline:
            raise EnvironmentUnavailable(
                f"{package}: to read it took more than {WAIT_S:g} s; this is no fault of the team"
            )


def _why_it_ended(code: int, stderr: bytes) -> str:
    if code == -signal.SIGXCPU:
        return (
            f"to read the submission took more than {UNPACK_CPU_S} s of processor time to unpack it "
            f"or {READ_CPU_S} s to parse its files; leave out what is no part of it"
        )
    last = stderr.decode(errors="replace").strip().splitlines()[-1:]
    return f"the process that read the submission ended with code {code}: {''.join(last)}"


# --- in the child process --------------------------------------------------------------------


def _read(request: ReadRequest) -> ReadAnswer:
    limits = SubmissionLimits(
        package_bytes=request.package_bytes, package_files=request.package_files
    )
    try:
        root = lay_out(Path(request.package), Path(request.into), limits)
        _limit("CPU", int(time.process_time()) + READ_CPU_S)
        entry = detect(root, request.track, request.interface)
        requested = requested_environment(root, request.python)
        return ReadAnswer(PackageFacts(str(root), entry, requested))
    except PackageError as error:
        return ReadAnswer(refusal=str(error))
    except EnvironmentUnavailable as error:
        return ReadAnswer(refusal=str(error), ours=True)
    except (MemoryError, RecursionError) as error:
        return ReadAnswer(
            refusal=f"{request.package}: to read the submission takes more than "
            f"{MEMORY_BYTES // MIB} MiB of memory ({type(error).__name__}); an archive's headers, and "
            "each file of settings or source, must be small"
        )


def _limit(name: str, value: int) -> None:
    kind = getattr(resource, f"RLIMIT_{name}")
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def main() -> None:
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ReadRequest)
    _limit("CPU", UNPACK_CPU_S)
    _limit("DATA", MEMORY_BYTES)
    _limit("FSIZE", request.package_bytes + MIB)
    _limit("NOFILE", OPEN_FILES)
    sys.stdout.buffer.write(msgspec.json.encode(_read(request)))


if __name__ == "__main__":
    main()
