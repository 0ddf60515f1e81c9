"""How well streams arrive: lag, jitter, gaps and losses, folded from time stamps. Times are in seconds."""

import math
from collections import deque
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

WINDOW: Final = 250
"""Packets, or pulls of samples, over which lag and jitter are measured."""


class DelayWindow:
    """Mean, largest and standard deviation of the last WINDOW delays."""

    def __init__(self) -> None:
        self._delays: deque[float] = deque(maxlen=WINDOW)

    def add(self, delay_s: float) -> None:
        if math.isfinite(delay_s):
            self._delays.append(delay_s)

    def summary(self) -> dict[str, float | None]:
        """lag_s: the median; worst_s; jitter_s: the standard deviation. None if there are no delays."""
        if not self._delays:
            return {"lag_s": None, "worst_s": None, "jitter_s": None}
        delays = np.array(self._delays)
        return {
            "lag_s": round(float(np.median(delays)), 6),
            "worst_s": round(float(delays.max()), 6),
            "jitter_s": round(float(delays.std()), 6),
        }


class LinkHealth:
    """The judge's view of a replay: how late packets left, and how long their notes took to arrive.

    missing: messages of the sealed stream that never came. offset_s: added to the replay's clock it gives the
    judge's.
    """

    def __init__(self) -> None:
        self._sending, self._transport = DelayWindow(), DelayWindow()
        self.packets = 0
        self.missing = 0
        self.offset_s = 0.0
        self.last_at: float | None = None

    def add_packet(self, due: float, left: float, arrived: float | None) -> None:
        self.packets += 1
        self._sending.add(left - due)
        if arrived is not None:
            self._transport.add(arrived - left)

    def summary(self, now: float) -> dict[str, Any]:
        silent_s = None if self.last_at is None else round(max(0.0, now - self.last_at), 3)
        return {
            "packets": self.packets,
            "missing": self.missing,
            "offset_s": round(self.offset_s, 6),
            "silent_s": silent_s,
            "sending": self._sending.summary(),
            "link": self._transport.summary(),
        }


class StreamHealth:
    """A consumer's view of a stream of samples with a regular rate.

    gaps: how often the stamps of two samples lie apart by more than one and a half periods; lost: samples
    that would fit in between. A pause of the replay counts as well: stamps alone do not tell it from a loss.
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._delays = DelayWindow()
        self._last_stamp: float | None = None
        self._regular = 0
        self.samples = 0
        self.gaps = 0
        self.lost = 0
        self.offset_s = 0.0
        self.last_at: float | None = None

    def add(self, stamps: NDArray[np.float64], now: float, offset_s: float) -> None:
        """Stamps (n,) of the sender's clock, pulled at `now`; offset_s: added to one it gives our clock."""
        if not len(stamps):
            return
        self.offset_s, self.last_at = offset_s, now
        self.samples += len(stamps)
        self._delays.add(now - (float(stamps[-1]) + offset_s))
        before = (
            stamps if self._last_stamp is None else np.concatenate([[self._last_stamp], stamps])
        )
        steps = np.diff(before) * self.rate
        is_regular = steps <= 1.5
        regular = self._regular + np.cumsum(is_regular)
        # Before the first packet there may be single samples: the handshake's probes.
        wide = steps[~is_regular & (regular > 0)]
        self._regular += int(is_regular.sum())
        self.gaps += len(wide)
        self.lost += int(np.round(wide - 1).sum())
        self._last_stamp = float(stamps[-1])

    def summary(self, now: float) -> dict[str, Any]:
        silent_s = None if self.last_at is None else round(max(0.0, now - self.last_at), 3)
        return {
            "rate": self.rate,
            "samples": self.samples,
            "gaps": self.gaps,
            "lost": self.lost,
            "offset_s": round(self.offset_s, 6),
            "silent_s": silent_s,
            **self._delays.summary(),
        }
