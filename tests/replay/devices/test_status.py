"""What the operator is statuses of a device: each thing once, with what it means."""

import json
from dataclasses import replace

import numpy as np
import pytest
from virtual_amplifier import Run, placed_triggers, recording

from replay.devices.chunk import Chunk, Placed
from replay.devices.status import MOST_TEXTS, DeviceStatus, StatusKeeper, count_not_finite
from replay.devices.timing import FittedClock, SampleTimeline


def kept() -> tuple[StatusKeeper, list[DeviceStatus]]:
    keeper, statuses = StatusKeeper("neuracle://amp:8712"), []
    keeper.listen(statuses.append)
    return keeper, statuses


def took(keeper: StatusKeeper, samples: np.ndarray, start: int = 0, **gap: object) -> None:
    placed = Placed(samples.astype(np.float32), (), start, **gap)  # type: ignore[arg-type]
    keeper.count(placed, FittedClock(1000))
    keeper.check(placed)


def test_a_state_is_reported_once():
    keeper, statuses = kept()
    for _ in range(3):
        keeper.set_state("connected")
    keeper.set_state("stalled", "no samples come")
    keeper.set_state("stalled", "no samples come")
    assert [status.state for status in statuses] == ["connected", "stalled"]


def test_only_the_way_into_reconnecting_counts_as_one():
    keeper, _ = kept()
    keeper.set_state("reconnecting", "closed")
    keeper.set_state("reconnecting", "refused")
    keeper.set_state("connected")
    keeper.set_state("reconnecting", "closed")
    assert keeper.now.reconnects == 2


def test_ordinary_chunks_are_counted_in_silence():
    keeper, statuses = kept()
    for _ in range(20):
        took(keeper, np.full((40, 2), 15.0))
    assert (keeper.now.samples, statuses) == (800, [])


@pytest.mark.parametrize(("exact", "words"), [(True, "30 samples"), (False, "about 30 samples")])
def test_a_gap_is_reported_with_its_size_and_place(exact, words):
    keeper, statuses = kept()
    took(keeper, np.ones((40, 2)), start=70, lost=30, exact=exact)
    assert statuses[0].detail == f"{words} lost before sample 70"
    assert (keeper.now.samples_lost, keeper.now.gaps, keeper.now.lost_exact) == (30, 1, exact)


def test_not_finite_samples_are_counted_and_reported_once():
    keeper, statuses = kept()
    bad = np.ones((40, 2))
    bad[[3, 9], [0, 1]] = (np.nan, np.inf)
    took(keeper, bad)
    took(keeper, bad)
    assert keeper.now.not_finite == 4
    assert len(statuses) == 1


@pytest.mark.parametrize(
    ("size", "doubted"), [(2e-5, True), (20.0, False), (20_000.0, True), (0.0, False)]
)
def test_a_unit_is_doubted_once_where_sizes_are_not_microvolts(size, doubted):
    keeper, statuses = kept()
    for _ in range(60):
        took(keeper, np.full((40, 3), size))
    assert len(statuses) == doubted


def test_a_unit_is_doubted_even_where_a_lead_is_always_nan():
    keeper, statuses = kept()
    samples = np.full((40, 3), 20_000.0)
    samples[:, 1] = np.nan
    for _ in range(20):
        took(keeper, samples)
    assert [status.detail.split(":")[0] for status in statuses] == [
        "samples that are NaN or infinite, the first at about 0",
        "the median size of the signal is 20000, in microvolts 0.001 to 1000 are usual",
    ]


class Arriving:
    """Chunks of 40 samples, placed, stamped and counted as they arrive; the time is ours."""

    def __init__(self, rate: float) -> None:
        self.now = 1000.0
        self.keeper = StatusKeeper("neuracle://amp:8712", lambda: self.now)
        self.statuses: list[DeviceStatus] = []
        self.keeper.listen(self.statuses.append)
        self.timeline = SampleTimeline(rate, FittedClock(rate))

    def chunk(self, after_s: float, lost: int | None = 0) -> None:
        self.now += after_s
        chunk = Chunk(np.full((40, 2), 15.0, np.float32), (), lost)
        placed = self.timeline.place(chunk, self.now)
        self.keeper.count(placed, self.timeline.clock)
        self.keeper.check(placed)

    def seconds(self, n: float, a_second: float = 1000.0) -> None:
        for _ in range(round(n * a_second / 40)):
            self.chunk(40 / a_second)

    def doubts(self) -> list[str]:
        return [
            status.detail for status in self.statuses if "samples a second come" in status.detail
        ]


@pytest.mark.parametrize(("rate", "come"), [(500, 1000), (2000, 1000), (1000, 500), (500, 512)])
def test_a_rate_that_is_not_the_devices_is_reported_once_within_some_ten_seconds(rate, come):
    device = Arriving(rate)
    device.seconds(4, come)
    assert device.doubts() == []
    device.seconds(7, come)
    (doubt,) = device.doubts()
    assert doubt.startswith(f"about {come} samples a second come, rate= is {rate}: check rate=")
    device.seconds(30, come)
    assert len(device.doubts()) == 1


def test_a_rate_is_not_doubted_where_a_device_stalls_loses_or_sends_late():
    device = Arriving(1000)
    device.seconds(8)
    for _ in range(4):  # it catches up
        device.chunk(2.0)
        for _ in range(49):
            device.chunk(0.0)
        device.seconds(3)
    for _ in range(4):  # it drops what it could not send, and says nothing: the clock is far off
        device.chunk(1.5)
        device.seconds(4)
    for lost in (400, None) * 4:  # it says so
        device.chunk(0.44, lost)
        device.seconds(2.5)
    for _ in range(25):  # a second and a half at once
        device.chunk(0.0)
    device.seconds(20)
    assert device.doubts() == []


def test_a_rate_is_not_doubted_where_the_network_is_slow_for_some_seconds():
    device = Arriving(1000)
    device.seconds(60)
    device.seconds(9, a_second=900)
    device.seconds(3, a_second=1300)
    device.seconds(20)
    assert device.doubts() == []


def test_what_everyone_may_know_has_numbers_and_no_words_of_the_device():
    keeper, _ = kept()
    keeper.note("the trigger text 'left_hand' is no number")
    took(keeper, np.full((40, 2), np.nan), start=30, lost=30, exact=False)
    keeper.set_resyncs(2)
    known = keeper.now.public
    assert known == "about 30 lost in 1 gaps, 0 reconnects, 2 resyncs, samples that are not finite"
    took(keeper, np.full((40, 2), np.nan), start=70)
    keeper.note("trigger 11 came too late")
    assert keeper.now.public == known


def test_a_status_can_be_sent_and_read():
    keeper, _ = kept()
    took(keeper, np.ones((40, 2)), start=30, lost=30, exact=False)
    keeper.set_state("stalled", "no samples come")
    sent = json.loads(json.dumps(keeper.now.as_dict()))
    assert sent["state"] == "stalled"
    assert sent["samples_lost"] == 30
    assert DeviceStatus(**sent) == keeper.now
    assert str(keeper.now) == (
        "neuracle://amp:8712: stalled (no samples come), 40 samples, about 30 lost in 1 gaps, "
        "0 reconnects, drift +0.0 ppm"
    )


def test_offset_and_drift_of_the_clock_are_reported():
    run = Run(recording(8), "raw")
    run.packets()
    status = run.keeper.now
    assert status.offset_s == pytest.approx(1000.001, abs=1e-3)
    assert status.drift_ppm == pytest.approx(0, abs=1)


def test_a_manual_trigger_is_placed_on_the_next_sample_of_a_device_without_markers():
    run = Run(recording(2, triggers=((400, 5),)), "raw")
    packets = []
    for packet in run.iterate():
        packets.append(packet)
        if packet.start == 360:
            run.manual_triggers.put(77)
    assert placed_triggers(packets) == [(400, 77), (400, 5)]


@pytest.mark.parametrize("protocol", ["raw", "heeg", "jellyfish", "jellyfish-modules"])
@pytest.mark.parametrize("at_s", [0.5004, 0.5199, 0.5399])
def test_a_manual_trigger_is_placed_on_the_sample_of_its_time_however_the_samples_were_sent(
    protocol, at_s
):
    """Sample i is sent (i + 1) ms after the start: the next one after at_s is known."""
    run = Run(recording(2), protocol, triggered_at_s=at_s)
    run.manual_triggers.put(77)
    assert placed_triggers(run.packets()) == [(int(at_s * 1000), 77)]


def test_a_manual_trigger_does_not_wait_for_stamps_that_are_wrong():
    run = Run(recording(3), "raw")
    late = ((replace(chunk, stamp=arrival - 100), arrival) for chunk, arrival in run.feed.chunks())
    run.feed.chunks = lambda _: late
    run.manual_triggers.put(77)
    ((place, code),) = placed_triggers(run.packets())
    assert code == 77
    assert 900 < place < 1200


def test_samples_that_are_not_finite_are_counted_once_each():
    samples = np.ones((5, 3), np.float32)
    samples[1, :2] = np.nan
    samples[3, 2] = -np.inf
    assert count_not_finite(samples) == 2
    assert count_not_finite(np.full((4, 2), 3e38, np.float32)) == 0


def test_a_text_is_noted_once():
    keeper, statuses = kept()
    for text in ("one", "one", "two", "one"):
        keeper.note_once(text)
    assert [status.detail for status in statuses] == ["one", "two"]


def test_many_different_notes_are_counted_and_memory_is_bounded():
    keeper, statuses = kept()
    for i in range(MOST_TEXTS + 12_345):
        keeper.note_once(f"frame {i} is broken")
    details = [status.detail for status in statuses]
    assert details[:MOST_TEXTS] == [f"frame {i} is broken" for i in range(MOST_TEXTS)]
    assert [int(text.split()[0]) for text in details[MOST_TEXTS:]] == [1, 10, 100, 1000, 10_000]
    assert "protocol=" in details[-1]
    assert len(keeper._noted) == MOST_TEXTS
