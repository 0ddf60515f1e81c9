"""The operator's commands: against a judge, a replay and teams in this process, and on logs of past runs."""

import json
import stat
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from playground import Quiet, Recorder, erp_recording, play, program

from bci_stream.contest.actions import GiveGo, OperatorAnswer, OperatorRequest
from bci_stream.contest.contest import Contest, Limits
from bci_stream.contest.control_socket import ControlSocket, ask_judge, socket_path
from bci_stream.errors import ContestError
from bci_stream.judge.cli import main
from bci_stream.judge.judge import Judge
from bci_stream.judge.operator.desk import OperatorDesk
from bci_stream.judge.operator.journal import OperatorJournal, journal_path
from bci_stream.runlog import score_run
from bci_stream.wire.memory import MemoryTransport
from replay.player.player import Player
from tests.judge.test_verify_command import Case, new_case, new_contest

Operate = Callable[[Callable[..., Result], Player], None]


def invoke(contest: Contest, *arguments: str) -> Result:
    """-q: the judge is in this process, and logs to the same terminal."""
    return CliRunner().invoke(main, [*arguments, "-q", "--contest", str(contest.folder)])


def play_operated(
    contest: Contest, teams: dict[str, Recorder], operate: Operate, pace: str = "realtime"
) -> Any:
    """Play two trials of erp, while `operate` runs in a thread of its own."""
    failures: list[BaseException] = []
    contest.folder.mkdir(parents=True, exist_ok=True)
    control = ControlSocket(socket_path(contest.folder, contest.name))
    journal = OperatorJournal(journal_path(contest.folder, contest.name))

    def prepare(judge: Judge, sink: Quiet) -> None:
        desk = OperatorDesk(judge, sink, journal, announce=lambda text: None)
        judge.operator = lambda: control.take(desk.handle)

    def around(player: Player, stop: threading.Event) -> None:
        def run() -> None:
            try:
                operate(lambda *arguments: invoke(contest, *arguments), player)
            except BaseException as error:  # noqa: BLE001 - raised below
                failures.append(error)
                stop.set()

        threading.Thread(target=run, name="operator's terminal", daemon=True).start()

    with closing(control), closing(journal):
        played = play(
            MemoryTransport(), contest, program("erp", erp_recording()), teams,
            pace=pace, around=around, prepare=prepare, expected=len(teams) + 1,
        )  # fmt: skip
    for failure in failures:
        raise failure
    return played


def until(condition: Callable[[], object]) -> None:
    pause = threading.Event()
    for _ in range(3000):
        if condition():
            return
        pause.wait(0.01)
    pytest.fail("waited 30 s")


def go_when_ready(do: Callable[..., Result], team: str = "alice") -> None:
    until(
        lambda: (
            f'"team": "{team}", "track": "erp", "state": "ready"' in do("status", "--json").stdout
        )
    )
    answer = do("go")
    assert answer.exit_code == 0, answer.output


@pytest.fixture
def cup(tmp_path: Path) -> Contest:
    return new_contest(tmp_path / "cup")


@pytest.mark.parametrize("pace", ["realtime", "lockstep"])
def test_a_pause_holds_the_packets_back_and_costs_nothing(cup: Contest, pace: str) -> None:
    entered, held = threading.Event(), []

    def answer(number: int, packet: Any) -> list[object]:
        if number == 5:
            entered.set()
            until(lambda: held or pace == "realtime")
        return [number]

    def operate(do: Callable[..., Result], player: Player) -> None:
        go_when_ready(do)
        assert entered.wait(30)
        until(lambda: '"track": "erp", "state": "running"' in do("status", "--json").stdout)
        assert do("pause", "--reason", "a cable").output == "paused: erp\n"
        until(lambda: player._handshake.is_held)
        held.append(True)
        do("status")  # whatever was about to leave has left
        sent = player.progress.packets
        assert '"state": "paused"' in do("status", "--json").stdout
        assert player.progress.packets == sent < 33
        assert do("resume").output == "goes on: erp\n"

    # A busy machine may stand still for longer than a pause of this test lasts.
    contest = replace(cup, limits=Limits(outage_s=60.0))
    played = play_operated(contest, {"alice": Recorder(answer)}, operate, pace)
    run = played.runs["alice"]
    assert run.ended == "finished"
    lines = [json.loads(line) for line in run.path.read_text().splitlines()]
    assert len([line for line in lines if line["kind"] == "packet"]) == 33
    assert {"paused by the operator", "resumed by the operator"} <= {
        line.get("state") for line in lines
    }


def test_stop_ends_the_replay_and_the_run_is_scored(cup: Contest) -> None:
    def operate(do: Callable[..., Result], player: Player) -> None:
        go_when_ready(do)
        until(lambda: player.progress.packets > 5)
        assert do("stop").exit_code == 2  # a reason is needed
        assert do("stop", "--reason", "fire alarm").exit_code == 0

    played = play_operated(cup, {"alice": Recorder(lambda number, packet: [1])}, operate)
    assert played.errors == {}
    run = played.runs["alice"]
    assert (run.ended, run.detail) == ("stopped", "ended by the organiser (fire alarm)")
    assert len(score_run(run.path).verdicts()) == 2


def test_forfeit_readmit_disqualify_void_and_announce(cup: Contest) -> None:
    answers: dict[str, str] = {}

    def operate(do: Callable[..., Result], player: Player) -> None:
        go_when_ready(do)
        until(lambda: player.progress.packets > 3)
        for name, arguments in {
            "forfeit": ("forfeit", "alice", "--reason", "no battery"),
            "readmit": ("readmit", "alice"),
            "void": ("void", "--block", "1", "--trial", "2", "--reason", "wrong cue"),
            "no such": ("void", "--block", "9", "--reason", "wrong cue"),
            "announce": ("announce", "Back at 14:00"),
            "unknown": ("forfeit", "zoe", "--reason", "typo"),
            "status": ("status",),
            "disqualify": ("disqualify", "alice", "--reason", "two keys"),
        }.items():
            answers[name] = do(*arguments).output

    played = play_operated(cup, {"alice": Recorder(lambda number, packet: [])}, operate)
    assert answers.pop("status").count("alice") == 1
    assert answers == {
        "forfeit": "alice forfeits: erp\n",
        "readmit": "alice is let back in: erp\n",
        "void": "void: session 1, block 1, trial 2 of alice\n",
        "no such": "Error: there is no session 1, block 9: the truth has the blocks 1\n",
        "announce": "shown: Back at 14:00\n",
        "unknown": "Error: there is no team 'zoe'; there are alice\n",
        "disqualify": "alice is disqualified: erp\n",
    }
    run = played.runs["alice"]
    assert run.ended == "disqualified"
    assert [v.void for v in score_run(run.path).verdicts()] == [False, True]
    journal = journal_path(cup.folder, cup.name).read_text().splitlines()
    assert [json.loads(line)["action"] for line in journal] == [
        "go", "forfeit", "readmit", "void", "void", "announce", "forfeit", "disqualify",
    ]  # fmt: skip


class TestSocket:
    def test_without_a_judge_the_error_names_the_remedy(self, cup: Contest) -> None:
        result = invoke(cup, "go")
        assert result.exit_code == 1
        assert "no judge of this contest runs here" in result.output
        assert "bci-judge live" in result.output

    def test_only_its_owner_may_open_it_and_it_leaves_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / ("long" * 20) / ("names" * 10) / "judge-cup.sock"
        path.parent.mkdir(parents=True)
        path.write_text("left behind by a judge that was killed")
        with closing(ControlSocket(path)) as control:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            answers = []
            asking = threading.Thread(
                target=lambda: answers.append(ask_judge(path, GiveGo("mi"), "kim"))
            )
            asking.start()
            taken: list[OperatorRequest] = []

            def handle(request: OperatorRequest) -> OperatorAnswer:
                taken.append(request)
                return OperatorAnswer(True, "begun")

            until(lambda: control.take(handle) or taken)
            asking.join(30)
            assert taken == [OperatorRequest(GiveGo("mi"), "kim")]
            assert answers == [OperatorAnswer(True, "begun")]
        assert not path.exists()

    def test_a_request_that_can_not_be_read_is_answered(self, tmp_path: Path) -> None:
        path = tmp_path / "judge-cup.sock"
        with closing(ControlSocket(path)):
            answer = ask_judge(path, GiveGo("x\ny"))
            assert not answer.done
            assert "one line of printable text" in answer.text

    def test_a_judge_that_fails_answers_before_it_ends(self, tmp_path: Path) -> None:
        path = tmp_path / "judge-cup.sock"
        with closing(ControlSocket(path)) as control:
            answers: list[OperatorAnswer] = []
            asking = threading.Thread(target=lambda: answers.append(ask_judge(path, GiveGo())))
            asking.start()

            def fail(request: OperatorRequest) -> OperatorAnswer:
                raise ContestError("the disk is full")

            with pytest.raises(ContestError):
                until(lambda: control.take(fail))
            asking.join(30)
            assert answers == [OperatorAnswer(False, "the judge failed: the disk is full")]


class TestLogsOfPastRuns:
    @pytest.fixture
    def case(self, tmp_path: Path) -> Case:
        return new_case(tmp_path)

    def void(self, case: Case, *options: str) -> Result:
        return invoke(case.contest, "void", str(case.log), "--reason", "appeal", *options)

    def test_void_adds_a_line_and_a_seal_and_verify_shows_both(self, case: Case) -> None:
        before = case.log.read_bytes()
        result = self.void(case, "--block", "1", "--trial", "1")
        assert result.exit_code == 0, result.output
        assert "score 0.0000, now 0.0000 bits/min" in result.output
        content = case.log.read_bytes()
        assert content.startswith(before)
        assert [json.loads(line)["kind"] for line in content[len(before) :].splitlines()] == [
            "void", "seal",
        ]  # fmt: skip
        assert score_run(case.log).result()["void"] is True
        options = ("--contest", str(case.contest.folder), "--receipt", str(case.receipt))
        checked = CliRunner().invoke(main, ["verify", str(case.log), *options])
        assert checked.exit_code == 0, checked.output
        assert "holds: 1 decision of the organiser" in checked.output
        assert "decided after the run: session 1, block 1, trial 1 void (appeal)" in checked.output
        assert f"holds: receipt {case.receipt}" in checked.output

    def test_decisions_add_up(self, case: Case) -> None:
        assert self.void(case, "--block", "1", "--trial", "1").exit_code == 0
        result = invoke(case.contest, "disqualify", "alice", str(case.log), "--reason", "two keys")
        assert result.exit_code == 0, result.output
        assert score_run(case.log).scores_zero
        checked = CliRunner().invoke(
            main, ["verify", str(case.log), "--contest", str(case.contest.folder)]
        )
        assert "2 decisions" in checked.output
        assert checked.exit_code == 0
        journal = journal_path(case.contest.folder, "cup").read_text().splitlines()
        assert [json.loads(line)["action"] for line in journal] == ["void", "disqualify"]

    @pytest.mark.parametrize("damage", ["remove the last seal", "another line", "change the line"])
    def test_a_damaged_amendment_is_found(self, case: Case, damage: str) -> None:
        assert self.void(case, "--block", "1").exit_code == 0
        lines = case.log.read_text().splitlines()
        if damage == "remove the last seal":
            lines = lines[:-1]
        elif damage == "another line":
            lines.append(lines[3])
        else:
            lines[-2] = lines[-2].replace("appeal", "repeal")
        case.log.write_text("\n".join(lines) + "\n")
        checked = CliRunner().invoke(
            main, ["verify", str(case.log), "--contest", str(case.contest.folder)]
        )
        assert checked.exit_code == 1

    def test_a_log_that_does_not_verify_is_not_changed(self, case: Case) -> None:
        case.log.write_text(case.log.read_text().replace('"n":10', '"n":11', 1))
        before = case.log.read_text()
        result = self.void(case, "--block", "1")
        assert result.exit_code == 1
        assert "is not changed: it does not verify" in result.output
        assert case.log.read_text() == before

    @pytest.mark.parametrize(
        ("options", "why"),
        [
            (("--block", "4"), "there is no session 1, block 4"),
            (("--block", "1", "--team", "bob"), "the log is of team 'alice', not of 'bob'"),
        ],
    )
    def test_what_is_not_there_is_refused(
        self, case: Case, options: tuple[str, ...], why: str
    ) -> None:
        result = self.void(case, *options)
        assert result.exit_code == 1
        assert why in result.output
