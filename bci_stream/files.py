"""The state and cache folders of this user, and writing a file atomically."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import platformdirs

APP = "bci-stream"


def state_dir() -> Path:
    """$BCI_HOME, or bci-stream in the user's state folder (~/.local/state on Linux); created if absent."""
    default = platformdirs.user_state_dir(APP, appauthor=False)
    folder = Path(os.environ.get("BCI_HOME") or default)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def cache_dir() -> Path:
    """bci-stream in the user's cache folder (~/.cache on Linux); may be absent."""
    return Path(platformdirs.user_cache_dir(APP, appauthor=False))


def atomic_write(
    path: Path,
    write: Callable[[IO[bytes]], object],
    *,
    secret: bool = False,
    overwrite: bool = True,
) -> None:
    """Write a file that is complete or absent at any moment, also for concurrent writers.

    write: called with the open file. secret: only the owner may read the file (mode 0600).
    overwrite: if False, a file that exists is left as it is. A device or pipe is written to directly.
    Raises OSError, with the name of the file.
    """
    with with_filename(path):
        if path.exists() and not path.is_file():
            with path.open("wb") as file:
                write(file)
        else:
            _write_and_move(path, write, 0o600 if secret else 0o666, overwrite)


def _write_and_move(
    path: Path, write: Callable[[IO[bytes]], object], mode: int, overwrite: bool
) -> None:
    part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            write(file)
        if overwrite:
            part.replace(path)
        else:
            with suppress(FileExistsError):
                os.link(part, path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def with_filename(path: Path) -> Iterator[None]:
    """Add this file's name to any OSError raised inside: a full disk does not name one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
