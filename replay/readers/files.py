"""Sources of files and folders: one session for each subject, opened one after the other."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import Lead, Triggers
from replay.model.options import SourceOptions
from replay.model.recording import (
    PIECE_S,
    PieceReader,
    SpanBlock,
    block_starts,
    cut,
    split_triggers,
)
from replay.model.signal import Content
from replay.model.source import RawPacket
from replay.readers.arrays.layout import joint_angles
from replay.readers.folder import Group, groups_in
from replay.readers.formats import check_recording, is_recording_folder, read_recording
from replay.readers.guard import reading
from replay.readers.neuracle_folder import read_neuracle_folder
from replay.transform.fit import fit


@dataclass(frozen=True)
class FileSession:
    """One subject's recording; implements `replay.model.source.Session`.

    open: gives the contents. It reads the files again if they would take much memory.
    known_blocks: samples and triggers of each block; None to find them when they are asked for.
    """

    subject: str
    rate: float
    leads: tuple[Lead, ...]
    n_samples: int
    notes: tuple[str, ...]
    masked: bool
    open: Callable[[], tuple[Content, ...]]
    angles: NDArray[np.float64] | None = None
    known_blocks: Sequence[tuple[int, Triggers]] | None = None

    @property
    def blocks(self) -> list[SpanBlock]:
        """Every block; if triggers are in a stim channel, this reads the whole channel."""
        return [block for content in self.open() for block in _blocks(content)]

    def block_triggers(self) -> Sequence[tuple[int, Triggers]]:
        if self.known_blocks is not None:
            return self.known_blocks
        return [(block.n_samples, block.triggers) for block in self.blocks]

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        block = 0
        for content in self.open():
            piece_samples = packet_samples * max(1, round(PIECE_S * content.rate / packet_samples))
            reader = PieceReader(content.signal, content.events, piece_samples)
            for packet in cut(reader, packet_samples, content.block_starts, block):
                yield packet
                block = packet.block + 1 if packet.last_of_block else packet.block


def _blocks(content: Content) -> list[SpanBlock]:
    triggers, n_samples = content.events.all(), content.signal.n_samples
    starts = content.block_starts or block_starts(triggers)
    parts = split_triggers(n_samples, triggers, starts)
    return [
        SpanBlock(content.signal, start, count, own)
        for start, (count, own) in zip(starts, parts, strict=True)
    ]


def make_session(subject: str, contents: Sequence[Content], options: SourceOptions) -> FileSession:
    """A session of one subject's contents, fitted; they must agree in rate and leads.

    subject: from the name of the file or folder. A subject stated in the files takes precedence over it, and
    one in the options over both.
    """
    fitted = tuple(fit(content, options) for content in contents)
    first = fitted[0]
    for other in fitted[1:]:
        _check_alike(first, other)
    stated = {content.subject for content in fitted if content.subject}
    if len(stated) == 1 and options.subject is None:
        subject = stated.pop()
    return FileSession(
        subject,
        first.rate,
        first.leads,
        n_samples=sum(content.signal.n_samples for content in fitted),
        notes=tuple(f"{content.name}: {note}" for content in fitted for note in content.notes),
        masked=any(content.masked for content in fitted),
        open=lambda: fitted,
        angles=_angles(fitted, options),
    )


def _check_alike(first: Content, other: Content) -> None:
    if other.rate != first.rate:
        raise SourceError(
            f"{other.name} has {other.rate:g} Hz and {first.name} {first.rate:g} Hz: files of one "
            "subject must agree; ?resample=HERTZ makes them, ?files=subjects plays them as subjects"
        )
    if [lead.name for lead in other.leads] != [lead.name for lead in first.leads]:
        raise SourceError(
            f"{other.name} has other leads than {first.name}: files of one subject must agree; "
            "?select=NAMES makes them, ?files=subjects plays them as subjects"
        )


def _angles(contents: tuple[Content, ...], options: SourceOptions) -> NDArray[np.float64] | None:
    if options.angles_file:
        return read_angles(options.angles_file)
    found = [content.angles for content in contents if content.angles is not None]
    return np.concatenate(found) if len(found) == len(contents) else None


def read_angles(path: Path) -> NDArray[np.float64]:
    """Joint angles of an ECoG recording in a file of their own (.npy, .npz, .mat, .csv): rows x 8 joints."""
    if path.suffix.lower() not in _ANGLE_LOADERS:
        raise SourceError(f"{path}: angles are read from {', '.join(_ANGLE_LOADERS)}")
    with reading(str(path), "joint angles"):
        return joint_angles(str(path), _ANGLE_LOADERS[path.suffix.lower()](path))


def _angles_of_npz(path: Path) -> NDArray[Any]:
    with path.open("rb") as archive, np.load(archive, allow_pickle=False) as file:
        return np.asarray(file["angles"])


def _angles_of_mat(path: Path) -> NDArray[Any]:
    from scipy.io import loadmat

    return np.asarray(loadmat(path)["angles"])


_ANGLE_LOADERS: dict[str, Callable[[Path], NDArray[Any]]] = {
    ".npy": lambda path: np.asarray(np.load(path, allow_pickle=False)),
    ".npz": _angles_of_npz,
    ".mat": _angles_of_mat,
    ".csv": lambda path: np.loadtxt(path, delimiter=",", ndmin=2),
}

ContentLoader = Callable[[], list[Content]]


class ContentSource:
    """A source of recordings; the first one is opened at once, so that errors come before the start."""

    def __init__(
        self, uri: str, options: SourceOptions, subjects: Sequence[tuple[str, ContentLoader]]
    ) -> None:
        self.uri = uri
        self._options, self._subjects = options, list(subjects)
        self._first: FileSession | None = self._open(0)
        self.track = options.track or self._first.open()[0].track

    live = False
    device = None

    def sessions(self) -> Iterator[FileSession]:
        for number in range(len(self._subjects)):
            first, self._first = self._first, None
            session = first if number == 0 and first else self._open(number)
            yield self._without_samples(session, number)

    def _without_samples(self, session: FileSession, number: int) -> FileSession:
        """Of several recordings in memory only the one that is played stays there."""
        if len(self._subjects) == 1 or all(content.lazy for content in session.open()):
            return session
        blocks = list(session.block_triggers())
        return replace(session, open=lambda: self._open(number).open(), known_blocks=blocks)

    def close(self) -> None:
        self._first = None

    def _open(self, number: int) -> FileSession:
        subject, load = self._subjects[number]
        return make_session(subject, load(), self._options)


def open_files(uri: str, path: Path, options: SourceOptions) -> ContentSource:
    """A file, a Neuracle folder, a BIDS folder, or a folder of recordings."""
    groups = _chosen(path, groups_in(path, options), options)
    for group in groups:
        for file in group.paths:
            if file.is_file():
                check_recording(file)
    return ContentSource(uri, options, [(g.subject, partial(_load, g, options)) for g in groups])


def _chosen(path: Path, groups: list[Group], options: SourceOptions) -> list[Group]:
    if options.subject is None:
        return groups
    if len(groups) == 1:
        return [Group(options.subject, groups[0].paths)]
    chosen = [group for group in groups if group.subject == options.subject]
    if not chosen:
        names = ", ".join(group.subject for group in groups[:12])
        raise SourceError(f"{path} has no subject {options.subject!r}; it has {names}")
    return chosen


def _load(group: Group, options: SourceOptions) -> list[Content]:
    return [
        read_neuracle_folder(path, options)
        if path.is_dir() and not is_recording_folder(path)
        else read_recording(path, options)
        for path in group.paths
    ]
