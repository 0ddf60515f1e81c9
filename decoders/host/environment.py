"""The Python environment of a submission: interpreter and packages.

A submission that requests nothing runs in the host's own environment. One with a requirements.txt or
a Python version gets a virtual environment, which is cached, since its pickled models need the
versions of numpy, mne or scikit-learn that wrote them. Only wheels are installed: building an sdist
would run untrusted code outside the sandbox.
"""

import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from decoders.host import install
from decoders.host.install import NoWheels
from decoders.host.limits import EnvironmentFailed, EnvironmentUnavailable
from decoders.host.requested import MAGIC_NUMBERS, OLD_SETUPTOOLS, RequestedEnvironment
from decoders.host.venv import Lease, cached, default_cache, digest

logger = logging.getLogger(__name__)

SCIENTIFIC_SET = ("numpy", "scipy", "scikit-learn", "mne", "pyriemann")
"""Installed for a submission that needs another Python but names no packages."""
VERSIONS = tuple(reversed(MAGIC_NUMBERS.values()))
"""Python versions that submissions can run on, the newest first."""

FETCH_S = 600.0
"""The longest time for uv to fetch an interpreter."""


class InterpreterAbsent(EnvironmentUnavailable):
    """A Python version that is not installed on this machine."""


@dataclass(frozen=True, slots=True)
class Environment:
    """An interpreter, and the folders that must be visible to it.

    base: the interpreter behind it, which no package of the environment can change.
    lease: keeps the environment from being removed while it is used.
    """

    python: Path
    base: Path
    folders: tuple[Path, ...]
    title: str
    lease: Lease | None = field(default=None, compare=False)

    def close(self) -> None:
        if self.lease is not None:
            self.lease.close()


def environment_for(
    requested: RequestedEnvironment,
    cache: Path | None = None,
    stop: threading.Event | None = None,
) -> Environment:
    """The requested environment; created if it is not cached yet, which may take minutes."""
    for warning in requested.warnings:
        logger.warning("%s", warning)
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    lacks_pkg_resources = requested.old_setuptools and not importlib.util.find_spec("pkg_resources")
    if not (requested.requirements or lacks_pkg_resources) and requested.python in (None, own):
        if requested.python is None and requested.hints and own not in requested.hints:
            logger.warning(
                "its __pycache__ files are of another Python; without a requirements.txt it runs by the "
                "host's own, %s: --python %s runs it by the other one", own, requested.hints[0]
            )  # fmt: skip
        return own_environment(own)
    requirements = requested.requirements or SCIENTIFIC_SET
    if requested.old_setuptools and not _pins_setuptools(requirements):
        requirements = (*requirements, OLD_SETUPTOOLS)
    place = cache or default_cache()
    if requested.python is not None or not requested.requirements:
        return _only(requested.python or own, requirements, place, stop or threading.Event())
    return _first_that_resolves(requested.hints, requirements, place, stop or threading.Event())


def own_environment(own: str) -> Environment:
    folders = tuple(sorted({Path(sys.prefix), Path(sys.base_prefix)}))
    title = f"the host's own Python {own}"
    return Environment(Path(sys.executable), find_interpreter(own), folders, title)


def _pins_setuptools(requirements: Sequence[str]) -> bool:
    """Whether a version of setuptools is requested; its name alone, as conda's freeze has it, is none."""
    asked = map(Requirement, requirements)
    return any(canonicalize_name(one.name) == "setuptools" and one.specifier for one in asked)


def _only(
    version: str, requirements: Sequence[str], cache: Path, stop: threading.Event
) -> Environment:
    """The environment of this Python, and no other one."""
    try:
        return _made(version, requirements, cache, stop)
    except NoWheels as error:
        raise NoWheels(
            f"no wheels satisfy the submission's requirements with Python {version}, the only one that "
            "was tried; correct the pins, or choose another one with --python. The installer "
            f"printed: {error.output}",
            error.output,
        ) from error


def _first_that_resolves(
    hints: Sequence[str], requirements: Sequence[str], cache: Path, stop: threading.Event
) -> Environment:
    """The environment of the first Python that has wheels for all requirements.

    Tried are the versions of its `__pycache__` files, then all that are installed, the newest first.
    The choice is kept in the cache.
    """
    versions = list(dict.fromkeys([*hints, *installed_versions()]))
    choice = cache / f"{digest([*versions, *sorted(requirements)])}.choice"
    if choice.is_file() and (chosen := choice.read_text()) in versions:
        versions.insert(0, chosen)
    refusals: dict[str, list[str]] = {}
    absent: EnvironmentUnavailable | None = None
    for version in dict.fromkeys(versions):
        try:
            made = _made(version, requirements, cache, stop)
        except NoWheels as error:
            logger.info("Python %s has no wheels for all of them", version)
            refusals.setdefault(error.output, []).append(version)
        except InterpreterAbsent as error:
            absent = error
        else:
            choice.write_text(version)
            return made
    message = _describe_refusals(refusals)
    if absent is not None:
        raise InterpreterAbsent(f"{message} Not tried: {absent}")
    raise EnvironmentFailed(message)


def _describe_refusals(refusals: Mapping[str, Sequence[str]]) -> str:
    """refusals: the Pythons by what the installer printed, in the order in which they were tried.

    Newer Pythons may lack wheels of a pin where only an older one shows that two pins conflict.
    """
    tried = ", ".join(version for versions in refusals.values() for version in versions)
    printed = [f"for {', '.join(each)}: {output}" for output, each in refusals.items()]
    shown = " ... ".join(dict.fromkeys([printed[0], printed[-1]]))
    return (
        f"no wheels satisfy the submission's requirements with any Python that was tried ({tried}); "
        f"correct the pins, or choose another one with --python. The installer printed {shown}"
    )


def _made(
    version: str, requirements: Sequence[str], cache: Path, stop: threading.Event
) -> Environment:
    interpreter = find_interpreter(version)
    named = ", ".join(requirements[:6]) + (", ..." if len(requirements) > 6 else "")
    title = f"Python {version} with {named or 'nothing else'}"
    folder, lease = cached(interpreter, requirements, cache, title, stop)
    folders = (folder, _prefix_of(interpreter))
    return Environment(folder / "bin" / "python", interpreter, folders, title, lease)


# --- interpreters ----------------------------------------------------------------------------


def find_interpreter(version: str) -> Path:
    """The interpreter of that version (`3.8`), from the path, pyenv or uv."""
    if not re.fullmatch(r"3\.([89]|[1-9]\d+)(\.\d+)?", version):
        raise EnvironmentFailed(
            f"the submission requests Python {version}; 3.8 and later are supported: choose one "
            "with --python 3.8, if it runs there too"
        )
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.base_prefix) / "bin" / f"python{version}"
    found = _on_path(version) or _of_pyenv(version) or _of_uv(version)
    if found is None:
        raise InterpreterAbsent(
            f"the submission requests Python {version}, which was not found (python{version} on the "
            f"path, {_pyenv()}, uv); install it, or choose another one with --python"
        )
    return found


def installed_versions() -> tuple[str, ...]:
    """The Python versions that are installed here, the newest first; nothing is downloaded."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    return tuple(
        version for version in VERSIONS if version == own or _on_path(version) or _of_pyenv(version)
    )


def _on_path(version: str) -> Path | None:
    found = shutil.which(f"python{version}")
    # A pyenv shim is a script that may refuse to run; _of_pyenv finds the versions behind it.
    return Path(found) if found and "shims" not in Path(found).parts else None


def _pyenv() -> Path:
    return Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"


def _of_pyenv(version: str) -> Path | None:
    try:
        found = sorted(_pyenv().glob(f"{version}.*/bin/python{version}"))
    except OSError:  # not readable
        return None
    return found[-1] if found else None


def _of_uv(version: str) -> Path | None:
    """uv downloads an interpreter that is not installed."""
    uv = install.uv_program()
    if uv is None:
        return None
    try:
        for word in ("install", "find"):
            command = [uv, "python", word, version]
            done = subprocess.run(command, capture_output=True, timeout=FETCH_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return Path(done.stdout.decode().strip()) if done.returncode == 0 else None


def _prefix_of(interpreter: Path) -> Path:
    command = [str(interpreter), "-I", "-S", "-c", "import sys; print(sys.base_prefix)"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentUnavailable(f"{interpreter} does not run: {error}") from error
    return Path(done.stdout.strip())
