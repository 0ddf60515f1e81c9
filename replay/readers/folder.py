"""Recordings in a folder, grouped by subject.

- A Neuracle folder is one recording.
- Files with BIDS names, at any depth, belong to the subject, session and task in their name.
- A subfolder, or a folder named like `subject01` or `sub-1`, is a subject; its files are the blocks.
- Any other file is a subject. `?files=blocks` and `?files=subjects` override this.

Names are sorted by the numbers in them: run-2 comes before run-10.
"""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import groupby, zip_longest
from pathlib import Path

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.readers.bids import is_run, series_of, subject_of
from replay.readers.formats import FORMATS, is_recording_folder
from replay.readers.guard import suffix_of
from replay.readers.neuracle_folder import is_neuracle_folder

_NAMES_A_SUBJECT = re.compile(r"(?:sub|subject|subj)[-_ ]?\d+", re.IGNORECASE)
# Events files, and hidden files such as those of macOS (`._run1.edf`).
_NO_RECORDING = re.compile(r".*[-_]eve\.fif(?:\.gz)?|evt\.bdf|\..*", re.IGNORECASE)
_CONTINUES = re.compile(r"(.*)-\d+(\.fif(?:\.gz)?)", re.IGNORECASE)
_CONTINUES_IN_BIDS = re.compile(r"(.*_split-)(\d+)(_.*\.fif)", re.IGNORECASE)
_PARTS = {".eeg", ".dat", ".data"}
_HEADERS = (".vhdr", ".ahdr", ".lay", ".dap")
# Folders of BIDS that hold the same signals again, processed or in another format.
_NO_RUNS_OF_BIDS = {"derivatives", "sourcedata"}

_Numbered = tuple[list[tuple[str, int]], str]


@dataclass(frozen=True)
class Group:
    """One subject and the files of its blocks, in order."""

    subject: str
    paths: tuple[Path, ...]


def groups_in(path: Path, options: SourceOptions) -> list[Group]:
    """The subjects of a file or folder."""
    if path.is_file() or is_recording_folder(path):
        return [Group(subject_of(_stem(path)) or _stem(path), (path,))]
    if not path.is_dir():
        raise SourceError(
            f"{path} is neither a file nor a folder: save its data as a file, and play that"
        )
    if path.name in ("", ".."):  # `.` has no name for the subject
        path = path.resolve()
    if is_neuracle_folder(path):
        return [Group(path.name, (path,))]
    found = _groups_of_folder(path, options)
    if not found:
        raise SourceError(
            f"{path} holds no recording; readable are {', '.join(FORMATS)}, and Neuracle and "
            "BIDS folders"
        )
    return found


def _groups_of_folder(folder: Path, options: SourceOptions) -> list[Group]:
    runs = [
        path
        for path in _recordings(folder, "**/*")
        if is_run(path) and _NO_RUNS_OF_BIDS.isdisjoint(path.relative_to(folder).parts)
    ]
    if runs and options.files is None:
        return _by_subject(runs)
    files = _recordings(folder, "*")
    if files and (options.files == "blocks" or _is_one_subjects(folder, options)):
        return [Group(_plain(folder.name), tuple(files))]
    return [Group(_stem(path), (path,)) for path in files] + _subfolders(folder, options)


def _stem(path: Path) -> str:
    return path.name[: len(path.name) - len(suffix_of(path))]


def _is_one_subjects(folder: Path, options: SourceOptions) -> bool:
    return options.files is None and bool(_NAMES_A_SUBJECT.fullmatch(folder.name))


def _subfolders(folder: Path, options: SourceOptions) -> list[Group]:
    found = []
    inner = [path for path in folder.iterdir() if path.is_dir() and not is_recording_folder(path)]
    for below in sorted(inner, key=_order):
        files = _recordings(below, "*")
        if is_neuracle_folder(below):
            found.append(Group(below.name, (below,)))
        elif files and options.files == "subjects":
            found += [Group(f"{below.name}-{_stem(path)}", (path,)) for path in files]
        elif files:
            found.append(Group(_plain(below.name), tuple(files)))
    return found


def _by_subject(runs: list[Path]) -> list[Group]:
    """Runs of one subject, session and task are blocks of one group."""
    ordered = sorted(runs, key=lambda path: (*map(_numbered, series_of(path)), _order(path)))
    series = [(key, tuple(paths)) for key, paths in groupby(ordered, key=series_of)]
    n_series = Counter(key[0] for key, _ in series)
    return [
        Group(key[0] if n_series[key[0]] == 1 else "-".join(filter(None, key)), paths)
        for key, paths in series
    ]


def _recordings(folder: Path, pattern: str) -> list[Path]:
    found = (
        path
        for path in folder.glob(pattern)
        if _is_looked_for(path)
        and (is_recording_folder(path) or (path.is_file() and not _is_part(path)))
        and not _NO_RECORDING.fullmatch(path.name)
        and not _is_continuation(path)
    )
    return sorted(found, key=_order)


def _is_looked_for(path: Path) -> bool:
    found = FORMATS.get(suffix_of(path))
    return found is not None and not found.named_only


def _is_part(path: Path) -> bool:
    """Whether a file holds the data of a header beside it, or belongs to a recording that is a folder."""
    of_header = path.suffix.lower() in _PARTS and any(
        path.with_suffix(suffix).is_file() for suffix in _HEADERS
    )
    return of_header or any(map(is_recording_folder, path.parents))


def _is_continuation(path: Path) -> bool:
    """Whether MNE reads this file as part of another: X.fif, X-1.fif, ...; X_split-01_eeg.fif, ..."""
    if found := _CONTINUES_IN_BIDS.fullmatch(path.name):
        begin, number, end = found.groups()
        first = f"{begin}{1:0{len(number)}}{end}"
        return path.name != first and path.with_name(first).is_file()
    found = _CONTINUES.fullmatch(path.name)
    return found is not None and path.with_name(found[1] + found[2]).is_file()


def _order(path: Path) -> tuple[_Numbered, _Numbered]:
    # Without the suffix first, so that run.edf comes before run-1.edf, and data.bdf before data.1.bdf.
    return _numbered(str(path.with_suffix(""))), _numbered(str(path))


def _numbered(text: str) -> _Numbered:
    """Sort key: by the numbers in a text, then by the text (1 and 01)."""
    parts = re.split(r"(\d+)", text)
    return [(word, int(number or 0)) for word, number in zip_longest(parts[::2], parts[1::2])], text


def _plain(name: str) -> str:
    return name.removeprefix("sub-")
