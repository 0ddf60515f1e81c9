"""A wait for an amplifier ends in its time, and says what was seen meanwhile."""

from collections.abc import Callable

import pytest
from virtual_amplifier import LEADS, Run, neuracle_feed, recording

from bci_stream.clock import ManualClock
from bci_stream.errors import SourceError
from replay.devices.emulator.encoders import JellyfishEncoder
from replay.devices.neuracle.heeg import HeegParser
from replay.devices.neuracle.jellyfish import JellyfishParser
from replay.devices.params import Timeouts
from replay.devices.status import StatusKeeper


class Idle:
    """A server that accepts connections and sends the same bytes each second."""

    address = "virtual:8712"

    def __init__(self, clock: ManualClock, data: bytes | None) -> None:
        self._clock, self._data = clock, data

    def connect(self, timeout_s: float) -> None: ...
    def receive(self, timeout_s: float, least_bytes: int, period_s: float) -> bytes | None:
        self._clock.advance(min(timeout_s, 1.0))
        return self._data if timeout_s > 0 else None

    def send(self, data: bytes) -> None: ...
    def disconnect(self) -> None: ...
    def interrupt(self) -> None: ...


class Unreachable(Idle):
    def connect(self, timeout_s: float) -> None:
        self._clock.advance(timeout_s)
        raise TimeoutError(f"no answer within {timeout_s:g} s")


def given_up(
    make: Callable[[ManualClock], Idle], parser: JellyfishParser | HeegParser, wait_s: float
) -> tuple[str, float, str]:
    """The error, how long it took, and all that was told before it."""
    clock, keeper, told = ManualClock(), StatusKeeper("virtual"), []
    keeper.listen(lambda status: told.append(status.detail))
    feed = neuracle_feed(make(clock), lambda: parser, clock, keeper, Timeouts(first_s=wait_s))
    began = clock.now()
    with pytest.raises(SourceError) as caught:
        feed.open()
    return str(caught.value), clock.now() - began, "\n".join(told)


@pytest.mark.parametrize("wait_s", [0.1, 2, 7, 10.5, 30])
@pytest.mark.parametrize(
    "make",
    [
        lambda clock: Idle(clock, None),
        lambda clock: Idle(clock, b"HTTP/1.1 400 Bad Request"),
        lambda clock: Unreachable(clock, None),
    ],
)
def test_a_wait_ends_in_its_time(make, wait_s):
    error, took_s, _ = given_up(make, HeegParser(), wait_s)
    assert took_s == pytest.approx(wait_s)
    assert f"for {wait_s:g} s" in error


def test_an_amplifier_that_only_says_what_it_measures_is_idle_not_unreadable():
    meta = JellyfishEncoder(1000, LEADS).greeting()
    error, _, told = given_up(lambda clock: Idle(clock, meta), JellyfishParser(), 7)
    for text in (error, told):
        assert "only describes itself and sends no samples: start the recording" in text
        assert "no sample can be read" not in text


def test_bytes_that_are_no_frames_are_unreadable_for_jellyfish_too():
    error, _, _ = given_up(lambda clock: Idle(clock, b"x" * 99), JellyfishParser(), 7)
    assert "bytes come from which no sample can be read" in error


def test_a_stall_is_no_loss_however_short_a_reconnect_may_take():
    run = Run(recording(6), "raw", ["stall@1:3"], Timeouts(reconnect_s=0))
    assert sum(len(packet.samples) for packet in run.iterate()) == 6000
    assert run.states == ["connected", "stalled", "connected", "ended"]


def test_without_time_to_reconnect_a_loss_is_the_end():
    run = Run(recording(6), "raw", ["eof@1"], Timeouts(reconnect_s=0))
    with pytest.raises(SourceError, match="for 0 s: the amplifier closed the connection"):
        run.packets()
    assert run.connection.connects == 1
