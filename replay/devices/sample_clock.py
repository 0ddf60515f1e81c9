"""A sample clock tells when a sample was taken, from what is known of a few of them."""

from typing import Protocol

LEAST_STEP = 0.1
"""Stamps never run backwards: each is later than the one before by this share of their usual distance."""


class SampleClock(Protocol):
    @property
    def offset_s(self) -> float: ...
    @property
    def drift_ppm(self) -> float: ...
    def restart(self) -> None:
        """A gap of unknown length: what was learnt before it holds no more."""

    def observe(self, index: int, arrival: float) -> None:
        """Sample `index` was the last one that had come by `arrival`."""

    def stamp(self, index: int) -> float:
        """LSL time of sample `index`; numbers only grow, and so do the stamps."""


class RisingStamps:
    """Keeps stamps from running backwards, however the clock that gives them is corrected."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._last: tuple[int, float] | None = None

    def after_the_last(self, index: int, stamp: float) -> float:
        if self._last is not None:
            last_index, last = self._last
            stamp = max(stamp, last + LEAST_STEP * (index - last_index) / self._rate)
        self._last = (index, stamp)
        return stamp


class GivenClock:
    """For a device whose stamps are good already (another LSL stream): they are kept."""

    drift_ppm = 0.0

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._known = (0, 0.0)
        self._rising = RisingStamps(rate)

    @property
    def offset_s(self) -> float:
        index, stamp = self._known
        return stamp - index / self._rate

    def restart(self) -> None:
        pass

    def observe(self, index: int, arrival: float) -> None:
        self._known = (index, arrival)

    def stamp(self, index: int) -> float:
        known, stamp = self._known
        return self._rising.after_the_last(index, stamp - (known - index) / self._rate)
