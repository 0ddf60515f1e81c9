"""A connection to a device: one wait for many small sendings, which always ends."""

import math
import socket
import struct

import numpy as np
import pytest
from virtual_amplifier import LEADS, parser_for, recording

from replay.devices.emulator.encoders import PROTOCOLS, EmulatedSignal
from replay.devices.neuracle.connection import TcpConnection


@pytest.fixture
def ends():
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = TcpConnection("127.0.0.1", server.getsockname()[1])
        connection.connect(5.0)
        device, _ = server.accept()
    with device:
        yield connection, device
    connection.disconnect()


def test_it_sleeps_until_all_the_bytes_that_are_wanted_have_come(ends):
    connection, device = ends
    device.sendall(b"x" * 99)
    assert (
        connection.receive(0.05, least_bytes=1000) == b"x" * 99
    )  # the time was up, so that had to do
    device.sendall(b"y" * 999)
    device.sendall(b"z" * 5)
    got = connection.receive(10.0, least_bytes=1000)
    assert got == b"y" * 999 + b"z" * 5


def test_fewer_bytes_are_given_when_the_time_is_up_and_none_where_none_came(ends):
    connection, device = ends
    assert connection.receive(0.01, least_bytes=10) is None
    device.sendall(b"abc")
    assert connection.receive(0.1, least_bytes=10) == b"abc"
    assert connection.receive(0.0) is None


def test_an_end_is_reported_at_once_however_many_bytes_are_wanted(ends):
    connection, device = ends
    device.sendall(b"abc")
    device.shutdown(socket.SHUT_WR)
    assert connection.receive(10.0, least_bytes=1000) == b"abc"
    assert connection.receive(10.0, least_bytes=1000) == b""


def test_a_reset_is_reported_at_once_however_many_bytes_are_wanted(ends):
    connection, device = ends
    device.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    device.close()
    with pytest.raises(ConnectionResetError):
        connection.receive(10.0, least_bytes=1000)


def test_an_interrupt_ends_a_wait_for_many_bytes(ends):
    connection, device = ends
    device.sendall(b"abc")
    connection.interrupt()
    assert connection.receive(10.0, least_bytes=1000) is None


def test_a_system_without_the_option_gives_what_has_come():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        connection = TcpConnection("127.0.0.1", 1)
        connection._socket = _Plain(ours)
        theirs.sendall(b"abc")
        assert connection.receive(10.0, least_bytes=1000) == b"abc"


class _Plain:
    """A socket that can't count for us."""

    def __init__(self, sock):
        self.recv, self.fileno = sock.recv, sock.fileno

    def setsockopt(self, *_):
        raise OSError(92, "Protocol not available")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("samples", [1, 7, 40, 100])
def test_the_bytes_that_are_waited_for_bring_the_samples_and_hardly_more(protocol, samples):
    source = recording(4)
    encoder = PROTOCOLS[protocol](source.rate, LEADS)
    pieces = EmulatedSignal(source).pieces(encoder.piece_samples)
    sent = encoder.greeting() + b"".join(encoder.encode(piece) for piece in pieces)
    parser = parser_for(protocol, source.rate)
    assert parser.bytes_for(samples) >= 1
    position = 1000 if protocol.startswith("raw") else 3000
    parser.feed(sent[:position])
    for _ in range(5):
        wanted = parser.bytes_for(samples)
        short = sum(chunk.n for chunk in parser.feed(sent[position : position + wanted - 1]))
        last = sum(
            chunk.n for chunk in parser.feed(sent[position + wanted - 1 : position + wanted])
        )
        position += wanted
        assert short < samples <= short + last
        assert short + last < samples + encoder.piece_samples


class Simulated:
    """A clock and a system that wakes sleepers late; bytes come at the given moments, one after the other."""

    LATE_S = 2e-4
    LOOK_S = 2e-6

    def __init__(self, arrivals):
        self.now = 100.0
        self.arrivals = list(arrivals)
        self.seen_late_s: list[float] = []
        self.awake_s = 0.0

    def select(self, sockets, _, __, timeout_s):
        came = self.arrivals[0] if self.arrivals else math.inf
        if came <= self.now or not timeout_s:
            self.now += self.LOOK_S
            self.awake_s += self.LOOK_S
        else:
            self.now = min(max(came, self.now), self.now + timeout_s) + self.LATE_S
        if came > self.now:
            return [], [], []
        self.seen_late_s.append(self.now - came)
        self.arrivals.pop(0)
        return [sockets[0]], [], []


PERIOD_S = 0.04


def seen(monkeypatch, arrivals):
    """How late each was seen, and what share of the time was spent awake."""
    system = Simulated(arrivals)
    monkeypatch.setattr("replay.devices.neuracle.connection.select.select", system.select)
    monkeypatch.setattr("replay.devices.neuracle.connection.time.monotonic", lambda: system.now)
    connection = TcpConnection("127.0.0.1", 1)
    connection._socket = Silent()
    begun = system.now
    while system.arrivals:
        connection.receive(0.13, 1, PERIOD_S)
    return np.array(system.seen_late_s), system.awake_s / (system.now - begun)


class Silent:
    def recv(self, _):
        return b"x"


@pytest.mark.parametrize("jitter_s", [0.0, 1e-4, 3e-4])
def test_it_is_awake_when_bytes_are_due(monkeypatch, jitter_s):
    rng = np.random.default_rng(0)
    arrivals = 100.01 + PERIOD_S * np.arange(1000) + jitter_s * rng.exponential(size=1000)
    late_s, awake = seen(monkeypatch, arrivals)
    assert len(late_s) == 1000
    assert np.median(late_s[20:]) <= Simulated.LOOK_S
    assert np.mean(late_s[20:] > Simulated.LOOK_S) < 0.2
    assert awake < 0.03


def test_a_device_whose_clock_drifts_or_whose_rhythm_jumps_is_followed(monkeypatch):
    arrivals = 100.01 + PERIOD_S * (1 - 2e-4) * np.arange(500)
    arrivals[250:] += 0.017
    late_s, _ = seen(monkeypatch, arrivals)
    assert np.mean(late_s[20:] > Simulated.LOOK_S) < 0.15


def test_bytes_without_a_rhythm_cost_no_more_than_sleeping_for_them(monkeypatch):
    gaps = np.random.default_rng(0).uniform(0.001, 0.12, 1000)
    late_s, awake = seen(monkeypatch, 100.01 + np.cumsum(gaps))
    assert len(late_s) == 1000
    assert late_s.max() <= Simulated.LATE_S + 1e-9
    assert awake < 0.03


def test_an_address_of_the_sixth_version_is_written_so_that_it_can_be_read_again():
    assert TcpConnection("::1", 8712).address == "[::1]:8712"
    assert TcpConnection("amp.lab", 8712).address == "amp.lab:8712"
