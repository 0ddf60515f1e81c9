"""A replay in the background: what its device says while it is looked for, and Ctrl-C meanwhile."""

import signal
import subprocess

import pytest
from processes import Processes

from replay.cli import default_name
from replay.daemon import read_state


@pytest.mark.lsl
@pytest.mark.timeout(120)
def test_a_search_in_the_background_is_told_and_ended_by_ctrl_c(
    processes: Processes,
) -> None:
    command = ("replay", "start", "lsl:nope?wait_s=60", "--name", "one")
    asked = processes.start(*command, stderr=subprocess.PIPE)
    assert asked.stderr is not None
    assert asked.stderr.readline() == "one: connecting\n"
    state = read_state("one")
    assert state is not None
    assert state.pid != asked.pid
    asked.send_signal(signal.SIGINT)
    said, _ = asked.communicate(timeout=30)
    assert (asked.returncode, said) == (0, "replay 'one' has stopped\n")
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
