"""Motor imagery trials in a stream: which samples count, and at which sample each report is made.

Each of a trial's three reports is made at a fixed sample, in the last packet in which it is still
valid; how the stream is split into packets does not matter.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Packet, SignalInfo
from tracks.common.codes import TRIAL_END
from tracks.mi import IMAGERY_S, IMAGERY_START, LIMITS_S

if TYPE_CHECKING:  # scipy.signal takes a second to import; chance decoders do without
    from decoders.dsp.covariance import BandMoments

SKIP_S = 0.5
"""Left out after the cue: imagery sets in later, and the filters need this time."""
SEGMENT_S = 0.5
"""Training uses windows of whole segments."""

Classify = Callable[[int, bool], int]
"""(number of the window from 0, whether it is the trial's last) -> class."""


@dataclass(frozen=True)
class Windows:
    """In samples from the trigger. skip: where windows begin; ends: one for each report."""

    skip: int
    ends: tuple[int, ...]

    @classmethod
    def of(cls, info: SignalInfo) -> "Windows":
        """The longest windows that are complete in the last packet at which their report is valid,
        wherever in its packet the trigger is."""
        ends = [_end(limit_s, info) for limit_s in LIMITS_S]
        return cls(round(SKIP_S * info.rate), tuple(ends))


def _end(limit_s: float, info: SignalInfo) -> int:
    limit, packet = int(limit_s * info.rate), info.packet_samples
    if limit_s >= IMAGERY_S:  # the packet with 241 follows, and the report must precede it
        return limit - packet + 1
    # Used data is counted in whole packets after the trigger's; one or more samples of that are free.
    return min(limit, limit // packet * packet + 1)


class ImageryTrials:
    """Follows the trials of one session.

    moments: updated with the samples that count; None if the classifier needs no data.
    """

    def __init__(self, windows: Windows, moments: "BandMoments | None", classify: Classify) -> None:
        self._windows = windows
        self._moments = moments
        self._classify = classify
        self._seen: int | None = None  # samples of the running trial, from its trigger
        self._reports = 0

    def step(self, packet: Packet) -> list[int]:
        """The classes to report after this packet."""
        reports: list[int] = []
        done = 0
        for offset, code in packet.triggers:
            reports += self._feed(packet.signal[done:offset])
            done = offset
            if code == IMAGERY_START:
                self._seen, self._reports = 0, 0
                if self._moments is not None:
                    self._moments.begin()
            elif code == TRIAL_END:
                self._seen = None
        return reports + self._feed(packet.signal[done:])

    def _feed(self, x: NDArray[np.floating]) -> list[int]:
        """Process samples, stopping at each bound of a window."""
        reports: list[int] = []
        while self._seen is not None and len(x):
            bound = self._next_bound(self._seen)
            head, x = x[: bound - self._seen], x[bound - self._seen :]
            if self._moments is not None:
                self._moments.add(head)
            self._seen += len(head)
            if self._seen < bound:
                break
            reports += self._reach(bound)
        return reports

    def _next_bound(self, seen: int) -> int:
        windows = self._windows
        return windows.skip if seen < windows.skip else windows.ends[self._reports]

    def _reach(self, bound: int) -> list[int]:
        if bound == self._windows.skip:
            if self._moments is not None:
                self._moments.forget()
            return []
        number = self._reports
        self._reports += 1
        last = self._reports == len(self._windows.ends)
        if last:
            self._seen = None
        return [self._classify(number, last)]
