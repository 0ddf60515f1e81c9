"""Teams that are missing, refused, cut off or gone before the start: who is shown, and that nobody waits."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from playground import Quiet, Recorder, erp_recording, play, program

from bci_stream.clock import ManualClock
from bci_stream.contest.contest import Contest, Limits
from bci_stream.contest.start import StartGate
from bci_stream.errors import NotFoundError, RefusedError
from bci_stream.judge.judge import OUT_OF_SIGHT_S, Judge
from bci_stream.wire import groups, names
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import Done, PacketEvent, Ready, RunEvents, Stopped, TruthProbe
from tests.judge.test_judge import FakeReplay, FakeTeam, ImmediateExecutor, note

JOIN_S = 20.0


class Hall:
    """A judge with a gate, a replay in real time, and teams that are played by hand."""

    def __init__(self, contest: Contest) -> None:
        self.clock = ManualClock()
        self.memory = MemoryTransport(self.clock.now)
        self.contest = contest
        self.sink = Quiet()
        self.gate = StartGate(contest.start_policy, contest.teams_of)
        self.judge = Judge(self.memory, contest, self.sink, stop=None, gate=self.gate)  # type: ignore[arg-type]
        self.replay = FakeReplay(self.memory, contest, "r", "realtime")
        (found,) = self.memory.visible(names.prefix(contest.name, "judge"))
        self._sent = self.memory.text_inlet(found, 1.0)
        self.poll()
        self.replay.seal(self.replay.offer, TruthProbe())
        self.poll()

    def poll(self, seconds: float = 0.6) -> str:
        """What the judge sends meanwhile."""
        for _ in range(round(seconds / 0.3)):
            self.clock.advance(0.3)
            self.judge.poll()
        return " ".join(text for text, _ in self._sent.pull(0.0))

    def join(self, name: str) -> FakeTeam:
        team = FakeTeam(self.memory, self.contest, name)
        self.poll()
        team.send(Ready, self.replay.run)
        return team

    def start(self) -> None:
        """The first packet."""
        self.replay.send_truth()
        self.replay.seal(
            RunEvents("", 0, [PacketEvent(note(0), self.clock.now(), self.clock.now())])
        )
        self.poll()

    def status(self, team: str) -> tuple[str, str]:
        return next((s, why) for name, s, why in reversed(self.sink.states) if name == team)


@pytest.fixture
def halls(contest: Contest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Hall]]:
    monkeypatch.setattr(groups, "ThreadPoolExecutor", ImmediateExecutor)
    made: list[Hall] = []

    def hall(**settings: Any) -> Hall:
        limits = Limits(join_s=JOIN_S)
        made.append(Hall(replace(contest, teams=("alice", "bob"), limits=limits, **settings)))
        return made[-1]

    yield hall
    for each in made:
        each.judge.close()


def test_a_missing_team_is_shown_and_waited_for_until_join_s(halls) -> None:
    hall = halls()
    hall.join("alice")
    assert '"go"' not in hall.poll(JOIN_S - 3.0)
    assert hall.status("alice")[0] == "waiting"
    assert hall.status("bob") == ("missing", "not seen: no stream of this team is on the network")
    assert '"go"' in hall.poll(6.0)
    hall.start()
    assert [run.team for run in hall.judge.runs] == ["alice"]
    assert hall.status("bob")[0] == "missing"
    hall.join("bob")  # late, in real time
    hall.poll()
    assert hall.status("bob")[0] == "running"


def test_all_listed_teams_begin_at_once(halls) -> None:
    hall = halls()
    hall.join("alice")
    hall.join("bob")
    assert '"go"' in hall.poll()


def test_go_begins_with_those_that_are_ready(halls) -> None:
    hall = halls(start="go")
    hall.join("alice")
    assert '"go"' not in hall.poll(JOIN_S + 6.0)
    hall.judge.give_go("erp")
    assert '"go"' in hall.poll()


def test_a_team_that_leaves_before_the_start_leaves_no_log_and_is_not_waited_for(halls) -> None:
    hall = halls(start="go")
    alice, bob = hall.join("alice"), hall.join("bob")
    hall.poll()
    alice.send(Done, hall.replay.run, reason="finished", n=0)
    bob._outlet.close()
    hall.poll(1.2)
    for team in ("alice", "bob"):
        assert hall.status(team) == ("missing", "it left before the run began")
    hall.judge.give_go("erp")
    assert '"go"' not in hall.poll()
    alice.send(Ready, hall.replay.run)
    assert '"go"' in hall.poll()
    assert hall.status("alice")[0] == "waiting"
    assert not list(hall.contest.runs.glob("*.jsonl")) if hall.contest.runs.exists() else True


def test_a_replay_that_gives_up_leaves_no_log_and_stops_the_waiting_team(halls) -> None:
    hall = halls()
    hall.join("alice")
    hall.poll()
    hall.replay.seal(Stopped("waited 600 s for a judge's go"))
    hall.poll()
    assert hall.status("alice")[0] == "stopped"
    assert hall.judge.runs == []
    assert hall.judge.all_over()


def test_a_wrong_and_a_revoked_token_are_named(halls) -> None:
    hall = halls()
    bob = FakeTeam(hall.memory, replace(hall.contest, folder=hall.contest.folder / "other"), "bob")
    hall.poll()
    bob.send(Ready, hall.replay.run)
    hall.poll()
    words = "team bob uses a wrong token: it is not of this contest"
    assert hall.status("bob") == ("missing", words)
    assert [alarm.code for alarm in hall.sink.alarms] == ["token_wrong"]
    hall.join("bob")
    hall.poll()
    assert hall.status("bob")[0] == "waiting"
    hall.contest.keys.revoke("alice")
    hall.poll()
    assert hall.status("alice") == ("missing", "the token of team alice is revoked")


def test_a_token_that_is_revoked_in_the_run_shows_the_team_as_gone(halls) -> None:
    hall = halls()
    alice, _ = hall.join("alice"), hall.join("bob")
    hall.poll()
    hall.start()
    hall.contest.keys.revoke("alice")
    alice.send(Ready, hall.replay.run)
    hall.poll()
    assert hall.status("alice") == ("gone", "the token of team alice is revoked")
    assert hall.status("bob")[0] == "running"


def test_a_team_that_is_not_of_the_track_is_ignored_there(halls, contest) -> None:
    from bci_stream.contest.contest import TrackPlan

    hall = halls(tracks={"erp": TrackPlan(teams=["alice"]), "mi": TrackPlan()})
    hall.join("alice")
    hall.join("bob")
    assert '"go"' in hall.poll()
    hall.start()
    assert [run.team for run in hall.judge.runs] == ["alice"]
    assert {alarm.code for alarm in hall.sink.alarms} == {"team_not_on_track"}


def test_a_team_that_is_cut_off_is_gone_within_seconds_and_may_return(halls) -> None:
    """Its connection is open, as TCP has it, but its computer does not answer any more."""
    hall = halls()
    alice, _ = hall.join("alice"), hall.join("bob")
    hall.poll()
    hall.start()
    group = hall.judge._arrivals.results
    found = group._opening.watch.found
    group._opening.watch.found = lambda: [s for s in found() if not s.source_id.endswith("/alice")]
    hall.poll(OUT_OF_SIGHT_S + 0.6)
    assert hall.status("alice") == ("gone", "cut off: its computer can't be found any more")
    assert hall.status("bob")[0] == "running"
    alice.send(Ready, hall.replay.run)
    hall.poll()
    assert hall.status("alice")[0] == "running"
    hall.poll(OUT_OF_SIGHT_S + 0.6)
    assert hall.status("alice")[0] == "gone"
    group._opening.watch.found = found
    hall.poll()
    assert hall.status("alice") == ("running", "it has returned into the run")


# --- at the team's end ------------------------------------------------------------------------


def other_token(_: str) -> bytes:
    return bytes(32)


@pytest.mark.parametrize("results", ["sealed", "signed"])
def test_a_worker_with_a_wrong_token_ends_at_once_and_names_it(contest, results) -> None:
    listed = replace(contest, teams=("alice",), results=results)
    played = play(MemoryTransport(), listed, program("erp", erp_recording()), {"alice": Recorder()},
                  tokens=other_token)  # fmt: skip
    assert isinstance(played.errors["alice"], RefusedError)
    assert "team alice uses a wrong token" in str(played.errors["alice"])
    assert "ask the organiser for the team's file" in str(played.errors["alice"])
    assert {alarm.code for alarm in played.sink.alarms} <= {"token_wrong"}


def test_a_worker_whose_token_was_replaced_is_sent_for_the_new_file(contest) -> None:
    sealed = replace(contest, results="sealed")
    old = sealed.keys.token("alice")
    sealed.keys.rotate("alice")
    played = play(MemoryTransport(), sealed, program("erp", erp_recording()), {"alice": Recorder()},
                  tokens=lambda _: old)  # fmt: skip
    assert "team alice uses an old token: it was replaced" in str(played.errors["alice"])


def test_another_team_with_its_name_does_not_end_a_worker(contest) -> None:
    """Anyone can send in alice's name with a wrong token; her own worker is not refused for that."""
    transport = MemoryTransport()
    sealed = replace(contest, results="sealed")

    def intrude(*_: object) -> None:
        fake = FakeTeam(transport, replace(sealed, folder=sealed.folder / "other"), "alice")
        for _ in range(3):
            fake.send(Ready, "")

    what = program("erp", erp_recording())
    played = play(transport, sealed, what, {"alice": Recorder()}, around=intrude)
    assert played.errors == {}
    assert played.runs["alice"].ended == "finished"


def test_a_file_of_another_contest_is_named_with_those_that_are_here(contest) -> None:
    from threading import Event, Timer

    from bci_stream.wire.client import TeamClient

    transport = MemoryTransport()
    spec = names.text_stream("cup2026", "control", "erp")
    # A search on LSL takes a moment to find what has long been there.
    Timer(0.3, lambda: transport.text_outlet(spec)).start()
    client = TeamClient(transport, "cup2025", "alice", bytes(32), stop=Event())
    with pytest.raises(
        NotFoundError, match="replays of other contests: cup2026; ask the organiser"
    ):
        client.join("erp", lambda _: {}, 0.1)
    client.leave()
