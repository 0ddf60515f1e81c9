"""The pipe: what one end says, the other hears; what is no message of ours is never believed."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.host import pipe as host
from decoders.host import shim
from decoders.host.errors import SubmissionDisqualified, SubmissionTimeout

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
def ends() -> Iterator[tuple[host.Pipe, shim.Pipe, socket.socket]]:
    ours, theirs = socket.socketpair()
    raw = theirs.dup()
    with ours, raw:
        pair = host.Pipe(ours, 4096), shim.Pipe(theirs.detach(), 4096)
        yield (*pair, raw)
        pair[1]._socket.close()


def soon() -> float:
    return time.monotonic() + 10


@given(value=JSON)
def test_what_a_submission_says_arrives_as_it_was(value: object) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        child = shim.Pipe(theirs.detach(), 1 << 20)
        child.send("report", value)
        heard = host.Pipe(ours, 1 << 20).receive(soon(), "report")
        child._socket.close()
    assert (heard.kind, heard.value) == ("report", value)


@given(n=st.integers(0, 60), channels=st.integers(1, 70), start=st.integers(0, 2**40))
def test_samples_arrive_bit_by_bit_as_rows_of_leads(n: int, channels: int, start: int) -> None:
    samples = np.random.default_rng(start % 97).normal(size=(n, channels)).astype(np.float32)
    ours, theirs = socket.socketpair()
    with ours:
        child = shim.Pipe(theirs.detach())
        host.Pipe(ours, 10).send({"kind": "packet", "start": start}, soon(), samples)
        header, payload = child.receive()
        child._socket.close()
    rows = shim.rows_of(payload, n, channels)
    assert header == {"kind": "packet", "start": start}
    assert rows.shape == (channels, n)
    assert rows.dtype == np.float64
    assert np.array_equal(rows, samples.T)


Ends = tuple[host.Pipe, shim.Pipe, socket.socket]


def receive_all(pipe: host.Pipe) -> None:
    while True:
        pipe.receive(soon(), "ask")


def framed(text: bytes, samples: int = 0) -> bytes:
    return host.PREFIX.pack(len(text), samples) + text


@pytest.mark.parametrize(
    "raw",
    [
        framed(b"{}"),
        framed(b'{"kind": "packet"}'),
        framed(b"[1]"),
        framed(b"\xff\xfe"),
        framed(b'{"kind": "report", "value": NaN}'),
        framed(b'{"kind": "report", "value": ' + b"[" * 3000 + b"}"),
        framed(b'{"kind": "ask"}', samples=4) + b"xxxx",
        framed(json.dumps({"kind": "report", "value": "x" * 9000}).encode()),
        b"\xff" * 8,
    ],
)
def test_garbage_is_told_from_messages(raw: bytes, ends: Ends) -> None:
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
        ends[0].send({}, time.monotonic() + 0.01, np.zeros((1000, 1000), np.float32))


class Counting:
    """A socket that counts how often it is looked at."""

    def __init__(self, inner: socket.socket) -> None:
        self._inner, self.looks = inner, 0

    def recv(self, most: int) -> bytes:
        self.looks += 1
        return self._inner.recv(most)


def test_it_looks_again_without_sleeping_only_where_that_was_not_in_vain(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe, child, _ = ends
    monkeypatch.setattr(shim, "core_taken_away", lambda: 0)
    monkeypatch.setattr(pipe, "_in", (pipe._in[0], shim.Spin()))
    monkeypatch.setattr(pipe, "_sleep", lambda *_: child.ask())  # it answers while we sleep
    looks = []
    for _ in range(12):
        counting = Counting(pipe._socket)
        with monkeypatch.context() as patch:
            patch.setattr(pipe, "_socket", counting)
            assert pipe.receive(soon(), "ask").kind == "ask"
        looks.append(counting.looks)
    # A sleep, then one look; but 1, 2, 4 waits apart it is tried whether that has changed.
    assert [wait for wait, count in enumerate(looks) if count > 1] == [0, 2, 5, 10]


def test_on_a_machine_that_others_need_it_sleeps_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(1000))
    monkeypatch.setattr(shim, "core_taken_away", lambda: next(times))
    spin = shim.Spin()
    assert [spin.until(1.0) for _ in range(600)] == [0.0] * 600
    monkeypatch.setattr(shim, "core_taken_away", lambda: 5000)
    assert [bool(spin.until(1.0)) for _ in range(600)].count(True) > 50


def test_one_answer_in_time_makes_good_for_many_that_were_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shim, "core_taken_away", lambda: 0)
    spin = shim.Spin()
    for _ in range(200):
        if spin.until(1.0):
            spin.in_vain()
    resting = 0
    while not spin.until(1.0):
        resting += 1
    assert 0 < resting <= shim.Spin.MOST_REST
    assert spin.until(2.0) == 2.0 + shim.Spin.SPIN_S


def test_what_is_there_already_is_taken_at_the_first_look(ends: Ends) -> None:
    for _ in range(3):
        ends[1].ask()
    assert [ends[0].receive(soon(), "ask").kind for _ in range(3)] == ["ask"] * 3


def test_a_flood_of_messages_that_nobody_waits_for_ends_at_the_deadline(ends: Ends) -> None:
    """Data that is always there must not keep the host from looking at its clock."""
    ends[2].setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            ends[2].sendall(host.PREFIX.pack(14, 0) + b'{"kind":"ask"}')
    deadline = time.monotonic() - 1
    with pytest.raises(SubmissionTimeout):
        receive_until(ends[0], deadline)


def receive_until(pipe: host.Pipe, deadline: float) -> None:
    while True:
        pipe.receive(deadline, "ask")


def test_a_closed_end_is_noticed_both_ways(ends: Ends) -> None:
    ends[1]._socket.close()
    ends[2].close()
    with pytest.raises(host.PipeClosed):
        ends[0].receive(soon(), "ask")
    with pytest.raises(host.PipeClosed):
        ends[0].send({"kind": "start"}, soon())
