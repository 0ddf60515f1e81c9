"""Marks reach the running device, and only from the user it belongs to."""

import json
import math
import os
import socket
import stat

import pytest

from replay.devices.manual_triggers import (
    ManualTriggerError,
    ManualTriggers,
    ManualTriggerServer,
    send_trigger,
)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "marks"


def test_a_mark_is_taken_once(folder):
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


def test_a_folder_of_somebody_else_is_not_used(folder, monkeypatch):
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


def test_without_a_device_there_is_nothing_to_mark(folder):
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


def test_a_device_that_carries_marks_itself_takes_them_at_once():
    box, taken = ManualTriggers(), []
    box.sink = taken.append
    box.put(9)
    assert (taken, box.take(math.inf)) == ([9], [])
