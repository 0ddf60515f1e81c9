"""A judge that dies at any moment: a new one goes on, and the score is that of a run without the death."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from playground import WAIT_S, Quiet, Recorder, erp_recording, play, program

from bci_stream.clock import RealClock
from bci_stream.contest.contest import Contest
from bci_stream.judge.judge import Judge
from bci_stream.packet import Packet
from bci_stream.runlog import drop_cut_line, score_run
from bci_stream.wire.client import TeamClient
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.transport import Transport
from decoders.worker import Worker
from replay.player.player import Player, parse_pace

DIFFERS = ("t", "elapsed_s", "compute_s", "h", "message", "n")
"""Measured times, the hash that covers them, and the team's message, which names the run."""


def what() -> Any:
    return program("erp", erp_recording(), erp_recording((136, 101), "S02"))


def answer(number: int, packet: Packet) -> list[object]:
    return [number % 36 + 1] if number % 7 == 3 else []


def lines(path: Path) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in path.read_text().splitlines()]
    return [
        {k: v for k, v in event.items() if k not in DIFFERS or (k == "n" and "start" in event)}
        for event in events
        if event["kind"] != "seal"
    ]


def new_judge(transport: Transport, contest: Contest, stop: threading.Event) -> Judge:
    return Judge(transport, contest, Quiet(), stop=stop, may_start=bool)


def die(judge: Judge) -> None:
    """What a kill leaves behind: streams that are gone, and logs without an end."""
    for session in judge.sessions:
        for run in session.teams.values():
            run._log._file.close()
    judge._close_streams()


def written(contest: Contest) -> int:
    return sum(len(path.read_bytes().splitlines()) for path in contest.runs.glob("*.jsonl"))


def play_with_deaths(
    transport: Transport, contest: Contest, deaths: list[int], pace: str = "lockstep"
) -> Path:
    """The judge dies when its log has so many lines; the next one starts at once."""
    stop = threading.Event()
    clock = RealClock(transport.now)
    player = Player(transport, clock, contest, what(), name="r", pace=parse_pace(pace),
                    start_on="judge", stop=stop, wait_s=WAIT_S)  # fmt: skip
    token = contest.keys.token("alice")
    client = TeamClient(transport, contest.name, "alice", token, stop=stop)
    worker = Worker(client, Recorder(answer), track="erp", join_s=WAIT_S, stop=stop)
    threads = [threading.Thread(target=run, daemon=True) for run in (player.play, worker.run)]
    for thread in threads:
        thread.start()
    deadline = transport.now() + 2 * WAIT_S
    for lines_then in deaths:
        judge = new_judge(transport, contest, stop)
        while written(contest) < lines_then and transport.now() < deadline:
            judge.poll()
        die(judge)
    last = new_judge(transport, contest, stop)

    def is_over(judge: Judge) -> bool:
        """The last judge may have closed the run before it died; then no replay is left to be judged."""
        nothing_left = not judge.sessions and not threads[0].is_alive()
        return judge.all_over() or nothing_left or transport.now() > deadline

    last.judge(is_over, WAIT_S)
    stop.set()
    for thread in threads:
        thread.join(WAIT_S)
    (log,) = contest.runs.glob("*.jsonl")
    return log


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    contest = Contest("calm", tmp_path_factory.mktemp("calm"))
    played = play(MemoryTransport(), contest, what(), {"alice": Recorder(answer)})
    return played.runs["alice"].path


@pytest.mark.parametrize("deaths", [[1], [2], [3], [10], [25], [40, 41], [50, 60, 75], [80], [81]])
def test_a_restart_gives_the_log_of_a_run_without_it(contest, undisturbed, deaths) -> None:
    log = play_with_deaths(MemoryTransport(), contest, deaths)
    assert lines(log) == lines(undisturbed)
    assert score_run(log).result() == score_run(undisturbed).result()


@pytest.mark.lsl
def test_the_same_over_lsl(lsl_transport, contest, undisturbed) -> None:
    log = play_with_deaths(lsl_transport, contest, [30])
    assert lines(log) == lines(undisturbed)


def test_in_real_time_nothing_is_lost_either(contest, undisturbed) -> None:
    log = play_with_deaths(MemoryTransport(), contest, [20, 60], pace="4")
    mine, calm = lines(log), lines(undisturbed)
    for kind in ("session", "truth", "packet", "report", "end"):
        assert [e for e in mine if e["kind"] == kind] == [e for e in calm if e["kind"] == kind]


def test_a_line_that_was_being_written_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"kind":"run"}\n{"kind":"pack')
    drop_cut_line(path)
    assert path.read_bytes() == b'{"kind":"run"}\n'
    drop_cut_line(path)
    assert path.read_bytes() == b'{"kind":"run"}\n'
