"""What came first? Both clocks, and that late notes or reports never change what is settled."""

from hypothesis import given
from hypothesis import strategies as st

from bci_stream.judge.ordering import LockstepOrder, PacketReceived, RealtimeOrder, ReportReceived
from bci_stream.wire.messages import PacketNote, PacketRequest, ReportMessage


def note(i: int) -> PacketNote:
    return PacketNote(i, 0, 0, i * 10, 10)


def ask(i: int) -> PacketRequest:
    return PacketRequest("c", "r", "t", i, packet=i)


def report(result: object) -> ReportMessage:
    return ReportMessage("c", "r", "t", 0, result=result)


def told(happenings: object) -> list[object]:
    return [h.note.i if isinstance(h, PacketReceived) else f"r{h.result}" for h in happenings]  # type: ignore[attr-defined]


def test_lockstep_puts_a_report_after_the_packets_that_were_asked_for_before_it() -> None:
    order = LockstepOrder()
    order.message(ask(0), 1.0)
    order.message(report(1), 1.1)
    order.message(ask(1), 1.2)
    order.message(report(2), 1.3)
    assert told(order.settled(2.0)) == []  # the replay's notes are still under way
    order.note(note(0), 0.0)
    assert told(order.settled(2.0)) == [0, "r1"]
    order.note(note(1), 0.0)
    assert told(order.settled(2.0)) == [1, "r2"]
    assert order.idle()


@given(st.lists(st.sampled_from(["note", "settle"]), max_size=30), st.permutations(range(6)))
def test_lockstep_gives_the_same_order_however_late_the_notes_are(
    steps: list[str], arrival: list[int]
) -> None:
    order = LockstepOrder()
    for i in range(6):
        order.message(ask(i), float(i))
        order.message(report(i), i + 0.5)
    pending = list(arrival)
    happened = []
    for step in steps:
        if step == "note" and pending:
            order.note(note(pending.pop()), 0.0)
        else:
            happened += told(order.settled(0.0))
    for i in pending:
        order.note(note(i), 0.0)
    happened += told(order.settled(0.0))
    assert happened == [x for i in range(6) for x in (i, f"r{i}")]


def test_lockstep_gives_nothing_for_a_packet_that_is_asked_for_twice() -> None:
    order = LockstepOrder()
    order.note(note(0), 0.0)
    order.note(note(1), 0.0)
    for message in (ask(0), ask(0), report(1)):
        order.message(message, 0.0)
    assert told(order.settled(0.0)) == [0, "r1"]


def test_lockstep_keeps_reports_after_a_request_that_was_never_answered() -> None:
    order = LockstepOrder()
    order.message(ask(0), 0.0)
    order.message(report(1), 0.0)
    assert told(order.rest()) == ["r1"]


def test_real_time_counts_a_packet_once_it_was_on_the_wire_for_the_grace() -> None:
    order = RealtimeOrder(grace_s=0.04)
    order.note(note(0), 10.00)
    order.note(note(1), 10.04)
    assert told(order.settled(10.03)) == []
    order.message(report(1), 10.0399)
    assert told(order.settled(10.05)) == ["r1", 0]
    order.message(report(2), 10.08)  # exactly the grace: packet 1 is received
    assert told(order.settled(10.08)) == [1, "r2"]


@given(
    st.lists(st.tuples(st.floats(0, 2), st.booleans()), max_size=30),
    st.lists(st.floats(0, 3), max_size=20),
)
def test_real_time_orders_by_arrival_alone_whenever_it_settles(
    events: list[tuple[float, bool]], settlings: list[float]
) -> None:
    """A report stands before exactly those packets whose grace was not over when it arrived."""
    events = sorted(events)
    order = RealtimeOrder(grace_s=0.04)
    for k, (at, is_note) in enumerate(events):
        if is_note:
            order.note(note(k), at)
    happened: list[object] = []
    for k, (at, is_note) in enumerate(events):
        for now in settlings:
            if now <= at:
                happened += told(order.settled(now))
        if not is_note:
            order.message(report(k), at)
    happened += told(order.rest())
    expected = sorted(
        (at + 0.04, 0, k) if is_note else (at, 1, k) for k, (at, is_note) in enumerate(events)
    )
    assert happened == [f"r{k}" if is_report else k for _, is_report, k in expected]


def test_the_decoders_own_word_for_when_is_not_asked() -> None:
    assert {f.name for f in __import__("dataclasses").fields(ReportReceived)} == {"result", "at"}
