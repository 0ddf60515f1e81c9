"""Protection around parsers: their errors become SourceError; a child process tries dangerous files."""

import logging
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bci_stream.errors import BciError, SourceError

# Warnings of libraries about lost samples or events, which are errors here.
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

_FOR_PROGRAMMERS = (DeprecationWarning, FutureWarning, ResourceWarning)
"""The last of these may be of any object that is collected as garbage meanwhile."""


class _ListHandler(logging.Handler):
    """Collects log messages of a library in a list."""

    def __init__(self, messages: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(record.getMessage())


@contextmanager
def reading(name: str, form: str, logger: str | None = None) -> Iterator[list[str]]:
    """Around the parsing of one file: errors become SourceError; warnings are notes in the list it yields.

    logger: name of the library's logger, if it logs warnings. The list is complete after the block.
    """
    notes: list[str] = []
    messages: list[str] = []
    handler = _ListHandler(messages)
    log = logging.getLogger(logger) if logger else None
    if log:
        log.addHandler(handler)
        log.propagate, propagated = False, log.propagate
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield notes
    except BciError:
        raise
    except Exception as error:  # a parser may raise anything for a damaged file
        raise SourceError(_reason(name, form, error)) from error
    finally:
        if log:
            log.removeHandler(handler)
            log.propagate = propagated
    messages += [
        one_line(warning.message)
        for warning in caught
        if not issubclass(warning.category, _FOR_PROGRAMMERS)
    ]
    _refuse_losses(name, form, messages)
    notes += [text for text in dict.fromkeys(messages) if not _NOISE.search(text)]


_KNOWN_REASONS = (
    (
        r"number of trials is (\d+)",
        "it holds {} epochs, and no continuous recording; save the continuous data in EEGLAB",
    ),
    (
        r"(?:data_format|number of samples)",
        "its sample format is unclear; state ?data_format=int16 or int32",
    ),
    (
        r"install.*?`?(antio|curryreader|pymatreader|h5py|defusedxml|pymef|mffpy)",
        "`pip install {}` first",
    ),
    (
        r"Channel (.+)-\d+ has no associated original unit",
        "several of its channels are named {}; give each a name of its own in the header",
    ),
    (r"'utf-8' codec can't decode", "its text is not in UTF-8; save it again in that encoding"),
)
"""Messages of libraries, and what they mean to a user."""

_RAISED = re.compile(r"^\w*Error: (.+)$", re.MULTILINE)
"""The message in a traceback, which some libraries have in theirs."""
_SOURCE_PLACES = re.compile(r"\S*(?:site-packages|dist-packages|lib/python)\S*(?:,? line \d+)?")


def _reason(name: str, form: str, error: Exception) -> str:
    """Format, reason and remedy of an error of a library, without places in its source."""
    text = first_line(error)
    if text.startswith("File ") and (raised := _RAISED.search(str(error))):
        text = raised[1]
    for pattern, meaning in _KNOWN_REASONS:
        if found := re.search(pattern, text):
            return f"{name} can't be read as {form}: {meaning.format(*found.groups())}"
    reason = _SOURCE_PLACES.sub("", text).strip(" :,.") or type(error).__name__
    return f"{name} can't be read as {form}: {reason}. Is it complete, and is it {form}?"


def _refuse_losses(name: str, form: str, messages: list[str]) -> None:
    for text in messages:
        # A file may be called truncated.fif, and a library may quote its name.
        if _LOSSES.search(text.replace(name, "").replace(Path(name).name, "")):
            save = f"; `bci-replay record NEW.xdf --from {name}` saves what is whole"
            raise SourceError(
                f"{name} is damaged or incomplete ({form}): {text}{save if form == 'XDF' else ''}"
            )


def suffix_of(path: Path) -> str:
    """The suffix of a file in small letters; `.fif.gz` is one."""
    return ".fif.gz" if path.name.lower().endswith(".fif.gz") else path.suffix.lower()


def first_line(error: object) -> str:
    """The first line of an error's message, at most 300 characters."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]


def one_line(text: object) -> str:
    """A text in one line, at most 300 characters of it."""
    return " ".join(str(text).split())[:300]


def check_file(path: Path, form: str, begins: tuple[bytes, ...], hint: str = "") -> None:
    """Refuse a file that can't be opened, is empty, or does not begin as its format does.

    hint: another possible reason for a different beginning.
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


DEADLINE_S = 120.0
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def run_child(
    path: Path, form: str, arguments: Sequence[str], deadline_s: float = DEADLINE_S
) -> "subprocess.CompletedProcess[str]":
    """Run Python in a child process that reads a file; refuse a file that crashes it or takes too long."""
    try:
        ended = subprocess.run(
            [sys.executable, "-I", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, **_ONE_THREAD},
            timeout=deadline_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SourceError(
            f"{path} was not read within {deadline_s:.0f} s: it is damaged"
        ) from error
    if ended.returncode < 0:
        raise SourceError(
            f"{path} is damaged: reading it as {form} crashes (signal {-ended.returncode})"
        )
    return ended


# Errors are ignored: they are reported when the file is read for its data.
_LOAD_MATLAB = """
import sys
try:
    from scipy.io import loadmat
    loadmat(sys.argv[1])
except NotImplementedError:  # version 7.3: HDF5
    try:
        from pymatreader import read_mat
        read_mat(sys.argv[1])
    except Exception:
        pass
except Exception:
    pass
"""


def probe_matlab(path: Path) -> None:
    """Refuse a MATLAB file that crashes its parser, or keeps it busy for too long."""
    run_child(path, "MATLAB", ["-c", _LOAD_MATLAB, str(path.resolve())])


HDF5 = b"\x89HDF\r\n\x1a\n"


def is_version_73(path: Path) -> bool:
    """Whether a MATLAB file is of version 7.3, which is HDF5."""
    with path.open("rb") as file:
        head = file.read(520)
    return head.startswith(HDF5) or head[512:].startswith(HDF5)  # MATLAB puts a text before it
