"""The streams of a role: one that does not answer, sends junk, is silent or is cut off delays no other."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.clock import ManualClock
from bci_stream.errors import LostError, NotFoundError
from bci_stream.wire import groups, names
from bci_stream.wire.groups import (
    MOST_OF_ONE_OWNER,
    MOST_UNVERIFIED,
    RETRY_S,
    VERIFY_S,
    GroupedStream,
    StreamGroup,
    StreamLimits,
)
from bci_stream.wire.memory import MemoryTextOutlet, MemoryTransport
from bci_stream.wire.transport import FoundStream
from decoders.host.limits import SubmissionLimits

WAIT_S = 20.0
CONTEST = "c"


class CallerExecutor:
    """Opens streams in the calling thread, so that each `look` has the same effect."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def submit(self, call: Callable[..., Any], *args: object) -> "Future[Any]":
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args))
        except Exception as error:  # noqa: BLE001 - as a pool does
            future.set_exception(error)
        return future

    def shutdown(self, **_: object) -> None: ...


class FaultyTransport(MemoryTransport):
    """Streams of owners in `blocked` open only when `release` is set; those in `refused` do not open."""

    def __init__(self, now: Callable[[], float]) -> None:
        super().__init__(now)
        self.blocked: set[str] = set()
        self.refused: set[str] = set()
        self.release = threading.Event()
        self.opened: list[str] = []

    def text_inlet(
        self, found: FoundStream, timeout_s: float, most_texts: int = 10, **_: bool
    ) -> Any:
        owner = names.owner(found.source_id)
        self.opened.append(owner)
        if owner in self.blocked:
            self.release.wait(WAIT_S)
        if owner in self.refused:
            raise NotFoundError(f"{owner} does not answer")
        return super().text_inlet(found, timeout_s, most_texts)

    def outlet(self, owner: str) -> MemoryTextOutlet:
        return self.text_outlet(names.text_stream(CONTEST, "results", owner))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def faulty(clock: ManualClock) -> FaultyTransport:
    return FaultyTransport(clock.now)


@pytest.fixture
def group(faulty: FaultyTransport, monkeypatch: pytest.MonkeyPatch) -> StreamGroup:
    monkeypatch.setattr(groups, "ThreadPoolExecutor", CallerExecutor)
    return StreamGroup(faulty, CONTEST, "results")


def look(group: StreamGroup) -> None:
    """Begin to open what is there, and take it."""
    group.look()
    group.look()


def texts(group: StreamGroup) -> list[str]:
    return [received.text for received in group.pull()]


def test_a_stream_that_does_not_open_delays_no_other(faulty: FaultyTransport) -> None:
    faulty.blocked = {"black", "hole"}
    group = StreamGroup(faulty, CONTEST, "results")
    for owner in ("black", "hole"):
        faulty.outlet(owner)
    group.look()
    alice = faulty.outlet("alice")
    pause = threading.Event()
    received: list[str] = []
    for _ in range(1000):
        group.look()
        alice.push("here")
        received += texts(group)
        if received:
            break
        pause.wait(WAIT_S / 1000)
    assert received
    assert not faulty.release.is_set()  # the others still wait
    faulty.release.set()
    group.close()


def test_all_that_a_submission_may_report_for_one_packet_waits_for_a_slow_reader(
    group: StreamGroup, faulty: FaultyTransport
) -> None:
    outlet = faulty.outlet("alice")
    look(group)
    sent = [str(number) for number in range(SubmissionLimits().reports_per_packet + 10)]
    for text in sent:
        outlet.push(text)
    assert texts(group) == sent


def _uids(faulty: FaultyTransport, owner: str) -> set[str]:
    return {found.uid for found in faulty.visible(names.source_id(CONTEST, "results", owner))}


def test_only_a_verified_stream_counts(faulty: FaultyTransport, group: StreamGroup) -> None:
    alice = faulty.outlet("alice")
    look(group)
    alice.push("hello")
    (received,) = group.pull()
    assert group.owners == []
    group.accept(received.uid)
    assert group.owners == ["alice"]
    assert group.uids == {alice.uid}


def test_a_stream_of_junk_is_closed_for_good(
    faulty: FaultyTransport, group: StreamGroup, clock: ManualClock
) -> None:
    junk = faulty.outlet("alice")
    look(group)
    junk.push("junk")
    (received,) = group.pull()
    group.reject(received.uid)
    group.pull()
    assert group.rejected == {"alice": 1}
    clock.advance(3600)
    look(group)
    junk.push("more")
    assert texts(group) == []
    assert faulty.opened == ["alice"]
    honest = faulty.outlet("alice")  # her own stream is another one
    look(group)
    honest.push("hello")
    assert texts(group) == ["hello"]


def test_junk_on_a_verified_stream_does_not_close_it(
    faulty: FaultyTransport, group: StreamGroup
) -> None:
    alice = faulty.outlet("alice")
    look(group)
    group.accept(alice.uid)
    group.reject(alice.uid)
    group.pull()
    alice.push("still here")
    assert texts(group) == ["still here"]
    assert group.rejected == {}


def test_a_silent_stream_is_closed_and_tried_again(
    faulty: FaultyTransport, group: StreamGroup, clock: ManualClock
) -> None:
    silent = faulty.outlet("alice")
    look(group)
    clock.advance(VERIFY_S + 0.1)
    group.look()
    silent.push("while it is closed")
    assert texts(group) == []
    clock.advance(RETRY_S)
    look(group)
    silent.push("at last")
    assert texts(group) == ["at last"]
    assert faulty.opened == ["alice", "alice"]


def test_a_stream_that_does_not_answer_is_tried_again_less_and_less_often(
    faulty: FaultyTransport, group: StreamGroup, clock: ManualClock
) -> None:
    faulty.refused = {"alice"}
    faulty.outlet("alice")
    for _ in range(600):
        clock.advance(0.1)
        group.look()
    assert 8 <= len(faulty.opened) <= 12  # within 60 s: after 0.5, 1, 2, 4, 8, 8, ... s
    faulty.refused = set()
    clock.advance(10.0)
    look(group)
    assert group.inlet(next(iter(_uids(faulty, "alice")))) is not None


def test_a_verified_stream_whose_connection_breaks_comes_back(
    faulty: FaultyTransport,
    group: StreamGroup,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alice = faulty.outlet("alice")
    look(group)
    group.accept(alice.uid)

    def broken(timeout_s: float) -> list[tuple[str, float]]:
        raise LostError("the network broke")

    monkeypatch.setattr(group.inlet(alice.uid), "pull", broken)
    assert texts(group) == []
    assert (group.gone, group.owners) == (["alice"], [])
    clock.advance(RETRY_S)
    look(group)
    alice.push("again")
    assert texts(group) == ["again"]


def test_an_unverified_stream_that_ends_is_not_missed(
    faulty: FaultyTransport, group: StreamGroup
) -> None:
    alice = faulty.outlet("alice")
    look(group)
    alice.close()
    assert texts(group) == []
    assert group.gone == []


def test_streams_without_a_verified_message_are_bounded(
    faulty: FaultyTransport, group: StreamGroup, clock: ManualClock
) -> None:
    outlets = [faulty.outlet(f"x{number}") for number in range(2 * MOST_UNVERIFIED)]
    for _ in range(2 * MOST_UNVERIFIED):
        look(group)
    assert sum(group.inlet(outlet.uid) is not None for outlet in outlets) == MOST_UNVERIFIED
    clock.advance(VERIFY_S + 0.1)  # those that were silent make room
    for _ in range(2 * MOST_UNVERIFIED):
        look(group)
    assert set(faulty.opened) == {f"x{number}" for number in range(2 * MOST_UNVERIFIED)}


# --- how much is read of one stream -----------------------------------------------------------


def test_a_stream_of_too_many_texts_is_read_later_and_the_others_at_once(
    faulty: FaultyTransport, group: StreamGroup, clock: ManualClock
) -> None:
    group.limits = StreamLimits(texts_a_s=10.0, chars_a_minute=1e6)
    flood, alice = faulty.outlet("flood"), faulty.outlet("alice")
    look(group)
    for _ in range(50):  # 20 in BURST_S are within the limit
        flood.push("x")
    assert len(texts(group)) == 50
    flood.push("later")
    alice.push("now")
    assert texts(group) == ["now"]
    clock.advance(2.9)
    assert texts(group) == []
    clock.advance(0.2)
    assert texts(group) == ["later"]


def test_a_stream_of_too_many_characters_is_closed_for_good(
    faulty: FaultyTransport, group: StreamGroup, clock: ManualClock
) -> None:
    group.limits = StreamLimits(texts_a_s=10.0, chars_a_minute=1000)
    flood = faulty.outlet("flood")
    look(group)
    group.accept(flood.uid)
    flood.push("x" * 900)
    assert len(texts(group)) == 1
    clock.advance(30.0)  # half of the minute's characters are free again
    flood.push("x" * 500)
    assert len(texts(group)) == 1
    assert group.gone == []
    flood.push("x" * 200)
    assert len(texts(group)) == 1
    assert (group.gone, group.rejected) == (["flood"], {"flood": 1})
    clock.advance(3600.0)
    look(group)
    flood.push("more")
    assert texts(group) == []


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 400)), max_size=40))
def test_no_stream_is_closed_for_what_any_minute_allows(messages: list[tuple[float, int]]) -> None:
    limits = StreamLimits(texts_a_s=1e9, chars_a_minute=1000)
    stream = GroupedStream("alice", None, 0.0)  # type: ignore[arg-type]
    now, sent = 100.0, []
    for gap, length in messages:
        now += gap
        sent.append((now, length))
        if not stream.keeps(limits, [("x" * length, 0.0)], now):
            # More than a minute's characters came since some moment, at the limit's rate.
            assert any(
                sum(size for at, size in sent if at >= since)
                > 1000 * (1 + (now - since) / 60) - 1e-6
                for since, _ in sent
            )
            return


def test_of_many_verified_streams_of_one_owner_the_oldest_is_closed(
    faulty: FaultyTransport, group: StreamGroup
) -> None:
    """A team could open any number of them, and each takes threads and buffers."""
    outlets = [faulty.outlet("alice") for _ in range(MOST_OF_ONE_OWNER + 2)]
    bob = faulty.outlet("bob")
    for _ in range(4):
        look(group)
    for outlet in (*outlets, bob):
        group.accept(outlet.uid)
    group.pull()
    assert group.uids == {outlet.uid for outlet in (*outlets[2:], bob)}
    look(group)
    assert group.uids == {outlet.uid for outlet in (*outlets[2:], bob)}


def test_a_search_that_takes_long_does_not_delay_the_reader(faulty: FaultyTransport) -> None:
    """A thousand streams are listed in a fifth of a second; texts get their arrival times meanwhile."""
    group = StreamGroup(faulty, CONTEST, "results")
    search, begun, goes_on = group._opening.watch.found, threading.Event(), threading.Event()

    def slow() -> list[FoundStream]:
        begun.set()
        goes_on.wait(WAIT_S)
        return search()

    group._opening.watch.found = slow  # type: ignore[method-assign]
    faulty.outlet("alice")
    group.look()
    assert begun.wait(WAIT_S)
    group.look()  # returns while the search goes on
    assert not goes_on.is_set()
    goes_on.set()
    deadline = threading.Event()
    for _ in range(1000):
        group.look()
        if group.inlet(next(iter(_uids(faulty, "alice")))) is not None:
            break
        deadline.wait(WAIT_S / 1000)
    assert group.inlet(next(iter(_uids(faulty, "alice")))) is not None
    group.close()
