"""Status of a device: state, losses and notes, for the operator; and checks of what it sends."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Literal

import numpy as np

from bci_stream.packet import FloatArray
from replay.devices.chunk import Placed
from replay.devices.timing import SampleClock

WINDOW_S = 1.0
WINDOWS = 6
TOLERANCE = 0.01
"""Largest error of a device's clock, as a share; a rate that is further off is another rate."""


class RateWatch:
    """Counts samples in windows of a second, each from one arrival to another.

    windows: how many of them must agree. tolerance: largest deviation from a rate, as a share.
    """

    def __init__(self, windows: int = WINDOWS, tolerance: float = TOLERANCE) -> None:
        self._windows, self._tolerance = windows, tolerance
        self._rates: deque[float] = deque(maxlen=windows)
        self.restart()

    @property
    def is_full(self) -> bool:
        """Whether all windows have been counted."""
        return len(self._rates) == self._windows

    def restart(self) -> None:
        """Forget all counts: after a gap or a stall."""
        self._rates.clear()
        self._since: float | None = None
        self._samples = 0

    def count(self, samples: int, now: float) -> None:
        if self._since is None:
            self._since = now
            return
        self._samples += samples
        passed_s = now - self._since
        if passed_s >= WINDOW_S:
            self._rates.append(self._samples / passed_s)
            self._since, self._samples = now, 0

    def agrees_with(self, rate: float) -> bool:
        """Whether the last window had this rate."""
        return bool(self._rates) and abs(self._rates[-1] - rate) <= self._tolerance * rate

    def other_than(self, rate: float) -> float | None:
        """The observed rate, if all windows agree that it is higher, or that it is lower, than `rate`.

        After a stall, a window with too few samples is followed by one with too many.
        """
        low, high = (1 - self._tolerance) * rate, (1 + self._tolerance) * rate
        if not self.is_full or not (max(self._rates) < low or min(self._rates) > high):
            return None
        return median(self._rates)


State = Literal["connecting", "connected", "stalled", "reconnecting", "ended"]

USUAL_UV = (1e-3, 1000.0)
"""Range of an EEG's median amplitude in microvolts; far outside, the unit is another one."""

UNIT_AFTER_SAMPLES = 500

MOST_TEXTS = 40
"""Number of different texts that `note_once` reports; further ones are counted."""


@dataclass(frozen=True)
class DeviceStatus:
    """A snapshot. samples_lost: over all gaps; lost_exact: the device counted all of them.

    offset_s: LSL time of sample 0. drift_ppm: how much slower than nominal the device runs.
    """

    device: str
    state: State = "connecting"
    detail: str = ""
    samples: int = 0
    samples_lost: int = 0
    lost_exact: bool = True
    gaps: int = 0
    reconnects: int = 0
    not_finite: int = 0
    resyncs: int = 0
    offset_s: float = 0.0
    drift_ppm: float = 0.0

    def as_dict(self) -> dict[str, object]:
        """For the state file, which only the operator reads."""
        return asdict(self)

    @property
    def losses(self) -> str:
        about = "" if self.lost_exact else "about "
        return f"{about}{self.samples_lost} lost in {self.gaps} gaps, {self.reconnects} reconnects"

    @property
    def public(self) -> str:
        """What is sent to everyone. Details are left out, because they may quote a trigger.

        It contains no running count, so that it does not show when a detail was reported.
        """
        text = self.losses + (f", {self.resyncs} resyncs" if self.resyncs else "")
        return text + (", samples that are not finite" if self.not_finite else "")

    def __str__(self) -> str:
        text = f"{self.device}: {self.state}" + (f" ({self.detail})" if self.detail else "")
        if not self.samples:
            return text
        text += f", {self.samples} samples, {self.losses}, drift {self.drift_ppm:+.1f} ppm"
        return text + (f", {self.not_finite} samples not finite" if self.not_finite else "")


Listener = Callable[[DeviceStatus], None]


class StatusKeeper:
    """Owns one device's status and calls listeners at each change.

    Written by the reading thread, on which listeners are called too; `now` may be read by any thread.
    now: clock by which samples per second are counted.
    """

    def __init__(self, device: str, now: Callable[[], float] = time.monotonic) -> None:
        self._status = DeviceStatus(device)
        self._samples = 0
        self._clock: SampleClock | None = None
        self._listeners: list[Listener] = []
        self._unit_checked = False
        self._time = now
        self._rate = RateWatch()
        self._rate_doubted = False
        self._noted: set[str] = set()
        self._not_noted = 0

    @property
    def now(self) -> DeviceStatus:
        clock = self._clock
        return replace(
            self._status,
            samples=self._samples,
            offset_s=clock.offset_s if clock else 0.0,
            drift_ppm=clock.drift_ppm if clock else 0.0,
        )

    @property
    def samples(self) -> int:
        """Number of samples received so far."""
        return self._samples

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def set_state(self, state: State, detail: str = "") -> None:
        """Report a state; repeating the present one does nothing."""
        status = self._status
        if state == status.state and (not detail or detail == status.detail):
            return
        self._rate.restart()
        reconnects = status.reconnects + (state == "reconnecting" != status.state)
        self._update(state=state, detail=detail, reconnects=reconnects)

    def note(self, text: str) -> None:
        """Report something that does not change the state."""
        self._update(detail=text)

    def note_once(self, text: str) -> None:
        """Report each text once, and only so many texts: a device may send broken frames without end."""
        if text in self._noted:
            return
        if len(self._noted) < MOST_TEXTS:
            self._noted.add(text)
            self.note(text)
            return
        self._not_noted += 1
        if str(self._not_noted).strip("0") == "1":  # 1, 10, 100, ...
            self.note(
                f"{self._not_noted} more notes like the last ones: the data of the amplifier can't "
                "be read; check protocol= and the recorder's settings"
            )

    def set_resyncs(self, count: int) -> None:
        if count > self._status.resyncs:
            text = "bytes that were no frame were skipped, and the next frame was found"
            self._update(resyncs=count, detail=text)

    def count(self, placed: Placed, clock: SampleClock) -> None:
        """Count a chunk, and report a gap before it."""
        self._clock = clock
        self._samples += len(placed.samples)
        if placed.lost or not placed.exact:
            self._report_gap(placed)

    def check(self, placed: Placed) -> None:
        """Report the first NaN, and a unit or a rate that can't be right."""
        if bad := count_not_finite(placed.samples):
            self._count_not_finite(bad, placed.start)
        if not self._unit_checked and self._samples >= UNIT_AFTER_SAMPLES:
            self._check_unit(placed.samples)
        if not self._rate_doubted:
            self._rate.count(len(placed.samples), self._time())
            self._check_rate()

    def _report_gap(self, placed: Placed) -> None:
        status = self._status
        self._rate.restart()
        about = "" if placed.exact else "about "
        self._update(
            samples_lost=status.samples_lost + placed.lost,
            lost_exact=status.lost_exact and placed.exact,
            gaps=status.gaps + 1,
            detail=f"{about}{placed.lost} samples lost before sample {placed.start}",
        )

    def _count_not_finite(self, bad: int, start: int) -> None:
        first = not self._status.not_finite
        self._status = replace(self._status, not_finite=self._status.not_finite + bad)
        if first:
            self.note(f"samples that are NaN or infinite, the first at about {start}")

    def _check_unit(self, samples: FloatArray) -> None:
        sizes = np.median(np.abs(samples), axis=0)
        alive = sizes[np.isfinite(sizes) & (sizes > 0)]
        if not len(alive):
            return
        self._unit_checked = True
        typical = float(np.median(alive))
        if not USUAL_UV[0] <= typical <= USUAL_UV[1]:
            self.note(
                f"the median size of the signal is {typical:g}, in microvolts {USUAL_UV[0]:g} to "
                f"{USUAL_UV[1]:g} are usual: check the recorder's unit, and the electrodes"
            )

    def _check_rate(self) -> None:
        """Doubt the rate if the clock can follow no further and all windows agree."""
        clock = self._clock
        if clock is None or not clock.at_limit:
            return
        observed = self._rate.other_than(clock.rate)
        if observed is not None:
            self._rate_doubted = True
            self.note(
                f"about {observed:.0f} samples a second come, rate= is {clock.rate:g}: check rate= "
                "and channels=, and the recorder's own rate"
            )

    def _update(self, **changes: object) -> None:
        self._status = replace(self._status, **changes)  # type: ignore[arg-type]
        status = self.now
        for listener in list(self._listeners):
            listener(status)


def count_not_finite(samples: FloatArray) -> int:
    """Number of samples with a NaN or an infinity on some lead."""
    with np.errstate(all="ignore"):
        # A NaN or an infinity makes the sum not finite, and a sum is cheap.
        if np.isfinite(samples.sum()):
            return 0
    return int((~np.isfinite(samples).all(axis=1)).sum())
