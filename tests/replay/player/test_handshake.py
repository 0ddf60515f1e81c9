"""The handshake's state belongs to the playing thread; other threads only post events to it."""

import threading

import pytest
from playground import erp_recording, program

from bci_stream.clock import ManualClock
from bci_stream.contest.contest import Contest
from bci_stream.errors import WireError
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import Status, read_control
from replay.player.player import Pace, Player


@pytest.fixture
def player(tmp_path) -> Player:
    clock = ManualClock()
    return Player(
        MemoryTransport(clock.now), clock, Contest("c", tmp_path),
        program("erp", erp_recording()), name="r", pace=Pace(lockstep=False),
        start_on="now", stop=threading.Event(),
    )  # fmt: skip


def test_what_the_network_thread_receives_is_handled_by_the_playing_thread(player) -> None:
    handshake = player._handshake
    received, threads = threading.Event(), set()

    def receive(timeout_s=0.0):
        threads.add(threading.current_thread().name)
        received.set()
        return [Status("late")]

    handled = []
    handshake.inlets.receive = receive
    handshake._handle = lambda event: handled.append(threading.current_thread().name)
    with handshake.polling_thread():
        assert received.wait(30)
        assert handled == []
    handshake.handle_posted()
    assert threads == {"network"}
    assert set(handled) == {threading.current_thread().name}


def test_an_error_of_the_network_thread_is_raised_by_the_playing_thread(player) -> None:
    handshake, raised = player._handshake, threading.Event()

    def receive(timeout_s=0.0):
        raised.set()
        raise WireError("no network")

    handshake.inlets.receive = receive
    with handshake.polling_thread():
        assert raised.wait(30)
    with pytest.raises(WireError, match="no network"):
        handshake.handle_posted()


def test_a_status_that_any_thread_announces_is_sent_once_by_the_playing_thread(player) -> None:
    transport = player._handshake.inlets.transport
    (found,) = [stream for stream in transport.visible("") if stream.name == "c-r-control"]
    control = transport.text_inlet(found, 1)
    for _ in range(2):
        thread = threading.Thread(target=player.announce, args=("connected", "0 lost"))
        thread.start()
        thread.join()
    assert control.pull(0) == []
    player.play()
    messages = [read_control(text) for text, _ in control.pull(0)]
    sent = [m for m in messages if isinstance(m, Status) and m.state == "connected"]
    assert sent == [Status("connected", "0 lost")]
