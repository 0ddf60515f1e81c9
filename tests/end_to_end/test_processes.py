"""The commands as separate processes over real LSL, as the README shows them, in any order."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner
from processes import ROOT, Processes

import decoders.cli
import replay.cli
from bci_stream.contest.contest import Contest
from bci_stream.judge.cli import main as judge_main
from replay.daemon import start_time

SOURCE = "synthetic:erp?subjects=1&trials=2"
LONG_SOURCE = "synthetic:erp?subjects=1&trials=30"
MINE = """
class Mine:
    def start(self, info):
        self.packets = 0

    def step(self, packet):
        self.packets += 1
        return ["A"] if self.packets % 100 == 0 else []
"""
pytestmark = [pytest.mark.lsl, pytest.mark.timeout(180)]


@pytest.fixture(autouse=True)
def files(processes: Processes) -> None:
    """A decoder, and a contest that admits one team."""
    (processes.folder / "mine.py").write_text(MINE)
    (processes.folder / "listed.toml").write_text('name = "cup"\nteams = ["alice"]\n')


REPLAY = ("replay", "start", SOURCE, "--track", "erp", "--foreground", "--wait", "60")
DECODER = ("decoders", "--track", "erp", "--decoder", "mine:Mine", "--team", "alice")
RUN = ("bci_stream.judge", "run", "--track", "erp", "--recording", SOURCE)
MAINS = {"replay": replay.cli.main, "decoders": decoders.cli.main, "bci_stream.judge": judge_main}
JUDGE = ("bci_stream.judge", "live", "--no-web", "--wait", "60")


@pytest.mark.parametrize(
    ("order", "pace"),
    [
        ((REPLAY, DECODER, JUDGE), "8"),
        ((DECODER, JUDGE, REPLAY), "lockstep"),
    ],
    ids=["replay first", "replay last"],
)
def test_the_three_commands_meet_in_any_order(processes: Processes, order, pace) -> None:
    started = {
        command[0]: processes.start(*command, *(("--pace", pace) if command is REPLAY else ()))
        for command in order
    }
    outputs = {name: process.communicate(timeout=120)[0] for name, process in started.items()}
    for name, process in started.items():
        assert process.returncode == 0, outputs[name]
        assert "Traceback" not in outputs[name]
    (log,) = (processes.folder / "home" / "contests" / "default" / "runs").glob("*.jsonl")
    result = json.loads(processes.run("bci_stream.judge", "score", str(log), "--json"))
    assert result["end"] == "finished"
    assert result["sessions"][0]["trials"] == 2
    assert "alice" in outputs["bci_stream.judge"]


@pytest.mark.parametrize("pace", ["8"])
def test_a_client_that_imports_nothing_of_ours_takes_part(processes: Processes, pace: str) -> None:
    judge = processes.start(*JUDGE)
    processes.start(*REPLAY, "--pace", pace)
    contest = Contest("default", Path(processes.env["BCI_HOME"]) / "contests" / "default")
    token = contest.keys.token_file("outsider")  # the organiser gives it to the team
    client = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "example_client.py"), "--track", "erp",
         "--team", "outsider", "--token", str(token), "--result", '"A"',
         "--lsl-session", processes.env["BCI_LSL_SESSION"]],
        env=processes.env, cwd=processes.folder, text=True, capture_output=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert client.returncode == 0, client.stderr
    out, _ = judge.communicate(timeout=60)
    assert "outsider" in out
    (log,) = (processes.folder / "home" / "contests" / "default" / "runs").glob("*.jsonl")
    result = json.loads(processes.run("bci_stream.judge", "score", str(log), "--json"))
    assert result["end"] == "finished"
    packets = int(client.stdout.split()[1])
    kinds = [json.loads(line)["kind"] for line in log.read_text().splitlines()]
    assert kinds.count("packet") == packets
    assert kinds.count("report") == packets // 20


def test_run_judges_several_decoders_and_one_that_fails(processes: Processes) -> None:
    out = processes.run(
        *RUN,
        "--json",
        "-j",
        "2",
        *("--decoder", "mine:Mine", "--decoder", "no_such_module:Decoder"),
    )
    outcomes = {o["team"]: o for o in json.loads(out[out.index("[\n") :])}
    assert outcomes["mine-Mine"]["reason"] == "finished"
    failed = outcomes["no_such_module-Decoder"]
    assert failed["reason"] == "crashed"
    assert "no_such_module" in failed["detail"]


def test_a_killed_judge_leaves_no_replay_and_no_decoder(processes: Processes) -> None:
    judge = processes.start(*RUN[:-1], LONG_SOURCE, "--decoder", "mine:Mine")
    runs = processes.folder / "home" / "contests" / "default" / "runs"
    for _ in range(2400):  # until packets are judged
        if any(path.stat().st_size > 10_000 for path in runs.glob("*.jsonl")):
            break
        assert judge.poll() is None
        signal.sigtimedwait([], 0.05)
    children = psutil.Process(judge.pid).children(recursive=True)
    try:
        assert len(children) == 2
        judge.kill()
        _, left = psutil.wait_procs(children, timeout=30)
        assert left == []
    finally:
        for child in psutil.wait_procs(children, timeout=0)[1]:
            child.kill()


class TestDaemon:
    def test_it_starts_tells_its_state_and_stops(self, processes: Processes) -> None:
        out = processes.run("replay", "start", SOURCE, "--track", "erp", "--pace", "lockstep")
        assert "replay 'erp' is waiting" in out
        again = processes.run("replay", "start", SOURCE, "--track", "erp", code=1)
        assert "is running already" in again
        (state,) = json.loads(processes.run("replay", "status", "--json"))
        assert (state["name"], state["state"], state["track"]) == ("erp", "waiting", "erp")
        assert "has stopped" in processes.run("replay", "stop", "erp")
        (state,) = json.loads(processes.run("replay", "status", "--json"))
        assert state["state"] == "stopped"
        assert start_time(state["pid"]) != state["born"]

    def test_a_crash_is_told(self, processes: Processes) -> None:
        processes.run("replay", "start", SOURCE, "--track", "erp")
        (state,) = json.loads(processes.run("replay", "status", "--json"))
        os.kill(state["pid"], signal.SIGKILL)
        for _ in range(100):  # the system takes a moment to bury it
            if start_time(state["pid"]) != state["born"]:
                break
            signal.sigtimedwait([], 0.05)
        (state,) = json.loads(processes.run("replay", "status", "--json"))
        assert state["state"] == "crashed"
        assert "is not running" in processes.run("replay", "stop", "erp", code=1)

    def test_a_source_that_cannot_be_read_is_told_at_the_start(self, processes: Processes) -> None:
        out = processes.run("replay", "start", "nowhere.edf", "--track", "erp", code=1)
        assert "nowhere.edf" in out


def test_a_replay_whose_output_is_closed_plays_to_its_end(processes: Processes) -> None:
    played = (
        *("replay", "start", SOURCE, "--name", "mute", "--foreground"),
        "--start",
        "now",
        "--pace",
        "50",
    )
    closed = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh"]
    process = processes.start_program([*closed, sys.executable, "-m", *played])
    assert process.wait(timeout=120) == 0
    (state,) = json.loads(processes.run("replay", "status", "--json"))
    assert (state["name"], state["state"]) == ("mute", "finished")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", [REPLAY, DECODER, JUDGE], ids=["replay", "decoder", "judge"])
def test_each_process_stops_cleanly_on_a_signal(processes: Processes, command, number) -> None:
    process = processes.start(*command)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "waiting" in line, line
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert "Traceback" not in out
    assert process.returncode in (0, 1)


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        (("replay", "start", "x", "--track", "chess"), 2, ["chess", "erp"]),
        (("replay", "start", "nowhere.edf", "--foreground"), 1, ["nowhere.edf"]),
        (("replay", "start", "ftp:x", "--foreground"), 1, ["ftp", "synthetic"]),
        (("replay", "start", SOURCE, "--pace", "slow", "--foreground"), 1, ["slow", "lockstep"]),
        (
            ("replay", "start", SOURCE, "--pace", "lockstep", "--start", "now", "--foreground"),
            2,
            ["--start now", "lockstep", "team"],
        ),
        (("replay", "stop", "nobody"), 1, ["nobody"]),
        (
            ("decoders", "--track", "erp", "--decoder", "erp-chance", "--wait", "0.2"),
            1,
            ["waited 0.2 s"],
        ),
        (("decoders",), 2, ["--track"]),
        (("decoders", "--track", "erp", "--decoder", "nothing"), 1, ["nothing", "erp-umm"]),
        (
            ("bci_stream.judge", "live", "--no-web", "--wait", "0.2"),
            1,
            ["waited 0.2 s", "bci-replay"],
        ),
        (("bci_stream.judge", "score", "nowhere.jsonl"), 1, ["nowhere.jsonl"]),
        (
            (*RUN, "--decoder", "erp-chance", "--contest", "listed.toml"),
            1,
            ["erp-chance", "'cup'", "alice", "teams"],
        ),
        (("bci_stream.judge", "live", "--contest", "nowhere.toml"), 1, ["nowhere.toml", "init"]),
    ],
    ids=lambda value: " ".join(value[:4]) if isinstance(value, tuple) else None,
)
def test_bad_input_gets_one_clear_line(
    processes: Processes, monkeypatch: pytest.MonkeyPatch, command, code, words
) -> None:
    """In this process: how commands start and end as processes is tested above."""
    monkeypatch.chdir(processes.folder)
    ended = CliRunner().invoke(MAINS[command[0]], command[1:])
    assert ended.exit_code == code, ended.output
    assert isinstance(ended.exception, SystemExit)
    assert "Traceback" not in ended.output
    for word in words:
        assert word in ended.output
