"""The clocks of the other hosts, as a replay follows them."""

import pytest

from bci_stream.clock import ManualClock
from replay.player.clocks import MEASURE_EVERY_S, HostClocks


class DriftingInlet:
    """A stream of a host whose clock is off, and runs too slowly by 20 ppm."""

    def __init__(self, clock: ManualClock, offset_s: float) -> None:
        self._clock = clock
        self._offset_s = offset_s

    def clock_offset_s(self) -> float:
        return self._offset_s + 20e-6 * self._clock.now()


def test_offset_drift_and_jitter_of_each_host() -> None:
    clock = ManualClock()
    clocks = HostClocks(clock.now)
    inlets = {"judge": DriftingInlet(clock, 0.0), "team alice": DriftingInlet(clock, -70.0)}
    for _ in range(20):
        clocks.measure(inlets)  # type: ignore[arg-type]
        clock.advance(MEASURE_EVERY_S)
    alice = clocks.readings["team alice"]
    assert alice["offset_s"] == pytest.approx(-70.0, abs=0.1)
    assert alice["drift_ppm"] == pytest.approx(20.0)
    assert alice["jitter_s"] == pytest.approx(0.0, abs=1e-9)
    clocks.measure({"judge": inlets["judge"]})  # type: ignore[dict-item]
    assert list(clocks.readings) == ["judge"]


def test_they_are_measured_beside_the_playing_thread_and_not_too_often() -> None:
    clock = ManualClock()
    clocks = HostClocks(clock.now)
    asked = []

    def inlets() -> dict[str, DriftingInlet]:
        asked.append(clock.now())
        return {"judge": DriftingInlet(clock, 1.0)}

    clocks.follow(inlets)  # type: ignore[arg-type]
    clock.advance(MEASURE_EVERY_S / 2)
    clocks.follow(inlets)  # type: ignore[arg-type]
    clocks.close()  # waits for the measurement
    assert len(asked) == 1
    assert clocks.readings["judge"]["offset_s"] == pytest.approx(1.0, abs=0.1)
