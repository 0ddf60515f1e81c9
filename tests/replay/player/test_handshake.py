"""The handshake: its state belongs to the playing thread, and in lockstep each message counts once."""

import threading
from types import SimpleNamespace

import pytest
from playground import erp_recording, program

from bci_stream.clock import ManualClock
from bci_stream.contest.contest import Contest
from bci_stream.errors import NotFoundError, WireError
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import (
    Go,
    Join,
    PacketRequest,
    Ready,
    ReportMessage,
    Status,
    TeamMessage,
    read_control,
)
from replay.player.handshake import ANSWER_EVERY_S, JOINING_S, HandshakeServer
from replay.player.inlets import FromTeam
from replay.player.player import Pace, Player
from replay.player.teams import JoinedTeam


def new_player(folder, *, lockstep: bool) -> Player:
    clock = ManualClock()
    return Player(
        MemoryTransport(clock.now), clock, Contest("c", folder),
        program("erp", erp_recording()), name="r", pace=Pace(lockstep=lockstep),
        start_on="team" if lockstep else "now", stop=threading.Event(),
    )  # fmt: skip


@pytest.fixture
def player(tmp_path) -> Player:
    return new_player(tmp_path, lockstep=False)


class LockstepTeam:
    """A team that has joined; its messages arrive at the handshake in the order in which it sends them."""

    def __init__(self, handshake: HandshakeServer) -> None:
        self.handshake = handshake
        self._sent: list[FromTeam] = []
        handshake.inlets.receive_results = self._receive
        self.sends(Join)
        handshake.requested(0, 0.0, by_request=False)

    def sends(self, kind: type[TeamMessage], **fields: object) -> None:
        message = kind("c", self.handshake.offer.run, "alice", 0, **fields)
        self._sent.append(FromTeam(message, f"{kind.__name__} {fields}", "worker"))

    def _receive(self, timeout_s: float) -> list[FromTeam]:
        sent, self._sent = self._sent, []
        return sent

    def gets(self, packet: int) -> bool:
        """Whether this packet is sent now."""
        return self.handshake.requested(packet, 0.0, by_request=False)


@pytest.fixture
def team(tmp_path) -> LockstepTeam:
    return LockstepTeam(new_player(tmp_path, lockstep=True)._handshake)


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
    assert [(m.state, m.detail) for m in sent] == [("connected", "0 lost")]


def test_a_flood_of_ready_is_answered_now_and_then(player) -> None:
    """Each answer is signed, and read and verified by every team."""
    handshake = player._handshake
    handshake._handle_team(FromTeam(Join("c", handshake.offer.run, "alice", 0), "", "worker"))
    handshake.journal.begin_session(0)
    sent: list[object] = []
    handshake.outlets.send = sent.append
    for seq in range(100):
        message = Ready("c", handshake.offer.run, "alice", seq)
        handshake._handle_team(FromTeam(message, "", "worker"))
        if seq == 49:
            player._clock.advance(1.1 * ANSWER_EVERY_S)
    assert sent == [handshake.journal.session_start] * 2
    assert handshake.teams.joined["alice"].ready


def test_a_packet_that_is_requested_twice_is_sent_once(team) -> None:
    team.sends(PacketRequest, packet=0, n=0)
    team.sends(PacketRequest, packet=0, n=0)
    assert team.gets(0)
    assert not team.gets(1)
    team.sends(PacketRequest, packet=0, n=1)  # also with a number of its own
    assert not team.gets(1)
    team.sends(PacketRequest, packet=1, n=2)
    assert team.gets(1)


def test_a_report_after_a_request_that_is_not_answered_yet_is_kept(team) -> None:
    kept = []
    team.handshake.journal.record_message = lambda text, at: kept.append(text)
    team.sends(PacketRequest, packet=0, n=0)
    team.sends(ReportMessage, result="A", n=1)
    team.sends(ReportMessage, result="B", n=1)  # a second report of that number
    assert team.gets(0)
    assert kept == ["ReportMessage {'result': 'A', 'n': 1}"]
    assert not team.gets(1)
    assert len(kept) == 1


class TestAbsentTeams:
    """In real time: a team that joined and is gone, or never gets ready, does not hold up the others."""

    @pytest.fixture
    def handshake(self, tmp_path) -> HandshakeServer:
        found = new_player(tmp_path, lockstep=False)._handshake
        found.inlets.receive = lambda timeout_s=0.0: []
        for name, ready in (("alice", True), ("bob", False)):
            found.teams.joined[name] = JoinedTeam(name, name, "", ready=ready)
        return found

    def test_one_that_is_gone_is_not_waited_for(self, handshake) -> None:
        handshake._handle(Go("c", handshake.offer.run))
        assert not handshake._may_begin("judge")
        handshake.inlets.teams_gone = lambda longer_than_s: {"bob"}
        assert handshake._may_begin("judge")
        handshake.inlets.teams_gone = lambda longer_than_s: {"alice", "bob"}
        assert not handshake._may_begin("judge")

    def test_one_that_is_never_ready_is_waited_for_a_while_after_the_go(self, handshake) -> None:
        at = 100.0
        handshake.now = lambda: at
        handshake._handle(Go("c", handshake.offer.run))
        at += JOINING_S
        handshake._handle(Go("c", handshake.offer.run))  # it is repeated
        assert not handshake._may_begin("judge")
        at += 0.1
        assert handshake._may_begin("judge")

    @pytest.mark.parametrize("start", ["ready", "go"])
    def test_the_wait_has_no_limit_where_the_operator_decides_and_a_judge_is_here(
        self, tmp_path, start
    ) -> None:
        clock, stop = ManualClock(), threading.Event()
        contest = Contest("c", tmp_path, start=start)
        player = Player(
            MemoryTransport(clock.now), clock, contest, program("erp", erp_recording()), name="r",
            pace=Pace(lockstep=False), start_on="judge", stop=stop,
        )  # fmt: skip
        handshake = player._handshake
        handshake.inlets._judge = SimpleNamespace(owners=["judge"])
        polled = iter(range(20))

        def poll() -> None:
            clock.advance(60.0)
            if next(polled, None) is None:
                stop.set()

        handshake.poll = poll
        if start == "ready":
            with pytest.raises(NotFoundError, match="waited 600 s"):
                handshake.wait("judge", 600.0, stop)
        else:
            assert handshake.wait("judge", 600.0, stop) is False
