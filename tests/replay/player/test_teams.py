"""Numbered messages in lockstep: none can be filled in later, when the team has seen more packets."""

import pytest

from bci_stream.contest.contest import Contest
from bci_stream.wire.messages import Done, Join, Offer, PacketRequest, ReportMessage, TeamMessage
from replay.player.teams import TeamRegistry


class Team:
    """Sends any messages to a registry."""

    def __init__(self, contest: Contest) -> None:
        offer = Offer("c", "run", "erp", "lockstep", 250.0, 10, [], ["S01"])
        self.teams = TeamRegistry(offer, contest.token, lambda *_: "")
        assert self.sends(Join)

    def sends(self, kind: type[TeamMessage], **fields: object) -> bool:
        """Whether it was accepted."""
        return self.teams.handle(kind("c", "run", "alice", 0, **fields))[0]


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
