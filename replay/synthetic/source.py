"""Synthetic sources: their sets and parameters; recordings that are rendered block by block."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead, Triggers
from replay.model.recording import Recording
from replay.synthetic.head import position_of
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import BlockTimeline
from tracks.common.leads import NEUSEN_64_KINDS

Params = Mapping[str, float]
"""The parameters of a source, checked and with their defaults."""

Render = Callable[[int], FloatArray]
"""Block number to its samples (n, leads)."""


@dataclass(frozen=True, slots=True)
class NumberParam:
    """A parameter of a URI that is a number; a whole number if `default` is one."""

    default: float
    low: float
    high: float
    about: str

    def read(self, name: str, text: str) -> float:
        whole = isinstance(self.default, int)
        try:
            value: float = int(text) if whole else float(text)
        except ValueError:
            value = float("nan")
        if not self.low <= value <= self.high:
            kind = "a whole number" if whole else "a number"
            raise SourceError(f"{name} must be {kind} from {self.low} to {self.high}, got {text!r}")
        return value


def common_params(subjects: int, first_subject: int) -> dict[str, NumberParam]:
    """The parameters of every synthetic source."""
    return {
        "subjects": NumberParam(subjects, 1, 1000, "how many people"),
        "first_subject": NumberParam(first_subject, 1, 100_000, "the number of the first one"),
        "seed": NumberParam(1, 0, 2**32 - 1, "another seed, other people"),
        "difficulty": NumberParam(0.5, 0.0, 1.0, "0 clear signals, 1 a hard case"),
    }


def read_params(
    source: str, known: Mapping[str, NumberParam], given: Mapping[str, str]
) -> dict[str, float]:
    """All parameters: checked where they are given, else their defaults."""
    unknown = [name for name in given if name not in known]
    if unknown:
        raise SourceError(f"{source} has no parameter {unknown[0]!r}; it has\n{_table(known)}")
    return {
        name: number.read(f"{source}: {name}", given[name]) if name in given else number.default
        for name, number in known.items()
    }


def _table(known: Mapping[str, NumberParam]) -> str:
    return "\n".join(
        f"  {name}, {number.low} to {number.high} ({number.default}): {number.about}"
        for name, number in known.items()
    )


@dataclass(frozen=True)
class RecordingSet:
    """One of a track's sets of recordings, by its name in the track's `SETS`.

    record: makes the recording of a subject with these parameters. first_subject: sets that share
    numbers share people; a track that tests on people who were not trained on begins at another one.
    """

    record: Callable[[Subject, Params], Recording]
    params: Mapping[str, NumberParam]
    subjects: int = 2
    first_subject: int = 1


class BlockCache:
    """Renders blocks on demand and keeps the last one only."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._number: int | None = None
        self._data: FloatArray | None = None

    def __call__(self, number: int) -> FloatArray:
        if self._data is None or self._number != number:
            self._data = None  # freed first: two blocks are never in memory together
            self._data = self._render(number)
            self._number = number
        return self._data


@dataclass(frozen=True)
class SyntheticBlock:
    """A block whose signal is rendered when it is first read."""

    number: int
    timeline: BlockTimeline
    rendered: BlockCache

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
        """Does nothing: no file is open."""


def recording(
    subject: Subject,
    rate: float,
    leads: tuple[Lead, ...],
    timelines: list[BlockTimeline],
    render: Render,
) -> Recording:
    """A recording whose blocks are rendered when they are read."""
    rendered = BlockCache(render)
    blocks = [SyntheticBlock(i, timeline, rendered) for i, timeline in enumerate(timelines)]
    return Recording(subject.name, rate, leads, blocks)


def eeg_leads(names: tuple[str, ...]) -> tuple[Lead, ...]:
    """Leads of an EEG cap, with their kinds and positions."""
    return tuple(
        Lead(name, NEUSEN_64_KINDS.get(name, "EEG"), position=position_of(name)) for name in names
    )
