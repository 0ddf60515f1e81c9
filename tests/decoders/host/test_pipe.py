"""The pipe: what one end says, the other hears; what is no message of ours is never believed."""

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


def test_a_closed_end_is_noticed_both_ways(ends: Ends) -> None:
    ends[1]._socket.close()
    ends[2].close()
    with pytest.raises(host.PipeClosed):
        ends[0].receive(soon(), "ask")
    with pytest.raises(host.PipeClosed):
        ends[0].send({"kind": "start"}, soon())
