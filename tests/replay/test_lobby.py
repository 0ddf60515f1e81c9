"""In lockstep nothing that a team says can be put in later, with what it has seen meanwhile."""

import pytest

from bci_stream.contest.contest import Contest
from bci_stream.wire.crypto import sign
from bci_stream.wire.messages import (
    Done,
    Join,
    Offer,
    PacketRequest,
    ReportMessage,
    TeamMessage,
    encode,
)
from bci_stream.wire.verify import MessageVerifier
from replay.player.teams import TeamRegistry


class Team:
    """Says what it likes to a lobby, well signed."""

    def __init__(self, contest: Contest) -> None:
        offer = Offer("c", "run", "erp", "lockstep", 250.0, 10, [], ["S01"])
        ear = MessageVerifier("c", {"run"}, contest.token)
        self.lobby = TeamRegistry(offer, ear, contest.token, lambda *_: "", None, one_team=True)
        self._token = contest.keys.token("alice")
        self._seq = 0
        assert self.says(Join)

    def says(self, kind: type[TeamMessage], **fields: object) -> bool:
        """Whether it was believed."""
        self._seq += 1
        message = kind("c", "run", "alice", self._seq, **fields)
        return self.lobby.hear(sign(encode(message), self._token))[0] is not None


@pytest.fixture
def team(tmp_path) -> Team:
    return Team(Contest("c", tmp_path))


def test_numbered_messages_are_believed_in_their_order(team) -> None:
    assert team.says(PacketRequest, packet=0, n=0)
    assert team.says(ReportMessage, result=1, n=1)
    assert team.says(PacketRequest, packet=1, n=2)
    assert team.says(Done, n=3)


def test_after_a_number_that_was_left_out_nothing_is_believed_until_it_comes(team) -> None:
    assert team.says(PacketRequest, packet=0, n=0)
    assert not team.says(PacketRequest, packet=1, n=2)
    assert team.says(ReportMessage, result=1, n=1)
    assert team.says(PacketRequest, packet=1, n=2)


def test_a_number_that_was_taken_is_not_believed_again(team) -> None:
    assert team.says(PacketRequest, packet=0, n=0)
    assert not team.says(ReportMessage, result="better", n=0)


def test_messages_without_numbers_are_believed_as_they_come(team) -> None:
    assert team.says(PacketRequest, packet=0)
    assert team.says(ReportMessage, result=1)
    assert team.says(PacketRequest, packet=1)
