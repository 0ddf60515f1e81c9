"""`doctor`: each check finds what it is for, and the exit code follows."""

import json
import shutil
import socket
import subprocess
from collections import namedtuple
from pathlib import Path

import pytest
from click.testing import CliRunner

from bci_stream import doctor
from bci_stream.doctor import Finding
from bci_stream.errors import NotFoundError
from bci_stream.judge.cli import main
from bci_stream.judge.run_command import submission_findings
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.network import NetworkSettings
from bci_stream.wire.transport import FoundStream, StreamSpec

Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "FIND_S", 0.0)
    monkeypatch.setattr("bci_stream.wire.lsl.stream_host", lambda found: found.name)


@pytest.mark.parametrize(
    ("free", "state"), [(100 << 20, "fail"), (1 << 30, "note"), (10 << 30, "ok")]
)
def test_a_disk_with_little_room(monkeypatch, tmp_path: Path, free: int, state: str) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, free))
    (finding,) = doctor.disk(tmp_path / "not" / "there")
    assert finding.state == state
    assert bool(finding.remedy) == (state != "ok")
    assert str(tmp_path) in finding.found


@pytest.mark.parametrize(("governor", "state"), [("powersave", "note"), ("performance", "ok")])
def test_the_cpu_governor(tmp_path: Path, governor: str, state: str) -> None:
    for cpu in ("cpu0", "cpu1"):
        folder = tmp_path / cpu / "cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text(f"{governor}\n")
    finding = next(doctor.processors(tmp_path))
    assert (finding.check, finding.state, finding.found) == ("CPU governor", state, governor)


def test_ports_that_others_have_are_counted() -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        (finding,) = doctor.ports(NetworkSettings(ports=(port, 1)))
    assert (finding.state, finding.found) == ("fail", f"0 of {port}-{port} are free")
    assert "--ports" in finding.remedy


def test_without_multicast_peers_are_needed(monkeypatch) -> None:
    monkeypatch.setattr(doctor, "_multicast_fault", lambda: "Network is unreachable")
    (alone,) = doctor.multicast("link", NetworkSettings())
    assert (alone.state, alone.remedy) == ("fail", "name the other hosts with --peer")
    (named,) = doctor.multicast("link", NetworkSettings(peers=("a",)))
    assert named.state == "note"
    assert list(doctor.multicast("machine", NetworkSettings())) == []


def test_an_active_firewall_is_noted(monkeypatch, tmp_path: Path) -> None:
    program = tmp_path / "ufw"
    program.write_text("#!/bin/sh\necho 'Status: active'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (finding,) = doctor.firewall()
    assert (finding.state, finding.found) == ("note", "ufw: active")
    assert "docs/hosts.md" in finding.remedy


def test_a_missing_extra_is_named(monkeypatch) -> None:
    monkeypatch.setattr(doctor, "EXTRAS", {"there": "json", "nwb": "no_such_module"})
    there, missing = doctor.optional_parts()
    assert (there.state, there.found) == ("ok", "there")
    assert (missing.state, missing.found) == ("note", "not installed: nwb")
    assert "bci-stream[nwb]" in missing.remedy


class Unopened(MemoryTransport):
    def text_inlet(
        self, found: FoundStream, timeout_s: float, most_texts: int = 0, **_: bool
    ) -> None:
        raise NotFoundError(f"stream {found.name!r} was seen but could not be opened")


def test_an_own_stream_that_is_found_and_opened() -> None:
    transport = MemoryTransport()
    with doctor.doctor_stream(transport):
        (finding,) = doctor.streams(transport, NetworkSettings())
    assert finding == Finding("streams here", "ok", "a stream is found and opened")


def test_an_own_stream_that_is_not_found() -> None:
    (finding,) = doctor.streams(MemoryTransport(), NetworkSettings())
    assert finding.state == "fail"
    assert "not found" in finding.found


def test_hosts_are_listed_with_their_clocks_and_peers_that_are_missing() -> None:
    transport = MemoryTransport()
    transport.text_outlet(StreamSpec("amp", "Markers", "bci-doctor/1/10.0.0.7+fd00::7"))
    network = NetworkSettings(peers=("10.0.0.7", "10.0.0.8", "no-such-host.invalid"))
    _, absent, unnamed, host = doctor.streams(transport, network)
    assert (absent.check, absent.state) == ("peer 10.0.0.8", "fail")
    assert "doctor --stay" in absent.remedy
    assert (unnamed.state, unnamed.found) == ("fail", "has no address")
    assert host.check == "host amp (10.0.0.7, fd00::7)"
    assert host.found == "1 stream seen and opened, clock offset +0.0000 s, jitter 0.00 ms"


def test_the_own_stream_names_addresses_that_others_can_reach() -> None:
    assert not [a for a in doctor.own_addresses() if a.startswith(("127.", "fe80:"))]
    stream = FoundStream("bci-doctor", "", doctor.own_source_id(), "uid", None)
    assert doctor.addresses_of(stream) == tuple(doctor.own_addresses())
    assert doctor.addresses_of(FoundStream("x", "", "bci/c/truth/r", "uid", None)) == ()


def test_a_host_whose_streams_can_not_be_opened() -> None:
    transport = Unopened()
    transport.text_outlet(StreamSpec("amp", "Markers", "bci-doctor/1/10.0.0.7+fd00::7"))
    _, host = doctor.streams(transport, NetworkSettings())
    assert host.state == "fail"
    assert "could not be opened" in host.found
    assert "TCP" in host.remedy


@pytest.mark.parametrize(("state", "code"), [("ok", 0), ("note", 0), ("fail", 1)])
def test_the_command_fails_where_a_contest_would(monkeypatch, state, code: int) -> None:
    monkeypatch.setattr("bci_stream.cli.open_wire", lambda *_: MemoryTransport())
    monkeypatch.setattr(doctor, "examine", lambda *_: iter([Finding("x", state, "y", "do z")]))
    shown = CliRunner().invoke(main, ["doctor"])
    assert shown.exit_code == code
    assert "x: y -> do z" in shown.output
    as_json = CliRunner().invoke(main, ["doctor", "--json"])
    assert as_json.exit_code == code
    assert json.loads(as_json.stdout) == [
        {"check": "x", "state": state, "found": "y", "remedy": "do z"}
    ]


def test_how_submissions_are_contained_is_asked_of_bci_decode() -> None:
    checks = {finding.check for finding in submission_findings()}
    assert {"sandbox", "environments"} <= checks


def test_a_bci_decode_that_does_not_answer_is_a_note(monkeypatch) -> None:
    ended = subprocess.CompletedProcess([], 1, "", "broken")
    monkeypatch.setattr("bci_stream.judge.run_command.subprocess.run", lambda *_, **__: ended)
    (finding,) = submission_findings()
    assert (finding.state, finding.found) == ("note", "could not be checked")
