"""The emulator on real sockets, read by the real client; its faults."""

import socket
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from virtual_amplifier import (
    LEADS,
    amplifier,
    counters,
    neuracle_feed,
    parser_for,
    placed_triggers,
    positions,
    recording,
)

from bci_stream.clock import RealClock
from bci_stream.errors import SourceError
from replay.devices.chunk import DeviceInfo
from replay.devices.emulator.amplifier import EmulatedAmplifier, parse_fault
from replay.devices.emulator.emulator import Emulator, choose_session, client_uri, read_lead_in
from replay.devices.emulator.encoders import PROTOCOLS, EmulatedSignal
from replay.devices.live import LiveSession, LiveSource
from replay.devices.manual_triggers import ManualTriggers
from replay.devices.neuracle.connection import TcpConnection
from replay.devices.neuracle.raw import encode_rows
from replay.devices.params import Timeouts
from replay.devices.registry import open_device
from replay.devices.status import DeviceStatus, StatusKeeper
from replay.model.source import RawPacket
from replay.sources import open_source

pytestmark = pytest.mark.timed

TRIGGERS = ((300, 5), (500, 241), (790, 200))


def source_for(emulator: Emulator, protocol: str, seconds: float, **params: str) -> LiveSource:
    uri = client_uri("127.0.0.1", emulator.port, protocol, recording(seconds))
    _, _, query = uri.partition("?")
    given = dict(pair.split("=") for pair in query.split("&")) | params
    source = open_device("neuracle", f"//127.0.0.1:{emulator.port}", given)
    assert isinstance(source, LiveSource)
    return source


def play(protocol: str, faults: list[str], seconds: float) -> tuple[list[RawPacket], DeviceStatus]:
    """Straight from the first connection, so that no sample passes unseen."""
    played = recording(seconds, triggers=(*TRIGGERS, (round(seconds * 1000) - 150, 99)))
    keeper = StatusKeeper("neuracle")
    with Emulator(amplifier(played, protocol, faults)) as emulator:
        feed = neuracle_feed(
            TcpConnection("127.0.0.1", emulator.port),
            lambda: parser_for(protocol, 1000),
            RealClock(),
            keeper,
            Timeouts(reconnect_s=20),
        )
        info = DeviceInfo(1000.0, LEADS)
        session = LiveSession("S1", info, feed, keeper, ManualTriggers(), until=99)
        packets = list(session.packets(40))
        assert emulator.error is None
    return packets, keeper.now


@pytest.mark.parametrize("protocol", list(PROTOCOLS))
def test_each_protocol_crosses_a_socket_in_real_time(protocol):
    packets, status = play(protocol, [], 1.0)
    counted = counters(packets)
    assert counted == list(range(1, len(counted) + 1))
    assert placed_triggers(packets) == [*TRIGGERS, (850, 99)]
    assert packets[-1].last_of_block
    assert status.state == "ended"
    assert status.samples_lost == 0


@pytest.mark.parametrize("fault", ["eof@0.5", "rst@0.5", "half@0.5", "refuse@0.5:0.3"])
def test_a_broken_connection_is_made_again(fault):
    packets, status = play("jellyfish", [fault], 2.0)
    assert (status.reconnects, status.gaps) == (1, 1)
    assert counters(packets) == [place + 1 for place in positions(packets)]
    assert len(positions(packets)) + status.samples_lost == positions(packets)[-1] + 1


def test_the_device_runs_on_without_a_client():
    source_recording = recording(30)
    with Emulator(amplifier(source_recording, "heeg")) as emulator:
        firsts = []
        for _ in range(2):
            source = source_for(emulator, "heeg", 30)
            (session,) = source.sessions()
            packets = session.packets(10)
            firsts.append(counters([next(packets)])[0])
            packets.close()
    assert firsts[1] > firsts[0] > 1


def test_closing_from_another_thread_ends_the_stream_at_once():
    with Emulator(amplifier(recording(30), "raw", ["stall@2:25"])) as emulator:
        source = source_for(emulator, "raw", 30)
        (session,) = source.sessions()
        threading.Timer(1.5, source.close).start()  # in the middle of the stall
        packets = list(session.packets(40))
    assert len(packets) < 100
    assert source.status.state == "ended"


def test_closing_ends_the_search_for_an_amplifier():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        port = unused.getsockname()[1]
        source = open_device("neuracle", f"//127.0.0.1:{port}", {"channels": "3", "rate": "1000"})
        threading.Timer(0.2, source.close).start()
        with pytest.raises(SourceError, match="was stopped"):
            next(source.sessions())


def test_a_missing_amplifier_is_reported_with_advice():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        given = {"channels": "3", "rate": "1000", "wait_s": "0.3"}
        source = open_device("neuracle", f"//127.0.0.1:{port}", given)
        with pytest.raises(SourceError, match=r"can't connect: Connection refused.*firewall"):
            next(source.sessions())


def test_a_host_that_does_not_exist_is_reported():
    given = {"channels": "3", "rate": "1000"}
    source = open_device("neuracle", "//no-such-host.invalid:8712", given)
    with pytest.raises(SourceError, match=r"unknown host 'no-such-host.invalid'.*check"):
        next(source.sessions())


def test_a_port_in_use_is_reported():
    device = amplifier(recording(1), "raw")
    with Emulator(device) as emulator, pytest.raises(SourceError, match=r"can't serve at.*--port"):
        Emulator(device, port=emulator.port)


def test_two_clients_get_the_same_bytes():
    with Emulator(amplifier(recording(30), "heeg")) as emulator:
        first = socket.create_connection(("127.0.0.1", emulator.port), timeout=5)
        second = socket.create_connection(("127.0.0.1", emulator.port), timeout=5)
        with first, second:
            streams = [b"".join(_read(sock, 20_000)) for sock in (first, second)]
    start = streams[0].find(streams[1][:1000])
    assert start >= 0
    assert streams[0][start:] == streams[1][: len(streams[0]) - start]


def _read(sock: socket.socket, n: int) -> Iterator[bytes]:
    while n > 0:
        data = sock.recv(n)
        n -= len(data)
        yield data


def test_quiet_inputs_come_before_the_recording():
    signal = EmulatedSignal(recording(0.1), lead_in=lambda played_s: played_s < 0.2)
    pieces = list(signal.pieces(40))
    assert [piece.number for piece in pieces] == list(range(0, 320, 40))
    assert all(abs(piece.samples).max() < 10 for piece in pieces[:5])
    assert pieces[5].samples[0, 0] == 1
    assert pieces[7].samples[19, 0] == 100
    assert abs(pieces[7].samples[20:]).max() < 10  # the last piece is filled up with quiet


def test_faults_are_placed_in_the_recording_not_in_the_quiet_before_it():
    signal = EmulatedSignal(recording(0.4), lead_in=lambda played_s: played_s < 0.2)
    acts = list(EmulatedAmplifier(signal, "raw", [parse_fault("eof@0.1")]).actions())
    assert [act.due_s for act in acts if act.kind == "close"] == [pytest.approx(0.32)]


def test_the_amplifier_outlasts_the_recording():
    pieces = list(EmulatedSignal(recording(0.1), tail_s=0.2).pieces(40))
    assert sum(len(piece.samples) for piece in pieces) == 320
    assert pieces[2].samples[19, 0] == 100
    assert abs(pieces[2].samples[20:]).max() < 10


def test_enter_begins_the_recording():
    class Keyboard:
        def readline(self) -> str:
            return "\n"

    lasts = read_lead_in("ask", Keyboard())
    pause = threading.Event()
    while lasts(0.0):
        pause.wait(0.001)


def test_a_wrong_lead_in_is_refused():
    for text in ("soon", "-1", "nan"):
        with pytest.raises(SourceError, match="--lead-in"):
            read_lead_in(text, sys.stdin)


def test_an_emulator_plays_no_device_and_only_subjects_that_exist():
    with pytest.raises(SourceError, match="is a device itself"):
        choose_session(open_device("lsl", "x", {}), None)
    source = open_source("synthetic:erp?subjects=1&trials=1")
    with pytest.raises(SourceError, match="has no subject 'Nobody'"):
        choose_session(source, "Nobody")


def test_leads_keep_their_names_over_every_protocol():
    for protocol in PROTOCOLS:
        with Emulator(amplifier(recording(30), protocol)) as emulator:
            (session,) = source_for(emulator, protocol, 30).sessions()
        assert [lead.name for lead in session.leads] == [lead.name for lead in LEADS]
        assert session.rate == 1000


def test_an_ipv6_address_is_an_address():
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        pytest.skip("this machine has no IPv6")
    with Emulator(amplifier(recording(30), "jellyfish"), "::1") as emulator:
        rest = f"//[::1]:{emulator.port}"
        (session,) = open_device("neuracle", rest, {"protocol": "jellyfish"}).sessions()
    assert [lead.name for lead in session.leads] == [lead.name for lead in LEADS]


@pytest.mark.parametrize("text", ["wrap@3", "wrap@3:2", "data-first@1", "new-meta@0.5"])
def test_a_fault_from_the_start_takes_no_time(text):
    kind = text.partition("@")[0]
    with pytest.raises(SourceError, match=rf"{kind} concerns .* takes no @SECONDS; write {kind}"):
        parse_fault(text)


def test_the_message_shows_where_the_seconds_of_wrap_go():
    with pytest.raises(SourceError, match=r"write wrap:VALUE \(seconds after the start\)"):
        parse_fault("wrap@3")


def sent(faults: list[str], triggers: tuple[tuple[int, int], ...] = ()) -> np.ndarray:
    """The words (samples, leads and trigger) that a raw amplifier sends."""
    acts = amplifier(recording(1, triggers=triggers), "raw", faults).actions()
    return np.frombuffer(b"".join(act.data for act in acts), "<f4").reshape(-1, 4)


def test_a_trigger_is_held_from_the_fault_on():
    line = sent(["hold@0.5:5"], ((100, 7), (600, 8)))[:, 3]
    assert np.flatnonzero(line == 7).tolist() == [100]
    assert np.flatnonzero(line == 8).tolist() == [600, 601, 602, 603, 604]


def test_bytes_are_swapped_from_the_fault_on():
    words, swapped = sent([]).view("<u4"), sent(["big-endian@0.5"]).view("<u4")
    begin = 13 * 40  # the first sending whose place is at 0.5 s or after it
    assert (swapped[:begin] == words[:begin]).all()
    assert (swapped[begin:] == words[begin:].byteswap()).all()


def test_the_words_above_are_the_rows_that_the_encoder_writes():
    assert sent([]).tobytes() == encode_rows(recording(1).blocks[0].data, ())
