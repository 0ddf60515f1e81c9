"""The replay as a process: a live device's status on the wire and in the log, stopping, the progress line."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from click.testing import CliRunner
from playground import logged_lines

from bci_stream.clock import RealClock
from bci_stream.contest.contest import Contest, TrackPlan
from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import Stopped, read_control
from bci_stream.wire.transport import StreamSpec
from replay.cli import main
from replay.daemon import read_state, render_states
from replay.devices.base import Device, DeviceFeed, EndOfDataError
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.live import LiveSource
from replay.devices.params import Timeouts
from replay.devices.status import StatusKeeper
from replay.model.options import SourceOptions
from replay.player.journal import PlaybackProgress
from replay.player.plan import PlaybackPlan
from replay.player.player import Player, parse_pace
from replay.service import Service, describe
from tracks.registry import TRACKS

RATE = 1000
PATIENCE_S = 20.0


@pytest.fixture
def log() -> Iterator[list[str]]:
    with logged_lines() as lines:
        yield lines


@pytest.fixture(autouse=True)
def own_runtime_folder(tmp_path, monkeypatch) -> None:
    """Manual triggers of these tests do not reach other replays."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


@pytest.fixture(autouse=True)
def no_replay_outlives_its_test() -> Iterator[None]:
    """That of a test that failed would write its state among those of the tests after it."""
    Lab.started.clear()
    yield
    for lab in Lab.started:
        lab.stop.set()
        lab.end()


def wait_for(what: Callable[[], object]) -> None:
    tick = threading.Event()
    for _ in range(round(PATIENCE_S / 0.005)):
        if what():
            return
        tick.wait(0.005)
    raise AssertionError("timed out")


class Lab:
    """An amplifier's LSL stream with its marker stream, and a replay of them."""

    started: ClassVar[list["Lab"]] = []

    def __init__(self, contest: Contest, *names: str) -> None:
        self.transport, self.contest = MemoryTransport(), contest
        self.stop = threading.Event()
        leads = tuple(Lead(name) for name in (*names, "TRIGGER"))
        spec = StreamSpec("amp", "EEG", "amp-id", "float32", RATE, leads)
        self.signal = self.transport.sample_outlet(spec)
        self.markers = self.transport.text_outlet(StreamSpec("marks", "Markers", "marks-id"))
        self.width, self.sent = len(leads), 0
        self.errors: list[BaseException] = []

    def service(self, uri: str, track: str | None = None, pace: str = "realtime") -> Service:
        return Service(
            transport=self.transport, contest=self.contest, name="r", uris=(uri,), track=track,
            options=SourceOptions(track=track), pace=parse_pace(pace), start_on="now", team="",
            wait_s=PATIENCE_S, loop=False, stop=self.stop,
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
        self.started.append(self)
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


def test_a_state_file_that_can_not_be_written_is_named_once_and_tried_again(
    contest, log, monkeypatch
) -> None:
    service, tried = Lab(contest, "Cz").service("lsl:amp"), []

    def fail(state: str) -> None:
        tried.append(state)
        raise OSError(28, "No space left on device", "r.json")

    monkeypatch.setattr(service, "_write_state", fail)
    waits = iter([False, False, False, True])
    service._keep_state(SimpleNamespace(wait=lambda _: next(waits)))
    assert tried == ["starting"] * 3
    assert sum("No space left on device" in line for line in log) == 1


def control_messages(contest: Contest, label: int, text: str) -> list[dict]:
    """Control messages of a session with a late trigger, a text trigger, and a gap."""
    lab = Lab(contest, "Cz", "C3", "C4")
    service = lab.start("lsl:amp?markers=marks&until=251", "mi")
    wait_for(lambda: service.player and lab.signal.has_consumers() and lab.markers.has_consumers())
    (found,) = [s for s in lab.transport.visible("") if "/control/" in s.source_id]
    control = lab.transport.text_inlet(found, 1)
    lab.push(400, code=242)
    wait_for(lambda: service.player and service.player.progress.played >= 320)
    lab.markers.push(str(label), 500.1)
    lab.markers.push(text, 500.45)
    with logged_lines() as log:
        lab.push(200)
        wait_for(lambda: sum("connected (" in line for line in log) >= 2)  # the log has both
        lab.push(400, skip=1000)
        lab.push(200, code=251)
        lab.push(200)
        lab.end()
    assert lab.errors == []
    messages = [json.loads(text) for text, _ in control.pull(0)]
    # Offer and session start may have been sent before the inlet was open.
    skipped = ("offer", "session")
    return [m for m in messages if m.get("state") != "alive" and m["kind"] not in skipped]


def test_the_status_on_the_wire_has_the_gap_but_no_label_of_a_masked_device(contest) -> None:
    first = control_messages(contest, 11, "left_hand")
    second = control_messages(contest, 21, "right_hand")
    assert packets(first) == packets(second)
    for changes in (statuses(first), statuses(second)):
        gap = "about 1000 lost in 1 gaps, 0 reconnects"
        assert {detail for _, detail in changes} == {gap, "0 lost in 0 gaps, 0 reconnects"}
        assert changes[-1] == ("ended", gap)
        # A late or text trigger changes no status: the time of the change would show where a label is.
        assert all(before != after for before, after in pairwise(changes))


class ControlSpy(MemoryTransport):
    """Keeps every text of the control stream, from the first one on."""

    def text_outlet(self, spec: StreamSpec):
        outlet = super().text_outlet(spec)
        if "/control/" in spec.source_id:
            push = outlet.push
            self.texts: list[str] = []
            outlet.push = lambda text, stamp=0.0: (self.texts.append(text), push(text, stamp))
        return outlet


class NotingDevice(Device):
    """Sends five chunks, and adds a note to its status at the third one."""

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


def test_a_devices_first_note_is_logged_and_not_sent(contest, monkeypatch, log) -> None:
    lab = Lab(contest, "Cz")
    lab.transport = ControlSpy()
    status = StatusKeeper("neuracle://amp")
    feed = DeviceFeed(NotingDevice(status, "trigger 11"), RealClock(), status, Timeouts())
    device = LiveSource(feed, status, options=SourceOptions(track="mi"))
    monkeypatch.setattr("replay.service.open_source", lambda *_: device)
    lab.service("neuracle://amp", "mi").run()
    assert any("trigger 11" in line for line in log)
    sent = [json.loads(text) for text in lab.transport.texts]
    first = next(i for i, message in enumerate(sent) if message["kind"] == "session")
    assert [state for state, _ in statuses(sent[:first])] == ["connected"]
    assert [state for state, _ in statuses(sent[first:])] == ["ended"]


def test_mark_takes_the_name_of_the_replay(contest, monkeypatch, runtime_folder) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime_folder))
    marked: list[str] = []

    class Marked(NotingDevice):
        def read(self, timeout_s: float, missing: int) -> list[Chunk]:
            if not marked:
                command = ["mark", "7", "--to", "left"]
                marked.append(CliRunner().invoke(main, command).output)
            return super().read(timeout_s, missing)

    lab = Lab(contest, "Cz")
    status = StatusKeeper("neuracle://amp")
    feed = DeviceFeed(Marked(status, "x"), RealClock(), status, Timeouts())
    device = LiveSource(feed, status, options=SourceOptions(track="mi"))
    monkeypatch.setattr("replay.service.open_source", lambda *_: device)
    service = lab.service("neuracle://amp", "mi")
    service.name = "left"
    service.run()
    assert marked == ["7 set on left\n"]


def packets(messages: list[dict]) -> list[dict]:
    """Without the run's id and the signature, which differ from run to run."""
    return [
        {key: value for key, value in message.items() if key not in ("run", "sig")}
        for message in messages
        if message["kind"] != "status"
    ]


def statuses(messages: list[dict]) -> list[tuple[str, str]]:
    return [(m["state"], m["detail"]) for m in messages if m["kind"] == "status"]


@pytest.mark.parametrize(("track", "quoted"), [("mi", False), (None, True)])
def test_why_a_masked_run_failed_does_not_quote_its_source(contest, track, quoted) -> None:
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
    last = read_control([text for text, _ in control.pull(0)][-1])
    assert isinstance(last, Stopped)
    assert ("11" in last.reason) == quoted


REFUSED = "neuracle://127.0.0.1:{port}?channels=3&rate=1000&wait_s=60"


@pytest.mark.parametrize(("uri", "why"), [("lsl:nope?wait_s=60", ""), (REFUSED, "refused")])
def test_a_search_is_shown_while_it_lasts_and_ended_by_a_stop(contest, uri, why, log) -> None:
    lab = Lab(contest, "Cz")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # without listen(): connections are refused
        lab.start(uri.format(port=taken.getsockname()[1]))
        wait_for(lambda: why in shown() and "connecting" in shown())
        assert "connecting" in "".join(log)
        assert why in "".join(log)
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
    # A busy machine may find the stream stalled before the state is written.
    wait_for(lambda: "400 samples, 0 lost" in shown())
    lab.push(40)
    wait_for(lambda: "440 samples, 0 lost" in shown())
    assert "offset 500.000 s" in shown()
    lab.stop.set()
    lab.end()


@pytest.mark.parametrize("pace", ["2.0", "0.5", "lockstep"])
def test_a_live_device_sets_the_pace_itself(contest, pace) -> None:
    service = Lab(contest, "Cz").service("lsl:amp", pace=pace)
    with pytest.raises(SourceError, match=r"--pace .* is a live device, which can neither wait"):
        service.run()
    assert read_state("r").state == "failed"


def test_a_devices_leads_are_fitted_to_its_track_and_that_is_logged(contest, log) -> None:
    lab = Lab(contest, "VEOL", "C4", "T3", "Cz", "Extra")
    service = lab.start("lsl:amp", "mi")
    wait_for(lambda: service.player and lab.signal.has_consumers())
    (found,) = [s for s in lab.transport.visible("") if "/signal/" in s.source_id]
    leads = lab.transport.sample_inlet(found, 1).spec.leads
    assert [(lead.name, lead.kind) for lead in leads] == [
        ("Cz", "EEG"), ("C4", "EEG"), ("T7", "EEG"), ("VEOL", "EOG"), ("TRIGGER", "STIM"),
    ]  # fmt: skip
    lines = "\n".join(log)
    for words in ("T3=T7", "mi's order", "left out: Extra", "60 of mi's leads are missing"):
        assert words in lines
    lab.stop.set()
    lab.end()


# --- the progress line --------------------------------------------------------------------------


def test_a_line_has_the_progress_the_teams_and_the_lateness() -> None:
    at = PlaybackProgress("playing", 30, 120, late_s=0.0001, worst_late_s=0.0042, teams=("a", "b"))
    at.subject, at.round = "S01", 2
    assert describe(at) == (
        "playing S01: 25% played, round 3, teams: a, b, last packet 0.1 ms late, at worst 4.2 ms"
    )


def test_a_packet_that_left_slightly_early_is_not_late() -> None:
    at = PlaybackProgress("finished", 120, 120, late_s=-1e-6, worst_late_s=0.001, subject="S01")
    assert describe(at) == "finished S01: 100% played, last packet 0.0 ms late, at worst 1.0 ms"


def test_without_a_known_end_samples_are_counted_and_without_deadlines_no_lateness_is_shown() -> (
    None
):
    assert (
        describe(PlaybackProgress("playing", 30, subject="S01")) == "playing S01: 30 samples played"
    )


def test_the_rate_of_a_profile_is_for_recordings_and_not_for_devices(contest) -> None:
    contest = replace(contest, tracks={"mi": TrackPlan(rules={"profile": "2022"})})
    service = Lab(contest, "Cz").service("synthetic:mi", "mi")
    assert service._fitted_options("synthetic:mi?subjects=1").resample == 250
    assert service._fitted_options("lsl:amp").resample is None
