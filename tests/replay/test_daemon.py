"""What `bci-replay status` tells of a replay: where it stands, how late it was, whether it runs at all."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

from click.testing import CliRunner

from replay.cli import main
from replay.daemon import (
    DaemonState,
    is_suspended,
    read_state,
    render_states,
    start_time,
    state_path,
    write_state,
)
from replay.devices.status import DeviceStatus

PROGRESS = {"played": 9000, "total": 15000, "late_s": -0.00002, "worst_late_s": 3.5741, "teams": ()}


def playing(pid: int, **facts) -> DaemonState:
    return DaemonState(
        "one", pid, start_time(pid), ["long.npz"], "", "realtime", "c", state="playing", **facts
    )


def test_it_tells_the_place_in_time_and_the_worst_lateness():
    shown = render_states([playing(os.getpid(), rate=250.0, progress=PROGRESS)], as_json=False)
    assert "60% (0:36 of 1:00)" in shown
    assert "0.0 (3574.1) ms" in shown


def test_it_tells_who_listens():
    def shown(**progress) -> str:
        return render_states([playing(os.getpid(), progress=progress)], as_json=False)

    assert "alice, bob" in shown(teams=("alice", "bob"), heard=True)
    assert "others" in shown(teams=(), heard=True)
    assert "others" not in shown(teams=(), heard=False)


def test_a_live_device_has_no_end_and_a_starting_one_no_place_yet():
    live = {"played": 100 * 1000, "total": None}
    assert " 1:40 " in render_states([playing(1, rate=1000.0, progress=live)], as_json=False)
    assert " - " in render_states([playing(1)], as_json=False)


def test_a_device_that_is_looked_for_is_shown_with_what_keeps_it_and_no_numbers():
    status = DeviceStatus("lsl:amp", detail="can't connect: Connection refused")
    shown = render_states([playing(1, device=status.as_dict())], as_json=False)
    assert shown.endswith("one: lsl:amp is connecting (can't connect: Connection refused)")


def test_a_device_of_a_replay_that_is_over_was_something():
    over = DaemonState("one", 1, "", [], "", "realtime", "c", state="stopped")
    over.device = DeviceStatus("lsl:amp", "connected").as_dict()
    assert render_states([over], as_json=False).endswith("one: lsl:amp was connected")


def test_a_running_device_is_shown_with_all_its_numbers():
    status = DeviceStatus("lsl:amp", "connected", "", 400, 30, False, 1, 2, 0, 0, 12.5, -3.0)
    shown = render_states([playing(1, device=status.as_dict())], as_json=False)
    assert shown.endswith(
        "one: lsl:amp is connected: 400 samples, about 30 lost in 1 gaps, 2 reconnects, "
        "offset 12.500 s, drift -3.0 ppm"
    )


def test_a_suspended_process_is_told_from_a_playing_one():
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


def test_replays_that_ended_long_ago_are_counted_and_shown_when_asked_for(monkeypatch, tmp_path):
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
