"""A team's numbered messages come out in order, whatever order they come in."""

from hypothesis import given
from hypothesis import strategies as st

from bci_stream.judge.ordering import PATIENCE_S, Inbox
from bci_stream.wire.messages import ReportMessage


def report(n: int) -> ReportMessage:
    return ReportMessage("c", "r", "t", n, result=n, n=n)


def results(inbox: Inbox, now: float) -> list[object]:
    return [message.result for message, _ in inbox.take(now)]


@given(st.permutations(range(8)), st.lists(st.integers(0, 7), max_size=8))
def test_order_and_repetition_do_not_matter(arrival: list[int], again: list[int]) -> None:
    inbox = Inbox()
    taken: list[object] = []
    for n in [*arrival, *again]:
        inbox.put(report(n), 0.0)
        taken += results(inbox, 0.0)
    assert taken == list(range(8))


def test_what_is_in_the_log_already_is_passed_over() -> None:
    inbox = Inbox(expected=3)
    for n in range(5):
        inbox.put(report(n), 0.0)
    assert results(inbox, 0.0) == [3, 4]


def test_a_message_that_never_comes_is_given_up_after_a_while() -> None:
    inbox = Inbox()
    inbox.put(report(2), 0.0)
    assert results(inbox, 1.0) == []
    assert not inbox.misses(1.0)
    assert inbox.misses(2.0)
    assert results(inbox, 1.0 + PATIENCE_S) == []
    assert results(inbox, 1.1 + PATIENCE_S) == [2]
    assert inbox.lost == 2


def test_messages_without_numbers_are_taken_as_they_come() -> None:
    inbox = Inbox()
    for result in "abc":
        inbox.put(ReportMessage("c", "r", "t", 0, result=result), 0.0)
    assert results(inbox, 0.0) == ["a", "b", "c"]
