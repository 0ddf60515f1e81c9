"""A timeline: when what happens in one block.

It is drawn before the signal is, so its triggers are known at once.
"""

from dataclasses import dataclass

import numpy as np

from bci_stream.packet import Triggers
from tracks.common.codes import BLOCK_END, BLOCK_START, SESSION_END, SESSION_START


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """Something the person does or sees: from sample start to sample stop (exclusive)."""

    start: int
    stop: int
    label: int


@dataclass(frozen=True, slots=True)
class BlockTimeline:
    """One block: its length, the labelled triggers, and the events that shape the signal."""

    n_samples: int
    triggers: Triggers
    events: tuple[TimelineEvent, ...]


class Pen:
    """Draws a timeline from left to right; time is kept in seconds, and rounded at a mark only."""

    def __init__(self, rate: float, rng: np.random.Generator) -> None:
        self._rate = rate
        self._rng = rng
        self._now_s = rng.uniform(0.3, 0.8)
        self._triggers: list[tuple[int, int]] = []
        self._events: list[TimelineEvent] = []

    def wait(self, seconds: float) -> None:
        self._now_s += seconds

    def mark(self, code: int, after_s: float = 0.0) -> None:
        """A trigger, now or a while later; time does not move."""
        # One sample of TRIGGER holds one code, so a second one moves on to the next sample.
        last = self._triggers[-1][0] if self._triggers else -1
        self._triggers.append((max(self._sample(after_s), last + 1), code))

    def event(self, seconds: float, label: int) -> None:
        """From now on, for so long; time does not move."""
        self._events.append(TimelineEvent(self._sample(), self._sample(seconds), label))

    def begin(self, first: bool) -> None:
        if first:
            self.mark(SESSION_START)
            self.wait(0.5)
        self.mark(BLOCK_START)
        self.wait(self._rng.uniform(0.5, 1.0))

    def finish(self, last: bool, packet_samples: int, multiple_of: int = 1) -> BlockTimeline:
        """End the block, in the middle of a packet: the last one is shorter than the others."""
        self.wait(self._rng.uniform(0.5, 1.0))
        self.mark(BLOCK_END)
        if last:
            self.wait(0.5)
            self.mark(SESSION_END)
        packets = self._triggers[-1][0] // packet_samples + 1
        rest = multiple_of * int(self._rng.integers(1, packet_samples // multiple_of))
        return BlockTimeline(
            packets * packet_samples + rest, tuple(self._triggers), tuple(self._events)
        )

    def _sample(self, after_s: float = 0.0) -> int:
        return int((self._now_s + after_s) * self._rate + 0.5)
