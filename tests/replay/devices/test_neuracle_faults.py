"""Every fault that an amplifier can make ends as it should; in virtual time, so nothing sleeps."""

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from virtual_amplifier import LEADS, Run, counters, placed_triggers, positions, recording

from bci_stream.errors import SourceError
from replay.devices.chunk import DeviceInfo
from replay.devices.neuracle.heeg import HeegParser
from replay.devices.neuracle.raw import MisalignedError, RawParser
from replay.devices.params import Timeouts
from replay.model.source import RawPacket

PROTOCOLS = ("raw", "raw-uint", "heeg", "jellyfish", "jellyfish-modules")
COUNTING = ("jellyfish", "jellyfish-modules")
FRAMED = ("heeg", *COUNTING)


def check_nothing_invented(run: Run, packets: list, seconds: float) -> None:
    """Each sample is one of the recording's, once, in order, and its number keeps its time."""
    counted = counters(packets)
    assert counted == sorted(set(counted))
    assert set(counted) <= set(range(1, round(seconds * 1000) + 1))
    places = positions(packets)
    assert places == sorted(set(places))
    stamps = [packet.stamp for packet in packets]
    assert stamps == sorted(stamps)
    assert run.keeper.now.samples == len(counted)
    assert run.keeper.now.samples_lost == places[-1] + 1 - len(places)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_without_a_fault_every_sample_and_trigger_arrives(protocol):
    triggers = ((3, 5), (1000, 241), (1001, 12), (1999, 200))
    run = Run(recording(2.1, triggers=triggers), protocol, segment=1448)
    packets = run.packets()
    assert counters(packets)[:2000] == list(range(1, 2001))
    assert positions(packets) == list(range(len(counters(packets))))
    assert placed_triggers(packets) == list(triggers)
    assert run.states == ["connected", "ended"]
    assert run.keeper.now.samples_lost == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", ["eof@1", "rst@1", "half@1", "refuse@1:2"])
def test_a_connection_that_ends_is_made_again_and_the_gap_is_shown(protocol, fault):
    seconds = 6 if fault.startswith("refuse") else 3
    run = Run(recording(seconds), protocol, [fault])
    packets = run.packets()
    check_nothing_invented(run, packets, seconds)
    assert run.states == ["connected", "reconnecting", "connected", "ended"]
    assert run.keeper.now.reconnects == 1
    assert run.keeper.now.gaps == 1
    gap = [b.start - a.start - len(a.samples) for a, b in pairwise(packets)]
    assert sum(jump > 0 for jump in gap) == 1
    away_s = 2.0 if fault.startswith("refuse") else 0.1
    assert away_s * 1000 - 100 <= sum(gap) <= away_s * 1000 + 1100
    assert counters(packets)[-1] >= 1000 * seconds - 100


@pytest.mark.parametrize("protocol", COUNTING)
def test_what_a_counting_amplifier_lost_is_exact(protocol):
    run = Run(recording(6), protocol, ["refuse@1:2"])
    packets = run.packets()
    assert [int(p.samples[0, 0]) - 1 for p in packets] == [p.start for p in packets]
    assert run.keeper.now.lost_exact


@pytest.mark.parametrize("protocol", ["raw", "heeg"])
def test_what_another_one_lost_is_measured_by_time_and_approximate(protocol):
    run = Run(recording(6), protocol, ["refuse@1:2"])
    packets = run.packets()
    off = max(abs(int(p.samples[0, 0]) - 1 - p.start) for p in packets)
    assert off <= 40
    assert not run.keeper.now.lost_exact
    assert "about" in run.details()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_half_a_packet_at_the_end_is_dropped(protocol):
    run = Run(recording(3), protocol, ["half@1"])
    packets = run.packets()
    check_nothing_invented(run, packets, 3)
    assert run.keeper.now.resyncs == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stall_is_reported_and_nothing_is_made_up(protocol):
    run = Run(recording(6), protocol, ["stall@1:2"])
    packets = run.packets()
    check_nothing_invented(run, packets, 6)
    assert run.states == ["connected", "stalled", "connected", "ended"]
    assert run.keeper.now.samples_lost == 0
    assert counters(packets)[:5900] == list(range(1, 5901))


def test_during_a_stall_no_packet_leaves():
    run = Run(recording(6), "raw", ["stall@1:3"])
    left = [(packet.start, run.clock.now() - 1000) for packet in run.iterate()]
    assert not [start for start, at in left if 1.05 < at < 3.9]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stall_without_end_is_a_dead_connection(protocol):
    timeouts = Timeouts(dead_s=1.5)
    run = Run(recording(8), protocol, ["stall@1:4"], timeouts)
    packets = run.packets()
    check_nothing_invented(run, packets, 8)
    assert run.states[:3] == ["connected", "stalled", "reconnecting"]
    assert re.search(r"open, but no samples come \(1\.[56] s\)", run.details())
    missed = range(1100, 2400)  # measured while the connection was down
    assert not set(missed) & set(counters(packets))


@pytest.mark.parametrize("protocol", ["raw", "raw-uint"])
@pytest.mark.parametrize("fault", ["channels:-1", "channels:1", "channels:5", "big-endian"])
def test_a_wrong_width_or_byte_order_is_refused_and_never_published(protocol, fault):
    run = Run(recording(2), protocol, [fault])
    with pytest.raises(MisalignedError, match="channels="):
        run.packets()
    assert run.keeper.now.samples == 0


def test_a_wrong_channel_count_of_ours_is_refused_too():
    parser = RawParser(DeviceInfo(1000.0, LEADS[:2]))
    run = Run(recording(2), "raw", parser=parser)
    with pytest.raises(MisalignedError, match="channels="):
        run.packets()
    assert run.keeper.now.samples == 0


def test_frames_of_another_width_than_before_are_refused():
    run = Run(recording(2), "heeg", ["channels@1:-1"])
    taken: list[RawPacket] = []
    with pytest.raises(SourceError, match="changed from 3 leads at 1000 Hz to 2"):
        taken.extend(run.iterate())
    assert counters(taken) == list(range(1, 1001))


def test_garbage_in_mid_stream_after_a_long_time_is_a_lost_connection():
    run = Run(recording(14), "raw", ["garbage@12:3"])
    packets = run.packets()
    check_nothing_invented(run, packets, 14)
    assert run.states == ["connected", "reconnecting", "connected", "ended"]
    assert "bytes were lost" in run.details()


def test_garbage_soon_after_the_start_is_a_wrong_setting():
    run = Run(recording(14), "raw", ["garbage@2:3"])
    with pytest.raises(MisalignedError):
        run.packets()


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("fault", ["nan@1", "inf@1"])
def test_samples_that_are_not_finite_are_passed_on_counted_and_reported_once(protocol, fault):
    run = Run(recording(2.1), protocol, [fault])
    packets = run.packets()
    bad = [
        packet.start + i
        for packet in packets
        for i in np.flatnonzero(~np.isfinite(packet.samples[:, 0]))
    ]
    assert bad
    assert 1000 in bad
    assert run.keeper.now.not_finite == len(bad)
    assert run.details().count("NaN or infinite") == 1


@pytest.mark.parametrize("protocol", FRAMED)
@pytest.mark.parametrize("fault", ["bad-tail@1", "absurd-length@1", "garbage@1"])
def test_broken_frames_are_found_past_and_the_loss_is_shown(protocol, fault):
    run = Run(recording(3), protocol, [fault], segment=700)
    packets = run.packets()
    check_nothing_invented(run, packets, 3)
    assert run.keeper.now.resyncs >= 1
    assert run.states == ["connected", "ended"]
    assert counters(packets)[-1] >= 2900
    missing = 2900 - sum(c <= 2900 for c in counters(packets))
    assert missing == 0 if fault.startswith("garbage") else 1 <= missing <= 40
    if protocol in COUNTING or not fault.startswith("garbage"):
        assert [int(p.samples[0, 0]) - 1 for p in packets] == [p.start for p in packets]
        assert run.keeper.now.lost_exact


@pytest.mark.parametrize("protocol", FRAMED)
def test_a_head_inside_the_samples_breaks_nothing(protocol):
    run = Run(recording(3), protocol, ["token@1"], segment=700)
    packets = run.packets()
    assert positions(packets) == list(range(len(positions(packets))))
    assert run.keeper.now.resyncs == 0


@pytest.mark.parametrize("protocol", COUNTING)
def test_a_gap_is_recorded_and_a_repeat_dropped(protocol):
    run = Run(recording(3), protocol, ["gap@1:0.4", "repeat@2"])
    packets = run.packets()
    check_nothing_invented(run, packets, 3)
    assert run.keeper.now.samples_lost == 400
    assert [int(p.samples[0, 0]) - 1 for p in packets] == [p.start for p in packets]
    assert "400 samples lost before sample" in run.details()


@pytest.mark.parametrize("protocol", ["raw", "heeg"])
@pytest.mark.parametrize("gap_s", [0.4, 1.5])
def test_an_uncounted_gap_is_found_by_time(protocol, gap_s):
    run = Run(recording(8), protocol, [f"gap@3:{gap_s}"])
    packets = run.packets()
    check_nothing_invented(run, packets, 8)
    status = run.keeper.now
    assert (status.gaps, status.lost_exact) == (1, False)
    assert status.samples_lost == pytest.approx(8000 - status.samples, abs=5)
    assert status.samples_lost == pytest.approx(1000 * gap_s, abs=40)  # whole frames
    after = [p for p in packets if p.samples[0, 0] > 3000]
    assert [p.start + 1 for p in after] == pytest.approx([p.samples[0, 0] for p in after], abs=5)
    last = packets[-1]
    assert last.stamp == pytest.approx(1000 + last.samples[-1, 0] / 1000, abs=0.01)


@pytest.mark.parametrize("protocol", ["raw", "heeg"])
def test_a_stall_that_is_made_up_for_is_no_gap(protocol):
    run = Run(recording(8), protocol, ["stall@3:1.5"], segment=700)
    packets = run.packets()
    assert positions(packets) == list(range(8000))
    assert (run.keeper.now.gaps, run.keeper.now.samples_lost) == (0, 0)


@pytest.mark.parametrize("protocol", COUNTING)
def test_a_wrap_of_the_devices_clock_is_nothing(protocol):
    run = Run(recording(3), protocol, ["wrap:1.5"])
    packets = run.packets()
    check_nothing_invented(run, packets, 3)
    assert run.keeper.now.samples_lost == 0


@pytest.mark.parametrize("protocol", COUNTING)
def test_data_before_meta_is_waited_over(protocol):
    run = Run(recording(2), protocol, ["data-first:0.6"])
    packets = run.packets()
    assert counters(packets)[0] == pytest.approx(601, abs=40)
    assert run.states[-2:] == ["connected", "ended"]


@pytest.mark.parametrize("protocol", COUNTING)
def test_other_leads_after_a_reconnect_are_refused(protocol):
    run = Run(recording(3), protocol, ["eof@1", "new-meta"])
    taken: list[RawPacket] = []
    with pytest.raises(SourceError, match="changed since the stream began"):
        taken.extend(run.iterate())
    assert counters(taken)[-1] <= 1040


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_held_trigger_is_one_trigger(protocol):
    triggers = ((500, 7), (1035, 8), (1500, 8))
    run = Run(recording(2.1, triggers=triggers), protocol, ["hold:25"])
    assert placed_triggers(run.packets()) == list(triggers)


def test_an_amplifier_that_never_answers_is_given_up_with_advice():
    timeouts = Timeouts(first_s=3, reconnect_s=3)
    run = Run(recording(20), "raw", ["refuse@1:15"], timeouts)
    with pytest.raises(
        SourceError, match=r"virtual:8712 for 3 s: can't connect: .*refused.*firewall"
    ):
        run.packets()
    assert run.connection.connects < 12


def test_an_amplifier_that_hangs_up_at_once_is_not_reconnected_in_a_hurry():
    faults = [f"half@{0.04 * i:.2f}" for i in range(500)]
    run = Run(recording(20), "raw", faults, Timeouts(first_s=10, reconnect_s=10))
    with pytest.raises(SourceError, match="for 10 s: the amplifier closed the connection"):
        run.packets()
    assert run.connection.connects <= 14


def test_opening_reports_what_is_wrong_when_bytes_make_no_frames():
    run = Run(recording(20), "raw", timeouts=Timeouts(first_s=6), parser=HeegParser())
    with pytest.raises(SourceError, match=r"no sample can be read.*protocol="):
        run.feed.open()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_was_seen_while_looking_is_not_sent_later(protocol):
    run = Run(recording(5), protocol)
    assert run.feed.open().leads
    run.clock.advance(1.0)  # while the replay waits for the teams
    packets = run.packets()
    assert counters(packets)[0] > 1000
    assert [len(packet.samples) for packet in packets[:-1]] == [40] * (len(packets) - 1)
    assert packets[0].start == 0
    assert run.keeper.now.samples_lost == 0


def test_other_leads_than_were_found_at_first_are_refused():
    run = Run(recording(5), "jellyfish", ["new-meta"])
    run.feed.open()
    with pytest.raises(SourceError, match="changed its leads or rate since it was found"):
        run.packets()


def test_a_unit_that_is_not_microvolts_is_reported():
    source = recording(2)
    source.blocks[0].data[:] *= np.float32(1e-6)  # volts
    run = Run(source, "raw")
    run.packets()
    assert "in microvolts" in run.details()


def test_a_closed_session_ends():
    run = Run(recording(5), "raw")
    taken = []
    for packet in run.iterate():
        taken.append(packet)
        if len(taken) == 10:
            run.session.close()
    assert len(taken) in (10, 11)
    assert run.keeper.now.state == "ended"
    assert math.isclose(run.clock.now(), 1000.4, abs_tol=0.1)
