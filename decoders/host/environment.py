"""An environment is the Python that a submission runs in: interpreter and packages.

A submission that asks for nothing runs in the host's own environment. One that brings a
requirements.txt or names a Python version gets a virtual environment of its own, made once and
kept, since its pickled models need the numpy, mne or scikit-learn they were written with. Only
wheels are installed: an sdist would run a stranger's code here.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from decoders.host.errors import EnvironmentFailed
from decoders.host.wishes import Wishes

PLAIN_REQUIREMENTS = ("numpy", "scipy", "scikit-learn")
"""What a submission that names a Python version but no packages may rely on."""

BUILD_LIMIT_S = 1800.0


@dataclass(frozen=True, slots=True)
class Environment:
    """An interpreter, and the folders that it needs to see."""

    python: Path
    folders: tuple[Path, ...]
    title: str


def environment_for(wishes: Wishes, cache: Path | None = None) -> Environment:
    """The environment that the submission wishes for; made now if it is not there yet."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    if wishes.requirements is None and wishes.python in (None, own):
        folders = tuple(sorted({Path(sys.prefix), Path(sys.base_prefix)}))
        return Environment(Path(sys.executable), folders, f"the host's own Python {own}")
    requirements = PLAIN_REQUIREMENTS if wishes.requirements is None else wishes.requirements
    interpreter = find_interpreter(wishes.python or own)
    folder = _made(interpreter, requirements, cache or default_cache())
    title = f"Python {wishes.python or own} with {', '.join(requirements) or 'nothing else'}"
    return Environment(folder / "bin" / "python", (folder, _prefix_of(interpreter)), title)


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "bci-stream" / "environments"


# --- interpreters ----------------------------------------------------------------------------


def find_interpreter(version: str) -> Path:
    """The interpreter of that version (`3.8`), from the path, pyenv or uv."""
    if not re.fullmatch(r"3\.([89]|[1-9]\d+)(\.\d+)?", version):
        raise EnvironmentFailed(
            f"the submission wants Python {version}; this host runs 3.8 and later: choose one of "
            "them with --python 3.8, if it runs there too"
        )
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.base_prefix) / "bin" / f"python{version}"
    for look in (_on_path, _of_pyenv, _of_uv):
        found = look(version)
        if found is not None:
            return found
    raise EnvironmentFailed(
        f"the submission wants Python {version}, and there is none here: looked for "
        f"python{version} on the path, in {_pyenv()} and with uv; install it, or choose another "
        "one with --python"
    )


def _on_path(version: str) -> Path | None:
    found = shutil.which(f"python{version}")
    # A pyenv shim is a script that may refuse to run: the versions behind it are looked at next.
    return Path(found) if found and "shims" not in Path(found).parts else None


def _pyenv() -> Path:
    return Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"


def _of_pyenv(version: str) -> Path | None:
    try:
        found = sorted(_pyenv().glob(f"{version}.*/bin/python{version}"))
    except OSError:  # somebody else's
        return None
    return found[-1] if found else None


def _of_uv(version: str) -> Path | None:
    """uv can fetch an interpreter that is not here yet."""
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


def _made(interpreter: Path, requirements: Sequence[str], cache: Path) -> Path:
    """The cached environment; one maker at a time, and a half-made one is made again."""
    wanted = "\n".join([str(interpreter.resolve()), *sorted(requirements)])
    folder = cache / hashlib.sha256(wanted.encode()).hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        whole = folder / "requirements.txt"
        if not whole.is_file():
            shutil.rmtree(folder, ignore_errors=True)
            _make(interpreter, requirements, folder)
            whole.write_text(wanted)
    return folder


def _make(interpreter: Path, requirements: Sequence[str], folder: Path) -> None:
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
        told = "\n".join((error.stderr or error.stdout).strip().splitlines()[-8:])
        raise EnvironmentFailed(
            f"the submission's environment can't be made; `{' '.join(command)}` said:\n{told}"
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise EnvironmentFailed(f"the submission's environment can't be made: {error}") from None
