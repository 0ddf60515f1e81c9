"""The timeline of one block: its triggers, and the events that shape the signal.

It is drawn before the signal is rendered, so the triggers of a recording are known at once.
"""

from dataclasses import dataclass

import numpy as np

from bci_stream.packet import Triggers
from tracks.common.codes import BLOCK_END, BLOCK_START, SESSION_END, SESSION_START


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """Something that the person does or sees, from sample `start` to `stop` (exclusive)."""

    start: int
    stop: int
    label: int


@dataclass(frozen=True, slots=True)
class BlockTimeline:
    """Length in samples, labelled triggers and events of one block."""

    n_samples: int
    triggers: Triggers
    events: tuple[TimelineEvent, ...]


class TimelineBuilder:
    """Builds a block's timeline in order. Time is in seconds, rounded to samples only at the end."""

    def __init__(self, rate: float, rng: np.random.Generator) -> None:
        self._rate = rate
        self._rng = rng
        self._now_s = rng.uniform(0.3, 0.8)
        self._triggers: list[tuple[int, int]] = []
        self._events: list[TimelineEvent] = []

    def advance(self, seconds: float) -> None:
        """Move the current time forward."""
        self._now_s += seconds

    def trigger(self, code: int, after_s: float = 0.0) -> None:
        """Add a trigger, at the current time or `after_s` later."""
        # One sample of TRIGGER holds one code, so a second one moves on to the next sample.
        last = self._triggers[-1][0] if self._triggers else -1
        self._triggers.append((max(self._sample(after_s), last + 1), code))

    def event(self, seconds: float, label: int) -> None:
        """Add an event of this length that begins at the current time."""
        self._events.append(TimelineEvent(self._sample(), self._sample(seconds), label))

    def begin_block(self, first: bool) -> None:
        """The codes of a block's start, and before the first block the session's."""
        if first:
            self.trigger(SESSION_START)
            self.advance(0.5)
        self.trigger(BLOCK_START)
        self.advance(self._rng.uniform(0.5, 1.0))

    def finish_block(self, last: bool, packet_samples: int, multiple_of: int = 1) -> BlockTimeline:
        """End the block within a packet, so that its last packet is shorter than the others."""
        self.advance(self._rng.uniform(0.5, 1.0))
        self.trigger(BLOCK_END)
        if last:
            self.advance(0.5)
            self.trigger(SESSION_END)
        packets = self._triggers[-1][0] // packet_samples + 1
        rest = multiple_of * int(self._rng.integers(1, packet_samples // multiple_of))
        n_samples = packets * packet_samples + rest
        return BlockTimeline(n_samples, tuple(self._triggers), tuple(self._events))

    def _sample(self, after_s: float = 0.0) -> int:
        return int((self._now_s + after_s) * self._rate + 0.5)
