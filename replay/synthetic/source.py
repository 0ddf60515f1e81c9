"""A synthetic source: people made up as they are asked for, one block in memory at a time."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from bci_stream.packet import FloatArray, Lead, Triggers
from replay.model.recording import Recording
from replay.synthetic.head import position_of
from replay.synthetic.params import Number
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import BlockTimeline
from tracks.common.leads import NEUSEN_64_KINDS

Render = Callable[[int], FloatArray]
"""Block number to its samples (n, leads)."""


@dataclass(frozen=True)
class RecordingSet:
    """One of a track's sets of recordings, by its name in the track's `SETS`.

    record: makes the recording of a subject with these parameters. first_subject: sets that share
    numbers share people; a track that tests on people who were not trained on begins at another one.
    """

    record: Callable[[Subject, Mapping[str, float]], Recording]
    params: Mapping[str, Number]
    subjects: int = 2
    first_subject: int = 1


class OneBlock:
    """Keeps the block that was rendered last, and forgets the one before."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._number: int | None = None
        self._data: FloatArray | None = None

    def __call__(self, number: int) -> FloatArray:
        if self._data is None or self._number != number:
            self._data = None  # before the next one is made: two never lie side by side
            self._data = self._render(number)
            self._number = number
        return self._data


@dataclass(frozen=True)
class SyntheticBlock:
    """A block whose timeline is known and whose signal is rendered when it is first read."""

    number: int
    timeline: BlockTimeline
    rendered: OneBlock

    @property
    def n_samples(self) -> int:
        return self.timeline.n_samples

    @property
    def triggers(self) -> Triggers:
        return self.timeline.triggers

    def read(self, start: int, stop: int) -> FloatArray:
        return self.rendered(self.number)[start:stop]


@dataclass(frozen=True)
class SyntheticSource:
    """Implements `replay.model.source.Source`."""

    uri: str
    track: str
    set: str
    people: tuple[Subject, ...]
    record: Callable[[Subject], Recording]

    live: ClassVar[bool] = False
    device: ClassVar[None] = None

    def sessions(self) -> Iterator[Recording]:
        return map(self.record, self.people)

    def close(self) -> None:
        """Nothing is open."""


def recording(
    subject: Subject,
    rate: float,
    leads: tuple[Lead, ...],
    timelines: list[BlockTimeline],
    render: Render,
) -> Recording:
    rendered = OneBlock(render)
    blocks = [SyntheticBlock(i, timeline, rendered) for i, timeline in enumerate(timelines)]
    return Recording(subject.name, rate, leads, blocks)


def eeg_leads(names: tuple[str, ...]) -> tuple[Lead, ...]:
    """Leads of an EEG cap, with their kinds and places."""
    return tuple(
        Lead(name, NEUSEN_64_KINDS.get(name, "EEG"), position=position_of(name)) for name in names
    )
