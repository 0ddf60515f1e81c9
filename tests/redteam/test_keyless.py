"""Programs without a key on the contest's network: every score is that of an undisturbed run."""

import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psutil
import pytest
from conftest import LSL_SESSION
from playground import WAIT_S, Quiet, play
from processes import ROOT
from pylsl import StreamInfo
from redteam.attacks import (
    KEYLESS,
    Attack,
    BlackHole,
    Speller,
    attacking,
    check_run,
    forge_judge,
    stay_silent,
    what,
)

from bci_stream.clock import RealClock
from bci_stream.contest.contest import Contest
from bci_stream.errors import WireError
from bci_stream.judge.judge import Judge
from bci_stream.packet import Lead
from bci_stream.wire import names
from bci_stream.wire.client import TeamClient
from bci_stream.wire.lsl import LslTransport
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.transport import FoundStream, StreamSpec
from decoders.worker import Worker
from replay.player.player import Player, parse_pace

FLOOD_MB = 800
"""What a flood may add to the memory of a process that holds replay, judge and team."""


@pytest.mark.parametrize("attack", KEYLESS, ids=lambda attack: attack.__name__)
def test_one_attack_in_lockstep(sealed, undisturbed, attack: Attack) -> None:
    transport = MemoryTransport()
    with attacking(transport, sealed, attack) as (attacker,):
        played = play(transport, sealed, what(), {"alice": Speller()})
        assert attacker.sent > 0 or attack.__name__ == "stay_silent"
    check_run(played, undisturbed)


def test_a_control_stream_that_is_no_stream_of_texts_keeps_no_team_out(sealed, undisturbed) -> None:
    """It is found before the replay's own one; a client that opened it ended with an error."""
    transport = MemoryTransport()
    source_id = names.source_id(sealed.name, "control", "a")
    spec = StreamSpec("x", "x", source_id, "float32", 100_000.0, leads=(Lead("x"),))
    outlet = transport.sample_outlet(spec)
    played = play(transport, sealed, what(), {"alice": Speller()})
    outlet.close()
    check_run(played, undisturbed)


@pytest.fixture
def attackers(processes: Any, sealed: Contest) -> Iterator[None]:
    """All attacks at once, from a process of their own."""
    command = [sys.executable, "-m", "redteam.attacks", LSL_SESSION, sealed.name]
    env = {**processes.env, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
    process = processes.start_program(command, stdin=subprocess.PIPE, env=env)
    os.setpriority(os.PRIO_PROCESS, process.pid, 10)
    assert process.stdout.readline() == "ready\n"
    yield
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(WAIT_S) == 0


@pytest.mark.lsl
@pytest.mark.parametrize("pace", ["lockstep", "realtime"])
def test_all_attacks_at_once_over_lsl(lsl_transport, sealed, undisturbed, attackers, pace) -> None:
    teams = ("alice",) if pace == "lockstep" else ("alice", "bob")
    spellers = {team: Speller() for team in teams}
    played = play(lsl_transport, sealed, what(), spellers, pace=pace)
    check_run(played, undisturbed, *teams, ordered=pace == "lockstep")
    if pace == "realtime":  # a run in lockstep may be over before the false stream of truth is open
        assert any(alarm.code == "unverified_stream" for alarm in played.sink.alarms)


@pytest.fixture
def black_holes(sealed: Contest) -> Iterator[list[BlackHole]]:
    roles = ("results", "truth", "judge", "control", "asks")
    holes = [
        BlackHole(LSL_SESSION, names.source_id(sealed.name, role, owner))  # type: ignore[arg-type]
        for role in roles
        for owner in ("alice", "r")
    ]
    yield holes
    for hole in holes:
        hole.close()


@pytest.mark.lsl
def test_streams_that_accept_and_never_answer(
    lsl_transport, sealed, undisturbed, black_holes
) -> None:
    """A6. In real time: a judge that waited for them would stamp reports late."""
    played = play(lsl_transport, sealed, what(), {"alice": Speller()}, pace="realtime")
    check_run(played, undisturbed, ordered=False)
    assert all(hole.answered for hole in black_holes if "asks" not in hole.source_id)


FLOOD = """
import sys, pylsl
from bci_stream.wire.network import config
contest, session, size, rate = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
pylsl.set_config_content(config("machine", session))
streams = [("results", "alice"), ("judge", "judge"), ("truth", "r"), ("control", "r")]
outlets = [
    pylsl.StreamOutlet(
        pylsl.StreamInfo("x", "x", 1, rate, pylsl.cf_string, f"bci/{contest}/{role}/{owner}"),
        max_buffered=1,
    )
    for role, owner in streams
]
text = "x" * size
print("ready", flush=True)
while True:
    for outlet in outlets:
        if outlet.have_consumers():
            outlet.push_sample([text])
"""


@pytest.fixture
def flood(processes: Any, sealed: Contest, request: pytest.FixtureRequest) -> Iterator[None]:
    size, rate = request.param
    command = [sys.executable, "-c", FLOOD, sealed.name, LSL_SESSION, str(size), str(rate)]
    process = processes.start_program(command, stderr=subprocess.DEVNULL)
    os.setpriority(os.PRIO_PROCESS, process.pid, 10)
    assert process.stdout.readline() == "ready\n"
    yield
    assert process.poll() is None  # it was at it until the end


@pytest.mark.lsl
@pytest.mark.parametrize(
    "flood", [(1_000_000, 0.0), (200, 0.0), (200, 100_000.0)], indirect=True, ids=str
)
def test_a_flood_of_texts_changes_no_score_and_fills_no_memory(
    lsl_transport, sealed, undisturbed, flood
) -> None:
    """A7, A8; and streams that name a rate, for which liblsl would allocate large buffers."""
    speller = Speller()
    before = psutil.Process().memory_info().rss
    played = play(lsl_transport, sealed, what(), {"alice": speller})
    check_run(played, undisturbed)
    assert speller.most_memory - before < FLOOD_MB * 1_000_000


@pytest.mark.parametrize(
    ("rate", "channels"), [(1e6, 2), (1e300, 2), (1000.0, 100_000), (0.0, 1_000_000)]
)
def test_a_signal_for_which_gigabytes_would_be_reserved_is_not_opened(
    rate: float, channels: int
) -> None:
    """The page opens any signal stream of the contest: 2 channels at 1 MHz took 6 GB before a sample."""
    info = StreamInfo("x", "EEG", channels, rate, "float32", "bci/c/signal/r")
    found = FoundStream("x", "EEG", "bci/c/signal/r", "uid", info)
    with pytest.raises(WireError, match=f"names {channels} channels"):
        LslTransport("machine", LSL_SESSION).sample_inlet(found, 0.1)


OUTLET = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from bci_stream.wire import names
from bci_stream.wire.lsl import LslTransport
outlet = LslTransport("machine", sys.argv[1]).text_outlet(names.text_stream("c", "control", "r"))
print("ready", flush=True)
sys.stdin.readline()
with open("/dev/null"):
    print("opened", flush=True)
"""
CONNECTIONS = 200


@pytest.mark.lsl
def test_connections_that_are_held_leave_descriptors_for_files(processes) -> None:
    """Idle ones took all 1,024 of a replay: it could open no recording, and its state thread died."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 2 * CONNECTIONS:
        pytest.skip("this system allows few descriptors")
    command = [sys.executable, "-c", OUTLET, LSL_SESSION]
    process = processes.start_program(command, stdin=subprocess.PIPE)
    assert process.stdout.readline() == "ready\n"
    (port,) = {
        c.laddr.port
        for c in psutil.Process(process.pid).net_connections("tcp4")
        if c.status == "LISTEN"
    }
    with ExitStack() as held:
        for _ in range(CONNECTIONS):
            held.enter_context(socket.create_connection(("127.0.0.1", port), WAIT_S))
        pause, deadline = threading.Event(), time.monotonic() + WAIT_S
        while psutil.Process(process.pid).num_fds() < CONNECTIONS and time.monotonic() < deadline:
            pause.wait(0.02)
        process.stdin.write("go on\n")
        process.stdin.flush()
        assert process.stdout.readline() == "opened\n"
    process.stdin.close()
    assert process.wait(WAIT_S) == 0


@pytest.mark.lsl
def test_a_name_that_would_control_a_terminal_is_not_listed(lsl_transport, sealed) -> None:
    """A client that finds no replay lists the streams that it sees."""
    source_ids = [names.source_id(sealed.name, "control", owner) for owner in ("x\x1b[2J", "x")]
    outlets = [
        lsl_transport.text_outlet(StreamSpec(name, "x", source_id))
        for name, source_id in (
            ("n", source_ids[0]),
            ("n\u202e", source_ids[1]),
            ("n", source_ids[1]),
        )
    ]
    watch = lsl_transport.watch(names.prefix(sealed.name, "control"))
    deadline, pause = lsl_transport.now() + WAIT_S, threading.Event()
    while len(watch._resolver.results()) < len(outlets) and lsl_transport.now() < deadline:
        pause.wait(0.05)
    assert {(stream.name, stream.source_id) for stream in watch.found()} == {("n", source_ids[1])}
    watch.close()
    for outlet in outlets:
        outlet.close()


def test_an_empty_judge_stream_does_not_take_the_place_of_a_judge(sealed) -> None:
    """A11: the replay holds its packets back while its judge is gone, whatever streams there are."""
    transport, stop, decoder = MemoryTransport(), threading.Event(), Speller()
    clock = RealClock(transport.now)
    player = Player(transport, clock, sealed, what(), name="r", pace=parse_pace("4"),
                    start_on="judge", stop=stop, wait_s=WAIT_S)  # fmt: skip
    client = TeamClient(
        transport, sealed.name, "alice", sealed.keys.token("alice"), stop=stop,
        public_key=sealed.keys.public_key(), sealed=True,
    )  # fmt: skip
    worker = Worker(client, decoder, track="erp", join_s=WAIT_S, stop=stop)
    threads = [threading.Thread(target=run, daemon=True) for run in (player.play, worker.run)]
    for thread in threads:
        thread.start()

    def wait_until(condition: Any, poll: Any = lambda: None) -> None:
        deadline = transport.now() + WAIT_S
        while not condition():
            poll()
            assert transport.now() < deadline
            stop.wait(0.002)

    judge = Judge(transport, sealed, Quiet(), stop=stop, may_start=bool)
    try:
        with attacking(transport, sealed, stay_silent, forge_judge):
            wait_until(lambda: len(decoder.packets) > 10, judge.poll)
            for run in judge.runs:
                run.abandon()
            judge._close_streams()
            wait_until(lambda: player.progress.state == "paused")
            held = player.progress.packets
            begun = transport.now()
            wait_until(lambda: transport.now() - begun > 1.0)
            assert (player.progress.state, player.progress.packets) == ("paused", held)
        last = Judge(transport, sealed, Quiet(), stop=stop, may_start=bool)
        deadline = transport.now() + WAIT_S
        last.judge(lambda j: j.all_over() or transport.now() > deadline, WAIT_S)
    finally:
        stop.set()
        for thread in threads:
            thread.join(WAIT_S)
    (log,) = sealed.runs.glob("*.jsonl")
    kinds = [json.loads(line)["kind"] for line in log.read_text().splitlines()]
    assert kinds.count("packet") == len(decoder.packets)
    assert "end" in kinds
