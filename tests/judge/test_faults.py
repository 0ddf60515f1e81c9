"""Faults of the organisers as a judge sees them, on memory streams and a manual clock."""

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playground import Quiet

from bci_stream.clock import ManualClock
from bci_stream.contest.contest import Contest, Limits
from bci_stream.judge.arrivals import TAKE_S, Arrival, ArrivalReader, JudgeStall
from bci_stream.judge.judge import Judge
from bci_stream.judge.session.catch_up import ANSWER_S
from bci_stream.wire import groups, names
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import (
    Done,
    HistoryComplete,
    Offer,
    PacketEvent,
    Ready,
    ReportMessage,
    RunEvents,
    TruthProbe,
)
from tests.judge.test_judge import FakeReplay, FakeTeam, ImmediateExecutor, note

PACKET_S = 0.04


class Scene:
    """A judge and a replay in real time, whose packets are sent by hand."""

    def __init__(self, contest: Contest, team_count: int = 1) -> None:
        self.clock = ManualClock()
        self.memory = MemoryTransport(self.clock.now)
        self.contest = contest
        self.sink = Quiet()
        self.stop = threading.Event()
        self.judge = self.new_judge()
        self.replay = FakeReplay(self.memory, contest, "r", "realtime")
        self.teams = {f"t{k}": FakeTeam(self.memory, contest, f"t{k}") for k in range(team_count)}
        self.events: list[PacketEvent] = []
        self.poll()
        self.replay.seal(self.replay.offer, TruthProbe())
        self.poll()
        for team in self.teams.values():
            team.send(Ready, self.replay.run)
        self.replay.send_truth()
        self.poll()

    def new_judge(self) -> Judge:
        return Judge(self.memory, self.contest, self.sink, stop=self.stop, may_start=bool)

    def poll(self, times: int = 2, step_s: float = 0.3) -> None:
        for _ in range(times):
            self.clock.advance(step_s)
            self.judge.poll()

    def packets(self, count: int, *, late_s: float = 0.0, finish: bool = False) -> None:
        """Send packets, the first of them late; the judge polls after each."""
        for k in range(count):
            due = self.clock.now() + PACKET_S
            self.clock.advance(PACKET_S + (late_s if k == 0 else 0.0))
            number = len(self.events)
            is_last = finish and k == count - 1
            self.events.append(PacketEvent(note(number, is_last), due, self.clock.now()))
            self.replay.seal(RunEvents("", number, [self.events[-1]]))
            self.judge.poll()

    def lines(self, team: str = "t0") -> list[dict[str, Any]]:
        (path,) = [run.path for run in self.judge.runs if run.team == team]
        return [json.loads(line) for line in path.read_text().splitlines()]

    def outages(self, team: str = "t0") -> list[tuple[int, int, str]]:
        return [
            (line["from"], line["to"], line["why"]["code"])
            for line in self.lines(team)
            if line["kind"] == "outage"
        ]

    def die(self) -> None:
        """What a kill leaves behind: streams that are gone, and logs without an end."""
        for run in self.judge.runs:
            run.abandon()
        self.judge._close_streams()


@pytest.fixture
def scenes(contest: Contest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Scene]]:
    monkeypatch.setattr(groups, "ThreadPoolExecutor", ImmediateExecutor)
    made: list[Scene] = []

    def scene(**options: Any) -> Scene:
        made.append(Scene(contest, **options))
        return made[-1]

    yield scene
    for each in made:
        each.judge.close()


class TestOutagesOfASession:
    def test_without_a_fault_no_line_is_written(self, scenes) -> None:
        scene = scenes()
        scene.packets(50)
        scene.poll(10)
        assert scene.outages() == []
        assert scene.sink.alarms == []

    def test_a_late_packet(self, scenes) -> None:
        scene = scenes(team_count=2)
        scene.packets(10)
        scene.packets(1, late_s=1.5)
        scene.packets(40)
        assert scene.outages("t0") == scene.outages("t1") == [(9, 10, "outage_replay")]
        assert [alarm.code for alarm in scene.sink.alarms] == ["outage_replay"]

    def test_a_packet_counts_from_when_it_left_not_from_when_it_was_due(self, scenes) -> None:
        """It is late by less than an outage: a report before it was made without it."""
        scene = scenes()
        scene.packets(10)
        scene.packets(1, late_s=0.2)
        scene.clock.advance(0.5 * PACKET_S)  # within the grace of a packet
        scene.teams["t0"].send(ReportMessage, scene.replay.run, result="A")
        scene.judge.poll()
        scene.packets(5)
        scene.poll()
        kinds = [line["kind"] for line in scene.lines() if line["kind"] in ("packet", "report")]
        assert kinds[:12] == ["packet"] * 10 + ["report", "packet"]

    def test_a_link_that_is_late(self, scenes) -> None:
        scene = scenes()
        scene.packets(10)
        left = scene.clock.now()
        sent_at = [left + PACKET_S * (k + 1) for k in range(25)]
        held = [PacketEvent(note(10 + k), at, at) for k, at in enumerate(sent_at)]
        scene.clock.advance(1.2)
        scene.replay.seal(RunEvents("", 10, held))
        scene.judge.poll()
        scene.events += held
        scene.packets(80)
        ((first, last, code),) = scene.outages()
        assert (first, code) == (9, "outage_link")
        assert (
            last >= 35 + 20
        )  # what the link delayed beside the packets may be later than they are

    def test_a_judge_that_stands_still(self, scenes) -> None:
        scene = scenes()
        scene.packets(10)
        since = scene.clock.now()
        scene.clock.advance(1.0)
        scene.judge._handle(JudgeStall(since, scene.clock.now()))
        scene.packets(60)
        ((first, last, code),) = scene.outages()
        assert (first, code) == (8, "outage_judge")  # packet 9 left within its grace
        assert last >= 10

    def test_before_the_first_packet_a_stall_is_no_outage(self, scenes) -> None:
        scene = scenes()
        scene.judge._handle(JudgeStall(scene.clock.now() - 5.0, scene.clock.now()))
        scene.packets(60)
        assert scene.outages() == []

    def test_a_late_joiners_places_are_its_own(self, scenes) -> None:
        scene = scenes()
        scene.packets(20)
        late = FakeTeam(scene.memory, scene.contest, "late")
        scene.poll()
        late.send(Ready, scene.replay.run)
        scene.poll()
        scene.packets(10)
        scene.packets(1, late_s=1.5)
        scene.packets(40)
        first = next(line["i"] for line in scene.lines("late") if line["kind"] == "packet")
        assert first > 0
        assert scene.outages("t0") == [(29, 30, "outage_replay")]
        assert scene.outages("late") == [(29 - first, 30 - first, "outage_replay")]

    def test_an_outage_near_the_end_stands_before_it(self, scenes) -> None:
        scene = scenes()
        scene.packets(10)
        scene.packets(1, late_s=1.5, finish=True)
        scene.teams["t0"].send(Done, scene.replay.run, n=0)
        scene.poll(12)
        kinds = [line["kind"] for line in scene.lines()]
        assert scene.outages() == [(9, 10, "outage_replay")]
        assert kinds.index("outage") < kinds.index("end")

    def test_a_team_that_leaves_in_a_fault_has_it_and_the_others_have_all_of_it(
        self, scenes
    ) -> None:
        scene = scenes(team_count=2)
        scene.packets(10)
        since = scene.clock.now()
        scene.clock.advance(1.0)
        scene.judge._handle(JudgeStall(since, scene.clock.now()))
        scene.teams["t0"].send(Done, scene.replay.run, reason="stopped", n=0)
        scene.packets(60)
        kinds = [line["kind"] for line in scene.lines("t0")]
        assert kinds.index("outage") < kinds.index("end")
        assert scene.outages("t0")[0][0] == scene.outages("t1")[0][0] == 8
        assert scene.outages("t1")[-1][1] > 10


class TestRestart:
    def restarted(self, scene: Scene) -> float:
        """Kill the judge, start another one and give it the history; when the first one was gone."""
        scene.packets(30)
        gone_at = scene.clock.now()
        scene.die()
        scene.clock.advance(5.0)
        scene.judge = scene.new_judge()
        scene.poll()
        scene.replay.seal(scene.replay.offer, TruthProbe())
        scene.poll()
        scene.replay.send_truth()
        scene.replay.seal(RunEvents("", 0, scene.events), HistoryComplete(gone_at))
        scene.poll(1, 0.01)
        return gone_at

    def test_the_absence_is_an_outage(self, scenes) -> None:
        scene = scenes()
        self.restarted(scene)
        scene.teams["t0"].send(Ready, scene.replay.run)
        scene.poll(2, 0.01)
        scene.packets(60)
        ((first, last, code),) = scene.outages()
        assert (first, code) == (28, "outage_judge")
        assert last >= 29
        numbers = [line["i"] for line in scene.lines() if line["kind"] == "packet"]
        assert numbers == list(range(len(numbers)))

    def test_packets_wait_until_a_team_has_sent_again_what_was_lost(self, scenes) -> None:
        """A report that came after the next packets would hold up those after it."""
        scene = scenes()
        gone_at = self.restarted(scene)
        assert not self.sent_go(scene)
        scene.clock.advance(ANSWER_S / 2)
        scene.teams["t0"].send(ReportMessage, scene.replay.run, result="A", n=0)
        scene.teams["t0"].send(Ready, scene.replay.run)
        scene.poll()
        assert self.sent_go(scene)
        scene.packets(60)
        (report,) = [line for line in scene.lines() if line["kind"] == "report"]
        at_30 = [line["t"] for line in scene.lines() if line.get("i") == 30]
        assert report["t"] < at_30[0]
        assert report["t"] <= gone_at  # as if it had arrived before the judge was gone
        logged = [line.get("i", line["kind"]) for line in scene.lines()]
        assert logged.index("report") < logged.index(30)

    def test_a_judge_that_is_stopped_before_it_has_the_truth_again_leaves_the_logs_open(
        self, scenes
    ) -> None:
        scene = scenes()
        scene.packets(30)
        scene.die()
        scene.judge = scene.new_judge()
        scene.poll()
        scene.replay.seal(scene.replay.offer, TruthProbe())
        scene.poll()
        scene.judge.close()
        assert scene.lines()[-1]["kind"] != "end"

    def test_a_team_that_is_gone_delays_the_run_for_a_moment_only(self, scenes) -> None:
        scene = scenes()
        self.restarted(scene)
        scene.clock.advance(ANSWER_S)
        scene.poll()
        assert self.sent_go(scene)

    def sent_go(self, scene: Scene) -> bool:
        (found,) = scene.memory.visible(names.prefix(scene.contest.name, "judge"))
        sent = scene.memory.text_inlet(found, 1.0)
        scene.poll()
        return any('"go"' in text for text, _ in sent.pull(0.0))


def test_a_packet_is_not_judged_before_everything_that_arrived_earlier_was_read(scenes) -> None:
    scene = scenes()
    scene.packets(3)
    (run,) = scene.judge.runs
    before = run._log.lines
    scene.judge._reads_inline = False  # as while another thread reads
    scene.clock.advance(PACKET_S)
    scene.judge.poll()
    assert run._log.lines == before  # a report may have arrived within the grace of the last packet
    scene.judge._arrivals.read()
    scene.judge.poll()
    assert run._log.lines == before + 1


class TestArrivalReader:
    def taken(self, reader: ArrivalReader) -> list[Arrival | JudgeStall]:
        arrived: list[Arrival | JudgeStall] = []
        reader.take(arrived.append)
        return arrived

    @pytest.fixture
    def reader(self, monkeypatch: pytest.MonkeyPatch) -> tuple[ManualClock, Any, ArrivalReader]:
        monkeypatch.setattr(groups, "ThreadPoolExecutor", ImmediateExecutor)
        clock = ManualClock()
        memory = MemoryTransport(clock.now)
        outlet = memory.text_outlet(names.text_stream("c", "results", "alice"))
        reader = ArrivalReader(memory, "c", Limits(outage_s=0.25))
        for _ in range(2):
            reader.read()
            clock.advance(0.26)
            reader.read()
        self.taken(reader)
        return clock, outlet, reader

    def test_the_judge_handles_a_flood_in_parts_and_packets_wait_for_the_rest(self, reader) -> None:
        """What arrived before the returned time has been handled, so that no packet overtakes a report."""
        clock, outlet, read = reader
        for number in range(4):
            outlet.push(str(number))
            clock.advance(0.01)
            read.read()
        read_to = clock.now()
        handled: list[str] = []

        def handle(arrival: Any) -> None:
            handled.append(arrival.text)
            clock.advance(0.6 * TAKE_S)

        first = read.take(handle)
        assert handled == ["0", "1"]
        assert first == pytest.approx(read_to - 0.02)
        clock.advance(-clock.now() + read_to)
        assert read.take(lambda arrival: handled.append(arrival.text)) == read_to
        assert handled == ["0", "1", "2", "3"]

    @pytest.mark.parametrize(
        ("paces", "texts_a_s", "megabytes"),
        [(["realtime"], 1000.0, 40.0), (["10", "2"], 10_000.0, 400.0), (["realtime", "lockstep"], None, 0),
         ([], None, 0)],
    )  # fmt: skip
    def test_streams_are_limited_by_what_a_team_may_send(
        self, reader, paces, texts_a_s, megabytes
    ) -> None:
        """Lockstep has no pace, and the replay's list has the messages."""
        _, _, read = reader
        offers = [Offer("c", "r", "erp", pace, 250.0, 10, [], []) for pace in paces]
        read.follow(offers)
        limits = read.results.limits
        if texts_a_s is None:
            assert limits is None
        else:
            assert (limits.texts_a_s, limits.chars_a_minute) == (texts_a_s, megabytes * 1e6)

    def test_a_text_has_the_time_at_which_it_was_read(self, reader) -> None:
        clock, outlet, read = reader
        outlet.push("hello", -1e9)  # the sender's own stamp is not used
        clock.advance(0.1)
        read.read()
        clock.advance(5.0)  # the judge is busy
        (arrival,) = self.taken(read)
        assert (arrival.text, arrival.owner, arrival.role) == ("hello", "alice", "results")
        assert arrival.at == pytest.approx(clock.now() - 5.0)

    def test_a_stall_stands_before_what_it_delayed(self, reader) -> None:
        clock, outlet, read = reader
        read._running_at = clock.now()
        outlet.push("hello")
        clock.advance(1.5)
        read.read()
        stall, arrival = self.taken(read)
        assert (stall.at - stall.since) == pytest.approx(1.5)
        assert (stall.at, arrival.text) == (arrival.at, "hello")

    def test_an_error_of_its_thread_is_raised_in_the_judges(self, reader, monkeypatch) -> None:
        _, _, read = reader

        def fail(*_: object) -> None:
            raise OSError("too many open files")

        monkeypatch.setattr(read.results, "pull", fail)
        read.read_until(threading.Event())
        with pytest.raises(OSError, match="too many open files"):
            read.take(lambda _: None)

    def test_a_flood_is_dropped_and_counted(self, reader, monkeypatch) -> None:
        from bci_stream.judge import arrivals

        monkeypatch.setattr(arrivals, "MOST_QUEUED", 100)
        _, outlet, read = reader
        for _ in range(30):
            outlet.push("x" * 10)
        read.read()
        assert len(self.taken(read)) == 11
        assert read.dropped == 19
        outlet.push("x" * 10)  # the queue is empty again
        read.read()
        assert len(self.taken(read)) == 1
