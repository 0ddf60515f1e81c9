"""A file session: one subject's files, each cut into blocks, played one after the other."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import Lead, Triggers
from replay.blocks import SpanBlock, block_starts, cut, split_triggers
from replay.fit import fit
from replay.options import SourceOptions
from replay.readahead import PIECE_S, ReadAhead
from replay.readers.content import Content
from replay.source import RawPacket


@dataclass(frozen=True)
class FileSession:
    """One subject's recording; implements `replay.source.Session`.

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
            with ReadAhead(content.signal, content.events, piece_samples) as ahead:
                for packet in cut(ahead, packet_samples, content.block_starts, block):
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
