"""The windows of a motor imagery trial: how much of it each report may use, in samples."""

from dataclasses import dataclass

from bci_stream.packet import SignalInfo
from tracks.mi import IMAGERY_S, LIMITS_S

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
