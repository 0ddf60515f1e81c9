"""Manual triggers: the queue, the socket, the TriggerBox."""

import json
import math
import os
import pty
import socket
import stat
import sys
import tty
import types

import pytest
from click.testing import CliRunner

from bci_stream.errors import SourceError
from replay.devices.manual_triggers import (
    ManualTriggerError,
    ManualTriggers,
    ManualTriggerServer,
    open_parallel_port,
    open_port,
    send_pulse,
    send_to_trigger_box,
    send_trigger,
)
from replay.tools.commands import mark_command


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "marks"


def test_a_trigger_is_taken_once(folder):
    box = ManualTriggers(lambda: 5.0)
    server = ManualTriggerServer(box, "neuracle", folder)
    try:
        assert send_trigger(7, folder=folder) == "neuracle"
        assert send_trigger(8, "neuracle", folder) == "neuracle"
    finally:
        server.close()
    assert box.take(4.9) == []
    assert box.take(5.0) == [(7, 5.0), (8, 5.0)]
    assert box.take(5.0) == []
    assert not server.path.exists()


def test_only_its_user_can_open_the_socket(folder):
    server = ManualTriggerServer(ManualTriggers(), "neuracle", folder)
    try:
        assert stat.S_IMODE(os.stat(server.path).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    finally:
        server.close()


def test_a_folder_of_another_user_is_not_used(folder, monkeypatch):
    folder.mkdir()
    monkeypatch.setattr(os, "getuid", lambda: os.stat(folder).st_uid + 1)
    with pytest.raises(ManualTriggerError, match="belongs to another user"):
        ManualTriggerServer(ManualTriggers(), "neuracle", folder)


def test_several_devices_need_a_name(folder):
    boxes = [ManualTriggers(), ManualTriggers()]
    servers = [ManualTriggerServer(box, "brainflow", folder) for box in boxes]
    try:
        with pytest.raises(
            ManualTriggerError, match=r"found 2 \(running: brainflow, brainflow-2\).*--to"
        ):
            send_trigger(7, folder=folder)
        send_trigger(7, "brainflow-2", folder)
    finally:
        for server in servers:
            server.close()
    assert [[code for code, _ in box.take(math.inf)] for box in boxes] == [[], [7]]


def test_without_a_device_a_trigger_is_refused(folder):
    with pytest.raises(ManualTriggerError, match=r"found 0 \(running: none\)"):
        send_trigger(7, folder=folder)


def test_what_a_killed_process_left_behind_is_taken_over(folder):
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(folder / "neuracle.sock"))
    server = ManualTriggerServer(ManualTriggers(), "neuracle", folder)
    assert server.path.name == "neuracle.sock"
    server.close()


@pytest.mark.parametrize("code", [0, 65536, -3])
def test_a_code_out_of_range_is_refused(code, folder):
    with pytest.raises(ManualTriggerError, match=f"from 1 to 65535, got {code}"):
        send_trigger(code, folder=folder)


@pytest.mark.parametrize(
    "message", [b"", b"[]", b"no json", b'{"code": "7"}', b'{"code": true}', b'{"code": 0}']
)
def test_nonsense_is_answered_with_an_error_and_the_server_lives_on(folder, message):
    box = ManualTriggers()
    server = ManualTriggerServer(box, "neuracle", folder)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(str(server.path))
            client.sendall(message)
            client.shutdown(socket.SHUT_WR)
            assert "error" in json.loads(client.recv(4096))
        send_trigger(5, folder=folder)
    finally:
        server.close()
    assert [code for code, _ in box.take(math.inf)] == [5]


def test_a_device_that_inserts_triggers_itself_takes_them_at_once():
    box, taken = ManualTriggers(), []
    box.sink = taken.append
    box.put(9)
    assert (taken, box.take(math.inf)) == ([9], [])


class RecordingPort:
    def __init__(self) -> None:
        self.sent = b""

    def write(self, data: bytes) -> None:
        self.sent += data

    def flush(self) -> None: ...
    def close(self) -> None: ...


def test_the_frame_of_every_code():
    for code in range(1, 256):
        port = RecordingPort()
        send_to_trigger_box(port, code)
        assert port.sent == bytes([0x01, 0xE1, 0x01, 0x00, code])


@pytest.mark.parametrize("code", [0, 256, -1, 1000])
def test_a_code_is_one_byte(code):
    with pytest.raises(SourceError, match=f"from 1 to 255, got {code}"):
        send_to_trigger_box(RecordingPort(), code)


def test_a_code_crosses_a_serial_line():
    ours, theirs = pty.openpty()
    try:
        tty.setraw(theirs)
        port = open_port(os.ttyname(theirs))
        send_to_trigger_box(port, 51)
        send_to_trigger_box(port, 0x0A)
        port.close()
        sent = b""
        while len(sent) < 10:
            sent += os.read(ours, 64)
        assert sent.hex() == "01e101003301e101000a"
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_port_that_is_not_there_is_reported():
    with pytest.raises(SourceError, match="can't open the TriggerBox at /dev/no-such-port"):
        open_port("/dev/no-such-port")


def test_a_line_that_breaks_is_reported():
    class Broken(RecordingPort):
        def write(self, data: bytes) -> None:
            raise OSError("unplugged")

    with pytest.raises(SourceError, match="did not take the code: unplugged"):
        send_to_trigger_box(Broken(), 5)


class Lines:
    """The data lines of a parallel port."""

    def __init__(self, port: object = None) -> None:
        self.port, self.values = port, []

    def setData(self, value: int) -> None:
        self.values.append(value)


def test_a_code_is_a_pulse_on_a_parallel_port(monkeypatch):
    made = []
    parallel = types.SimpleNamespace(Parallel=lambda port: made.append(Lines(port)) or made[-1])
    monkeypatch.setitem(sys.modules, "parallel", parallel)
    ended = CliRunner().invoke(mark_command, ["51", "--parallel-port", "0"], catch_exceptions=False)
    assert "51 sent to the parallel port 0" in ended.output
    assert (made[0].port, made[0].values) == (0, [51, 0])


def test_a_parallel_port_has_eight_lines():
    with pytest.raises(SourceError, match="from 1 to 255, got 256"):
        send_pulse(Lines(), 256)


def test_pyparallel_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "parallel", None)
    with pytest.raises(SourceError, match="pip install pyparallel"):
        open_parallel_port("0")


def test_one_way_to_set_a_mark_is_given():
    ended = CliRunner().invoke(mark_command, ["5", "--to", "x", "--parallel-port", "0"])
    assert ended.exit_code == 2
