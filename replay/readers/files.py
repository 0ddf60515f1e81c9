"""A file source: files or a folder of them, one session a subject, opened one after the other."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

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
from replay.readers.folder import Group, groups_in
from replay.readers.formats import check_recording, read_recording
from replay.readers.neuracle_folder import read_neuracle_folder
from replay.transform.fit import fit


@dataclass(frozen=True)
class FileSession:
    """One subject's recording; implements `replay.model.source.Session`.

    notes: what was decided while reading and fitting, to be said aloud.
    """

    subject: str
    contents: tuple[Content, ...]
    angles: NDArray[np.float64] | None = None

    @property
    def rate(self) -> float:
        return self.contents[0].rate

    @property
    def leads(self) -> tuple[Lead, ...]:
        return self.contents[0].leads

    @property
    def n_samples(self) -> int:
        return sum(content.signal.n_samples for content in self.contents)

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"{c.name}: {note}" for c in self.contents for note in c.notes)

    @property
    def masked(self) -> bool:
        return any(content.masked for content in self.contents)

    @property
    def blocks(self) -> list[SpanBlock]:
        """Every block; where triggers stand in a stim channel, this reads it from end to end."""
        return [block for content in self.contents for block in _blocks(content)]

    def block_triggers(self) -> Sequence[tuple[int, Triggers]]:
        return [(block.n_samples, block.triggers) for block in self.blocks]

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        block = 0
        for content in self.contents:
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
    """One subject's contents, fitted; they must agree in rate and leads.

    subject: as their place says; what the files themselves say goes first, what was asked before that.
    """
    fitted = tuple(fit(content, options) for content in contents)
    for other in fitted[1:]:
        _check_alike(fitted[0], other)
    stated = {content.subject for content in fitted if content.subject}
    if len(stated) == 1 and options.subject is None:
        subject = stated.pop()
    return FileSession(subject, fitted, _angles(fitted, options))


def _check_alike(first: Content, other: Content) -> None:
    if other.rate != first.rate:
        raise SourceError(
            f"{other.name} has {other.rate:g} Hz and {first.name} {first.rate:g} Hz: files of one "
            "subject must agree; ?resample=HERTZ makes them, ?files=subjects plays them apart"
        )
    if [lead.name for lead in other.leads] != [lead.name for lead in first.leads]:
        raise SourceError(
            f"{other.name} has other leads than {first.name}: files of one subject must agree; "
            "?select=NAMES makes them, ?files=subjects plays them apart"
        )


def _angles(contents: tuple[Content, ...], options: SourceOptions) -> NDArray[np.float64] | None:
    if options.angles_file:
        from replay.readers.angles_file import read_angles

        return read_angles(options.angles_file)
    found = [content.angles for content in contents if content.angles is not None]
    return np.concatenate(found) if len(found) == len(contents) else None


class LazySession:
    """A session whose recording would lie in memory as a whole; implements `Session`.

    It was opened once, and so checked; its facts stay, its samples do not.
    """

    def __init__(self, session: FileSession, reopen: Callable[[], FileSession]) -> None:
        self.subject = session.subject
        self.rate = session.rate
        self.leads = session.leads
        self.n_samples = session.n_samples
        self.angles = session.angles
        self.notes = session.notes
        self.masked = session.masked
        self._blocks = list(session.block_triggers())
        self._reopen = reopen

    def block_triggers(self) -> Sequence[tuple[int, Triggers]]:
        return self._blocks

    @property
    def blocks(self) -> list[SpanBlock]:
        return self._reopen().blocks

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        yield from self._reopen().packets(packet_samples)


Loader = Callable[[], list[Content]]


class ContentSource:
    """Sessions made of contents; the first is opened at once: errors come before the start."""

    def __init__(
        self, uri: str, options: SourceOptions, subjects: Sequence[tuple[str, Loader]]
    ) -> None:
        self.uri = uri
        self._options, self._subjects = options, list(subjects)
        self._first: FileSession | None = self._open(0)
        self.track = options.track or self._first.contents[0].track

    live = False
    device = None

    def sessions(self) -> Iterator[FileSession | LazySession]:
        for number in range(len(self._subjects)):
            first, self._first = self._first, None
            session = first if number == 0 and first else self._open(number)
            yield self._light(session, number)

    def _light(self, session: FileSession, number: int) -> FileSession | LazySession:
        """Whole recordings in memory, dozens at once, would be too much: they are opened again."""
        if len(self._subjects) == 1 or all(content.lazy for content in session.contents):
            return session
        return LazySession(session, partial(self._open, number))

    def close(self) -> None:
        self._first = None

    def _open(self, number: int) -> FileSession:
        subject, load = self._subjects[number]
        return make_session(subject, load(), self._options)


def open_files(uri: str, path: Path, options: SourceOptions) -> ContentSource:
    """A file, a Neuracle folder, a BIDS folder, or a folder of recordings."""
    if not path.exists():
        raise SourceError(f"there is no file or folder {path}")
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
        read_neuracle_folder(path, options) if path.is_dir() else read_recording(path, options)
        for path in group.paths
    ]
