"""Any stream of a transport as a device; over the in-memory twin of LSL, in no time at all."""

import math
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from bci_stream.wire.memory import (
    MemorySampleInlet,
    MemorySampleOutlet,
    MemoryTextInlet,
    MemoryTextOutlet,
    MemoryTransport,
)
from bci_stream.wire.transport import ChannelFormat, FoundStream, StreamSpec
from replay.devices.live import LiveSource
from replay.devices.registry import open_device
from replay.devices.status import DeviceStatus
from replay.model.event_map import EventMap
from replay.model.events import text_of
from replay.model.options import SourceOptions
from replay.model.source import RawPacket

RATE = 100.0


class Lab:
    """A signal stream and a marker stream, pushed by hand, with stamps of their own."""

    def __init__(self, leads: tuple[Lead, ...], name: str = "amp", marker_name: str = "") -> None:
        self.transport = MemoryTransport()
        self.leads, self.name = leads, name
        self.signal: MemorySampleOutlet = self.open()
        self.markers: MemoryTextOutlet | None = None
        self.marker_name = marker_name
        if marker_name:
            self.open_markers()
        self.sent = 0

    def open(self) -> MemorySampleOutlet:
        spec = StreamSpec(self.name, "EEG", f"{self.name}-id", "float32", RATE, self.leads)
        return self.transport.sample_outlet(spec)

    def open_markers(self) -> None:
        spec = StreamSpec(self.marker_name, "Markers", f"{self.marker_name}-id")
        self.markers = self.transport.text_outlet(spec)

    def push(self, n: int, codes: dict[int, float] | None = None, skip: int = 0) -> None:
        self.sent += skip
        index = np.arange(self.sent, self.sent + n)
        rows = np.tile(index[:, None], (1, len(self.leads))).astype(np.float32)
        if codes is not None:
            rows[:, -1] = [codes.get(i, 0) for i in index.tolist()]
        self.signal.push(rows, (500 + index / RATE).tolist())
        self.sent += n

    def source(self, rest: str = "amp", **params: str) -> LiveSource:
        source = open_device("lsl", rest, {"wait_s": "5", **params}, self.transport)
        assert isinstance(source, LiveSource)
        return source


def pushed_later(lab: Lab, *steps: Callable[[], None]) -> threading.Thread:
    """Pushes once the inlet is there: a memory stream keeps nothing for who comes later."""

    def run() -> None:
        stream = lab.signal
        while not stream.has_consumers():
            wait.wait(0.001)
        for step in steps:
            step()

    wait = threading.Event()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def take(source: LiveSource, lab: Lab, enough: int, *steps: Callable[[], None]) -> list[RawPacket]:
    (session,) = source.sessions()
    pushed_later(lab, *steps)
    packets = []
    for packet in session.packets(10):
        packets.append(packet)
        if len(packets) >= enough:
            source.close()
    return packets


def details(source: LiveSource) -> list[str]:
    """What the user is notes from now on."""
    notes: list[str] = []
    source.listen(lambda status: notes.append(status.detail))
    return notes


EEG = (Lead("C3"), Lead("C4"))


def test_samples_keep_their_values_names_and_stamps():
    lab = Lab(EEG)
    source = lab.source()
    (session,) = source.sessions()
    assert [lead.name for lead in session.leads] == ["C3", "C4"]
    assert session.rate == RATE
    packets = take(source, lab, 3, lambda: lab.push(30))
    assert [p.start for p in packets[:3]] == [0, 10, 20]
    assert [p.stamp for p in packets[:3]] == pytest.approx([500.09, 500.19, 500.29])
    assert packets[1].samples[:, 0].tolist() == list(range(10, 20))


def test_stamps_of_another_machine_are_turned_into_ours(monkeypatch):
    """Samples and markers alike: else a marker would look for its sample at another time."""
    monkeypatch.setattr(MemorySampleInlet, "clock_offset_s", lambda _: 1000.0)
    monkeypatch.setattr(MemoryTextInlet, "clock_offset_s", lambda _: 1000.0)
    lab = Lab(EEG, marker_name="events")

    def mark() -> None:
        assert lab.markers is not None
        lab.markers.push("51", 500 + 12 / RATE)

    source = lab.source(markers="events")
    packets = take(source, lab, 3, mark, lambda: lab.push(50))
    assert [p.stamp for p in packets[:3]] == pytest.approx([1500.09, 1500.19, 1500.29])
    assert [(p.start + i, c) for p in packets for i, c in p.triggers] == [(12, 51)]


def test_a_trigger_channel_becomes_triggers_and_no_lead():
    lab = Lab((*EEG, Lead("TRIGGER", "STIM")))
    source = lab.source()
    packets = take(source, lab, 2, lambda: lab.push(20, {3: 7, 4: 7, 12: 9}))
    assert packets[0].samples.shape[1] == 2
    assert [p.triggers for p in packets] == [((3, 7),), ((2, 9),)]


def test_a_channel_that_only_sounds_like_one_can_be_kept():
    lab = Lab((*EEG, Lead("TRIGGER", "STIM")))
    (session,) = lab.source(trigger="none").sessions()
    assert len(session.leads) == 3
    with pytest.raises(SourceError, match="trigger=Status is no channel"):
        next(lab.source(trigger="Status").sessions())


def test_what_is_no_code_is_no_trigger_and_is_reported_once():
    lab = Lab((*EEG, Lead("TRIGGER", "STIM")))
    wrong = [100_000, -3, math.inf, 0.4, 2.6, 1e12, math.nan, 65_536]
    codes: dict[int, float] = {2 * i: code for i, code in enumerate(wrong)}
    source = lab.source()
    notes = details(source)
    packets = take(source, lab, 2, lambda: lab.push(20, {**codes, 17: 65_535}))
    assert [p.triggers for p in packets] == [(), ((7, 65_535),)]
    (note,) = [text for text in notes if "trigger value" in text]
    assert "100000 is not a whole number from 1 to 65535" in note


@pytest.mark.parametrize(
    ("spellings", "microvolts"),
    [
        (("volts", "Volts", "volt", "V", "0"), 1e6),
        (("millivolts", "mV", "MV", "millivolt", "-3"), 1e3),
        (("microvolts", "Microvolt", "uV", "UV", "\N{MICRO SIGN}V", "-6", ""), 1.0),
        (("\N{GREEK SMALL LETTER MU}V", " uV "), 1.0),
        (("nanovolts", "nanovolt", "nV", "-9"), 1e-3),
    ],
)
def test_units_become_microvolts_however_they_are_spelled(spellings, microvolts):
    lab = Lab(tuple(Lead(f"c{i}", unit=unit) for i, unit in enumerate(spellings)))
    packets = take(lab.source(), lab, 1, lambda: lab.push(10))
    np.testing.assert_allclose(packets[0].samples[2], 2 * microvolts)
    assert {lead.unit for lead in next(lab.source().sessions()).leads} == {"microvolts"}


def test_a_unit_that_is_no_voltage_is_kept_and_reported():
    lab = Lab((Lead("C3"), Lead("Acc", "MISC", "g")))
    source = lab.source()
    notes = details(source)
    packets = take(source, lab, 1, lambda: lab.push(10))
    assert packets[0].samples[2].tolist() == [2, 2]
    assert [lead.unit for lead in next(lab.source().sessions()).leads] == ["microvolts", "g"]
    assert any("the unit 'g' of Acc is not a known voltage" in text for text in notes)


def test_markers_find_their_samples_by_time():
    lab = Lab(EEG, marker_name="events")

    def mark() -> None:
        assert lab.markers is not None
        lab.markers.push("51", 500 + 12 / RATE)
        lab.markers.push("Trigger-In:52", 500 + 12 / RATE + 0.004)
        lab.markers.push("start", 500.0)

    source = lab.source(markers="events", hold_ms="50")
    packets = take(source, lab, 3, lambda: lab.push(10), mark, lambda: lab.push(40))
    assert [(p.start + i, c) for p in packets for i, c in p.triggers] == [(12, 51), (12, 52)]
    assert [p.stamp for p in packets[:3]] == pytest.approx([500.09, 500.19, 500.29])


def test_a_neuracle_box_finds_its_own_markers():
    lab = Lab(EEG, "M_12345_EEG", marker_name="Neuracle")
    source = lab.source("M_12345_EEG")

    def mark() -> None:
        assert lab.markers is not None
        lab.markers.push("7", 500 + 5 / RATE)

    packets = take(source, lab, 1, mark, lambda: lab.push(50))
    assert packets[0].triggers == ((5, 7),)


@pytest.mark.parametrize("numbers", [np.int32, np.float32])
def test_a_marker_stream_of_numbers_is_read(numbers):
    lab = Lab(EEG)
    form: ChannelFormat = "int32" if numbers is np.int32 else "float32"
    outlet = lab.transport.sample_outlet(StreamSpec("codes", "Markers", "codes-id", form))

    def mark() -> None:
        stamps = [500 + at / RATE for at in (3, 12, 14, 15)]
        outlet.push(np.array([[0], [51], [-4], [70_000]], dtype=numbers), stamps)

    source = lab.source(markers="codes")
    notes = details(source)
    packets = take(source, lab, 2, mark, lambda: lab.push(50))
    assert [(p.start + i, c) for p in packets for i, c in p.triggers] == [(12, 51)]
    assert sum("is not a whole number from 1 to 65535" in text for text in notes) == 2


def test_markers_that_came_before_the_first_sample_are_ignored():
    lab = Lab(EEG, marker_name="events")
    source = lab.source(markers="events")
    (session,) = source.sessions()
    assert lab.markers is not None
    lab.markers.push("9", 490.0)
    pushed_later(lab, lambda: lab.push(30))
    packet = next(iter(session.packets(10)))
    source.close()
    assert packet.triggers == ()
    assert "too late" not in source.status.detail


def test_a_signal_outlives_its_markers_and_takes_them_back():
    """A stimulus program that is started anew between two blocks."""
    lab = Lab(EEG, marker_name="events")
    source = lab.source(markers="events")
    notes = details(source)
    (session,) = source.sessions()
    pushed_later(lab, lambda: lab.push(20))
    triggers: list[tuple[int, int]] = []
    phase = "first"
    for packet in session.packets(5):
        triggers += [(packet.start + i, c) for i, c in packet.triggers]
        assert lab.markers is not None
        if phase == "first":
            lab.markers.close()
            phase = "gone"
        elif phase == "gone" and any("'events' is gone" in text for text in notes):
            lab.open_markers()
            phase = "back"
        elif phase == "back" and any("'events' is there, and is used" in text for text in notes):
            lab.markers.push("52", 500 + (lab.sent + 1) / RATE)
            phase = "used"
        elif triggers:
            source.close()
        lab.push(5)
    assert [code for _, code in triggers] == [52]
    assert (source.status.samples_lost, source.status.reconnects) == (0, 0)


@pytest.mark.parametrize(("name", "params"), [("M_1_EEG", {}), ("amp", {"markers": "Neuracle"})])
def test_markers_that_start_after_the_signal_are_used(name, params, monkeypatch):
    monkeypatch.setattr("replay.devices.lsl_streams.MARKERS_FIRST_S", 0.1)
    lab = Lab(EEG, name)
    lab.marker_name = "Neuracle"
    source = lab.source(name, **params)
    notes = details(source)
    (session,) = source.sessions()
    pushed_later(lab, lambda: lab.push(20))
    triggers: list[int] = []
    for packet in session.packets(5):
        triggers += [code for _, code in packet.triggers]
        if lab.markers is None:
            assert "no marker stream 'Neuracle' has been seen yet" in notes[-1]
            lab.open_markers()
        elif notes[-1].startswith("the marker stream 'Neuracle' is there"):
            lab.markers.push("7", 500 + (lab.sent + 1) / RATE)
        if triggers:
            source.close()
        lab.push(5)
    assert set(triggers) == {7}


def test_a_jump_of_the_stamps_is_a_gap_of_about_so_many():
    lab = Lab(EEG)
    source = lab.source()
    packets = take(source, lab, 14, lambda: lab.push(120), lambda: lab.push(20, skip=20))
    assert [p.start for p in packets[10:]] == [100, 110, 140, 150]
    assert packets[12].samples[0, 0] == 140
    assert (source.status.samples_lost, source.status.lost_exact) == (20, False)


def test_a_stream_that_ends_is_found_again():
    lab = Lab(EEG)
    source = lab.source()
    notes = []
    source.listen(lambda status: notes.append(status.state))

    def restart() -> None:
        lab.signal.close()
        lab.signal = lab.open()
        lab.sent += 100
        pushed_later(lab, lambda: lab.push(20))

    packets = take(source, lab, 4, lambda: lab.push(20), restart)
    assert [p.start for p in packets] == [0, 10, 120, 130]
    assert [state for i, state in enumerate(notes) if state not in notes[:i]] == [
        "connected", "reconnecting", "ended",
    ]  # fmt: skip


@pytest.mark.parametrize("params", [{}, {"markers": "m"}])
def test_the_last_samples_before_a_loss_leave_before_the_stream_comes_back(params):
    lab = Lab(EEG, marker_name=params.get("markers", ""))
    source = lab.source(**params)
    (session,) = source.sessions()
    seen: list[str] = []
    source.listen(lambda status: seen.append(status.state))
    pushed_later(lab, lambda: lab.push(25), lambda: lab.signal.close())
    left = []
    for packet in session.packets(10):
        left.append((packet.start, len(packet.samples), "reconnecting" in seen))
        if len(left) == 3:
            source.close()
    assert left == [(0, 10, False), (10, 10, False), (20, 5, False)]


def test_resampled_samples_before_a_loss_leave_too():
    lab = Lab((Lead("C3"),))
    options = SourceOptions(track="mi")
    source = open_device("lsl", "amp", {"wait_s": "5"}, lab.transport, options)
    (session,) = source.sessions()
    pushed_later(lab, lambda: lab.push(101), lambda: lab.signal.close())
    received = 0
    for packet in session.packets(40):
        received += len(packet.samples)
        if len(packet.samples) < 40:
            source.close()
            break
    assert received == 1001


def test_closing_ends_the_search_for_a_lost_stream():
    lab = Lab(EEG)
    source = lab.source()
    notes = []

    def close_when_lost(status: DeviceStatus) -> None:
        notes.append(status.state)
        if status.state == "reconnecting":
            source.close()

    source.listen(close_when_lost)
    packets = take(source, lab, 99, lambda: lab.push(20), lambda: lab.signal.close())
    assert [p.start for p in packets] == [0, 10]
    assert notes[-1] == "ended"


class Unreachable(MemoryTransport):
    """Its streams are seen, but nobody can open them for a long time."""

    opening = threading.Event()
    go_on = threading.Event()

    def sample_inlet(self, found: FoundStream, timeout_s: float) -> MemorySampleInlet:
        self.opening.set()
        self.go_on.wait(60)
        return super().sample_inlet(found, timeout_s)


def test_closing_ends_a_search_at_once_even_while_a_stream_is_opened():
    lab = Lab(EEG)
    lab.transport = transport = Unreachable()
    lab.signal = lab.open()
    for name in ("amp", "missing"):
        source = lab.source(name, wait_s="60")
        closer = threading.Timer(0.0, source.close)
        if name == "amp":
            closer = threading.Timer(
                0.0, lambda it=source: (transport.opening.wait(60), it.close())
            )
        began = time.monotonic()
        closer.start()
        with pytest.raises(SourceError, match="was stopped"):
            next(source.sessions())
        assert time.monotonic() - began < 10  # of the 60 s that it may take
    transport.go_on.set()


def test_a_stream_that_comes_back_changed_is_refused():
    lab = Lab(EEG)
    source = lab.source()

    def restart() -> None:
        lab.signal.close()
        lab.leads = (*EEG, Lead("Cz"))
        lab.signal = lab.open()

    with pytest.raises(SourceError, match="changed its leads or rate"):
        take(source, lab, 99, lambda: lab.push(20), restart)


def test_a_stream_that_never_appears_is_reported_with_what_was_seen():
    lab = Lab(EEG)
    with pytest.raises(SourceError, match=r"no LSL stream is named 'other'.*streams seen: amp"):
        next(lab.source("other", wait_s="0.1").sessions())


def test_two_streams_of_one_name_need_a_source_id():
    lab = Lab(EEG)
    spec = StreamSpec("amp", "EEG", "second-id", "float32", RATE, EEG)
    lab.transport.sample_outlet(spec)
    with pytest.raises(SourceError, match="one of amp-id, second-id"):
        next(lab.source().sessions())
    (session,) = lab.source("second-id").sessions()
    assert session.rate == RATE


def test_a_stream_without_a_rate_is_no_signal():
    transport = MemoryTransport()
    transport.text_outlet(StreamSpec("marks", "Markers", "marks-id"))
    with pytest.raises(SourceError, match="no regular rate"):
        next(open_device("lsl", "marks", {}, transport).sessions())


def test_a_name_is_needed():
    with pytest.raises(SourceError, match="lsl:NAME"):
        open_device("lsl", "", {}, MemoryTransport())


def markers_of(packets: list[RawPacket]) -> list[tuple[int, int, str]]:
    return [
        (packet.start + at, int(code), text_of(code))
        for packet in packets
        for at, code in packet.triggers
    ]


def test_texts_of_markers_are_mapped_to_codes_and_kept():
    lab = Lab(EEG, marker_name="marks")

    def mark() -> None:
        lab.push(10)
        for text, at in (("left", 3), ("right\tRed", 5), ("7", 6), ("other", 7)):
            lab.markers.push(text, 500 + at / RATE)
        lab.push(40)

    events = EventMap.parse("left=11,right=21+22")
    source = open_device(
        "lsl",
        "amp",
        {"wait_s": "5", "markers": "marks"},
        lab.transport,
        SourceOptions(events=events),
    )
    notes = details(source)
    packets = take(source, lab, 4, mark)
    assert markers_of(packets) == [
        (3, 11, "left"), (5, 21, "right\tRed"), (5, 22, "right\tRed"), (6, 7, ""),
    ]  # fmt: skip
    assert any("'other'" in note and "?events=" in note for note in notes)


def test_annotations_of_mne_lsl_are_mapped_by_their_label_and_not_by_their_duration():
    lab = Lab(EEG)
    labels = (Lead("left", "annotations"), Lead("right", "annotations"))
    spec = StreamSpec("amp-annotations", "annotations", "a-id", "float32", 0.0, labels)
    annotations = lab.transport.sample_outlet(spec)

    def mark() -> None:
        lab.push(10)
        rows = np.array([[2.0, 0.0], [0.0, 3.0], [-1.0, 0.0]], dtype=np.float32)
        annotations.push(rows, [500 + at / RATE for at in (3, 5, 7)])
        lab.push(40)

    options = SourceOptions(events=EventMap.parse("left=11,right=21"))
    given = {"wait_s": "5", "markers": "amp-annotations"}
    packets = take(open_device("lsl", "amp", given, lab.transport, options), lab, 4, mark)
    assert markers_of(packets) == [(3, 11, "left"), (5, 21, "right"), (7, 11, "left")]


def test_labels_without_a_code_are_noted_and_their_durations_are_no_codes():
    lab = Lab(EEG)
    spec = StreamSpec("notes", "annotations", "a-id", "float32", 0.0, (Lead("left"),))
    annotations = lab.transport.sample_outlet(spec)

    def mark() -> None:
        lab.push(10)
        annotations.push(np.array([[2.0]], dtype=np.float32), [500 + 3 / RATE])
        lab.push(40)

    source = lab.source(markers="notes")
    noted = details(source)
    assert markers_of(take(source, lab, 4, mark)) == []
    assert any("'left'" in note and "?events=" in note for note in noted)


def test_the_events_of_a_uri_reach_the_device(monkeypatch):
    from replay.sources import open_source

    lab = Lab(EEG)
    with pytest.raises(SourceError, match="START and END are for recordings"):
        open_source("lsl:amp?markers=x&events=START=250", transport=lab.transport)
    with pytest.raises(SourceError, match="events can't be asked for"):
        open_source("neuracle://127.0.0.1", SourceOptions(events=EventMap.parse("left=1")))
