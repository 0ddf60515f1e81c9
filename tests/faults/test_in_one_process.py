"""Faults that can be made inside one process: a replay that stalls, and requests at unlucky moments."""

import dataclasses
import json
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from playground import WAIT_S, Quiet, Recorder, erp_recording, logged_lines, play, program

from bci_stream.clock import RealClock
from bci_stream.contest.actions import OperatorRequest, PauseRuns, PlayBlockAgain, ResumeRuns
from bci_stream.contest.contest import Contest, Limits, TrackPlan
from bci_stream.errors import BciError, LostError, NotFoundError
from bci_stream.judge.judge import Judge
from bci_stream.judge.operator.desk import OperatorDesk
from bci_stream.judge.operator.journal import OperatorJournal
from bci_stream.packet import Packet
from bci_stream.runlog import score_run
from bci_stream.wire import names
from bci_stream.wire.client import TeamClient
from bci_stream.wire.memory import MemoryTransport
from decoders.worker import Worker
from replay.model.recording import ArrayBlock, Recording
from replay.player.handshake import HandshakeServer
from replay.player.player import Player, parse_pace
from scripts.fault_rig import wait_for
from tests.end_to_end.labelled_sessions import labelled
from tracks.emotion import CLIPS

STALL_S = 1.3


class StallingClock(RealClock):
    """Oversleeps once, at its n-th wait for a deadline."""

    def __init__(self, now: Callable[[], float], n: int) -> None:
        super().__init__(now)
        self._waits_left = n

    def wait_until(self, deadline: float, *args: Any, **more: Any) -> bool:
        self._waits_left -= 1
        if self._waits_left == 0:
            deadline += STALL_S
        return super().wait_until(deadline, *args, **more)


def answer(number: int, packet: Packet) -> list[object]:
    return [105] if any(code == 200 for _, code in packet.triggers) else []


def test_a_replay_that_stalls_is_an_outage_and_no_decoder_is_blamed(contest) -> None:
    transport = MemoryTransport()
    teams = {name: Recorder(answer) for name in ("alice", "bob")}
    played = play(
        transport,
        contest,
        program("erp", erp_recording((105, 120, 130, 110))),
        teams,
        pace="1",
        clock=StallingClock(transport.now, 25),
    )
    assert not played.errors
    for run in played.runs.values():
        events = [json.loads(line) for line in run.path.read_text().splitlines()]
        outages = [event for event in events if event["kind"] == "outage"]
        longest = max(outages, key=lambda event: event["why"]["parameters"]["outage_s"])
        assert longest["why"]["parameters"]["outage_s"] >= STALL_S - 0.1
        assert longest["why"]["code"] == "outage_replay"
    assert not [line for line in played.logged if "BEHIND" in line]
    assert not [state for state in played.sink.states if state[1] == "lagging"]
    # The packets after the stall keep their distance: none comes in a burst.
    assert all(len(decoder.packets) == len(teams["alice"].packets) for decoder in teams.values())


def test_a_decoder_that_is_slow_is_behind(contest) -> None:
    pause = threading.Event()

    def slow(number: int, packet: Packet) -> list[object]:
        pause.wait(0.08)
        return []

    played = play(
        MemoryTransport(),
        contest,
        program("erp", erp_recording((105, 120, 130, 110))),
        {"alice": Recorder(slow)},
        pace="1",
    )
    assert [line for line in played.logged if "BEHIND" in line]
    assert [state for state in played.sink.states if state[1] == "lagging"]


class JumpingClock:
    """Real time, with jumps: for whoever reads it, the process stood still meanwhile."""

    def __init__(self) -> None:
        self._skipped_s = 0.0

    def now(self) -> float:
        return time.monotonic() + self._skipped_s

    def jump(self, seconds: float) -> None:
        self._skipped_s += seconds


@pytest.mark.parametrize("jump_s", [0.0, 5.0])
def test_a_lockstep_replay_that_stands_still_makes_no_decision_late(
    contest: Contest, jump_s: float
) -> None:
    """The one rule about time in lockstep is emotion's limit for a decision."""
    limit = {"emotion": TrackPlan(rules={"decision_limit_s": 3.0})}
    contest = dataclasses.replace(contest, tracks=limit)
    clock = JumpingClock()
    in_block = 0

    def decide(number: int, packet: Packet) -> list[object]:
        nonlocal in_block
        if any(code == 242 for _, code in packet.triggers):
            in_block = 0
            return []
        in_block += 1
        if in_block % 5:
            return []
        if in_block == 40:
            clock.jump(jump_s)
        return [CLIPS[5][1]]  # right in both clips

    played = play(
        MemoryTransport(clock.now),
        contest,
        program("emotion", labelled("emotion", [[(5, 3, 12), (4, 15, 24)]])),
        {"alice": Recorder(decide)},
    )
    run = score_run(played.runs["alice"].path)
    assert played.runs["alice"].ended == "finished"
    first, second = run.verdicts()
    assert first.void or first.share == 1.0
    assert second.void or second.share == 1.0
    events = [json.loads(line) for line in played.runs["alice"].path.read_text().splitlines()]
    late = [event for event in events if event.get("elapsed_s", 0.0) > 3.0]
    assert bool(late) == bool(jump_s)
    assert (first.void_parts > 0) or not jump_s


PAUSE_S = 1.5


def first_seconds(recording: Recording, seconds: int) -> Recording:
    (block,) = recording.blocks
    n = round(seconds * recording.rate)
    triggers = (*(t for t in block.triggers if t[0] < n - 1), (n - 1, 243))
    return dataclasses.replace(recording, blocks=[ArrayBlock(block.read(0, n), triggers)])


@pytest.mark.parametrize("pace", ["4", "lockstep"])
def test_an_operator_pauses_and_plays_a_block_again_at_no_teams_cost(
    contest: Contest, pace: str
) -> None:
    """The pause is longer than any limit: of an outage, of silence, and of a decision."""
    limits = Limits(outage_s=1.0, silence_s=1.0)
    rules = {"emotion": TrackPlan(rules={"decision_limit_s": 1.0})}
    contest = dataclasses.replace(contest, tracks=rules, limits=limits)
    transport = MemoryTransport()
    answers: list[str] = []

    def operate(judge: Judge, sink: Quiet) -> None:
        contest.folder.mkdir(parents=True, exist_ok=True)
        journal = OperatorJournal(contest.folder / "operator.journal")
        desk = OperatorDesk(judge, sink, journal, announce=lambda _: None)
        paused_at = 0.0

        def once() -> None:
            nonlocal paused_at
            packets = sum(event["kind"] == "packet" for event in sink.shown)
            action: PauseRuns | PlayBlockAgain | ResumeRuns | None = None
            if not answers and packets > 8:
                action, paused_at = PauseRuns(reason="a cable"), transport.now()
            elif len(answers) == 1:
                action = PlayBlockAgain("a cable", block=1)
            elif len(answers) == 2 and transport.now() > paused_at + PAUSE_S:
                action = ResumeRuns()
            if action is not None:
                answers.append(desk.handle(OperatorRequest(action, "test")).text)

        judge.operator = once

    def decider() -> Callable[[int, Packet], list[object]]:
        in_block = 0

        def decide(_: int, packet: Packet) -> list[object]:
            nonlocal in_block
            in_block = 0 if any(code == 242 for _, code in packet.triggers) else in_block + 1
            time.sleep(0.005)  # in lockstep the pause must begin before the end
            return [CLIPS[5][1]] if in_block and in_block % 5 == 0 else []

        return decide

    teams = ("alice",) if pace == "lockstep" else ("alice", "bob")
    played = play(
        transport,
        contest,
        program("emotion", first_seconds(labelled("emotion", [[(5, 1, 7)]]), 9)),
        {name: Recorder(decider()) for name in teams},
        pace=pace,
        prepare=operate,
    )
    assert (answers[0], answers[-1]) == ("paused: emotion", "goes on: emotion")
    assert not played.errors
    for run in played.runs.values():
        lines = [json.loads(line) for line in run.path.read_text().splitlines()]
        assert run.ended == "finished"
        assert [line for line in lines if line["kind"] == "outage"] == []
        clip, again = score_run(run.path).verdicts()
        assert (clip.block, clip.void) == (0, True)
        assert (again.block, again.share, again.void_parts) == (1, 1.0, 0)
        left = [line["t"] for line in lines if line["kind"] == "packet"]
        waits = [later - earlier for earlier, later in pairwise(left)]
        assert max(waits) > PAUSE_S - 0.5
        assert run.compute.used_s < left[-1] - left[0] - PAUSE_S / 2
    assert played.sink.alarms == []


@pytest.mark.timeout(60)
def test_a_request_that_is_received_by_a_poll_is_not_lost(contest, monkeypatch) -> None:
    requested = HandshakeServer.requested

    def poll_first(self: HandshakeServer, *args: Any, **more: Any) -> bool:
        self.poll()
        return requested(self, *args, **more)

    monkeypatch.setattr(HandshakeServer, "requested", poll_first)
    decoder = Recorder(answer)
    played = play(MemoryTransport(), contest, program("erp", erp_recording()), {"alice": decoder})
    assert played.runs["alice"].ended == "finished"
    assert not played.errors


def test_a_team_whose_replay_gives_up_before_the_start_learns_why(contest: Contest) -> None:
    transport, stop = MemoryTransport(), threading.Event()
    pace, clock = parse_pace("2"), RealClock(transport.now)
    plan = program("erp", erp_recording())
    player = Player(
        transport,
        clock,
        contest,
        plan,
        name="r",
        pace=pace,
        start_on="judge",
        stop=stop,
        wait_s=2.0,
    )
    judge = Judge(transport, contest, Quiet(), stop=stop, may_start=lambda _: False)
    client = TeamClient(transport, contest.name, "alice", contest.keys.token("alice"), stop=stop)
    worker = Worker(client, Recorder(answer), track="erp", join_s=WAIT_S, stop=stop)
    raised: list[BciError] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BciError as error:
            raised.append(error)

    threads = [threading.Thread(target=guarded, args=[w]) for w in (player.play, worker.run)]
    with logged_lines("decoders") as lines:
        for thread in threads:
            thread.start()
        judge.judge(lambda _: not any(thread.is_alive() for thread in threads), WAIT_S)
    assert {type(error) for error in raised} == {NotFoundError, LostError}
    (why,) = [str(error) for error in raised if isinstance(error, LostError)]
    assert why.startswith(
        "the run never began: replay 'r' ended before its first packet (waited 2 s"
    )
    assert [line for line in lines if line.startswith("team alice: joined run ")]


@pytest.mark.timeout(100)
@pytest.mark.parametrize("pace", ["2", "lockstep"])
def test_a_judge_that_dies_between_its_go_and_its_first_line(contest: Contest, pace: str) -> None:
    transport, stop = MemoryTransport(), threading.Event()
    plan = program("erp", erp_recording())
    player = Player(
        transport,
        RealClock(transport.now),
        contest,
        plan,
        name="r",
        pace=parse_pace(pace),
        start_on="judge",
        stop=stop,
        wait_s=WAIT_S,
    )
    decoder = Recorder(answer)
    client = TeamClient(transport, contest.name, "alice", contest.keys.token("alice"), stop=stop)
    worker = Worker(client, decoder, track="erp", join_s=WAIT_S, stop=stop)
    threads = [threading.Thread(target=run, daemon=True) for run in (player.play, worker.run)]
    first = Judge(transport, contest, Quiet(), stop=stop, may_start=bool)
    (found,) = transport.visible(names.prefix(contest.name, "judge"))
    sent = transport.text_inlet(found, 1.0)
    for thread in threads:
        thread.start()
    deadline = transport.now() + WAIT_S
    while not any('"go"' in text for text, _ in sent.pull(0.0)):
        assert transport.now() < deadline
        first.poll()
    first._close_streams()
    assert not list(contest.runs.glob("*.jsonl"))
    if pace != "lockstep":
        wait_for("the first packet", lambda: player.progress.packets > 0, WAIT_S)
    second = Judge(transport, contest, Quiet(), stop=stop, may_start=bool)
    deadline = transport.now() + WAIT_S
    (run,) = second.judge(lambda j: j.all_over() or transport.now() > deadline, WAIT_S)
    stop.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert run.ended == "finished"
    events = [json.loads(line) for line in run.path.read_text().splitlines()]
    numbers = [event["i"] for event in events if event["kind"] == "packet"]
    assert numbers == list(range(len(decoder.packets)))
    outages = [event["from"] for event in events if event["kind"] == "outage"]
    assert (0 in outages) == (pace != "lockstep")
