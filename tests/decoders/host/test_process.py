"""The pipe: messages arrive unchanged, and invalid ones are refused."""

import contextlib
import json
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.host import process as host
from decoders.host.inside import shim
from decoders.host.limits import SubmissionDisqualified, SubmissionTimeout

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=20,
)


@pytest.fixture
def ends() -> Iterator[tuple[host.Pipe, shim.ShimPipe, socket.socket]]:
    ours, theirs = socket.socketpair()
    raw = theirs.dup()
    with ours, raw:
        pair = host.Pipe(ours, 4096), shim.ShimPipe(theirs.detach(), 4096)
        yield (*pair, raw)
        pair[1]._socket.close()


def soon() -> float:
    return time.monotonic() + 10


@given(value=JSON)
def test_a_submissions_messages_arrive_unchanged(value: object) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        child = shim.ShimPipe(theirs.detach(), 1 << 20)
        child.send(shim.REPORT, value)
        received = host.Pipe(ours, 1 << 20).receive(soon(), "report")
        child._socket.close()
    assert (received.kind, received.value) == ("report", value)


@given(
    n=st.integers(0, 60),
    channels=st.integers(1, 70),
    start=st.integers(0, 2**40),
    finish=st.booleans(),
    due=st.booleans(),
)
def test_samples_arrive_bit_by_bit_as_rows_of_leads(
    n: int, channels: int, start: int, finish: bool, due: bool
) -> None:
    samples = np.random.default_rng(start % 97).normal(size=(n, channels)).astype(np.float32)
    ours, theirs = socket.socketpair()
    with ours:
        child = shim.ShimPipe(theirs.detach())
        body = host.packet_body(samples, start, finish, due)
        host.Pipe(ours, 10).send(shim.PACKET, body, soon())
        kind, packet = child.receive()
        child._socket.close()
    rows = shim.rows_of(packet, n, channels)
    assert kind == shim.PACKET
    assert shim.PACKET_HEAD.unpack_from(packet) == (start, n, channels, finish, due)
    assert rows.shape == (channels, n)
    assert rows.dtype == np.float64
    assert np.array_equal(rows, samples.T)


Ends = tuple[host.Pipe, shim.ShimPipe, socket.socket]


def receive_all(pipe: host.Pipe) -> None:
    while True:
        pipe.receive(soon(), "ask")


def framed(body: bytes, kind: bytes = shim.REPORT) -> bytes:
    return shim.HEAD.pack(len(body), kind) + body


@pytest.mark.parametrize(
    "raw",
    [
        framed(b"{}", shim.PACKET),
        framed(b"", shim.SETTINGS),
        framed(b"1", b"\0"),
        framed(b"{"),
        framed(b'"\xff\xfe"'),
        framed(b"NaN"),
        framed(b"[" * 3000),
        framed(b"x", shim.ASK),
        framed(json.dumps("x" * 9000).encode()),
        shim.HEAD.pack(2**32 - 1, shim.REPORT),
        b"\xff" * 8,
    ],
)
def test_garbage_is_distinguished_from_messages(raw: bytes, ends: Ends) -> None:
    ends[2].sendall(raw)
    with pytest.raises(SubmissionDisqualified, match="wrote into the pipe"):
        ends[0].receive(soon(), "ask")


@given(raw=st.binary(min_size=8, max_size=200))
def test_no_bytes_at_all_make_the_host_fail_otherwise(raw: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(raw)
        theirs.shutdown(socket.SHUT_WR)
        pipe = host.Pipe(ours, 64)
        with pytest.raises((SubmissionDisqualified, host.PipeClosed)):
            receive_all(pipe)


def test_every_wait_has_an_end(ends: Ends) -> None:
    with pytest.raises(SubmissionTimeout, match="did not ask for data"):
        ends[0].receive(time.monotonic(), "ask for data")
    with pytest.raises(SubmissionTimeout, match="did not ask for data"):
        ends[0].receive(time.monotonic() + 0.01, "ask for data")
    with pytest.raises(SubmissionTimeout, match="did not read"):
        ends[0].send(shim.PACKET, bytes(4_000_000), time.monotonic() + 0.01)


def test_the_system_wakes_the_host_at_its_deadline_and_not_at_its_next_look(ends: Ends) -> None:
    longest = []
    for deadline in (time.monotonic() + 0.01, soon()):
        ends[1].ask()
        ends[0].receive(deadline, "ask")
        timeval = ends[0]._socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16)
        seconds, microseconds = struct.unpack("ll", timeval)
        longest.append(seconds + microseconds / 1e6)
    assert 0 < longest[0] < 0.05
    assert longest[1] == pytest.approx(host.STOP_POLL_S, abs=0.02)  # the system counts in ticks


def test_a_time_out_that_this_process_gives_its_sockets_does_not_end_a_wait() -> None:
    socket.setdefaulttimeout(0.001)
    try:
        ours, theirs = socket.socketpair()
    finally:
        socket.setdefaulttimeout(None)
    with ours, theirs, pytest.raises(SubmissionTimeout):
        host.Pipe(ours, 10).receive(time.monotonic() + 0.05, "ask")


def test_half_a_message_is_waited_for_no_longer_than_a_whole_one(ends: Ends) -> None:
    ends[2].sendall(framed(b'"half"')[:-3])
    with pytest.raises(SubmissionTimeout, match="did not ask for data"):
        ends[0].receive(time.monotonic() + 0.01, "ask for data")


def test_what_is_larger_than_the_system_holds_crosses_in_pieces(ends: Ends) -> None:
    samples = np.arange(500_000, dtype=np.float32).reshape(-1, 5)
    with ThreadPoolExecutor(1) as other:
        received = other.submit(ends[1].receive)
        ends[0].send(shim.PACKET, host.packet_body(samples, 0, False, False), soon())
        _, packet = received.result(10)
    assert np.array_equal(shim.rows_of(packet, *samples.shape), samples.T)


@pytest.mark.parametrize("kind", [">f4", "f8", "i2"])
def test_samples_of_another_type_cross_as_their_values(kind: str) -> None:
    samples = np.arange(12).reshape(4, 3).astype(kind)
    packet = host.packet_body(samples, 0, False, False)  # type: ignore[arg-type]
    assert np.array_equal(shim.rows_of(packet, 4, 3), samples.T)


def test_what_is_there_already_is_taken_at_the_first_look(ends: Ends) -> None:
    for _ in range(3):
        ends[1].ask()
    assert [ends[0].receive(soon(), "ask").kind for _ in range(3)] == ["ask"] * 3


def test_a_flood_of_messages_that_no_one_waits_for_ends_at_the_deadline(ends: Ends) -> None:
    """Data that is always there must not keep the host from looking at its clock."""
    ends[2].setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            ends[2].sendall(framed(b"", shim.ASK))
    deadline = time.monotonic() - 1
    with pytest.raises(SubmissionTimeout):
        receive_until(ends[0], deadline)


def receive_until(pipe: host.Pipe, deadline: float) -> None:
    while True:
        pipe.receive(deadline, "ask")


def test_a_submission_ends_without_a_word_when_its_host_has_gone(ends: Ends) -> None:
    ends[1].ask()  # never read: the system then resets the pipe
    ends[0].close()
    for act in (ends[1].receive, ends[1].receive, ends[1].ask):
        with pytest.raises(shim.HostGone):
            act()


def test_a_closed_end_is_noticed_both_ways(ends: Ends) -> None:
    ends[1]._socket.close()
    ends[2].close()
    with pytest.raises(host.PipeClosed):
        ends[0].receive(soon(), "ask")
    with pytest.raises(host.PipeClosed):
        ends[0].send(shim.START, b"{}", soon())
