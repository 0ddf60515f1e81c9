"""A device's status: what the operator is told while a device is on the wire."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

import numpy as np

from bci_stream.packet import FloatArray
from replay.devices.timing import LARGEST_SLOPE, FittedClock, Placed, SampleClock

WINDOW_S = 1.0
WINDOWS = 6
OFF = 0.01
"""No device's clock is wrong by so much: then its rate is another one."""


class RateWatch:
    """Counts from one arrival to another, so that the size of chunks does not matter.

    windows: how many seconds must agree. off: by what part of a rate a second may differ from it.
    """

    def __init__(self, windows: int = WINDOWS, off: float = OFF) -> None:
        self._windows, self._off = windows, off
        self._rates: deque[float] = deque(maxlen=windows)
        self.restart()

    @property
    def is_full(self) -> bool:
        """Whether all seconds that are to agree have been counted."""
        return len(self._rates) == self._windows

    def restart(self) -> None:
        """After a gap or a stall: what came before it can't be counted together with what follows."""
        self._rates.clear()
        self._since: float | None = None
        self._samples = 0

    def took(self, samples: int, now: float) -> None:
        if self._since is None:
            self._since = now
            return
        self._samples += samples
        passed_s = now - self._since
        if passed_s >= WINDOW_S:
            self._rates.append(self._samples / passed_s)
            self._since, self._samples = now, 0

    def agrees_with(self, rate: float) -> bool:
        """Whether the last second had as many samples as that."""
        return bool(self._rates) and abs(self._rates[-1] - rate) <= self._off * rate

    def other_than(self, rate: float) -> float | None:
        """What comes a second, where all of the last seconds agree that it is not `rate`.

        All of them: a second in which little came is followed by one in which the rest did.
        """
        low, high = (1 - self._off) * rate, (1 + self._off) * rate
        if not self.is_full or not (max(self._rates) < low or min(self._rates) > high):
            return None
        return median(self._rates)


State = Literal["connecting", "connected", "stalled", "reconnecting", "ended"]
USUAL_UV = (1e-3, 1000.0)
"""Where an EEG's median size lies in microvolts; far outside, the unit is another one."""

UNIT_AFTER_SAMPLES = 500


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """samples_lost counts all gaps; lost_exact: the device counted them all itself.

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
        """For the state file, which is the operator's own."""
        return {name: getattr(self, name) for name in self.__slots__}

    @property
    def losses(self) -> str:
        about = "" if self.lost_exact else "about "
        return f"{about}{self.samples_lost} lost in {self.gaps} gaps, {self.reconnects} reconnects"

    @property
    def public(self) -> str:
        """What everyone may know. A detail is not for everyone: it may quote a trigger.

        Nothing in it grows by itself, or else it would show when a detail was told.
        """
        words = self.losses + (f", {self.resyncs} resyncs" if self.resyncs else "")
        return words + (", samples that are not finite" if self.not_finite else "")

    def __str__(self) -> str:
        words = f"{self.device}: {self.state}" + (f" ({self.detail})" if self.detail else "")
        if not self.samples:
            return words
        words += f", {self.samples} samples, {self.losses}, drift {self.drift_ppm:+.1f} ppm"
        return words + (f", {self.not_finite} samples not finite" if self.not_finite else "")


Listener = Callable[[DeviceStatus], None]


class StatusKeeper:
    """Keeps one device's status, and calls the listeners when there is something to tell.

    They are called on the thread that reads the device, and a status is a value: keep it freely.
    now: by which samples are counted a second.
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
        """How many samples have come so far."""
        return self._samples

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def tell(self, state: State, detail: str = "") -> None:
        """A state begins; said once, however often it is told."""
        status = self._status
        if state == status.state and (not detail or detail == status.detail):
            return
        self._rate.restart()
        again = status.reconnects + (state == "reconnecting" != status.state)
        self._update(state=state, detail=detail, reconnects=again)

    def note(self, text: str) -> None:
        """Something to know that changes no state."""
        self._update(detail=text)

    def resyncs(self, count: int) -> None:
        if count > self._status.resyncs:
            text = "bytes that were no frame were skipped, and the next frame was found"
            self._update(resyncs=count, detail=text)

    def took(self, placed: Placed, clock: SampleClock) -> None:
        """Count a chunk, and tell of a gap before it."""
        self._clock = clock
        self._samples += len(placed.samples)
        if placed.lost or not placed.exact:
            self._tell_gap(placed)

    def look_at(self, placed: Placed) -> None:
        """Tell of the first NaN, and of a unit or a rate that can't be right."""
        if bad := count_not_finite(placed.samples):
            self._count_not_finite(bad, placed.start)
        if not self._unit_checked and self._samples >= UNIT_AFTER_SAMPLES:
            self._check_unit(placed.samples)
        if not self._rate_doubted and isinstance(self._clock, FittedClock):
            self._rate.took(len(placed.samples), self._time())
            self._check_rate(self._clock)

    def _tell_gap(self, placed: Placed) -> None:
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

    def _check_rate(self, clock: FittedClock) -> None:
        """A clock that can follow no further, while all seconds agree that samples come too fast or slow."""
        if abs(clock.drift_ppm) < 0.99e6 * LARGEST_SLOPE:
            return
        come = self._rate.other_than(clock.rate)
        if come is not None:
            self._rate_doubted = True
            self.note(
                f"about {come:.0f} samples a second come, rate= says {clock.rate:g}: check rate= and "
                "channels=, and the recorder's own rate"
            )

    def _update(self, **changes: object) -> None:
        self._status = replace(self._status, **changes)  # type: ignore[arg-type]
        status = self.now
        for listener in list(self._listeners):
            listener(status)


def count_not_finite(samples: FloatArray) -> int:
    """How many samples have a NaN or an infinity on some lead."""
    with np.errstate(all="ignore"):
        # One NaN or infinity spoils a sum, and a sum is cheap.
        if np.isfinite(samples.sum()):
            return 0
    return int((~np.isfinite(samples).all(axis=1)).sum())


MOST_TEXTS = 40
"""So many different notes are told; the rest is counted, and the count told now and then."""


class Notes:
    def __init__(self) -> None:
        self._told: set[str] = set()
        self._untold = 0
        self._waiting: list[str] = []

    def add(self, text: str) -> None:
        if text in self._told:
            return
        if len(self._told) < MOST_TEXTS:
            self._told.add(text)
            self._waiting.append(text)
            return
        self._untold += 1
        if str(self._untold).strip("0") == "1":  # 1, 10, 100, ...: never a flood
            self._waiting.append(
                f"{self._untold} more notes like the last ones: what the amplifier sends is not "
                "what we can read; check protocol= and the recorder's settings"
            )

    def take(self) -> list[str]:
        """What has not been given yet."""
        waiting, self._waiting = self._waiting, []
        return waiting
