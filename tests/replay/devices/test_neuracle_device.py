"""Neuracle amplifiers: rate probe, timeouts, merged chunks."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_amplifier import LEADS, Run, neuracle_feed, recording

from bci_stream.clock import ManualClock
from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.emulator.encoders import JellyfishEncoder
from replay.devices.neuracle.device import RateProbe, _merge
from replay.devices.neuracle.heeg import HeegParser
from replay.devices.neuracle.jellyfish import JellyfishParser
from replay.devices.neuracle.raw import RawParser
from replay.devices.params import Timeouts
from replay.devices.status import StatusKeeper
from replay.devices.timing import SampleTimeline

GIVEN = DeviceInfo(1000.0, tuple(Lead(f"E{n}") for n in range(129)))


def probed_after_s(rows: list[tuple[int, float]]) -> float | None:
    """When a look at chunks of so many rows, each so long after the last, was enough."""
    probe, now = RateProbe(GIVEN), 100.0
    for n, after_s in rows:
        now += after_s
        probe.add(Chunk(np.zeros((n, 129), np.float32)), now)
        if probe.passed:
            return now - 100.0
    return None


def named(count: int) -> tuple[Lead, ...]:
    return tuple(Lead(f"E{n}") for n in range(count))


@given(leads=st.integers(1, 12), fold=st.integers(2, 6))
def test_rows_that_are_several_real_ones_are_refused_before_anything_is_published(leads, fold):
    wrong = DeviceInfo(1000.0, named(fold * (leads + 1) - 1))
    source = recording(12, leads=named(leads))
    run = Run(source, "raw", parser=RawParser(wrong))
    with pytest.raises(SourceError) as refusal:
        run.feed.open()
    assert f"about {1000 / fold:.0f} samples a second come, rate= is 1000" in str(refusal.value)
    assert f"would be channels={leads}," in str(refusal.value)
    assert run.keeper.now.samples == 0


def test_an_emulator_that_sends_half_of_a_row_is_refused():
    with pytest.raises(SourceError, match="rate=1000 these bytes would be channels=1,"):
        Run(recording(12), "raw", ["channels:-2"]).feed.open()


@pytest.mark.parametrize("given", [250, 500, 900, 1100, 2000])
def test_a_rate_that_is_not_the_amplifiers_is_refused(given):
    run = Run(recording(30), "raw", parser=RawParser(DeviceInfo(given, LEADS)))
    with pytest.raises(SourceError, match=f"rate= is {given}: .*with channels=3 .* rate=1000"):
        run.feed.open()


@pytest.mark.parametrize("protocol", ["raw", "raw-uint"])
def test_what_is_right_is_accepted_after_a_second(protocol):
    run = Run(recording(4), protocol)
    began = run.clock.now()
    assert run.feed.open() == DeviceInfo(1000, LEADS)
    assert run.clock.now() - began < 1.2


@pytest.mark.parametrize("protocol", ["heeg", "jellyfish"])
def test_an_amplifier_that_describes_itself_is_accepted_at_once(protocol):
    run = Run(recording(4), protocol)
    began = run.clock.now()
    assert run.feed.open().rate == 1000
    assert run.clock.now() - began < 0.2


@pytest.mark.parametrize(
    "fault",
    ["stall@0.5:1", "stall@0.3:3", "gap@0.5:0.3", "eof@0.5", "rst@0.9", "refuse@0.5:1", "nan@0.2"],
)
def test_a_fault_in_the_first_second_is_no_wrong_setting(fault):
    run = Run(recording(12), "raw", [fault])
    began = run.clock.now()
    assert run.feed.open().rate == 1000
    assert run.clock.now() - began < 6


def test_what_had_queued_up_before_the_connection_is_no_rate():
    took_s = probed_after_s([(40, 0.04), (4000, 0.001), *[(40, 0.04)] * 60])
    assert took_s is not None
    assert 2.0 < took_s < 2.5


def test_a_link_that_hangs_for_half_of_each_second_is_no_wrong_setting():
    halting = [(40, 1.0), *[(600, 1.0), (1400, 1.0)] * 3]
    assert probed_after_s(halting) == pytest.approx(6.0)


def test_chunks_of_more_than_a_second_are_counted_by_their_own_time():
    assert probed_after_s([(2500, 2.5)] * 3) == pytest.approx(5.0)


def test_a_connection_that_never_lasts_a_second_is_given_up():
    breaks = [f"eof@{at / 10:g}" for at in range(3, 60, 5)]
    with pytest.raises(SourceError, match="broke 5 times"):
        Run(recording(12), "raw", breaks).feed.open()


def test_an_amplifier_that_goes_in_its_first_second_is_waited_for_as_at_the_start():
    run = Run(recording(60), "raw", ["refuse@0.5:50"], Timeouts(first_s=7))
    with pytest.raises(SourceError, match=r"no samples .* for 7 s: can't connect"):
        run.feed.open()


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


def give_up(
    make: Callable[[ManualClock], Idle], parser: JellyfishParser | HeegParser, wait_s: float
) -> tuple[str, float, str]:
    """The error, how long it took, and all that was details before it."""
    clock, keeper, details = ManualClock(), StatusKeeper("virtual"), []
    keeper.listen(lambda status: details.append(status.detail))
    feed = neuracle_feed(make(clock), lambda: parser, clock, keeper, Timeouts(first_s=wait_s))
    began = clock.now()
    with pytest.raises(SourceError) as caught:
        feed.open()
    return str(caught.value), clock.now() - began, "\n".join(details)


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
    error, took_s, _ = give_up(make, HeegParser(), wait_s)
    assert took_s == pytest.approx(wait_s)
    assert f"for {wait_s:g} s" in error


def test_an_amplifier_that_only_describes_itself_is_idle_not_unreadable():
    meta = JellyfishEncoder(1000, LEADS).greeting()
    error, _, details = give_up(lambda clock: Idle(clock, meta), JellyfishParser(), 7)
    for text in (error, details):
        assert "only describes itself and sends no samples: start the recording" in text
        assert "no sample can be read" not in text


def test_bytes_that_are_no_frames_are_unreadable_for_jellyfish_too():
    error, _, _ = give_up(lambda clock: Idle(clock, b"x" * 99), JellyfishParser(), 7)
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


SIZES = st.lists(st.tuples(st.integers(1, 5), st.sampled_from([0, 0, 0, 7, None])), min_size=1)


def chunks_of(sizes: list[tuple[int, int | None]]) -> list[Chunk]:
    chunks, at = [], 0
    for n, lost in sizes:
        values = np.arange(at, at + n, dtype=np.float32)
        triggers = ((0, at + 1), (n - 1, at + 2))
        chunks.append(Chunk(np.column_stack([values, values]), triggers, lost))
        at += n
    return chunks


def placed(chunks: list[Chunk]) -> tuple[list[int], list[float], list[tuple[int, int]]]:
    line, numbers, values, triggers = SampleTimeline(100), [], [], []
    for chunk in chunks:
        at = line.place(chunk, 5.0)
        numbers += range(at.start, at.stop)
        values += at.samples[:, 0].tolist()
        triggers += [(at.start + offset, code) for offset, code in at.triggers]
    return numbers, values, triggers


@given(SIZES)
def test_merged_chunks_hold_the_same_samples_triggers_and_gaps(sizes):
    chunks = chunks_of(sizes)
    fewer = _merge(chunks, 5.0)
    assert placed(fewer) == placed(chunks)
    assert len(fewer) == 1 + sum(lost != 0 for _, lost in sizes[1:])


def test_the_last_chunk_has_the_number_held_back():
    first, second = chunks_of([(3, 0), (2, 0)])
    held = [Chunk(first.samples, newer=20), Chunk(second.samples, newer=18)]
    assert [chunk.newer for chunk in _merge(held, 5.0)] == [18]
