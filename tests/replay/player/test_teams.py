"""Numbered messages in lockstep: none can be filled in later, when the team has seen more packets."""

import pytest
from msgspec import structs

from bci_stream.contest.contest import Contest
from bci_stream.errors import RuleError, WireError
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
    encode,
    read_results,
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


def test_what_a_join_holds_does_not_make_the_answers_long_that_all_teams_read(team) -> None:
    """A message of over a mebibyte on the control stream ended every team's client."""
    many = {"S01": list(range(150_000)), "S02" * 100_000: [1]}
    for channels in (many, {}, {"S01": [1]}):
        for worker in ("w1", "w2"):
            _, answers = team.answers(Join, worker, channels=channels)
            assert all(len(encode(answer)) < 1000 for answer in answers)


def test_nor_does_its_choice_of_leads_that_breaks_the_rules(tmp_path) -> None:
    team = Team(Contest("c", tmp_path))

    def refuse(channels: list[int]) -> None:
        raise RuleError(f"not {channels}")

    team.teams.check_channels = refuse
    _, (answer,) = team.answers(Join, "w1", channels={"S01": list(range(150_000))})
    assert isinstance(answer, Refused)
    assert answer.reason.startswith("not [0, 1,")
    assert len(encode(answer)) < 1000


def test_a_nonce_is_bounded(team) -> None:
    """The welcome repeats it, for all teams to read."""
    join = Join("c", "run", "alice", 1, nonce="x" * 128)
    assert read_results(encode(join)) == join
    with pytest.raises(WireError, match="128"):
        read_results(encode(structs.replace(join, nonce="x" * 129)))
