"""The guard stands around every parser: whatever goes wrong inside comes out as SourceError."""

import logging
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bci_stream.errors import BciError, SourceError

# What a library only warns of, though samples or events are lost.
_LOSSES = re.compile(
    r"does not match the file size|truncat|corrupt|unexpected end|premature|\bEOF\b|could not be read"
    r"|incomplete|Invalid tag",
    re.IGNORECASE,
)
_NOISE = re.compile(
    r"naming conventions|nested event|Annotation descriptions"
    r"|highpass|lowpass|cutoff|filter|montage|positions|locations|"
    r"expanding outside the data range|inferred|Segments and clock-segments differ",
    re.IGNORECASE,
)


class _Listener(logging.Handler):
    """Collects what a library logs instead of letting it print."""

    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record.getMessage())


@contextmanager
def reading(name: str, form: str, logger: str | None = None) -> Iterator[list[str]]:
    """Around the parsing of one file: errors become SourceError, warnings are collected as notes.

    logger: the library's logger, where it logs instead of warning.
    """
    notes: list[str] = []
    said: list[str] = []
    listener = _Listener(said)
    log = logging.getLogger(logger) if logger else None
    if log:
        log.addHandler(listener)
        log.propagate, propagated = False, log.propagate
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield notes
    except BciError:
        raise
    except Exception as error:  # a parser that is fed a broken file may raise anything
        raise SourceError(
            f"{name} can't be read as {form}: {first_line(error)}. Is it whole, and is it {form}?"
        ) from error
    finally:
        if log:
            log.removeHandler(listener)
            log.propagate = propagated
    said += [first_line(warning.message) for warning in caught]
    _judge(name, form, said)
    notes += [text for text in dict.fromkeys(said) if not _NOISE.search(text)]


def _judge(name: str, form: str, said: list[str]) -> None:
    for text in said:
        # A file may be called truncated.fif, and a library may quote its name.
        if _LOSSES.search(text.replace(name, "").replace(Path(name).name, "")):
            raise SourceError(f"{name} is damaged, or not all of it is there ({form}): {text}")


def first_line(error: object) -> str:
    """What an error says, short enough for a message."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]


def check_file(path: Path, form: str, begins: tuple[bytes, ...], hint: str = "") -> None:
    """Refuse what is no file, has nothing in it, or does not begin as its format does.

    hint: what else may be the reason, in this format.
    """
    try:
        with path.open("rb") as file:
            head = file.read(256)
    except OSError as error:
        raise SourceError(f"{path} can't be opened: {error.strerror}") from error
    if not head:
        raise SourceError(f"{path} is empty")
    if begins and not head.startswith(begins):
        raise SourceError(
            f"{path} does not begin as {form} does: it is of another format than its name says, "
            f"or damaged{f'; {hint}' if hint else ''}"
        )


PATIENCE_S = 120.0
# Errors are passed over here: the real reading tells them, with their message.
_LOAD = """
import sys
try:
    from scipy.io import loadmat
    loadmat(sys.argv[1])
except NotImplementedError:  # version 7.3: HDF5
    try:
        import h5py
        with h5py.File(sys.argv[1]) as file:
            file.visititems(lambda _, item: isinstance(item, h5py.Dataset) and item[()] is None)
    except Exception:
        pass
except Exception:
    pass
"""


def probe_matlab(path: Path, patience_s: float = PATIENCE_S) -> None:
    """Refuse a MATLAB file that crashes its parser, or never lets it end."""
    command = [sys.executable, "-I", "-c", _LOAD, str(path.resolve())]
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=patience_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"{path} was not read within {patience_s:g} s: it is damaged") from error
    if ended.returncode < 0:
        raise SourceError(
            f"{path} is damaged: reading it as MATLAB crashes (signal {-ended.returncode})"
        )
