"""What an ear believes, and what it only counts."""

import pytest

from bci_stream.wire.crypto import sign
from bci_stream.wire.messages import Hello, Ready, ReportMessage, TeamMessage, encode
from bci_stream.wire.verify import MessageVerifier, SequenceWindow

TOKENS = {"alice": b"a" * 32, "bob": b"b" * 32}


def ear() -> MessageVerifier:
    return MessageVerifier("cup", "run1", TOKENS.get)


def said(message: TeamMessage, token: bytes = TOKENS["alice"]) -> str:
    return sign(encode(message), token)


def test_a_signed_report_is_believed() -> None:
    message = ReportMessage("cup", "run1", "alice", 1, 3)
    assert ear().hear(said(message)) == message


@pytest.mark.parametrize(
    ("message", "token", "why"),
    [
        (ReportMessage("cup", "run1", "alice", 1, 3), b"wrong" * 7, "unsigned"),
        (ReportMessage("cup", "run1", "alice", 1, 3), TOKENS["bob"], "unsigned"),
        (ReportMessage("cup", "run1", "mallory", 1, 3), TOKENS["alice"], "unsigned"),
        (ReportMessage("other", "run1", "alice", 1, 3), TOKENS["alice"], "other contest"),
        (ReportMessage("cup", "run0", "alice", 1, 3), TOKENS["alice"], "other run"),
    ],
)
def test_others_are_dropped_and_counted(message: TeamMessage, token: bytes, why: str) -> None:
    hearing = ear()
    assert hearing.hear(said(message, token)) is None
    assert hearing.dropped == {why: 1}


def test_a_number_that_was_seen_is_dropped() -> None:
    hearing = ear()
    text = said(ReportMessage("cup", "run1", "alice", 5, 3))
    assert hearing.hear(text) is not None
    assert hearing.hear(text) is None
    assert hearing.dropped == {"seen number": 1}


def test_what_is_said_again_after_later_words_is_believed_once() -> None:
    """A judge that was started again hears new messages before those that it recalled."""
    hearing = ear()
    for seq, new in ((9, True), (7, True), (8, True), (9, False), (7, False)):
        heard = hearing.hear(said(ReportMessage("cup", "run1", "alice", seq, 3)))
        assert (heard is not None) is new
    assert hearing.lost == {}


def test_numbers_are_forgotten_from_below_and_never_believed_again(monkeypatch) -> None:
    monkeypatch.setattr("bci_stream.wire.verify.KEPT", 10)
    numbers = SequenceWindow()
    assert all(numbers.take(seq) for seq in range(40))
    assert not any(numbers.take(seq) for seq in range(40))
    assert numbers.take(40)


def test_teams_have_their_own_numbers() -> None:
    hearing = ear()
    assert hearing.hear(said(ReportMessage("cup", "run1", "alice", 5, 3))) is not None
    assert hearing.hear(said(ReportMessage("cup", "run1", "bob", 1, 3), TOKENS["bob"])) is not None


def test_a_gap_in_the_numbers_is_counted_as_lost() -> None:
    hearing = ear()
    for seq in (5, 6, 9):
        hearing.hear(said(Ready("cup", "run1", "alice", seq)))
    assert hearing.lost == {"alice": 2}


def test_a_hello_knows_no_run_yet() -> None:
    assert ear().hear(said(Hello("cup", "", "alice", 1))) is not None


@pytest.mark.parametrize(
    "garbage",
    ["", "x", "{}", "[" * 100_000, '{"team": 7} ' + "0" * 64, "\ud800", "null " + "f" * 64],
)
def test_garbage_is_counted_and_harms_nobody(garbage: str) -> None:
    hearing = ear()
    assert hearing.hear(garbage) is None
    assert hearing.dropped.total() == 1


def test_signed_garbage_of_a_team_is_counted() -> None:
    hearing = ear()
    assert hearing.hear(sign('{"team": "alice", "kind": "nonsense"}', TOKENS["alice"])) is None
    assert hearing.hear(sign('{"team": "alice"' + " " * (2 << 20) + "}", TOKENS["alice"])) is None
    assert hearing.dropped == {"unreadable": 2}
