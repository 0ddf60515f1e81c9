"""Files that outlive a process: the state folder, and writing a file atomically."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def home() -> Path:
    """$BCI_HOME, or bci-stream in the user's state folder; made where it is absent."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(os.environ.get("BCI_HOME") or Path(base) / "bci-stream")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def atomic_write(path: Path, write: Callable[[IO[bytes]], object], *, secret: bool = False) -> None:
    """Write beside the name and move there when it is done; secret: for the owner's eyes only."""
    with with_filename(path):
        if path.exists() and not path.is_file():  # /dev/stdout, a pipe: nothing may replace it
            with path.open("wb") as file:
                write(file)
        else:
            _write_beside(path, write, secret)


def _write_beside(path: Path, write: Callable[[IO[bytes]], object], secret: bool) -> None:
    part = path.with_name(path.name + ".part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if secret else 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if secret:  # also where an older part had been left open to all
                os.fchmod(descriptor, 0o600)
            write(file)
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def with_filename(path: Path) -> Iterator[None]:
    """The system's refusals inside are about this file: a full disk does not say which."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
