"""A live session with leads and rate adapted to options and track."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.devices.adapt import LiveResampler, adapt_session
from replay.model.events import KnownEvents
from replay.model.options import SourceOptions
from replay.model.signal import ArraySignal
from replay.model.source import RawPacket
from replay.sources import open_source
from replay.transform.resample import ResampledEvents, ResampledSignal
from tracks.registry import TRACKS

NAMES = ("VEOL", "C4", "T3", "Cz", "Extra")


class Device:
    """A live source of one packet, whose lead k holds k."""

    uri = "neuracle://amp:8712"

    def __init__(self, *names: str, rate: float = 1000.0) -> None:
        self.subject, self.rate = "live", rate
        self.leads = tuple(Lead(name) for name in names)
        samples = np.tile(np.arange(len(names), dtype=np.float32), (40, 1))
        self.packet = RawPacket(samples, ((3, 11),), 80, 0, False, stamp=7.0)

    def packets(self, packet_samples):
        yield self.packet


def fitted(device: Device, track: str | None = None, **options):
    return adapt_session(device, device.uri, SourceOptions(track=track, **options))


def names(session) -> list[str]:
    return [lead.name for lead in session.leads]


def test_leads_come_in_the_tracks_order_under_its_names_with_notes():
    session = fitted(Device(*NAMES), "mi")
    assert names(session) == ["Cz", "C4", "T7", "VEOL"]
    assert session.leads[-1].kind == "EOG"
    (packet,) = session.packets(40)
    assert packet.samples[0].tolist() == [3, 1, 2, 0]
    assert packet.samples.flags.c_contiguous
    assert (packet.triggers, packet.start, packet.stamp) == (((3, 11),), 80, 7.0)
    notes = "\n".join(session.notes)
    for words in ("T3=T7", "mi's order", "left out: Extra", "60 of mi's leads are missing"):
        assert words in notes


def test_missing_leads_can_be_sent_flat_or_refused():
    session = fitted(Device("C4", "Cz"), "mi", missing="zero")
    assert names(session) == list(TRACKS["mi"].leads)
    (packet,) = session.packets(40)
    assert packet.samples.shape == (40, 64)
    assert packet.samples.sum() == 40  # Cz, which is lead 1 of the device
    with pytest.raises(SourceError, match="lacks 62 of mi's leads"):
        fitted(Device("C4", "Cz"), "mi", missing="refuse")


@pytest.mark.parametrize("track", ["mi", None])
def test_leads_can_be_renamed_and_selected(track):
    session = fitted(Device("a", "b", "Cz"), track, rename={"a": "C3"}, select=("Cz", "C3"))
    assert names(session) == ["Cz", "C3"]
    (packet,) = session.packets(40)
    assert packet.samples[0].tolist() == [2, 0]


@pytest.mark.parametrize(
    ("track", "leads"), [("mi", TRACKS["mi"].leads), (None, NAMES), ("mi", ("ch1", "ch2", "ch3"))]
)
def test_packets_whose_leads_are_right_or_unnamed_pass_untouched(track, leads):
    device = Device(*leads)
    session = fitted(device, track)
    assert names(session) == list(leads)
    (packet,) = session.packets(40)
    assert packet is device.packet


def test_leads_without_names_are_sent_with_a_note_on_naming_them():
    (note,) = fitted(Device("ch1", "ch2"), "mi").notes
    assert "none of mi's leads has its name here: all are sent as they are" in note
    assert "montage=" in note


def test_two_leads_of_one_place_are_reported():
    with pytest.raises(SourceError, match="two leads of one name: Cz"):
        fitted(Device("a", "Cz"), "mi", rename={"a": "Cz"}, select=("Cz", "Cz"))


def test_another_rate_than_the_tracks_becomes_the_tracks_and_is_reported():
    session = fitted(Device("Cz", rate=500.0), "mi")
    assert session.rate == 1000
    assert "resampled from 500 to 1000 Hz (the track's rate)" in session.notes[-1]
    packet = next(session.packets(40))
    assert packet.samples.shape == (40, 1)
    assert fitted(Device("Cz", rate=500.0)).rate == 500


def test_a_devices_uri_can_say_all_of_it():
    source = open_source(
        "neuracle://amp:8712?channels=3&rate=1000&select=ch2&missing=zero&rename=ch1=Cz"
    )
    assert source._options.select == ("ch2",)
    assert source._options.rename == {"ch1": "Cz"}
    assert source._options.missing == "zero"
    source.close()


RATE = 1000.0
FACTORS = [Fraction(1, 4), Fraction(5, 8), Fraction(125, 256), Fraction(2), Fraction(1)]


def packets(samples, triggers, sizes, starts=None, last=True):
    """The samples cut into packets of these sizes, stamped by their numbers."""
    found, at = [], 0
    for k, n in enumerate(sizes):
        start = at if starts is None else starts[k]
        own = tuple((i - at, code) for i, code in triggers if at <= i < at + n)
        stamp = 50 + (start + n - 1) / RATE
        is_last = last and k == len(sizes) - 1
        found.append(RawPacket(samples[at : at + n], own, start, 0, is_last, stamp))
        at += n
    return found


def resampled(raw, factor, packet_samples=10, leads=2):
    return list(LiveResampler(RATE, factor, leads).packets(iter(raw), packet_samples))


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(FACTORS),
    st.lists(st.integers(4, 90), min_size=1, max_size=20),
    st.lists(st.integers(0, 1800), max_size=12),
    st.integers(1, 40),
)
def test_any_packets_give_what_the_recording_gives(factor, sizes, places, packet_samples):
    n = sum(sizes)
    samples = np.random.default_rng(n).normal(0, 30, (n, 2)).astype(np.float32)
    triggers = tuple(sorted({(place, 1 + place % 9) for place in places if place < n}))
    up, down = factor.numerator, factor.denominator
    whole = ResampledSignal(ArraySignal(samples.T), up, down)
    events = ResampledEvents(KnownEvents(triggers), up, down, whole.n_samples)
    out = resampled(packets(samples, triggers, sizes), factor, packet_samples)
    got = np.concatenate([p.samples for p in out])
    np.testing.assert_array_equal(got, whole.read(0, whole.n_samples))
    assert tuple((p.start + i, code) for p in out for i, code in p.triggers) == events.all()
    if min(sizes) >= packet_samples * down // up:  # a short packet is followed by nothing for now
        assert all(len(p.samples) == packet_samples for p in out[:-1])
    assert [p.last_of_block for p in out] == [False] * (len(out) - 1) + [True]
    ends = [p.start + len(p.samples) - 1 for p in out]
    assert [p.stamp for p in out] == pytest.approx([50 + e * down / up / RATE for e in ends])


def test_after_a_gap_numbers_go_on_and_nothing_of_before_it_is_left():
    samples = np.concatenate([np.full((400, 2), 100), np.full((400, 2), -7)]).astype(np.float32)
    raw = packets(
        samples, ((399, 5), (402, 6)), [40] * 20, [k * 40 + 1001 * (k >= 10) for k in range(20)]
    )
    out = resampled(raw, Fraction(1, 4))
    after = [p for p in out if p.start >= 340]
    assert after[0].start == -(-1401 // 4)
    assert np.concatenate([p.samples for p in after]) == pytest.approx(-7, abs=1e-3)
    assert np.concatenate([p.samples for p in out if p.start < 340]) == pytest.approx(100, abs=1e-2)
    # 5 came just before the gap, behind the last new sample: it stands on the next one there is.
    assert [(p.start + i, code) for p in out for i, code in p.triggers] == [(351, 5), (351, 6)]


def test_its_memory_does_not_grow():
    resampler = LiveResampler(RATE, Fraction(1, 4), 2)
    samples = np.zeros((40, 2), np.float32)
    raw = (RawPacket(samples, (), 40 * k, 0, False, float(k)) for k in range(3000))
    assert sum(len(p.samples) for p in resampler.packets(raw, 10)) == 30_000
    assert len(resampler._segment._samples) < 500
