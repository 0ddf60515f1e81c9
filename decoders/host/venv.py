"""Virtual environments in the cache: made once, leased while they are used, listed and pruned."""

import fcntl
import hashlib
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bci_stream.files import cache_dir
from decoders.host import install
from decoders.host.install import Installation, NoWheels, tree_bytes
from decoders.host.limits import EnvironmentFailed, EnvironmentUnavailable, SubmissionStopped
from decoders.host.requested import OLD_SETUPTOOLS, imports_pkg_resources

logger = logging.getLogger(__name__)

LOCK_S = 2000.0
"""The longest wait for another process that makes the same environment."""
COMPLETE = "bci-environment.json"
"""Written into an environment when it is complete: what it was made of, and its pyvenv.cfg."""


class MadeOf(msgspec.Struct, frozen=True):
    """config: the text of pyvenv.cfg before anything was installed."""

    title: str
    interpreter: str
    requirements: list[str]
    config: str


@dataclass(slots=True)
class Lease:
    """A locked file descriptor: exclusive while a thing is made or removed, shared while it is used.

    The system releases the lock when the last process that inherited the descriptor ends.
    """

    number: int
    closed: bool = False

    def share(self) -> "Lease":
        fcntl.flock(self.number, fcntl.LOCK_SH)
        return self

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            os.close(self.number)

    __del__ = close


def try_lease(path: Path, kind: int = fcntl.LOCK_EX, flags: int = os.O_CREAT) -> Lease | None:
    """Lock a file, if no other process holds it. Raises OSError where the file can't be opened."""
    while True:
        lease = Lease(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600))
        try:
            fcntl.flock(lease.number, kind | fcntl.LOCK_NB)
        except OSError:
            lease.close()
            return None
        if os.fstat(lease.number).st_nlink:
            return lease
        lease.close()  # its holder removed the file before it was locked here


def default_cache() -> Path:
    return cache_dir() / "environments"


def _lease(path: Path, title: str, stop: threading.Event) -> Lease:
    """Lock a file exclusively; while another process makes or uses the same environment, wait."""
    deadline = time.monotonic() + LOCK_S
    lease = try_lease(path)
    if lease is None:
        logger.info("waiting for another process that makes or uses %s", title)
    while lease is None:
        if stop.wait(0.1):
            raise SubmissionStopped(f"stopped while another process was making {title}")
        if time.monotonic() > deadline:
            raise EnvironmentUnavailable(f"{path} was locked by another process for {LOCK_S:g} s")
        lease = try_lease(path)
    return lease


def cached(
    interpreter: Path, requirements: Sequence[str], cache: Path, title: str, stop: threading.Event
) -> tuple[Path, Lease]:
    """The cached environment; an incomplete or changed one is created again."""
    folder = cache / digest([str(interpreter.resolve()), *sorted(requirements)])
    cache.mkdir(parents=True, exist_ok=True)
    if (used := _use(folder, interpreter)) is not None:
        return folder, used
    lease = _lease(folder.with_suffix(".lock"), title, stop)
    try:
        if not _is_complete(folder, interpreter):
            logger.info("making an environment, once: %s", title)
            shutil.rmtree(folder, ignore_errors=True)
            installation = Installation(folder, title, lease.number, stop)
            config = _create(interpreter, requirements, installation, cache)
            made = MadeOf(title, str(interpreter), list(requirements), config)
            (folder / COMPLETE).write_bytes(msgspec.json.encode(made))
        return folder, lease.share()
    except BaseException:
        remove_leased(folder, lease)
        raise


def remove_leased(folder: Path, lease: Lease | None) -> None:
    """Remove a folder and the file of its lock, which is held exclusively."""
    shutil.rmtree(folder, ignore_errors=True)
    if lease is not None and not lease.closed:
        folder.with_suffix(".lock").unlink(missing_ok=True)
        lease.close()


def _use(folder: Path, interpreter: Path) -> Lease | None:
    """A shared lease of a complete environment; None where it is absent or being made."""
    try:
        lease = try_lease(folder.with_suffix(".lock"), fcntl.LOCK_SH, flags=0)
    except OSError:
        return None
    if lease is None or not _is_complete(folder, interpreter):
        return None
    os.utime(folder / COMPLETE)  # when it was last used
    return lease


def digest(words: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def _made_of(folder: Path) -> MadeOf | None:
    try:
        return msgspec.json.decode((folder / COMPLETE).read_bytes(), type=MadeOf)
    except (OSError, msgspec.MsgspecError):
        return None


def _is_complete(folder: Path, interpreter: Path) -> bool:
    made = _made_of(folder)
    return made is not None and not _changed(folder, interpreter, made.config)


def _create(
    interpreter: Path, requirements: Sequence[str], installation: Installation, cache: Path
) -> str:
    """Make the environment and return the text of its pyvenv.cfg. Raises EnvironmentFailed."""
    uv, folder = install.uv_program(), installation.folder
    python = str(folder / "bin" / "python")
    if uv is not None:
        installation.run([uv, "venv", "--quiet", "--python", str(interpreter), str(folder)])
        words = [uv, "pip", "install", "--quiet", "--python", python, "--only-binary", ":all:"]
    else:
        installation.run([str(interpreter), "-I", "-m", "venv", "--without-pip", str(folder)])
        pip = [str(_installer(interpreter, cache)), "-I", "-m", "pip", "--python", python]
        words = [*pip, "install", "--quiet", "--disable-pip-version-check"]
        words += ["--only-binary", ":all:"]
    config = (folder / "pyvenv.cfg").read_text()
    if requirements:
        installation.run([*words, *requirements])
        _add_pkg_resources(installation, [*words, *requirements])
    if changed := _changed(folder, interpreter, config):
        raise EnvironmentFailed(
            f"a package of the submission's requirements.txt replaces {changed}, which decides what an "
            f"interpreter runs before its first line; remove it from {', '.join(requirements)}"
        )
    return config


def _add_pkg_resources(installation: Installation, installing: Sequence[str]) -> None:
    """Old packages import pkg_resources without requiring setuptools, which every environment had.

    installing: the command that installed the requirements, which hold for setuptools too.
    """
    for packages in installation.folder.glob("lib/python*/site-packages"):
        if (packages / "pkg_resources").is_dir():
            continue
        if any(imports_pkg_resources(path) for path in packages.rglob("*.py")):
            try:
                installation.run([*installing, OLD_SETUPTOOLS])
            except NoWheels:  # many import it in vain: only what needs it will fail
                logger.warning("%s is not to be had: pkg_resources is missing", OLD_SETUPTOOLS)


def _changed(folder: Path, interpreter: Path, config: str) -> str | None:
    """The file that decides which interpreter is run and is not what it was, or None."""
    try:
        if (folder / "pyvenv.cfg").read_text(errors="replace") != config:
            return "pyvenv.cfg"
        real = interpreter.resolve()
        other = [
            path.name
            for path in sorted((folder / "bin").glob("python*"))
            if re.fullmatch(r"python[\d.]*", path.name) and path.resolve() != real
        ]
    except OSError:
        return "pyvenv.cfg or bin/"
    return f"bin/{other[0]}" if other else None


def _installer(interpreter: Path, cache: Path) -> Path:
    """The Python of an environment that holds pip alone, and that nothing else is installed into.

    pip imports parts of itself late: in the submission's own environment these could be files that
    a wheel has just written, and would run with the host's privileges.
    """
    folder = cache / f"pip-{digest([str(interpreter.resolve())])}"
    lease = _lease(folder.with_suffix(".lock"), "pip", threading.Event())
    try:
        if not (folder / COMPLETE).is_file():
            shutil.rmtree(folder, ignore_errors=True)
            making = Installation(folder, "pip", lease.number, threading.Event())
            making.run([str(interpreter), "-I", "-m", "venv", str(folder)])
            (folder / COMPLETE).touch()
    finally:
        lease.close()
    return folder / "bin" / "python"


# --- the cache -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CachedEnvironment:
    """An environment in the cache; unused_s: since it was last used; None: it is incomplete."""

    folder: Path
    title: str
    size_bytes: int
    unused_s: float | None


def cached_environments(cache: Path | None = None) -> Iterator[CachedEnvironment]:
    """The environments in the cache, by their names."""
    place = cache or default_cache()
    for folder in sorted(place.iterdir()) if place.is_dir() else ():
        if folder.is_dir():
            made, complete = _made_of(folder), folder / COMPLETE
            title = (
                made.title if made else "pip" if folder.name.startswith("pip-") else "incomplete"
            )
            unused_s = time.time() - complete.stat().st_mtime if complete.is_file() else None
            yield CachedEnvironment(folder, title, tree_bytes(folder), unused_s)


def sweep_environments(cache: Path | None = None) -> None:
    """Remove environments that a host was making when it was killed, and their locks."""
    place = cache or default_cache()
    found = list(place.iterdir()) if place.is_dir() else []
    for folder in {
        path.with_suffix("") for path in found if path.suffix == ".lock" or path.is_dir()
    }:
        if not (folder / COMPLETE).is_file():
            prune(CachedEnvironment(folder, "incomplete", 0, None))


def prune_to_size(most_bytes: int, cache: Path | None = None) -> list[CachedEnvironment]:
    """Remove environments, those used longest ago first, until the rest has at most so many bytes.

    What a process uses or makes stays. Returns what was removed.
    """
    made = list(cached_environments(cache))
    total = sum(each.size_bytes for each in made)
    removed = []
    for each in sorted(made, key=lambda each: -(each.unused_s or 0.0)):
        if total <= most_bytes:
            break
        if prune(each):
            removed.append(each)
            total -= each.size_bytes
    return removed


def prune(environment: CachedEnvironment) -> bool:
    """Remove an environment; False where a process uses or makes it."""
    lease = try_lease(environment.folder.with_suffix(".lock"))
    if lease is None:
        return False
    remove_leased(environment.folder, lease)
    return True
