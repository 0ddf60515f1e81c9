"""The operator's decisions, on memory streams and a manual clock: what they do, and what they leave alone."""

import json
import stat
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bci_stream.contest.actions import (
    Announce,
    DisqualifyTeam,
    ForfeitTeam,
    GiveGo,
    LogIn,
    OperatorAction,
    OperatorAnswer,
    OperatorRequest,
    PauseRuns,
    PlayBlockAgain,
    ReadmitTeam,
    ReadState,
    ResumeRuns,
    StopRuns,
    VoidTrials,
    read_action,
    read_request,
)
from bci_stream.contest.contest import Contest, Limits
from bci_stream.errors import ContestError
from bci_stream.judge.judge import Judge
from bci_stream.judge.operator.desk import OperatorDesk
from bci_stream.judge.operator.journal import OperatorJournal, journal_path
from bci_stream.runlog import score_run
from bci_stream.verification import VerificationKeys, verify_log
from bci_stream.wire import groups, names
from bci_stream.wire.crypto import sign
from bci_stream.wire.messages import (
    Behind,
    Done,
    HistoryComplete,
    Ready,
    ReportMessage,
    RunEvents,
    Status,
    TruthNote,
    TruthProbe,
    encode,
)
from tests.judge.test_faults import Scene
from tests.judge.test_judge import FakeTeam, ImmediateExecutor
from tests.judge.test_team_run import fold_packet, lockstep_run


class Operated(Scene):
    """A judge with an operator, and a replay in real time."""

    def __init__(self, contest: Contest, wanted: int = 1, **options: Any) -> None:
        self.wanted = wanted
        self.announced: list[str] = []
        self.texts: list[dict[str, Any]] = []
        super().__init__(contest, **options)
        self.desk = self.new_desk()

    def new_judge(self) -> Judge:
        judge = Judge(
            self.memory,
            self.contest,
            self.sink,
            stop=self.stop,
            may_start=lambda teams: len(teams) >= self.wanted,
        )
        (found,) = self.memory.visible(names.prefix(self.contest.name, "judge"))
        self.sent = self.memory.text_inlet(found, 1.0)
        return judge

    def new_desk(self) -> OperatorDesk:
        journal = OperatorJournal(journal_path(self.contest.folder, self.contest.name))
        show = self.announced.append
        desk = OperatorDesk(self.judge, self.sink, journal, announce=show, token="secret")
        self.judge.restore = desk.restore
        return desk

    def restart(self) -> None:
        """Kill the judge, and start another one, which gets the replay's history."""
        gone_at = self.clock.now()
        self.die()
        self.judge = self.new_judge()
        self.desk = self.new_desk()
        self.poll()
        self.replay.seal(self.replay.offer, TruthProbe())
        self.poll()
        self.replay.send_truth()
        if self.events:
            self.replay.seal(RunEvents("", 0, self.events), HistoryComplete(gone_at))
        for team in self.teams.values():
            team.send(Ready, self.replay.run)
        self.poll(4)

    def ask(self, action: OperatorAction) -> OperatorAnswer:
        return self.desk.handle(OperatorRequest(action, "test"))  # type: ignore[arg-type]

    def do(self, action: OperatorAction) -> str:
        answer = self.ask(action)
        assert answer.done, answer.text
        return answer.text

    def last_go(self) -> dict[str, Any] | None:
        """The judge's last `go` to the replay since the last call."""
        self.poll()
        texts = [json.loads(text[: text.rindex("}") + 1]) for text, _ in self.sent.pull(0.0)]
        goes = [message for message in texts if message["kind"] == "go"]
        return goes[-1] if goes else None

    def report(self, team: str, result: object, n: int) -> None:
        self.teams[team].send(ReportMessage, self.replay.run, result=result, n=n)
        self.poll()

    def reports(self, team: str = "t0") -> list[object]:
        return [line["result"] for line in self.lines(team) if line["kind"] == "report"]

    def team_entry(self, team: str) -> dict[str, Any]:
        teams = self.ask(ReadState()).state["teams"]
        return next(entry for entry in teams if entry["team"] == team)

    def journal(self) -> list[dict[str, Any]]:
        path = journal_path(self.contest.folder, self.contest.name)
        return [json.loads(line) for line in path.read_text().splitlines()]

    def holds(self, team: str = "t0") -> bool:
        (run,) = [run for run in self.judge.runs if run.team == team]
        keys = VerificationKeys(self.contest.keys.public_key(), self.contest.keys.issued_tokens)
        check = verify_log(run.path, keys)
        assert check.problems == []
        return check.holds


@pytest.fixture
def operated(
    contest: Contest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Operated]]:
    monkeypatch.setattr(groups, "ThreadPoolExecutor", ImmediateExecutor)
    made: list[Operated] = []

    def make(*, teams: tuple[str, ...] = (), **options: Any) -> Operated:
        contest.folder.mkdir(parents=True, exist_ok=True)
        made.append(Operated(replace(contest, teams=teams), **options))
        return made[-1]

    yield make
    for each in made:
        each.judge.close()


class TestStart:
    def test_go_begins_with_the_teams_that_are_ready(self, operated) -> None:
        scene = operated(wanted=3)
        assert scene.last_go() is None
        assert scene.do(GiveGo()) == "erp: begins with t0"
        go = scene.last_go()
        assert go is not None
        assert go["now"]
        scene.packets(2)
        assert scene.judge.runs[0].team == "t0"
        assert not scene.ask(GiveGo()).done  # it has begun

    def test_a_team_that_forfeits_is_not_waited_for(self, operated) -> None:
        scene = operated(wanted=2, teams=("t0", "late"))
        assert scene.last_go() is None
        assert scene.do(ForfeitTeam("late", "no show", "erp")) == "late forfeits: erp"
        assert scene.last_go() is not None
        assert ("late", "stopped", "forfeited (no show)") in scene.sink.states

    def test_a_team_that_is_kept_out_has_no_run_until_it_is_let_in(self, operated) -> None:
        scene = operated(team_count=2)
        scene.do(ForfeitTeam("t1", "ill"))
        scene.packets(2)
        assert [run.team for run in scene.judge.runs] == ["t0"]
        scene.teams["t1"].send(Ready, scene.replay.run)
        scene.poll()
        assert [run.team for run in scene.judge.runs] == ["t0"]
        scene.do(ReadmitTeam("t1"))
        assert sorted(run.team for run in scene.judge.runs) == ["t0", "t1"]

    def test_nothing_is_done_where_no_replay_is(self, operated) -> None:
        scene = operated()
        answer = scene.ask(GiveGo("mi"))
        assert not answer.done
        assert "no replay of track 'mi'" in answer.text


class TestPause:
    def test_the_replay_learns_of_it_and_nobody_pays(self, operated) -> None:
        scene = operated()
        scene.packets(3)
        scene.do(PauseRuns(reason="a cable"))
        go = scene.last_go()
        assert go is not None
        assert go["paused"]
        scene.poll(20, step_s=1.0)  # the replay sends a sign of life, as a real one does
        assert scene.outages() == []
        assert scene.judge.runs[0].ended is None
        scene.do(ResumeRuns())
        go = scene.last_go()
        assert go is not None
        assert not go["paused"]
        states = [(x["state"], x["detail"]) for x in scene.lines() if x["kind"] == "status"]
        assert states == [("paused by the operator", "a cable"), ("resumed by the operator", "")]
        assert not scene.ask(ResumeRuns()).done

    def test_a_paused_start_waits(self, operated) -> None:
        scene = operated()
        scene.last_go()
        scene.do(PauseRuns())
        scene.sent.pull(0.0)
        assert scene.last_go() is None
        scene.do(ResumeRuns())
        assert scene.last_go() is not None

    @pytest.mark.parametrize("begun", [3, 0])
    def test_it_outlasts_the_judge(self, operated, begun: int) -> None:
        """A run that has begun has it in its log; one that has not only in the journal."""
        scene = operated()
        scene.packets(begun)
        scene.do(PauseRuns())
        scene.restart()
        go = scene.last_go()
        assert go is None if begun == 0 else (go is not None and go["paused"])
        (replay,) = scene.ask(ReadState()).state["replays"]
        assert replay["state"] == "paused"
        assert all(run.compute.is_held for run in scene.judge.runs)
        scene.do(ResumeRuns())
        go = scene.last_go()
        assert go is not None
        assert not go["paused"]
        scene.restart()
        go = scene.last_go()
        assert go is not None
        assert not go["paused"]

    def test_one_of_another_run_does_not_concern_this_one(self, operated) -> None:
        scene = operated()
        scene.do(PauseRuns())
        assert list(scene.desk._journal.decisions("run-later")) == []
        assert list(scene.desk._journal.decisions("run-r")) == [PauseRuns()]

    def test_in_lockstep_no_time_of_a_pause_is_the_teams(self, tmp_path: Path) -> None:
        limits = Limits(silence_s=5.0)
        run = lockstep_run(tmp_path / "log.jsonl", limits, 0.0)
        fold_packet(run, 0, 1.0)
        fold_packet(run, 1, 2.0)
        run.hold(2.5)
        fold_packet(run, 2, 2.6)  # it had left before the replay knew of the pause
        run.settle(500.0)
        assert run.ended is None
        run.release(500.0)
        fold_packet(run, 3, 500.3)
        fold_packet(run, 4, 500.8)
        assert run.compute.used_s == pytest.approx(1.0 + 0.5 + 0.5)
        run.settle(506.0)
        assert run.ended == "timeout"


class TestTeams:
    def test_reports_of_a_team_that_forfeited_do_not_count_until_it_is_let_in(
        self, operated
    ) -> None:
        scene = operated(team_count=2)
        scene.packets(2)
        scene.report("t0", "A", 0)
        scene.do(ForfeitTeam("t0", "broken amplifier"))
        scene.report("t0", "B", 1)
        scene.report("t1", "C", 0)
        assert scene.team_entry("t0")["state"] == "forfeited"
        scene.do(ReadmitTeam("t0"))
        scene.report("t0", "D", 2)
        assert scene.reports("t0") == ["A", "D"]
        assert scene.reports("t1") == ["C"]
        assert not scene.ask(ReadmitTeam("t0")).done

    def test_a_forfeit_outlasts_the_judge_and_ends_the_run_as_stopped(self, operated) -> None:
        scene = operated()
        scene.packets(2)
        scene.do(ForfeitTeam("t0", "gave up"))
        scene.die()
        scene.judge = scene.new_judge()
        scene.poll()
        scene.replay.seal(scene.replay.offer)
        scene.replay.send_truth()
        scene.poll()
        (run,) = scene.judge.runs
        assert run.forfeited == "gave up"
        run.end("finished", "", 9.0)
        assert (run.ended, run.detail) == ("stopped", "forfeited (gave up)")

    def test_a_team_that_was_kept_out_stays_out_after_a_restart_of_the_judge(
        self, operated
    ) -> None:
        scene = operated(team_count=3)
        scene.do(ForfeitTeam("t1", "ill"))
        scene.do(DisqualifyTeam("t2", "two keys"))
        scene.packets(2)
        scene.restart()
        assert [run.team for run in scene.judge.runs] == ["t0"]
        assert {team: why.code for (_, team), why in scene.judge.kept_out.items()} == {
            "t1": "forfeited",
            "t2": "operator_disqualified",
        }
        scene.do(ReadmitTeam("t1"))
        scene.restart()
        assert sorted(run.team for run in scene.judge.runs) == ["t0", "t1"]

    def test_disqualified_while_it_runs(self, operated) -> None:
        scene = operated(team_count=2)
        scene.packets(2)
        scene.do(DisqualifyTeam("t0", "two keys"))
        end = scene.lines("t0")[-2]
        assert (end["kind"], end["reason"]) == ("end", "disqualified")
        assert end["why"]["parameters"] == {"reason": "two keys"}
        assert scene.judge.runs[1].ended is None
        assert scene.holds()
        assert not scene.ask(DisqualifyTeam("t0", "again")).done

    def test_disqualified_after_its_run_the_score_is_0_and_the_receipt_stays(
        self, operated
    ) -> None:
        scene = operated()
        scene.packets(3, finish=True)
        scene.teams["t0"].send(Done, scene.replay.run, n=0)
        scene.poll(4)
        (run,) = scene.judge.runs
        assert run.ended == "finished"
        head, lines = run.head, run.lines
        scene.do(DisqualifyTeam("t0", "found out"))
        assert score_run(run.path).end_reason == "disqualified"
        assert score_run(run.path).scores_zero
        assert (run.head, run.lines) == (head, lines)
        assert scene.holds()
        assert [line["kind"] for line in scene.lines()][-4:] == ["end", "seal", "end", "seal"]
        assert scene.sink.shown[-1]["reason"] == "disqualified"

    def test_a_name_that_is_no_teams_is_refused(self, operated) -> None:
        scene = operated()
        answer = scene.ask(ForfeitTeam("nobody", "typo"))
        assert answer.text == "there is no team 'nobody'; there are t0"


def check_refused(scene: Scene, action: VoidTrials | PlayBlockAgain, why: str) -> None:
    """Of a run that has begun: the action is not done, for this reason, and no log changes."""
    scene.packets(2)
    before = scene.lines()
    answer = scene.ask(action)
    assert not answer.done
    assert why in answer.text
    assert scene.lines() == before


class TestVoid:
    def test_a_trial_of_all_teams(self, operated) -> None:
        scene = operated(team_count=2)
        scene.packets(2)
        text = scene.do(VoidTrials("wrong cue", block=1, trial=1))
        assert text == "void: session 1, block 1, trial 1 of t0, t1"
        for team in ("t0", "t1"):
            (line,) = [line for line in scene.lines(team) if line["kind"] == "void"]
            assert (line["session"], line["block"], line["trial"]) == (0, 0, 0)
            assert line["reason"] == "wrong cue"

    def test_of_one_team_after_its_run(self, operated) -> None:
        scene = operated(team_count=2)
        scene.packets(3, finish=True)
        for team in scene.teams.values():
            team.send(Done, scene.replay.run, n=0)
        scene.poll(4)
        before = scene.lines("t1")
        scene.do(VoidTrials("appeal", block=1, team="t0"))
        assert scene.lines("t1") == before
        assert [line["kind"] for line in scene.lines("t0")][-3:] == ["seal", "void", "seal"]
        assert scene.holds("t0")
        run = score_run(scene.judge.runs[0].path)
        assert run.result()["void"] is True
        assert scene.sink.shown[-1]["kind"] == "void"

    @pytest.mark.parametrize(
        ("action", "why"),
        [
            (VoidTrials("x", block=2), "the truth has the blocks 1"),
            (VoidTrials("x", block=1, trial=7), "the block has the trials 1"),
            (VoidTrials("x", block=1, session=3), "1 sessions have begun so far"),
            (VoidTrials("x", block=1, team="zoe"), "there is no team 'zoe'"),
            (VoidTrials("x", block=1, track="mi"), "no such run is here"),
        ],
    )
    def test_what_is_not_there_is_refused_and_nothing_is_written(
        self, operated, action: VoidTrials, why: str
    ) -> None:
        check_refused(operated(), action, why)


class TestPlayAgain:
    def test_the_block_is_void_for_all_and_the_replay_is_asked(self, operated) -> None:
        scene = operated(team_count=2)
        scene.packets(2)
        text = scene.do(PlayBlockAgain("a cable", block=1))
        assert text == (
            "block 1 of session 1 is void, and is played again at the end of the session: t0, t1"
        )
        go = scene.last_go()
        assert go is not None
        assert go["again"] == [[0, 0]]
        for team in ("t0", "t1"):
            (line,) = [line for line in scene.lines(team) if line["kind"] == "void"]
            assert (line["block"], line["again"], line["reason"]) == (0, True, "a cable")
        again = TruthNote(0, "S01", 2, 250.0, 1, 10, 60, {"blocks": [[], ["A"]], "again_of": 0})
        scene.replay.seal(again)
        scene.packets(2, finish=True)
        for team in scene.teams.values():
            team.send(Done, scene.replay.run, n=0)
        scene.poll(4)
        assert scene.sink.alarms == []
        run = score_run(scene.judge.runs[0].path)
        assert [(v.block, v.void) for v in run.verdicts()] == [(0, True), (1, False)]
        assert scene.judge.runs[0].compute.limit_s() == pytest.approx(60 / 250 + 60)
        assert scene.holds()

    def test_a_restarted_judge_asks_for_it_too(self, operated) -> None:
        scene = operated()
        scene.packets(2)
        scene.do(PlayBlockAgain("a cable", block=1))
        scene.restart()
        go = scene.last_go()
        assert go is not None
        assert go["again"] == [[0, 0]]
        assert [line["kind"] for line in scene.lines()].count("void") == 1
        assert "played again already" in scene.ask(PlayBlockAgain("x", block=1)).text

    def test_one_that_was_asked_for_too_late_is_shown(self, operated) -> None:
        scene = operated()
        scene.packets(2)
        scene.do(PlayBlockAgain("a cable", block=1))
        scene.packets(1, finish=True)
        assert [alarm.code for alarm in scene.sink.alarms] == ["block_not_repeated"]
        assert "has left" in scene.ask(PlayBlockAgain("x", block=2)).text

    @pytest.mark.parametrize(
        ("action", "why"),
        [
            (PlayBlockAgain("x", block=2), "block 2 of session 1 has not begun; 1 blocks"),
            (PlayBlockAgain("x", block=1, session=2), "block 1 of session 2 has not begun"),
            (PlayBlockAgain("x", block=1, team="t0"), "all teams receive one replay"),
            (PlayBlockAgain("x", block=1, team="zoe"), "there is no team 'zoe'"),
            (PlayBlockAgain("x", block=1, track="mi"), "no replay of track 'mi'"),
        ],
    )
    def test_what_can_not_be_is_refused_and_nothing_is_written(
        self, operated, action: PlayBlockAgain, why: str
    ) -> None:
        scene = operated()
        check_refused(scene, action, why)
        go = scene.last_go()
        assert go is not None
        assert go["again"] == []


def test_stop_ends_runs_and_replay(operated) -> None:
    scene = operated()
    scene.packets(2)
    scene.do(StopRuns("fire alarm"))
    (run,) = scene.judge.runs
    assert (run.ended, run.detail) == ("stopped", "ended by the organiser (fire alarm)")
    go = scene.last_go()
    assert go is not None
    assert go["stopped"]
    assert scene.holds()


class TestWhoIsMissing:
    def test_why(self, operated) -> None:
        scene = operated(teams=("t0", "wrong", "revoked", "absent"), team_count=1)
        scene.contest.keys.revoke("revoked")
        teams = {}
        for name in ("wrong", "revoked", "guest"):
            teams[name] = FakeTeam(scene.memory, scene.contest, name)
        scene.poll()
        for name, team in teams.items():
            message = Ready(scene.contest.name, scene.replay.run, name, 1)
            (token, *_) = (
                scene.contest.keys.issued_tokens(name) if name == "revoked" else [bytes(32)]
            )
            team._outlet.push(sign(encode(message), token))
        scene.poll()
        codes = {
            entry["team"]: [reason["code"] for reason in entry["reasons"]]
            for entry in scene.ask(ReadState()).state["teams"]
        }
        assert codes == {
            "t0": [],
            "wrong": ["token_wrong"],
            "revoked": ["token_revoked"],
            "absent": ["not_seen"],
            "guest": ["team_unlisted"],
        }

    def test_a_refusal_by_the_replay_alone_is_shown_until_the_team_is_let_in(
        self, operated
    ) -> None:
        """The team's worker may have ended before the judge had opened its stream."""
        scene = operated(teams=("t0", "late"))
        scene.replay.seal(Status("refused", "token_replaced late"), Status("refused", "fly late"))
        scene.poll(60, 1.0)
        (why,) = scene.team_entry("late")["reasons"]
        assert why["code"] == "token_replaced"
        assert [alarm.code for alarm in scene.sink.alarms] == ["token_replaced"]

    def test_behind_and_old_version(self, operated) -> None:
        scene = operated(team_count=2)
        scene.teams["t0"].send(Behind, scene.replay.run, seconds=2.5)
        scene.teams["t1"].send(Ready, scene.replay.run, software="bci-stream 0.0.1")
        scene.packets(2)
        assert scene.team_entry("t0")["reason"] == "2.5 s behind the stream"
        assert "old version 0.0.1" in scene.team_entry("t1")["reason"]

    def test_health_of_the_link(self, operated) -> None:
        scene = operated()
        scene.packets(5, late_s=0.2)
        (replay,) = scene.ask(ReadState()).state["replays"]
        assert replay["state"] == "running"
        assert replay["health"]["packets"] == 5
        assert replay["health"]["sending"]["worst_s"] == pytest.approx(0.2)


class TestJournal:
    def test_every_action_is_in_it_and_no_token(self, operated) -> None:
        scene = operated()
        scene.do(Announce("Back at 14:00"))
        scene.do(LogIn("secret"))
        assert not scene.ask(LogIn("guess")).done
        scene.ask(ReadState())
        scene.ask(ForfeitTeam("zoe", "x"))
        lines = scene.journal()
        assert [(line["action"], line["by"], line["done"]) for line in lines] == [
            ("announce", "test", True),
            ("login", "test", True),
            ("login", "test", False),
            ("forfeit", "test", False),
        ]
        path = journal_path(scene.contest.folder, scene.contest.name)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "secret" not in path.read_text()
        assert "guess" not in path.read_text()
        assert scene.announced == ["Back at 14:00"]


class TestRequests:
    @pytest.mark.parametrize(
        "request_fields",
        [
            {"action": "void", "reason": "x", "block": 0},
            {"action": "void", "reason": "", "block": 1},
            {"action": "forfeit", "team": "a\nb", "reason": "x"},
            {"action": "go", "tracks": "mi"},
            {"action": "announce", "text": "x" * 201},
            {"action": "login", "token": "x"},
            {"action": "state"},
            {"action": "fly"},
            [],
        ],
    )
    def test_what_can_not_be_read_is_refused(self, request_fields: object) -> None:
        with pytest.raises(ContestError):
            read_action(msgspec.json.encode(request_fields))

    def test_a_request_is_read_back(self) -> None:
        request = OperatorRequest(VoidTrials("cue", block=2, trial=3), "console 192.0.2.1")
        assert read_request(msgspec.json.encode(request)) == request
