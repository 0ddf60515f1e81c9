"""Which results messages are accepted, and how the others are counted."""

import pytest

from bci_stream.wire.crypto import seal_results, sign
from bci_stream.wire.messages import Hello, Ready, ReportMessage, TeamMessage, encode
from bci_stream.wire.verify import MessageVerifier, SequenceWindow

TOKENS = {"alice": b"a" * 32, "bob": b"b" * 32}


def verifier(*runs: str) -> MessageVerifier:
    return MessageVerifier("cup", set(runs or ["run1"]), TOKENS.get)


def signed(message: TeamMessage, token: bytes = TOKENS["alice"]) -> str:
    return sign(encode(message), token)


def test_a_signed_report_is_accepted() -> None:
    message = ReportMessage("cup", "run1", "alice", 1, 3)
    assert verifier().verify(signed(message)) == message


@pytest.mark.parametrize(
    ("message", "token", "why"),
    [
        (ReportMessage("cup", "run1", "alice", 1, 3), b"wrong" * 7, "unsigned"),
        (ReportMessage("cup", "run1", "alice", 1, 3), TOKENS["bob"], "unsigned"),
        (ReportMessage("cup", "run1", "mallory", 1, 3), TOKENS["alice"], "unsigned"),
        (ReportMessage("other", "run1", "alice", 1, 3), TOKENS["alice"], "other contest"),
        (ReportMessage("cup", "run0", "alice", 1, 3), TOKENS["alice"], "other run"),
        (Hello("cup", "any run that comes to mind", "alice", 1), TOKENS["alice"], "other run"),
    ],
)
def test_others_are_dropped_and_counted(message: TeamMessage, token: bytes, why: str) -> None:
    verifying = verifier()
    assert verifying.verify(signed(message, token)) is None
    assert verifying.dropped == {why: 1}


def test_a_number_that_was_seen_is_dropped() -> None:
    verifying = verifier()
    text = signed(ReportMessage("cup", "run1", "alice", 5, 3))
    assert verifying.verify(text) is not None
    assert verifying.verify(text) is None
    assert verifying.dropped == {"repeated number": 1}


def test_what_is_sent_again_after_later_messages_is_accepted_once() -> None:
    """A restarted judge receives new messages before those that it asked for again."""
    verifying = verifier()
    for seq, new in ((9, True), (7, True), (8, True), (9, False), (7, False)):
        message = verifying.verify(signed(ReportMessage("cup", "run1", "alice", seq, 3)))
        assert (message is not None) is new


def test_numbers_are_forgotten_from_below_and_never_accepted_again(monkeypatch) -> None:
    monkeypatch.setattr("bci_stream.wire.verify.WINDOW", 10)
    numbers = SequenceWindow()
    assert all(numbers.use(seq) for seq in range(40))
    assert not any(numbers.use(seq) for seq in range(40))
    assert numbers.use(40)


def test_teams_have_their_own_numbers() -> None:
    verifying = verifier()
    assert verifying.verify(signed(ReportMessage("cup", "run1", "alice", 5, 3))) is not None
    assert (
        verifying.verify(signed(ReportMessage("cup", "run1", "bob", 1, 3), TOKENS["bob"]))
        is not None
    )


def test_runs_have_their_own_numbers() -> None:
    both = verifier("run1", "run2")
    for run in ("run1", "run2"):
        assert both.verify(signed(Ready("cup", run, "alice", 5))) is not None


def test_a_hello_has_no_run_yet() -> None:
    assert verifier().verify(signed(Hello("cup", "", "alice", 1))) is not None


@pytest.mark.parametrize(
    "garbage",
    ["", "x", "{}", "[" * 100_000, '{"team": 7} ' + "0" * 64, "\ud800", "null " + "f" * 64],
)
def test_garbage_is_counted(garbage: str) -> None:
    verifying = verifier()
    assert verifying.verify(garbage) is None
    assert verifying.dropped.total() == 1


def test_signed_garbage_of_a_team_is_counted() -> None:
    verifying = verifier()
    assert verifying.verify(sign('{"team": "alice", "kind": "nonsense"}', TOKENS["alice"])) is None
    assert (
        verifying.verify(sign('{"team": "alice"' + " " * (2 << 20) + "}", TOKENS["alice"])) is None
    )
    assert verifying.dropped == {"unreadable": 2}


@pytest.mark.parametrize("sealed", [True, False], ids=["sealed", "signed"])
def test_what_an_earlier_judge_has_logged_is_not_taken_again(sealed: bool) -> None:
    """A client that names no stream and no numbers: its messages could be sent again by anyone."""

    def protected(message: ReportMessage, team: str = "alice") -> str:
        if not sealed:
            return signed(message)
        return seal_results(encode(message), TOKENS[team], "cup", team, message.run, message.seq)

    logged = [protected(ReportMessage("cup", "run1", "alice", seq, 3)) for seq in (1, 2)]
    restarted = MessageVerifier("cup", {"run1"}, TOKENS.get, sealed=sealed)
    restarted.restore([*logged, "no message"])
    restarted.dropped.clear()
    assert [restarted.verify(text) for text in logged] == [None, None]
    assert restarted.dropped == {"repeated number": 2}
    assert restarted.verify(protected(ReportMessage("cup", "run1", "alice", 3, 3))) is not None
