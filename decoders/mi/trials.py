"""Walks a stream through motor imagery trials: what is decided, and at which sample, is all here.

Each of a trial's three reports is made at a fixed sample, in the last packet in which it is still
valid; how the stream was cut into packets does not matter.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Packet, SignalInfo
from tracks.common.codes import TRIAL_END
from tracks.mi import IMAGERY_S, IMAGERY_START, LIMITS_S

SKIP_S = 0.5
"""Imagery sets in after its cue, and the filters need as long: what counts begins here."""
SEGMENT_S = 0.5
"""Training looks at windows of whole segments."""


@dataclass(frozen=True)
class Windows:
    """Counted from the trigger's own sample. skip: where looking begins; ends: one a report."""

    skip: int
    ends: tuple[int, ...]

    @classmethod
    def of(cls, info: SignalInfo) -> "Windows":
        """The longest windows that are complete, wherever in its packet the trigger falls, at the
        last packet at which their report is still valid."""
        ends = [_end(limit_s, info) for limit_s in LIMITS_S]
        return cls(round(SKIP_S * info.rate), tuple(ends))


def _end(limit_s: float, info: SignalInfo) -> int:
    limit, packet = int(limit_s * info.rate), info.packet_samples
    if limit_s >= IMAGERY_S:  # the packet with 241 comes then, and a report must be made before it
        return limit - packet + 1
    # Used data is counted in whole packets from the one after the trigger's, of which one sample or
    # more comes for nothing.
    return min(limit, limit // packet * packet + 1)


class Classify(Protocol):
    """Decides on a trial by the samples since it began."""

    def begin(self) -> None:
        """A trial begins with the next sample."""

    def add(self, x: NDArray[np.floating]) -> None:
        """x (n, leads), the next samples."""

    def look(self) -> None:
        """What counts begins with the next sample."""

    def decide(self, number: int, last: bool) -> int:
        """The class, at the end of window `number` (from 0); `last`: the trial is over."""


class ImageryTrials:
    """One session's walk."""

    def __init__(self, windows: Windows, judge: Classify) -> None:
        self._windows = windows
        self._judge = judge
        self._seen: int | None = None  # samples of the running trial, from its trigger on
        self._made = 0

    def step(self, packet: Packet) -> list[int]:
        """The classes to report after this packet."""
        reports: list[int] = []
        done = 0
        for offset, code in packet.triggers:
            reports += self._feed(packet.signal[done:offset])
            done = offset
            if code == IMAGERY_START:
                self._seen, self._made = 0, 0
                self._judge.begin()
            elif code == TRIAL_END:
                self._seen = None
        return reports + self._feed(packet.signal[done:])

    def _feed(self, x: NDArray[np.floating]) -> list[int]:
        """Take in samples, stopping at each bound of a window."""
        reports: list[int] = []
        while self._seen is not None and len(x):
            bound = self._next_bound(self._seen)
            head, x = x[: bound - self._seen], x[bound - self._seen :]
            self._judge.add(head)
            self._seen += len(head)
            if self._seen < bound:
                break
            reports += self._at(bound)
        return reports

    def _next_bound(self, seen: int) -> int:
        return self._windows.skip if seen < self._windows.skip else self._windows.ends[self._made]

    def _at(self, bound: int) -> list[int]:
        if bound == self._windows.skip:
            self._judge.look()
            return []
        number = self._made
        self._made += 1
        last = self._made == len(self._windows.ends)
        if last:
            self._seen = None
        return [self._judge.decide(number, last)]
