"""The commands devices, emulate and mark, as a user types them."""

import json
import math
import os
import pty
import re
import signal
import subprocess
import sys
import tty

import click
import pytest
from click.testing import CliRunner

from bci_stream.errors import BciError, SourceError
from replay.devices.emulator.encoders import PROTOCOLS
from replay.devices.manual_triggers import ManualTriggers, ManualTriggerServer
from replay.devices.registry import all_device_rows, open_device
from replay.tools.commands import PROTOCOL_NAMES, devices_command, emulate_command, mark_command


def run(command: click.Command, *arguments: str) -> str:
    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_boards_of_the_facts_are_listed_with_rate_leads_and_needs():
    rows = {row.uri: row for row in all_device_rows()}
    facts = {
        "SYNTHETIC": (250, 16), "CYTON": (250, 8), "GANGLION": (200, 4), "CYTON_DAISY": (125, 16),
        "UNICORN": (250, 8), "MUSE_2": (256, 4), "FREEEEG32": (512, 32),
    }  # fmt: skip
    for name, (rate, leads) in facts.items():
        row = rows[f"brainflow:{name}_BOARD"]
        assert (row.rate, row.leads) == (rate, leads)
    assert rows["brainflow:CYTON_BOARD"].needs == "serial_port"
    assert rows["brainflow:PLAYBACK_FILE_BOARD"].needs == "file, master_board"
    for name in ("IRONBCI_32_BOARD", "SHIMMER3_BOARD"):
        assert rows[f"brainflow:{name}"].needs == "serial_port"
    assert rows["brainflow:NTL_WIFI_BOARD"].needs == "ip_port"
    for name in ("EXPLORE_8_CHAN_BOARD", "BRAINALIVE_BOARD", "BIOLISTENER_BOARD"):
        assert rows[f"brainflow:{name}"].needs == "nothing"


def test_devices_prints_a_table_and_json():
    table = run(devices_command)
    assert "neuracle://HOST:8712?protocol=jellyfish" in table
    assert re.search(r"brainflow:CYTON_BOARD +250 +8 +serial_port", table)
    rows = json.loads(run(devices_command, "--json"))["devices"]
    assert {"uri", "rate", "leads", "needs", "names"} == set(rows[0])


def test_the_command_offers_every_protocol():
    assert tuple(PROTOCOLS) == PROTOCOL_NAMES


def test_mark_command_reaches_the_running_device():
    box = ManualTriggers()
    server = ManualTriggerServer(box, "neuracle")
    try:
        assert run(mark_command, "51") == "51 set on neuracle\n"
    finally:
        server.close()
    assert [code for code, _ in box.take(math.inf)] == [51]


def test_mark_command_through_a_trigger_box():
    ours, theirs = pty.openpty()
    try:
        tty.setraw(theirs)
        port = os.ttyname(theirs)
        assert f"TriggerBox at {port}" in run(mark_command, "51", "--trigger-box", port)
        assert os.read(ours, 64).hex() == "01e1010033"
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize("code", ["0", "65536", "x"])
def test_a_wrong_code_is_a_usage_error(code):
    assert CliRunner().invoke(mark_command, [code]).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--fault", "explode"], "'explode' is no fault"),
        (["--fault", "stall@x"], "'stall@x' is no fault"),
        (["--fault", "big-endian", "--protocol", "heeg"], "can't happen with --protocol heeg"),
        (["--lead-in", "soon"], "--lead-in must be"),
        (["--subject", "Nobody"], "has no subject 'Nobody'"),
    ],
)
def test_wrong_arguments_of_emulate_are_reported(arguments, message):
    source = "synthetic:erp?subjects=1&trials=1"
    result = CliRunner().invoke(emulate_command, ["neuracle", source, "--port", "0", *arguments])
    assert isinstance(result.exception, BciError)
    assert message in str(result.exception)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_emulator_without_a_client_ends_on_a_signal(number, processes):
    code = (
        "from replay.tools.commands import emulate_command as e; "
        "e(['neuracle', 'synthetic:erp?subjects=1&trials=1', '--port', '0'])"
    )
    command = [sys.executable, "-u", "-c", code]
    process = processes.start_program(command, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert "waits for a client at 127.0.0.1:" in process.stdout.readline()
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")


def test_brainflow_needs_no_setuptools() -> None:
    """In a process of its own, where pkg_resources can't be imported."""
    script = (
        "import sys; sys.modules['pkg_resources'] = None\n"
        "from replay.devices.boards import find_board\n"
        "from replay.devices.registry import open_device\n"
        "from brainflow.data_filter import DataFilter\n"
        "open_device('brainflow', 'SYNTHETIC', {})\n"
        "print(find_board('SYNTHETIC').rate, DataFilter.get_version())\n"
    )
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.startswith("250 "), ended.stderr


def test_a_missing_module_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise ModuleNotFoundError(name="pkg_resources")

    monkeypatch.setattr("replay.devices.registry.import_module", missing)
    with pytest.raises(SourceError, match="pip install --upgrade brainflow, or"):
        open_device("brainflow", "SYNTHETIC", {})
