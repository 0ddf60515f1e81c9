"""Teams that break the rules with their own token: they alone pay for it."""

import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playground import WAIT_S, Quiet, Recorder, counter_recording, play, program
from redteam.attacks import Speller, check_run, log_lines, sealed_contest, what

from bci_stream.clock import RealClock
from bci_stream.contest.contest import Contest
from bci_stream.errors import BciError, RefusedError, SourceError
from bci_stream.judge.judge import Judge
from bci_stream.packet import Packet
from bci_stream.runlog import score_run
from bci_stream.wire import results
from bci_stream.wire.client import TeamClient
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import Stopped, encode
from bci_stream.wire.transport import Transport
from decoders.worker import Worker
from replay.player import lockstep
from replay.player.player import Player, parse_pace
from replay.service import secret_seed

PACE = "realtime"


def new_client(transport: Transport, contest: Contest, team: str, stop: Any) -> TeamClient:
    return TeamClient(
        transport, contest.name, team, contest.keys.token(team), stop=stop,
        public_key=contest.keys.public_key(), sealed=contest.sealed,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reports", "limits", "reason"),
    [
        (["x" * 1_000_000], {"message_mb_a_minute": 5.0}, "limits.message_mb_a_minute"),
        (["x" * 1_000_000], {"message_mb": 5.0}, "limits.message_mb"),
        ([1] * 1000, {}, "limits.reports_a_packet"),
    ],
)
def test_a_team_that_sends_too_much_is_disqualified_alone(
    contest, undisturbed, reports, limits, reason
) -> None:
    """A15: the organiser's disk is not filled, and the other team has its score."""
    sealed = sealed_contest(contest.name, contest.folder, **limits)
    # Enough to break the limit: this client's own work is done in the process of the others.
    packets = range(12) if len(reports) == 1 else (5,)
    mallory = Recorder(lambda number, packet: reports if number in packets else [])
    teams = {"alice": Speller(), "mallory": mallory}
    played = play(MemoryTransport(), sealed, what(), teams, pace=PACE)
    check_run(played, undisturbed, ordered=False)
    run = played.runs["mallory"]
    assert run.ended == "disqualified"
    assert reason in run.detail
    assert score_run(run.path).result()["score"] == 0
    assert sum(path.stat().st_size for path in sealed.runs.iterdir()) < 20_000_000


ODD = [
    "[" * 900 + "]" * 900,
    "9" * 5000,
    "1e999",
    "-1e-999",
    "NaN",
    "Infinity",
    '"\\ud800"',
    '"\\u0000\\u001b[2J"',
    '{"a":{"b":[null,true]}}',
    "null",
    "[]",
    '""',
    "1.5",
    "18446744073709551616",
    '"' + "é" * 10_000 + '"',
]


@pytest.mark.parametrize("pace", ["lockstep", PACE])
def test_odd_results_end_nothing(contest, undisturbed, monkeypatch, pace) -> None:
    """A16: results are sent as JSON that no Python client would write.

    What can't be read is missing from the numbers of the team's messages, which costs that team its run.
    """
    sealed = sealed_contest(contest.name, contest.folder, silence_s=3.0)

    def raw_encode(message: Any) -> str:
        text = encode(message)
        for number, raw in enumerate(ODD):
            text = text.replace(f'"ODD{number}"', raw)
        return text

    monkeypatch.setattr(results, "encode", raw_encode)
    odd = Recorder(lambda number, packet: [f"ODD{number}"] if number < len(ODD) else [])
    teams = {"odd": odd} if pace == "lockstep" else {"odd": odd, "alice": Speller()}
    played = play(MemoryTransport(), sealed, what(), teams, pace=pace)
    if pace != "lockstep":
        check_run(played, undisturbed, ordered=False)
    assert played.runs["odd"].ended in ("finished", "stopped", "timeout")
    assert score_run(played.runs["odd"].path).result()["score"] == 0


@pytest.mark.parametrize("pace", ["lockstep", PACE])
def test_a_second_worker_of_a_team_is_refused(sealed, undisturbed, pace) -> None:
    """The reason is at both ends, and the organiser has an alarm."""
    transport, refused, stop = MemoryTransport(), [], threading.Event()

    class Twice(Speller):
        def step(self, packet: Packet) -> list[object]:
            if len(self.packets) == 20:
                joining.start()
            if len(self.packets) == 160:  # after the last report
                joining.join(WAIT_S)
            return super().step(packet)

    def join_again() -> None:
        second = new_client(transport, sealed, "alice", stop)
        with pytest.raises(RefusedError) as error:
            second.join("erp", lambda offer: {}, WAIT_S)
        refused.append(str(error.value))
        second.leave()

    joining = threading.Thread(target=join_again, daemon=True)
    played = play(transport, sealed, what(), {"alice": Twice()}, pace=pace)
    check_run(played, undisturbed, ordered=pace == "lockstep")
    assert "a second one is refused while the first is there" in refused[0]
    assert any("a second one is refused" in line for line in played.logged)
    assert [(alarm.code, alarm.parameters["team"]) for alarm in played.sink.alarms] == [
        ("second_worker", "alice")
    ]


class Killed(BaseException):
    """Ends a worker as a kill does: it sends nothing more."""


@pytest.mark.parametrize("pace", ["lockstep", PACE])
def test_a_worker_that_was_killed_returns_into_the_run(sealed, pace) -> None:
    """What it missed is wrong, and the rest counts."""
    transport, stop, sink = MemoryTransport(), threading.Event(), Quiet()

    class Mortal(Speller):
        def step(self, packet: Packet) -> list[object]:
            if len(self.packets) == 25:
                raise Killed
            return super().step(packet)

    def lives() -> None:
        first = new_client(transport, sealed, "alice", stop)
        try:
            Worker(first, Mortal(), track="erp", join_s=WAIT_S, stop=stop).run()
        except Killed:
            first._judges.close()
            first._publisher.close()
        again = new_client(transport, sealed, "alice", stop)
        # In real time the second trial's sequence is the first one that the new worker receives.
        speller = Speller((120, 136))
        Worker(again, speller, track="erp", join_s=WAIT_S, stop=stop).run()

    clock = RealClock(transport.now)
    player = Player(transport, clock, sealed, what(), name="r", pace=parse_pace(pace),
                    start_on="judge", stop=stop, wait_s=WAIT_S)  # fmt: skip
    threads = [threading.Thread(target=run, daemon=True) for run in (player.play, lives)]
    for thread in threads:
        thread.start()
    judge = Judge(transport, sealed, sink, stop=stop, may_start=bool)
    deadline = transport.now() + 2 * WAIT_S
    judge.judge(lambda j: j.all_over() or transport.now() > deadline, WAIT_S)
    stop.set()
    for thread in threads:
        thread.join(WAIT_S)
    (run,) = judge.runs
    assert (run.ended, run.detail) == ("finished", "")
    result = run.run.result()
    calm = sealed_contest("one", sealed.folder / "one")
    one_right = play(MemoryTransport(), calm, what(), {"alice": Speller((None, 120, 136))})
    assert result["score"] == one_right.runs["alice"].run.result()["score"] > 0


def test_a_revoked_token_is_refused_from_then_on(contest, undisturbed) -> None:
    sealed = sealed_contest(contest.name, contest.folder, silence_s=3.0)

    def revoke(number: int, packet: Packet) -> list[object]:
        if number == 60:
            sealed.keys.revoke("mallory")
        return [number] if number % 10 == 5 else []

    teams = {"alice": Speller(), "mallory": Recorder(revoke)}
    played = play(MemoryTransport(), sealed, what(), teams, pace=PACE)
    check_run(played, undisturbed, ordered=False)
    counted = [
        line["result"] for line in log_lines(played.runs["mallory"].path) if "result" in line
    ]
    assert counted == [5, 15, 25, 35, 45, 55]
    assert played.judge.dropped["unsigned"] > 0


def lockstep_contest(
    sealed: Contest, run_team: Callable[[TeamClient], None]
) -> tuple[Player, Quiet, dict[str, BaseException]]:
    """A team of its own making in lockstep, until judge and replay have ended."""
    transport, stop, sink = MemoryTransport(), threading.Event(), Quiet()
    player = Player(transport, RealClock(transport.now), sealed, what(), name="r",
                    pace=parse_pace("lockstep"), start_on="judge", stop=stop, wait_s=WAIT_S)  # fmt: skip
    client = new_client(transport, sealed, "mallory", stop)
    errors: dict[str, BaseException] = {}

    def guarded(name: str, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BciError as error:
                errors[name] = error

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    threads = [guarded("replay", player.play), guarded("team", lambda: run_team(client))]
    judge = Judge(transport, sealed, sink, stop=stop, may_start=bool)
    deadline = transport.now() + WAIT_S
    judge.judge(lambda j: j.all_over() or transport.now() > deadline, WAIT_S)
    assert transport.now() < deadline
    threads[0].join(WAIT_S)
    stop.set()
    threads[1].join(WAIT_S)
    return player, sink, errors


def test_a_lockstep_team_that_requests_no_packet_holds_up_nobody(sealed, monkeypatch) -> None:
    """It is ready, and silent: judge and replay waited for ever."""
    monkeypatch.setattr(lockstep, "FIRST_REQUEST_S", 0.5)

    def stay_silent(client: TeamClient) -> None:
        client.join("erp", lambda offer: {}, WAIT_S)
        for message, _ in client._control_messages():
            if isinstance(message, Stopped):
                return

    player, sink, errors = lockstep_contest(sealed, stay_silent)
    assert player.progress.packets == 0
    assert "requested no packet within 0.5 s" in str(errors["replay"])
    name, status, reason = sink.states[-1]
    assert (name, status) == ("mallory", "stopped")
    assert "requested no packet within 0.5 s" in reason


def test_a_replay_ends_when_the_judge_has_closed_its_teams_run(sealed) -> None:
    """A team that was disqualified could go on sending megabytes, which its replay kept."""
    contest = sealed_contest(sealed.name, sealed.folder, message_mb=1.0)
    received: list[object] = []

    def go_on(client: TeamClient) -> None:
        client.join("erp", lambda offer: {}, WAIT_S)
        for item in client.stream():
            received.append(item)
            client.report("x" * 200_000)
            while len(received) == 100 and not client._closed:  # not before the judge has answered
                client._poll_judge(client._transport.now())
        client.leave()

    player, sink, errors = lockstep_contest(contest, go_on)
    assert errors == {}
    assert 0 < player.progress.packets <= 100 < sum(1 for _ in what().packets())
    assert sink.states[-1][1] == "disqualified"


class TestEcog:
    def program(self) -> Any:
        angles = np.arange(41 * 8, dtype=float).reshape(-1, 8)
        return program("ecog", counter_recording("ecog", [(205, ())], "P2", angles))

    def test_channels_for_a_subject_that_is_not_played_are_refused(self, contest) -> None:
        """A9: the replay goes on, for the same team and for others."""
        transport, errors = MemoryTransport(), []

        def join_badly(player: Player, stop: threading.Event) -> None:
            client = new_client(transport, contest, "mallory", stop)
            channels = {"P1": [1], "P2": list(range(1, 25))}
            with pytest.raises(RefusedError) as error:
                client.join("ecog", lambda offer: channels, WAIT_S)
            errors.append(str(error.value))
            client.leave()

        played = play(
            transport, contest, self.program(), {"alice": Recorder()}, pace="4", around=join_badly
        )
        assert played.errors == {}
        assert played.runs["alice"].ended == "finished"
        assert "channels were chosen for ['P1'], which are not played" in errors[0]

    def test_real_time_is_refused_where_results_are_sealed(self, sealed) -> None:
        """A10: a team could read the leads of all others."""
        with pytest.raises(SourceError, match="everyone on the network could read"):
            play(MemoryTransport(), sealed, self.program(), {"alice": Recorder()}, pace="4")


def test_a_session_that_fails_leaves_the_others_alone(sealed, undisturbed, monkeypatch) -> None:
    """Its log stays open, and the next judge continues it."""
    transport, stop = MemoryTransport(), threading.Event()

    def playing(team: str) -> list[threading.Thread]:
        player = Player(transport, RealClock(transport.now), sealed, what(), name=f"r-{team}",
                        pace=parse_pace("lockstep"), start_on="judge", stop=stop, team=team,
                        wait_s=WAIT_S)  # fmt: skip
        client = new_client(transport, sealed, team, stop)
        worker = Worker(client, Speller(), track="erp", join_s=WAIT_S, stop=stop)
        made = [threading.Thread(target=run, daemon=True) for run in (player.play, worker.run)]
        for thread in made:
            thread.start()
        return made

    def logs() -> dict[str, Path]:
        return {path.name.split("-")[1]: path for path in sealed.runs.glob("*.jsonl")}

    threads = [*playing("alice"), *playing("bob")]
    deadline = transport.now() + 2 * WAIT_S
    judge, sink = None, Quiet()
    judge = Judge(transport, sealed, sink, stop=stop, may_start=bool)

    def until(j: Judge) -> bool:
        for session in j.sessions:
            if session.name == "r-bob" and "bob" in session.teams:
                monkeypatch.setattr(session, "poll", fail)
        return j.all_over() or transport.now() > deadline

    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a defect")

    judge.judge(until, WAIT_S)
    assert [alarm.code for alarm in sink.alarms] == ["session_failed"]
    assert log_lines(logs()["bob"])[-1]["kind"] != "end"
    judge = Judge(transport, sealed, Quiet(), stop=stop, may_start=bool)
    judge.judge(lambda j: j.all_over() or transport.now() > deadline, WAIT_S)
    stop.set()
    for thread in threads:
        thread.join(WAIT_S)
    calm = log_lines(undisturbed)
    for team in ("alice", "bob"):
        lines = log_lines(logs()[team])
        assert [{**line, "team": team} if "team" in line else line for line in calm] == lines


def test_labels_are_readable_for_the_organiser_alone(sealed) -> None:
    """A18: logs hold the truth."""
    played = play(MemoryTransport(), sealed, what(), {"alice": Speller()})
    path = played.runs["alice"].path
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(path.parent).st_mode) == 0o700
    assert json.loads(path.read_text().splitlines()[0])["kind"] == "run"


def test_synthetic_recordings_of_a_sealed_contest_are_its_own(tmp_path: Path) -> None:
    uri = "synthetic:erp?subjects=1&seed=4"
    contests = [sealed_contest(name, tmp_path / name) for name in "ab"]
    seeds = {secret_seed(uri, contest) for contest in contests}
    assert len(seeds | {uri}) == 3
    assert secret_seed(uri, contests[0]) == secret_seed(uri, contests[0])
    assert secret_seed(uri, Contest("open", tmp_path / "open")) == uri
