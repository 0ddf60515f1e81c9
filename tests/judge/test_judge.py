"""The judge against replays and teams that are played by hand, on memory streams and a manual clock."""

import json
from collections import Counter
from concurrent.futures import Future
from typing import Any

import pytest
from playground import Quiet, Recorder, erp_recording, play, program

from bci_stream.clock import ManualClock
from bci_stream.judge.judge import Judge
from bci_stream.wire import groups, names
from bci_stream.wire.crypto import seal_truth, sign
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import (
    Done,
    HistoryComplete,
    Offer,
    PacketEvent,
    PacketNote,
    Ready,
    ReportMessage,
    RunEvents,
    SealedMessage,
    Status,
    Stopped,
    TeamMessageEvent,
    TruthComplete,
    TruthNote,
    TruthProbe,
    Welcome,
    encode,
)


class FakeReplay:
    """The sealed stream of a replay, with a run of its own."""

    def __init__(self, transport: MemoryTransport, contest: Any, name: str, pace: str) -> None:
        self.run = f"run-{name}"
        self._contest = contest
        self._seq = 0
        self._truth = transport.text_outlet(names.text_stream(contest.name, "truth", name))
        self.offer = Offer(contest.name, self.run, "erp", pace, 250.0, 10, ["Cz"], ["S01"])

    def seal(self, *messages: Any) -> None:
        key = self._contest.keys.truth_key()
        for message in messages:
            text = encode(SealedMessage(self._seq, message))
            self._truth.push(seal_truth(text, key, self.run, self._truth.uid))
            self._seq += 1

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


class ImmediateExecutor:
    """Opens streams at once, so that a poll has the same effect each time."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def submit(self, call, *args) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(call(*args))
        return future

    def shutdown(self, **_: object) -> None: ...


@pytest.fixture
def judge(memory: MemoryTransport, contest, stop, monkeypatch) -> Judge:
    monkeypatch.setattr(groups, "ThreadPoolExecutor", ImmediateExecutor)
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


def test_a_message_goes_to_its_own_run_only(memory, contest, judge, poll, clock) -> None:
    """Two replays in real time: neither counts the other's reports as dropped."""
    replays = [FakeReplay(memory, contest, name, "realtime") for name in "ab"]
    teams = [FakeTeam(memory, contest, f"team-{name}") for name in "ab"]
    poll()
    for replay, team in zip(replays, teams, strict=True):
        team.send(Ready, replay.run)  # before the judge knows the run: not counted, and sent again
        replay.seal(replay.offer, TruthProbe())
    poll()
    for replay, team in zip(replays, teams, strict=True):
        team.send(Ready, replay.run)
        replay.send_truth()
    poll()
    for replay in replays:
        replay.seal(RunEvents("", 0, [PacketEvent(note(0), clock.now(), clock.now())]))
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
        replay.seal(replay.offer, Welcome(replay.run, "t", "", ""))
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
        team.send(ReportMessage, replay.run, result="A", n=1)  # on the results stream, too
        replay.seal(RunEvents("t", 0, events[:2]), RunEvents("t", 2, events[2:]))
        poll()
        assert logged(judge, "t") == [0, "A", 10, 20]
        assert [(run.ended, run.compute.used_s) for run in judge.runs] == [
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


def test_a_sealed_message_that_is_sent_again_is_ignored(memory, contest, judge, poll) -> None:
    """A22: by whoever can forge the stream's uid; on another stream it can't be opened."""
    replay = FakeReplay(memory, contest, "r", "realtime")
    poll()
    replay.seal(replay.offer, TruthProbe())
    poll()
    team = FakeTeam(memory, contest, "t")
    poll()
    team.send(Ready, replay.run)
    replay.send_truth()
    poll()
    replay.seal(RunEvents("", 0, [PacketEvent(note(0), 1000.0, 1000.0)]))
    poll()
    (found,) = memory.visible(names.prefix(contest.name, "truth"))
    sent = memory.text_inlet(found, 1.0)
    replay.seal(Status("gap", "10 samples"))
    ((text, _),) = sent.pull(0.0)
    for _ in range(3):
        replay._truth.push(text)
    poll()
    (session,) = judge.sessions
    assert session.problems == {"a sealed message that was sent before": 3}
    (run,) = judge.runs
    run.abandon()
    assert run.path.read_text().count('"gap"') == 1


def test_a_second_sealed_stream_of_one_run_is_ignored_and_shown(
    memory, contest, judge, poll
) -> None:
    replays = [FakeReplay(memory, contest, name, "realtime") for name in "ab"]
    poll()
    replays[1].run = replays[0].run
    for replay in replays:
        replay.seal(replay.offer, TruthProbe())
        poll()
    replays[1].seal(Stopped("of the second stream"))
    poll()
    (session,) = judge.sessions
    assert (session.name, session.is_over) == ("a", False)
    assert {alarm.code for alarm in judge._sink.alarms} == {"second_stream"}


def test_each_report_is_verified_once_in_the_judge(contest, monkeypatch) -> None:
    """In lockstep; the replay and the judge of this test are one process, so twice in all."""
    from bci_stream.wire import verify
    from replay.player import inlets

    reports: Counter[str] = Counter()
    verified = verify.verified

    def count(signed: str, key: bytes) -> str | None:
        reports[signed] += '"kind":"report"' in signed
        return verified(signed, key)

    monkeypatch.setattr(verify, "verified", count)
    monkeypatch.setattr(inlets, "JUDGE_SILENT_S", 100.0)  # a stall would have all of it sent again
    decoder = Recorder(lambda number, packet: [number])
    played = play(MemoryTransport(), contest, program("erp", erp_recording()), {"alice": decoder})
    assert played.runs["alice"].ended == "finished"
    assert Counter(n for n in reports.values() if n) == {2: len(decoder.packets)}


def test_in_lockstep_listed_teams_with_a_replay_each_begin_together(
    memory, contest, stop, clock, monkeypatch
) -> None:
    monkeypatch.setattr(groups, "ThreadPoolExecutor", ImmediateExecutor)
    judge = Judge(
        memory, contest, Quiet(), stop=stop, may_start=lambda teams: {"a", "b"} <= set(teams)
    )
    (found,) = memory.visible(names.prefix(contest.name, "judge"))
    sent = memory.text_inlet(found, 1.0)
    pairs = [
        (FakeReplay(memory, contest, t, "lockstep"), FakeTeam(memory, contest, t)) for t in "ab"
    ]

    def poll_and_read() -> str:
        for _ in range(3):
            clock.advance(0.3)
            judge.poll()
        return " ".join(text for text, _ in sent.pull(0.0))

    poll_and_read()
    for number, (replay, team) in enumerate(pairs):
        replay.seal(replay.offer, Welcome(replay.run, team.name, "", ""), TruthProbe())
        poll_and_read()
        team.send(Ready, replay.run)
        assert ('"go"' in poll_and_read()) == (number == 1)
    judge.close()
