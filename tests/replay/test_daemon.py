"""Replays in the background: `bci-replay start`, their state files and the table of `status`."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from processes import Processes

from replay.cli import default_name, main
from replay.daemon import (
    DaemonState,
    is_suspended,
    read_state,
    render_states,
    start_time,
    state_path,
    watch_states,
    write_state,
)
from replay.devices.status import DeviceStatus

PROGRESS = {"played": 9000, "total": 15000, "late_s": -0.00002, "worst_late_s": 3.5741, "teams": ()}


def playing(pid: int, **facts) -> DaemonState:
    return DaemonState(
        "one", pid, start_time(pid), ["long.npz"], "", "realtime", "c", state="playing", **facts
    )


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_start_time_is_the_one_in_proc_so_a_running_daemon_survives_an_upgrade():
    stat = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    assert start_time(os.getpid()) == stat[19]


def test_status_shows_the_progress_and_the_worst_lateness():
    shown = render_states([playing(os.getpid(), rate=250.0, progress=PROGRESS)], as_json=False)
    assert "60% (0:36 of 1:00)" in shown
    assert "0.0 (3574.1) ms" in shown


def test_status_shows_teams_or_other_consumers():
    def shown(**progress) -> str:
        return render_states([playing(os.getpid(), progress=progress)], as_json=False)

    assert "alice, bob" in shown(teams=("alice", "bob"), heard=True)
    assert "others" in shown(teams=(), heard=True)
    assert "others" not in shown(teams=(), heard=False)


@pytest.mark.parametrize("as_json", [True, False])
def test_watching_shows_the_present_state_each_time_until_it_is_stopped(capsys, as_json):
    stop, states = threading.Event(), iter(["playing", "paused"])

    def choose() -> list[DaemonState]:
        state = playing(os.getpid(), progress={"jitter_s": 0.0042})
        state.state = next(states)
        if state.state == "paused":
            stop.set()
        return [state]

    watch_states(choose, stop, as_json)
    shown = capsys.readouterr().out
    assert shown.index("playing") < shown.index("paused")
    assert ("4.2 ms" in shown) is not as_json
    if as_json:
        assert [json.loads(line)[0]["state"] for line in shown.splitlines()] == [
            "playing",
            "paused",
        ]


def test_a_live_device_has_no_end_and_a_starting_one_no_progress():
    live = {"played": 100 * 1000, "total": None}
    assert " 1:40 " in render_states([playing(1, rate=1000.0, progress=live)], as_json=False)
    assert " - " in render_states([playing(1)], as_json=False)


def test_a_device_that_is_not_connected_is_shown_with_the_reason_and_without_counts():
    status = DeviceStatus("lsl:amp", detail="can't connect: Connection refused")
    shown = render_states([playing(1, device=status.as_dict())], as_json=False)
    assert shown.endswith("one: lsl:amp is connecting (can't connect: Connection refused)")


def test_a_device_of_a_replay_that_has_ended_is_shown_in_the_past_tense():
    over = DaemonState("one", 1, "", [], "", "realtime", "c", state="stopped")
    over.device = DeviceStatus("lsl:amp", "connected").as_dict()
    assert render_states([over], as_json=False).endswith("one: lsl:amp was connected")


def test_the_clocks_of_judge_and_teams_are_shown_while_it_plays() -> None:
    clocks = {
        "judge": {"offset_s": -5000.01234, "jitter_s": 0.00008, "drift_ppm": 11.4},
        "team alice": {"offset_s": 0.00001, "jitter_s": None, "drift_ppm": None},
    }
    shown = render_states([playing(1, clocks=clocks)], as_json=False)
    assert shown.splitlines()[-1] == (
        "one: clocks, compared with this host's: judge -5000.0123 s (jitter 0.08 ms, drift +11.4 ppm), "
        "team alice +0.0000 s"
    )


def test_a_running_device_is_shown_with_its_counts():
    status = DeviceStatus("lsl:amp", "connected", "", 400, 30, False, 1, 2, 0, 0, 12.5, -3.0)
    shown = render_states([playing(1, device=status.as_dict())], as_json=False)
    assert shown.endswith(
        "one: lsl:amp is connected: 400 samples, about 30 lost in 1 gaps, 2 reconnects, "
        "offset 12.500 s, drift -3.0 ppm"
    )


def test_a_suspended_process_is_shown_as_suspended():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        write_state(playing(child.pid))
        assert read_state("one").state == "playing"
        os.kill(child.pid, signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        assert is_suspended(child.pid)
        state = read_state("one")
        assert state.state == "suspended"
        assert f"kill -CONT {child.pid}" in state.detail
        os.kill(child.pid, signal.SIGCONT)
        os.waitpid(child.pid, os.WCONTINUED)
        assert read_state("one").state == "playing"
    finally:
        child.kill()
        child.communicate()
    assert read_state("one").state == "crashed"


def test_old_replays_are_counted_and_shown_with_all(monkeypatch, tmp_path):
    monkeypatch.setenv("BCI_HOME", str(tmp_path))
    for name, days_ago in (("old", 2), ("older", 9), ("new", 0)):
        write_state(replace(playing(1), name=name, state="finished"))
        written = time.time() - days_ago * 86_400
        os.utime(state_path(name), (written, written))

    def shown(*words: str) -> str:
        return CliRunner().invoke(main, ["status", *words]).output

    assert "new  " in shown()
    assert shown().endswith("2 more ended over a day ago: bci-replay status --all\n")
    assert "older" not in shown()
    assert "older" in shown("--all")
    assert "older" in shown("older")
    assert [state["name"] for state in json.loads(shown("--json"))] == ["new"]


# --- starting -----------------------------------------------------------------------------------


@pytest.mark.lsl
@pytest.mark.timeout(120)
def test_start_logs_the_search_for_a_device_and_ctrl_c_ends_it(
    processes: Processes,
) -> None:
    command = ("replay", "start", "lsl:nope?wait_s=60", "--name", "one")
    started = processes.start(*command, stderr=subprocess.PIPE)
    assert started.stderr is not None
    assert started.stderr.readline() == "one: connecting\n"
    state = read_state("one")
    assert state is not None
    assert state.pid != started.pid
    started.send_signal(signal.SIGINT)
    output, _ = started.communicate(timeout=30)
    assert (started.returncode, output) == (0, "replay 'one' has stopped\n")
    assert read_state("one").state == "stopped"


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("neuracle://127.0.0.1:8712?protocol=raw&channels=64", "127.0.0.1-8712"),
        ("neuracle://[fe80::1%eth0]/", "fe80--1-eth0"),
        ("brainflow:CYTON?serial_port=/dev/ttyUSB0", "CYTON"),
        ("lsl:M_12345_EEG", "M_12345_EEG"),
        ("/data/S01.run-1.edf", "S01.run-1"),
        ("/data/", "data"),
    ],
)
def test_a_replay_is_named_after_what_it_plays(source, name) -> None:
    assert default_name(None, (source,)) == name
    assert default_name("mi", (source,)) == "mi"
