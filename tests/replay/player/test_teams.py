"""Numbered messages in lockstep: none can be filled in later, when the team has seen more packets."""

import pytest

from bci_stream.contest.contest import Contest
from bci_stream.wire.messages import (
    NUMBERS_A_WORKER,
    ControlMessage,
    Done,
    Join,
    Offer,
    PacketRequest,
    Refused,
    ReportMessage,
    TeamMessage,
    Welcome,
)
from replay.player.teams import TeamRegistry


class FakeStreams:
    control_uid = "control-uid"

    def signal_for(self, team: str, channels: dict[str, list[int]]) -> str:
        return "signal"

    def signal_uid(self, source_id: str) -> str:
        return f"{source_id}-uid"


class Team:
    """Sends any messages to a registry."""

    def __init__(self, contest: Contest) -> None:
        offer = Offer("c", "run", "erp", "lockstep", 250.0, 10, [], ["S01"])
        self.live = {"w1"}
        streams = FakeStreams()
        self.teams = TeamRegistry(
            offer, contest.token, streams, self.live.__contains__, next_packet=lambda: 7
        )
        assert self.sends(Join)

    def sends(self, kind: type[TeamMessage], **fields: object) -> bool:
        """Whether it was accepted."""
        return self.answers(kind, "w1", **fields)[0]

    def answers(
        self, kind: type[TeamMessage], worker: str, **fields: object
    ) -> tuple[bool, list[ControlMessage]]:
        return self.teams.handle(kind("c", "run", "alice", 0, **fields), worker)


@pytest.fixture
def team(tmp_path) -> Team:
    return Team(Contest("c", tmp_path))


def test_numbered_messages_are_accepted_in_their_order(team) -> None:
    assert team.sends(PacketRequest, packet=0, n=0)
    assert team.sends(ReportMessage, result=1, n=1)
    assert team.sends(PacketRequest, packet=1, n=2)
    assert team.sends(Done, n=3)


def test_after_a_missing_number_nothing_is_accepted_until_it_comes(team) -> None:
    assert team.sends(PacketRequest, packet=0, n=0)
    assert not team.sends(PacketRequest, packet=1, n=2)
    assert team.sends(ReportMessage, result=1, n=1)
    assert team.sends(PacketRequest, packet=1, n=2)


def test_a_number_is_accepted_once(team) -> None:
    assert team.sends(PacketRequest, packet=0, n=0)
    assert not team.sends(ReportMessage, result="better", n=0)


def test_messages_without_numbers_are_accepted(team) -> None:
    assert team.sends(PacketRequest, packet=0)
    assert team.sends(ReportMessage, result=1)
    assert team.sends(PacketRequest, packet=1)


def test_a_second_worker_is_refused_while_the_first_is_there(team) -> None:
    _, (answer, status) = team.answers(Join, "w2", nonce="2")
    assert isinstance(answer, Refused)
    assert "has a worker in this run already" in answer.reason
    assert (status.state, status.detail) == ("second-worker", "alice")
    assert not team.answers(ReportMessage, "w2", result=1, n=0)[0]


def test_a_worker_that_is_gone_can_be_replaced(team) -> None:
    assert team.sends(ReportMessage, result=1, n=0)
    team.live.clear()
    _, (answer,) = team.answers(Join, "w2", nonce="2")
    assert isinstance(answer, Welcome)
    assert (answer.nonce, answer.n, answer.packet) == ("2", NUMBERS_A_WORKER, 7)
    assert (answer.control_uid, answer.signal_uid) == ("control-uid", "signal-uid")
    assert not team.sends(ReportMessage, result=2, n=1)
    assert team.answers(ReportMessage, "w2", result=2, n=NUMBERS_A_WORKER)[0]
