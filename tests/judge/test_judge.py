"""The judge against replays and teams that are played by hand, on memory streams and a manual clock."""

import json
from collections import Counter
from typing import Any

import pytest
from playground import Quiet, Recorder, erp_recording, play, program

from bci_stream.clock import ManualClock
from bci_stream.judge.judge import Judge
from bci_stream.judge.live_command import SignalView
from bci_stream.packet import FloatArray, Lead
from bci_stream.wire import names
from bci_stream.wire.crypto import seal, sign
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import (
    Done,
    HistoryComplete,
    Message,
    Offer,
    PacketEvent,
    PacketNote,
    Ready,
    ReportMessage,
    RunEvents,
    TeamMessageEvent,
    TruthComplete,
    TruthNote,
    TruthProbe,
    Welcome,
    encode,
)


class FakeReplay:
    """The two streams of a replay, with a run of its own."""

    def __init__(self, transport: MemoryTransport, contest: Any, name: str, pace: str) -> None:
        self.run = f"run-{name}"
        self._contest = contest
        self._control = transport.text_outlet(names.text_stream(contest.name, "control", name))
        self._truth = transport.text_outlet(names.text_stream(contest.name, "truth", name))
        self.offer = Offer(contest.name, self.run, "erp", pace, 250.0, 10, ["Cz"], ["S01"])

    def send(self, *messages: Message) -> None:
        for message in messages:
            self._control.push(encode(message))

    def seal(self, *messages: Message) -> None:
        key = self._contest.keys.contest_key()
        for message in messages:
            self._truth.push(seal(encode(message), key, self.run))

    def send_truth(self) -> None:
        self.seal(TruthNote(0, "S01", 0, 250.0, 1, 10, 30, {"blocks": [["A"]]}), TruthComplete())


class FakeTeam:
    """A results stream, and messages signed under the team's token."""

    def __init__(self, transport: MemoryTransport, contest: Any, name: str) -> None:
        self.name = name
        self._contest = contest
        self._seq = 0
        self._outlet = transport.text_outlet(names.text_stream(contest.name, "results", name))

    def signed(self, kind: type[Any], run: str, **fields: object) -> str:
        self._seq += 1
        message = kind(self._contest.name, run, self.name, self._seq, **fields)
        return sign(encode(message), self._contest.keys.token(self.name))

    def send(self, kind: type[Any], run: str, **fields: object) -> None:
        self._outlet.push(self.signed(kind, run, **fields))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory(clock: ManualClock) -> MemoryTransport:
    return MemoryTransport(clock.now)


@pytest.fixture
def judge(memory: MemoryTransport, contest, stop) -> Judge:
    return Judge(memory, contest, Quiet(), stop=stop, may_start=bool)


@pytest.fixture
def poll(judge: Judge, clock: ManualClock):
    def poll_judge(times: int = 2) -> None:
        for _ in range(times):
            clock.advance(0.3)
            judge.poll()

    return poll_judge


def note(i: int, finish: bool = False) -> PacketNote:
    return PacketNote(i, 0, 0, i * 10, 10, [(0, 242)] if i == 0 else [], finish)


def logged(judge: Judge, team: str) -> list[object]:
    """Starts of packets and results of reports, in the order of the log."""
    (path,) = [run.path for run in judge.runs if run.team == team]
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return [e.get("start", e.get("result")) for e in events if e["kind"] in ("packet", "report")]


def test_a_message_goes_to_its_own_run_only(memory, contest, judge, poll) -> None:
    """Two replays in real time: neither counts the other's reports as dropped."""
    replays = [FakeReplay(memory, contest, name, "realtime") for name in "ab"]
    teams = [FakeTeam(memory, contest, f"team-{name}") for name in "ab"]
    poll()
    for replay, team in zip(replays, teams, strict=True):
        replay.send(replay.offer, Welcome(replay.run, "", "", ""))
        team.send(Ready, replay.run)  # before the judge knows the run: not counted, and sent again
    poll()
    for replay, team in zip(replays, teams, strict=True):
        team.send(Ready, replay.run)
        replay.send_truth()
        replay.send(note(0))
    poll()
    for k, (replay, team) in enumerate(zip(replays, teams, strict=True)):
        for n in range(5):
            team.send(ReportMessage, replay.run, result=10 * k + n, n=n)
    poll()
    assert judge.dropped == Counter()
    assert logged(judge, "team-a") == [0, 0, 1, 2, 3, 4]
    assert logged(judge, "team-b") == [0, 10, 11, 12, 13, 14]
    teams[0].send(ReportMessage, "run-of-another-judge", result=1)
    poll()
    assert judge.dropped == {"other run": 1}
    judge.close()


class TestLockstep:
    def start(self, memory, contest, poll) -> tuple[FakeReplay, FakeTeam]:
        replay, team = FakeReplay(memory, contest, "r", "lockstep"), FakeTeam(memory, contest, "t")
        poll()
        replay.send(replay.offer, Welcome(replay.run, "", "", ""), Welcome(replay.run, "t", "", ""))
        poll()
        replay.seal(TruthProbe())
        team.send(Ready, replay.run)
        poll()
        replay.send_truth()
        return replay, team

    def events(self, team: FakeTeam, run: str) -> list[PacketEvent | TeamMessageEvent]:
        report = team.signed(ReportMessage, run, result="A", n=1)
        done = team.signed(Done, run, n=4)
        return [
            PacketEvent(note(0), 1.0, 1000.0),
            TeamMessageEvent(report, 1000.1),
            PacketEvent(note(1), 1.0, 1000.2),
            PacketEvent(note(2, finish=True), 1.0, 1000.3),
            TeamMessageEvent(done, 1000.4),
        ]

    def test_the_replays_events_are_folded_as_they_stand(
        self, memory, contest, judge, poll
    ) -> None:
        replay, team = self.start(memory, contest, poll)
        events = self.events(team, replay.run)
        replay.send(note(0))  # on the control stream, too: for teams without event lists
        team.send(ReportMessage, replay.run, result="A", n=1)  # on the results stream, too
        replay.seal(RunEvents("t", 0, events[:2]), RunEvents("t", 2, events[2:]))
        poll()
        assert logged(judge, "t") == [0, "A", 10, 20]
        assert [(run.ended, run.compute_s) for run in judge.runs] == [
            ("finished", pytest.approx(0.4))
        ]
        assert judge.dropped == Counter()
        judge.close()

    def test_repeated_events_change_nothing_and_missing_ones_are_asked_for(
        self, memory, contest, judge, poll
    ) -> None:
        replay, team = self.start(memory, contest, poll)
        events = self.events(team, replay.run)
        (found,) = memory.visible(names.prefix(contest.name, "judge"))
        sent = memory.text_inlet(found, 1.0)
        replay.seal(RunEvents("t", 0, events[:2]), RunEvents("t", 0, events[:2]))
        poll()
        assert logged(judge, "t") == [0, "A"]
        assert not any('"catch"' in text for text, _ in sent.pull(0.0))
        replay.seal(RunEvents("t", 3, events[3:]))  # event 2 is missing
        poll()
        assert logged(judge, "t") == [0, "A"]
        assert any('"catch"' in text for text, _ in sent.pull(0.0))
        replay.send_truth()
        replay.seal(RunEvents("t", 0, events), HistoryComplete(1000.0))
        poll()
        assert logged(judge, "t") == [0, "A", 10, 20]
        (run,) = judge.runs
        assert run.ended == "finished"
        assert run.path.read_text().count('"truth"') == 1
        judge.close()


def test_each_report_is_verified_once_in_the_judge(contest, monkeypatch) -> None:
    """In lockstep; the replay and the judge of this test are one process, so twice in all."""
    from bci_stream.wire import verify

    reports: Counter[str] = Counter()
    verified = verify.verified

    def count(signed: str, key: bytes) -> str | None:
        reports[signed] += '"kind":"report"' in signed
        return verified(signed, key)

    monkeypatch.setattr(verify, "verified", count)
    decoder = Recorder(lambda number, packet: [number])
    played = play(MemoryTransport(), contest, program("erp", erp_recording()), {"alice": decoder})
    assert played.runs["alice"].ended == "finished"
    assert Counter(n for n in reports.values() if n) == {2: len(decoder.packets)}


class CountingTransport(MemoryTransport):
    """Counts the sample inlets that are open, and all that were ever opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = 0

    def sample_inlet(self, found: Any, timeout_s: float) -> Any:
        self.opened += 1
        return super().sample_inlet(found, timeout_s)

    @property
    def open_inlets(self) -> int:
        return sum(stream.consumers for stream in self._streams.values())


class Screen:
    def __init__(self) -> None:
        self.shown: list[tuple[str, int]] = []

    def signal(self, track: str, samples: FloatArray, rate: float, leads: tuple[str, ...]) -> None:
        self.shown.append((track, len(samples)))


def test_the_signal_view_opens_each_stream_once_and_closes_it() -> None:
    import numpy as np

    transport, screen = CountingTransport(), Screen()
    outlets = {
        owner: transport.sample_outlet(
            names.signal_stream("c", owner, 100.0, (Lead("Cz"),), track=track)
        )
        for owner, track in (("a", "ecog"), ("b", "ecog"), ("c", "mi"))
    }
    view = SignalView(transport, "c", screen)
    for _ in range(5):
        view.discover()
    assert transport.opened == 3  # each once, to read its track
    assert transport.open_inlets == 2  # one for each track
    outlets["b"].push(np.zeros((4, 2), np.float32), 1.0)
    outlets["c"].push(np.zeros((4, 2), np.float32), 1.0)
    view.show()
    assert screen.shown == [("mi", 4)]
    outlets["a"].close()
    view.show()
    view.discover()
    outlets["b"].push(np.zeros((7, 2), np.float32), 2.0)
    view.show()
    assert screen.shown[1:] == [("ecog", 7)]
    with view:
        pass
    assert transport.open_inlets == 0
