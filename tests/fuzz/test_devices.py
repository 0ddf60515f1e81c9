"""Damaged bytes of amplifiers, and values that no amplifier sends: used, or refused with our error."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from bci_stream.clock import ManualClock
from bci_stream.packet import Lead
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.transport import StreamSpec
from replay.devices.boards import find_board
from replay.devices.brainflow import BoardDevice
from replay.devices.chunk import DeviceInfo
from replay.devices.emulator.encoders import (
    HeegEncoder,
    JellyfishEncoder,
    RawEncoder,
    SignalPiece,
)
from replay.devices.lsl import LslDevice, LslOptions
from replay.devices.manual_triggers import ManualTriggers, ManualTriggerServer
from replay.devices.neuracle.heeg import HeegParser
from replay.devices.neuracle.jellyfish import JellyfishParser
from replay.devices.neuracle.raw import RawParser
from replay.devices.params import Timeouts
from replay.devices.status import StatusKeeper
from replay.devices.timing import WallClock
from tests.fuzz.damage import damaged, examples, limits, read_within_limits

LEADS = (Lead("C3"), Lead("Cz"), Lead("HEO", "EOG"))
INFO = DeviceInfo(1000.0, LEADS)
BOARD = find_board("SYNTHETIC")
ODD = st.floats(width=64) | st.sampled_from([0.0, 1.0, -1.0, 255.0, 1e9, 1e300, float("nan")])

PROTOCOLS = {
    "raw": (lambda: RawEncoder(1000), lambda: RawParser(INFO)),
    "raw-uint": (lambda: RawEncoder(1000, "uint"), lambda: RawParser(INFO, "uint")),
    "heeg": (lambda: HeegEncoder(1000), HeegParser),
    "jellyfish": (lambda: JellyfishEncoder(1000, LEADS), JellyfishParser),
    "jellyfish-modules": (lambda: JellyfishEncoder(1000, LEADS, whole=False), JellyfishParser),
}


def sent_bytes(encoder) -> bytes:
    """Some hundred samples with two triggers."""
    n = encoder.piece_samples
    rng = np.random.default_rng(0)
    pieces = [
        SignalPiece(
            rng.normal(0, 50, (n, len(LEADS))).astype(np.float32),
            ((0, 11),) if k in (2, 5) else (),
            k * n,
        )
        for k in range(-(-200 // n))
    ]
    return encoder.greeting() + b"".join(map(encoder.encode, pieces))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@examples(60)
@given(data=st.data())
def test_damaged_bytes_of_an_amplifier_are_used_or_refused(protocol, data):
    encoder, parser = PROTOCOLS[protocol]
    content = data.draw(damaged(sent_bytes(encoder()), head=0.3))
    cuts = data.draw(st.lists(st.integers(0, len(content)), max_size=5))
    bounds = sorted({0, len(content), *cuts})
    reader = parser()

    def feed() -> None:
        for first, last in pairwise(bounds):
            for chunk in reader.feed(content[first:last]):
                assert chunk.samples.shape[1] == len(reader.info.leads)
                assert all(0 <= at < len(chunk.samples) for at, _ in chunk.triggers)
            assert reader.bytes_for(40) > 0

    read_within_limits(feed)


@examples(60)
@given(text=st.binary(max_size=4096) | st.text().map(str.encode) | st.just(b"[" * 4096))
def test_any_message_to_the_trigger_server_is_answered(text, tmp_path_factory):
    import socket

    folder = tmp_path_factory.mktemp("s", numbered=True)
    server = ManualTriggerServer(ManualTriggers(), "x", folder)
    try:
        for _ in range(2):  # it goes on after a message that it can't read
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(20)
                client.connect(str(next(folder.iterdir())))
                client.sendall(text or b"{}")
                assert client.recv(4096).startswith(b'{"')
    finally:
        server.close()


class OddBoard:
    """A board session that returns the given rows."""

    def __init__(self, polls: list[np.ndarray]) -> None:
        self._polls = polls

    def prepare(self) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def insert_trigger(self, code: int) -> None: ...

    def poll(self) -> np.ndarray:
        return self._polls.pop(0)


@examples(60)
@given(
    polls=st.lists(
        st.integers(0, 12).flatmap(lambda n: arrays.arrays(np.float64, (32, n), elements=ODD)),
        min_size=1,
        max_size=4,
    )
)
def test_any_rows_of_a_board_are_used_or_refused(polls):
    clock = ManualClock()
    session, keeper = OddBoard(list(polls)), StatusKeeper("odd")
    wall = WallClock(clock.now, clock.now)
    device = BoardDevice(
        BOARD, lambda: session, clock, keeper, ManualTriggers(), wall, sleep=clock.advance
    )

    def read() -> None:
        device.connect(5.0)
        for _ in polls:
            device.read(0.02, 10)
        device.flush()
        device.disconnect()

    read_within_limits(read)


@examples(40)
@given(
    names=st.lists(st.text(max_size=8), min_size=1, max_size=4),
    unit=st.text(max_size=8),
    rows=st.lists(st.tuples(ODD, ODD), min_size=1, max_size=20),
    texts=st.lists(st.tuples(st.text(max_size=12), ODD), max_size=6),
)
def test_any_lsl_stream_is_used_or_refused(names, unit, rows, texts):
    transport, clock = MemoryTransport(), ManualClock()
    leads = tuple(Lead(name, "EEG", unit) for name in names)
    signal = transport.sample_outlet(StreamSpec("amp", "EEG", "amp-id", "float32", 100.0, leads))
    markers = transport.text_outlet(StreamSpec("marks", "Markers", "marks-id"))
    options = LslOptions("amp", markers="marks")
    device = LslDevice(options, transport, clock, StatusKeeper("odd"), Timeouts())

    def read() -> None:
        device.connect(5.0)
        device.start()
        with np.errstate(over="ignore"):
            values = np.array([[row[0]] * len(leads) for row in rows], dtype=np.float32)
        signal.push(values, [row[1] for row in rows])
        device.read(0.0, 10)
        for text, stamp in texts:
            markers.push(text, stamp)
        device.read(0.0, 10)
        device.flush()

    try:
        read_within_limits(read)
    finally:
        device.disconnect()
        device.close()
        signal.close()
        markers.close()


@examples(100)
@given(params=st.dictionaries(st.sampled_from(["markers", "trigger", "triggers", "hold_ms", "wait_s",
       "channels", "rate", "montage", "protocol", "x"]), st.text(max_size=12), max_size=4),
       address=st.text(max_size=12), scheme=st.sampled_from(["lsl", "neuracle", "brainflow"]))  # fmt: skip
def test_any_parameters_of_a_device_are_used_or_refused(params, address, scheme):
    from replay.devices.registry import open_device

    with limits():
        read_within_limits(lambda: open_device(scheme, address, params, MemoryTransport()).close())
