"""A live device served as a user would: what everyone hears of it, how it stops, what status shows."""

import json
import socket
import threading
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from bci_stream.clock import RealClock
from bci_stream.contest.contest import Contest
from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import Stopped, read_control
from bci_stream.wire.transport import StreamSpec
from replay.daemon import read_state, render_states
from replay.devices.base import Device, DeviceFeed, EndOfDataError, LiveSource
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.params import Timeouts
from replay.devices.status import StatusKeeper
from replay.model.options import SourceOptions
from replay.player.plan import PlaybackPlan
from replay.player.player import Player, parse_pace
from replay.service import Service
from tracks.registry import TRACKS

RATE = 1000
PATIENCE_S = 20.0


@pytest.fixture(autouse=True)
def own_runtime_folder(tmp_path, monkeypatch) -> None:
    """Marks of these tests are nobody else's."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def wait_for(what: Callable[[], object]) -> None:
    tick = threading.Event()
    for _ in range(round(PATIENCE_S / 0.005)):
        if what():
            return
        tick.wait(0.005)
    raise AssertionError("it never came")


class Lab:
    """An amplifier's LSL stream and its markers, a replay of them, and somebody who hears all texts."""

    def __init__(self, contest: Contest, *names: str) -> None:
        self.transport, self.contest = MemoryTransport(), contest
        self.stop = threading.Event()
        leads = tuple(Lead(name) for name in (*names, "TRIGGER"))
        spec = StreamSpec("amp", "EEG", "amp-id", "float32", RATE, leads)
        self.signal = self.transport.sample_outlet(spec)
        self.markers = self.transport.text_outlet(StreamSpec("marks", "Markers", "marks-id"))
        self.width, self.sent = len(leads), 0
        self.said: list[str] = []
        self.errors: list[BaseException] = []

    def service(self, uri: str, track: str | None = None, pace: str = "realtime") -> Service:
        return Service(
            self.transport, self.contest, name="r", uris=(uri,), track=track,
            options=SourceOptions(track=track), pace=parse_pace(pace), start_on="now", team="",
            wait_s=PATIENCE_S, loop=False, stop=self.stop, say=self.said.append,
        )  # fmt: skip

    def start(self, uri: str, track: str | None = None) -> Service:
        service = self.service(uri, track)

        def run() -> None:
            try:
                service.run()
            except SourceError as error:
                self.errors.append(error)

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        return service

    def end(self) -> None:
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()

    def push(self, n: int, code: int = 0, skip: int = 0) -> None:
        """n samples after `skip` that were lost; the code stands on the last one."""
        self.sent += n + skip
        rows = np.full((n, self.width), 15.0, np.float32)
        rows[:, -1] = 0
        rows[-1, -1] = code
        stamps = 500 + np.arange(self.sent - n, self.sent) / RATE
        self.signal.push(rows, stamps.tolist())


def heard(contest: Contest, label: int, text: str) -> list[dict]:
    """What everyone hears of a session with a late trigger, a text for one, and a gap."""
    lab = Lab(contest, "Cz", "C3", "C4")
    service = lab.start("lsl:amp?markers=marks&until=251", "mi")
    wait_for(lambda: service.player and lab.signal.has_consumers() and lab.markers.has_consumers())
    (found,) = [s for s in lab.transport.visible("") if "/control/" in s.source_id]
    control = lab.transport.text_inlet(found, 1)
    lab.push(400, code=242)
    wait_for(lambda: service.player and service.player.progress.played >= 320)
    lab.markers.push(str(label), 500.1)
    lab.markers.push(text, 500.45)
    lab.push(200)
    wait_for(lambda: sum("connected (" in said for said in lab.said) >= 2)  # the terminal has both
    lab.push(400, skip=1000)
    lab.push(200, code=251)
    lab.push(200)
    lab.end()
    assert lab.errors == []
    texts = [json.loads(said) for said, _ in control.pull(0)]
    return [said for said in texts if said.get("state") != "alive" and said["kind"] != "offer"]


def test_no_label_of_a_masked_device_is_in_what_everyone_hears_and_the_gap_is(contest) -> None:
    first, second = heard(contest, 11, "left_hand"), heard(contest, 21, "right_hand")
    assert packets(first) == packets(second)
    for news in (statuses(first), statuses(second)):
        gap = "about 1000 lost in 1 gaps, 0 reconnects"
        assert {detail for _, detail in news} == {gap, "0 lost in 0 gaps, 0 reconnects"}
        assert news[-1] == ("ended", gap)
        # A trigger that was late or a text is no news: when that is told would show where a label is.
        assert all(before != after for before, after in pairwise(news))


class Overheard(MemoryTransport):
    """Keeps every text of the control stream, from the very first."""

    def text_outlet(self, spec: StreamSpec):
        outlet = super().text_outlet(spec)
        if "/control/" in spec.source_id:
            push = outlet.push
            self.texts: list[str] = []
            outlet.push = lambda text, stamp=0.0: (self.texts.append(text), push(text, stamp))
        return outlet


class NotingDevice(Device):
    """Sends five chunks, and notes something at the third one."""

    counts_samples = True

    def __init__(self, status: StatusKeeper, note: str) -> None:
        self._status, self._note, self._number = status, note, 0

    def connect(self, timeout_s: float) -> None:
        self._status.set_state("connected")

    def describe(self) -> DeviceInfo:
        return DeviceInfo(float(RATE), (Lead("Cz"),))

    def read(self, timeout_s: float, missing: int) -> list[Chunk]:
        self._number += 1
        if self._number == 3:
            self._status.note(self._note)
        if self._number > 5:
            raise EndOfDataError("all was sent")
        return [Chunk(np.full((40, 1), 15.0, np.float32), arrival=1000 + self._number * 0.04)]


def test_the_first_thing_a_device_notes_does_not_show_when_it_did(contest, monkeypatch) -> None:
    lab = Lab(contest, "Cz")
    lab.transport = Overheard()
    status = StatusKeeper("neuracle://amp")
    feed = DeviceFeed(NotingDevice(status, "trigger 11"), RealClock(), status, Timeouts())
    device = LiveSource(feed, status, options=SourceOptions(track="mi"))
    monkeypatch.setattr("replay.service.open_source", lambda *_: device)
    lab.service("neuracle://amp", "mi").run()
    assert any("trigger 11" in said for said in lab.said)
    said = [json.loads(text) for text in lab.transport.texts]
    first = next(i for i, message in enumerate(said) if message["kind"] == "session")
    assert [state for state, _ in statuses(said[:first])] == ["connected"]
    assert [state for state, _ in statuses(said[first:])] == ["ended"]


def packets(said: list[dict]) -> list[dict]:
    return [message for message in said if message["kind"] != "status"]


def statuses(said: list[dict]) -> list[tuple[str, str]]:
    return [(each["state"], each["detail"]) for each in said if each["kind"] == "status"]


@pytest.mark.parametrize(("track", "told"), [("mi", False), (None, True)])
def test_what_ended_a_masked_run_is_said_without_its_sources_words(contest, track, told) -> None:
    class Misaligned:
        subject, rate, n_samples, angles = "live", 1000.0, None, None
        leads = (Lead("Cz"),)

        def packets(self, packet_samples):
            raise SourceError("the trigger word of sample 7 is 11")
            yield

    transport = MemoryTransport()
    program = PlaybackPlan(TRACKS[track] if track else None, (Misaligned(),), (None,), live=True)  # type: ignore[arg-type]
    player = Player(
        transport, RealClock(transport.now), contest, program, name="r",
        pace=parse_pace("realtime"), start_on="now", stop=threading.Event(),
    )  # fmt: skip
    (found,) = [s for s in transport.visible("") if "/control/" in s.source_id]
    control = transport.text_inlet(found, 1)
    with pytest.raises(SourceError, match="is 11"):
        player.play()
    last = read_control([said for said, _ in control.pull(0)][-1])
    assert isinstance(last, Stopped)
    assert ("11" in last.reason) == told


REFUSED = "neuracle://127.0.0.1:{port}?channels=3&rate=1000&wait_s=60"


@pytest.mark.parametrize(("uri", "why"), [("lsl:nope?wait_s=60", ""), (REFUSED, "refused")])
def test_a_search_is_shown_while_it_lasts_and_ended_by_a_stop(contest, uri, why) -> None:
    lab = Lab(contest, "Cz")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        lab.start(uri.format(port=taken.getsockname()[1]))
        wait_for(lambda: why in shown() and "connecting" in shown())
        assert "connecting" in "".join(lab.said)
        assert why in "".join(lab.said)
        lab.stop.set()
        lab.end()
    assert lab.errors == []
    assert read_state("r").state == "stopped"


def shown() -> str:
    state = read_state("r")
    return render_states([state], as_json=False) if state else ""


def test_the_status_of_a_healthy_device_is_kept_up_to_date(contest) -> None:
    lab = Lab(contest, "Cz", "C3")
    service = lab.start("lsl:amp")
    wait_for(lambda: service.player and lab.signal.has_consumers())
    lab.push(400)
    wait_for(lambda: "connected: 400 samples, 0 lost" in shown())
    lab.push(40)
    wait_for(lambda: "connected: 440 samples, 0 lost" in shown())
    assert "offset 500.000 s" in shown()
    lab.stop.set()
    lab.end()


@pytest.mark.parametrize("pace", ["2.0", "0.5", "lockstep"])
def test_a_live_device_sets_the_pace_itself(contest, pace) -> None:
    service = Lab(contest, "Cz").service("lsl:amp", pace=pace)
    with pytest.raises(SourceError, match=r"--pace .* is a live device, which can neither wait"):
        service.run()
    assert read_state("r").state == "failed"


def test_a_devices_leads_are_put_as_its_track_has_them_and_that_is_said(contest) -> None:
    lab = Lab(contest, "VEOL", "C4", "T3", "Cz", "Extra")
    service = lab.start("lsl:amp", "mi")
    wait_for(lambda: service.player and lab.signal.has_consumers())
    (found,) = [s for s in lab.transport.visible("") if "/signal/" in s.source_id]
    leads = lab.transport.sample_inlet(found, 1).spec.leads
    assert [(lead.name, lead.kind) for lead in leads] == [
        ("Cz", "EEG"), ("C4", "EEG"), ("T7", "EEG"), ("VEOL", "EOG"), ("TRIGGER", "STIM"),
    ]  # fmt: skip
    said = "\n".join(lab.said)
    for words in ("T3=T7", "mi's order", "left out: Extra", "60 of mi's leads are missing"):
        assert words in said
    lab.stop.set()
    lab.end()
