"""The Python environment of a submission: interpreter and packages.

A submission that requests nothing runs in the host's own environment. One with a requirements.txt or
a Python version gets a virtual environment, which is cached, since its pickled models need the
versions of numpy, mne or scikit-learn that wrote them. Only wheels are installed: building an sdist
would run untrusted code outside the sandbox.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from packaging.requirements import InvalidRequirement, Requirement

from bci_stream.files import cache_dir
from decoders.host.limits import EnvironmentFailed, PackageError
from decoders.host.package import read_small

MAGIC_NUMBERS = {
    3413: "3.8",
    3425: "3.9",
    3439: "3.10",
    3495: "3.11",
    3531: "3.12",
    3571: "3.13",
    3627: "3.14",
}
"""Magic number of a .pyc file -> the Python version that reads it."""

_VERSION = re.compile(r"(?<![\d.])(3)\.?(\d{1,2})(?!\d)")
_IMAGE_VERSION = re.compile(r"(?:python|py)[-_:v ]*(3)\.?(\d{1,2})(?!\d)", re.IGNORECASE)
"""In an image's name only what follows "python": pytorch:2.3.1 is not a Python version."""


@dataclass(frozen=True, slots=True)
class RequestedEnvironment:
    """python: like `3.8`, or None; requirements: None without a requirements.txt."""

    python: str | None
    requirements: tuple[str, ...] | None


def requested_environment(root: Path, python: str | None = None) -> RequestedEnvironment:
    """Read what a submission requests; `python` overrides its own request."""
    return RequestedEnvironment(python or _python_of(root), _requirements_of(root))


def _python_of(root: Path) -> str | None:
    return _of_compiled(root) or _of_version_file(root) or _of_image(root)


def _of_compiled(root: Path) -> str | None:
    """The version of .pyc files without source, which run on no other one."""
    versions = {
        _version_of(path)
        for path in sorted(root.rglob("*.pyc"))
        if not path.with_suffix(".py").exists()
    }
    if len(versions) > 1:
        raise PackageError(
            f"the submission's .pyc files are of several Pythons ({', '.join(sorted(versions))}); "
            "compile them all with one"
        )
    return versions.pop() if versions else None


def _version_of(compiled: Path) -> str:
    with compiled.open("rb") as file:
        magic = int.from_bytes(file.read(2), "little")
    if magic not in MAGIC_NUMBERS:
        raise PackageError(
            f"{compiled.name}: compiled by an unknown Python (magic number {magic}); known are "
            f"{', '.join(MAGIC_NUMBERS.values())}"
        )
    return MAGIC_NUMBERS[magic]


def _of_version_file(root: Path) -> str | None:
    for name in (".python-version", "runtime.txt"):
        path = root / name
        if path.is_file():
            return _version_in(read_small(path))
    return None


def _of_image(root: Path) -> str | None:
    """The version in the image name (`unitImage`) of config.toml or config.json."""
    try:
        if (root / "config.toml").is_file():
            config: object = tomllib.loads(read_small(root / "config.toml"))
        elif (root / "config.json").is_file():
            config = json.loads(read_small(root / "config.json"))
        else:
            return None
    except (ValueError, RecursionError) as error:
        raise PackageError(f"the submission's config file can't be read: {error}") from error
    image = config.get("unitImage") if isinstance(config, dict) else None
    return _version_in(image, _IMAGE_VERSION) if isinstance(image, str) else None


def _version_in(text: str, pattern: re.Pattern[str] = _VERSION) -> str | None:
    found = pattern.search(text)
    return f"{found[1]}.{found[2]}" if found else None


def _requirements_of(root: Path) -> tuple[str, ...] | None:
    for folder in (root, root / "Algorithm", root / "AlgorithmImplement"):
        path = folder / "requirements.txt"
        if path.is_file():
            return read_requirements(read_small(path))
    return None


def read_requirements(text: str) -> tuple[str, ...]:
    """Parse names and versions. Raises PackageError for options, URLs and paths."""
    wanted = []
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r"(^|\s)#.*", "", line).strip()
        if bare:
            wanted.append(_requirement(bare, number))
    return tuple(wanted)


def _requirement(line: str, number: int) -> str:
    try:
        requirement = Requirement(line)
    except InvalidRequirement:
        requirement = None
    if requirement is None or requirement.url:
        raise PackageError(
            f"requirements.txt line {number}: {line!r} is not a package's name and version; write "
            "lines like numpy==1.23.5 (no options, addresses or paths)"
        )
    return str(requirement)


PLAIN_REQUIREMENTS = ("numpy", "scipy", "scikit-learn")
"""Installed for a submission that requests a Python version but no packages."""

BUILD_LIMIT_S = 1800.0


@dataclass(frozen=True, slots=True)
class Environment:
    """An interpreter, and the folders that must be visible to it."""

    python: Path
    folders: tuple[Path, ...]
    title: str


def environment_for(requested: RequestedEnvironment, cache: Path | None = None) -> Environment:
    """The requested environment; created if it is not cached yet."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if requested.requirements is None and requested.python in (None, own):
        folders = tuple(sorted({Path(sys.prefix), Path(sys.base_prefix)}))
        return Environment(Path(sys.executable), folders, f"the host's own Python {own}")
    requirements = PLAIN_REQUIREMENTS if requested.requirements is None else requested.requirements
    interpreter = find_interpreter(requested.python or own)
    folder = _cached(interpreter, requirements, cache or default_cache())
    title = f"Python {requested.python or own} with {', '.join(requirements) or 'nothing else'}"
    return Environment(folder / "bin" / "python", (folder, _prefix_of(interpreter)), title)


def default_cache() -> Path:
    return cache_dir() / "environments"


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
    for search in (_on_path, _of_pyenv, _of_uv):
        found = search(version)
        if found is not None:
            return found
    raise EnvironmentFailed(
        f"the submission requests Python {version}, which was not found (python{version} on the "
        f"path, {_pyenv()}, uv); install it, or choose another one with --python"
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
    uv = _uv()
    if uv is None:
        return None
    subprocess.run([uv, "python", "install", version], capture_output=True, check=False)
    found = subprocess.run([uv, "python", "find", version], capture_output=True, check=False)
    return Path(found.stdout.decode().strip()) if found.returncode == 0 else None


def _uv() -> str | None:
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


def _prefix_of(interpreter: Path) -> Path:
    command = [str(interpreter), "-I", "-S", "-c", "import sys; print(sys.base_prefix)"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise EnvironmentFailed(f"{interpreter} does not run: {error}") from error
    return Path(done.stdout.strip())


# --- virtual environments --------------------------------------------------------------------


def _cached(interpreter: Path, requirements: Sequence[str], cache: Path) -> Path:
    """The cached environment, created under a lock; an incomplete one is created again."""
    wanted = "\n".join([str(interpreter.resolve()), *sorted(requirements)])
    folder = cache / hashlib.sha256(wanted.encode()).hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        complete = folder / "requirements.txt"
        if not complete.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            _create(interpreter, requirements, folder)
            complete.write_text(wanted)
    return folder


def _create(interpreter: Path, requirements: Sequence[str], folder: Path) -> None:
    uv = _uv()
    python = str(folder / "bin" / "python")
    if uv is not None:
        _run([uv, "venv", "--quiet", "--python", str(interpreter), str(folder)], folder)
        install = [uv, "pip", "install", "--quiet", "--python", python]
    else:
        bare = [] if requirements else ["--without-pip"]
        _run([str(interpreter), "-m", "venv", *bare, str(folder)], folder)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if requirements:
        _run([*install, "--only-binary", ":all:", *requirements], folder)


def _run(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=BUILD_LIMIT_S, check=True)
    except subprocess.CalledProcessError as error:
        shutil.rmtree(folder, ignore_errors=True)
        output = "\n".join((error.stderr or error.stdout).strip().splitlines()[-8:])
        raise EnvironmentFailed(
            f"the submission's environment can't be made; `{' '.join(command)}` printed:\n{output}"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise EnvironmentFailed(f"the submission's environment can't be made: {error}") from None
