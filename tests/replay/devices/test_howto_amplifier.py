"""The amplifier of docs/howto/add-an-amplifier.md, run as it is printed there."""

import contextlib
import re
import socket
import sys
import threading
from pathlib import Path

import pytest

from bci_stream.errors import SourceError
from replay.devices.live import LiveSource
from replay.devices.registry import DEVICES, all_device_rows, open_device, open_live

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "add-an-amplifier.md"


@pytest.fixture
def textamp(tmp_path, monkeypatch):
    """The module of the page, and its line in the table."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    (tmp_path / "howto_textamp.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(DEVICES, "textamp", "howto_textamp")
    yield "howto_textamp"
    sys.modules.pop("howto_textamp", None)


class Server:
    """A text amplifier: on each connection it sends these samples, then closes it or stays silent."""

    def __init__(self, *connections: range, stay: bool = False) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"//127.0.0.1:{self._socket.getsockname()[1]}"
        self._connections, self._stay = connections, stay
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # ends a wait in accept()
        self._socket.close()
        self._thread.join(10)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # the server was closed
            self._connect_clients()

    def _connect_clients(self) -> None:
        with self._socket.accept()[0]:
            pass  # open() looks whether the amplifier is there, and disconnects
        for number, samples in enumerate(self._connections):
            with self._socket.accept()[0] as client:
                for i in samples:
                    client.sendall(f"{i},{i},2,3,{51 if i == 12 else 0}\n".encode())
                if self._stay and number == len(self._connections) - 1:
                    self.ended.wait(30)


def source_at(server: Server, **params: str) -> LiveSource:
    return open_device("textamp", server.address, {"rate": "100", **params})


def test_it_is_listed(textamp):
    (row,) = [row for row in all_device_rows() if row.uri.startswith("textamp:")]
    assert row.leads == 3


def test_it_reconnects_counts_the_gap_and_stops_cleanly(textamp):
    with Server(range(7, 27), range(37, 57), stay=True) as server:
        source = source_at(server)
        states: list[str] = []
        source.listen(lambda status: states.append(status.state))
        (session,) = source.sessions()
        packets = []
        for packet in session.packets(10):
            packets.append(packet)
            if len(packets) == 4:
                source.close()
    assert [packet.start for packet in packets] == [0, 10, 30, 40]
    assert [int(packet.samples[0, 0]) for packet in packets] == [7, 17, 37, 47]
    assert packets[0].triggers == ((5, 51),)
    assert [state for i, state in enumerate(states) if state != states[i - 1]] == [
        "connected", "reconnecting", "connected", "ended",
    ]  # fmt: skip
    status = source.status
    assert (status.samples_lost, status.gaps, status.lost_exact) == (10, 1, True)


def test_a_stop_from_another_thread_ends_a_silent_amplifier(textamp):
    with Server(range(20), stay=True) as server:
        source = source_at(server)
        (session,) = source.sessions()
        closer = threading.Timer(0.1, source.close)
        closer.start()
        packets = list(session.packets(10))
        closer.join()
    assert len(packets) == 2
    assert source.status.state == "ended"


def test_an_amplifier_that_does_not_come_back_is_given_up(textamp):
    with Server(range(20)) as server:
        source = source_at(server, reconnect_s="0")
        (session,) = source.sessions()
        with pytest.raises(
            SourceError, match=r"no samples .* for 0 s: the amplifier closed .*check"
        ):
            list(session.packets(10))


def test_an_opener_of_another_package_needs_no_table(textamp):
    module = __import__(textamp)
    with Server(range(20), stay=True) as server:
        uri = f"mine:{server.address}?rate=100"
        with pytest.raises(SourceError, match=r"mine:.* has no parameter colour; it takes .*rate"):
            open_live(module.make_device, uri, {"rate": "100", "colour": "red"})
        source = open_live(module.make_device, uri, {"rate": "100"})
        (session,) = source.sessions()
        assert session.rate == 100
        source.close()
