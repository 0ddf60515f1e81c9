"""The order of packets and reports in real time, and of a team's numbered messages."""

import time
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from bci_stream.judge.session.ordering import (
    GIVE_UP_S,
    PacketReceived,
    RealtimeOrder,
    ReorderBuffer,
    ReportReceived,
    RunEvent,
)
from bci_stream.wire.messages import NUMBERS_A_WORKER, Done, PacketNote, ReportMessage


def note(i: int) -> PacketNote:
    return PacketNote(i, 0, 0, i * 10, 10)


def report(result: object, n: int = -1) -> ReportMessage:
    return ReportMessage("c", "r", "t", 0, result=result, n=n)


def in_short(events: Iterable[RunEvent]) -> list[object]:
    """A packet's number, r and a report's result, or done."""
    return [_in_short(event) for event in events]


def _in_short(event: RunEvent) -> object:
    if isinstance(event, PacketReceived):
        return event.note.i
    return f"r{event.result}" if isinstance(event, ReportReceived) else "done"


def results(buffer: ReorderBuffer, now: float) -> list[object]:
    return [message.result for message, *_ in buffer.take(now)]


class TestRealtimeOrder:
    def test_a_packet_is_received_once_it_was_on_the_wire_for_the_grace(self) -> None:
        order = RealtimeOrder(grace_s=0.04)
        order.add_note(note(0), 10.00)
        order.add_note(note(1), 10.04)
        assert in_short(order.settled(10.03)) == []
        order.messages.put(report(1), 10.0399)
        assert in_short(order.settled(10.05)) == ["r1", 0]
        order.messages.put(report(2), 10.08)  # exactly the grace: packet 1 is received
        assert in_short(order.settled(10.08)) == [1, "r2"]

    @given(
        st.lists(st.tuples(st.floats(0, 2), st.booleans()), max_size=30),
        st.lists(st.floats(0, 3), max_size=20),
    )
    def test_order_depends_on_arrival_only_whenever_it_is_settled(
        self, events: list[tuple[float, bool]], settlings: list[float]
    ) -> None:
        """A report stands before exactly those packets whose grace was not over when it arrived."""
        events = sorted(events)
        order = RealtimeOrder(grace_s=0.04)
        for k, (at, is_note) in enumerate(events):
            if is_note:
                order.add_note(note(k), at)
        happened: list[object] = []
        for k, (at, is_note) in enumerate(events):
            for now in settlings:
                if now <= at:
                    happened += in_short(order.settled(now))
            if not is_note:
                order.messages.put(report(k), at)
        happened += in_short(order.settled(3.0))
        happened += in_short(order.rest())
        expected = sorted(
            (at + 0.04, 0, k) if is_note else (at, 1, k) for k, (at, is_note) in enumerate(events)
        )
        assert happened == [f"r{k}" if is_report else k for _, is_report, k in expected]

    def test_packets_and_messages_that_are_in_the_log_are_not_settled_again(self) -> None:
        order = RealtimeOrder(0.0, packets=2, messages=1)
        for i in range(4):
            order.add_note(note(i), float(i))
        for n in range(2):
            order.messages.put(report(n, n), 2.5)
        order.messages.put(Done("c", "r", "t", 0, n=2), 9.0)
        assert in_short(order.settled(10.0)) == [2, "r1", 3, "done"]
        assert order.is_idle()


class TestReorderBuffer:
    @given(st.permutations(range(8)), st.lists(st.integers(0, 7), max_size=8))
    def test_order_and_repetition_do_not_matter(self, arrival: list[int], again: list[int]) -> None:
        buffer = ReorderBuffer()
        taken: list[object] = []
        for n in [*arrival, *again]:
            buffer.put(report(n, n), 0.0)
            taken += results(buffer, 0.0)
        assert taken == list(range(8))

    def test_a_message_that_never_comes_is_asked_for_and_then_given_up(self) -> None:
        buffer = ReorderBuffer()
        buffer.put(report(2, 2), 0.0)
        assert results(buffer, 1.0) == []
        assert not buffer.is_missing(1.0)
        assert buffer.is_missing(2.0)
        assert buffer.expected == 0
        assert results(buffer, 1.0 + GIVE_UP_S) == []
        assert results(buffer, 1.1 + GIVE_UP_S) == [2]

    def test_messages_without_numbers_are_taken_as_they_come(self) -> None:
        buffer = ReorderBuffer()
        for result in "abc":
            buffer.put(report(result), 0.0)
        assert results(buffer, 0.0) == ["a", "b", "c"]

    def test_a_returning_worker_does_not_wait_for_messages_of_the_one_before(self) -> None:
        buffer = ReorderBuffer()
        first = NUMBERS_A_WORKER
        buffer.put(report("old", 0), 0.0)
        assert results(buffer, 0.0) == ["old"]
        buffer.put(report("new", first + 1), 0.1)
        assert results(buffer, 0.1) == []
        buffer.put(report("newer", first), 0.2)
        assert results(buffer, 0.2) == ["newer", "new"]

    def test_messages_without_numbers_behind_a_gap_cost_no_more_than_others(self) -> None:
        """A team may send a hundred thousand: each one searched for the largest number before it."""
        buffer = ReorderBuffer()
        buffer.put(report("first", 1), 0.0)
        begun = time.process_time()
        for number in range(60_000):
            buffer.put(report(number), 0.0)
        assert time.process_time() - begun < 3.0  # 16 s that way
        assert results(buffer, 0.0) == []
        buffer.put(report("missing", 0), 0.1)
        assert results(buffer, 0.1) == ["missing", "first", *range(60_000)]
