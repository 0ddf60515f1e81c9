"""Where LSL looks: the settings of liblsl that follow from options, environment and LSLAPICFG."""

import configparser
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bci_stream.cli import Commands, wire_options
from bci_stream.errors import WireError
from bci_stream.wire.network import (
    INTERFACE,
    PEERS,
    PORTS,
    NetworkSettings,
    add_peers,
    config,
    default_scope,
    interface_address,
    parse_ports,
)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (PEERS, INTERFACE, PORTS, "LSLAPICFG"):
        monkeypatch.setenv(name, "")


def settings(text: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    return {f"{s}.{key}": value for s in parser.sections() for key, value in parser.items(s)}


def test_on_machine_scope_nothing_but_this_machine_is_searched() -> None:
    assert settings(config("machine", "s")) == {
        "ports.PortRange": "512",
        "ports.IPv6": "disable",
        "log.level": "-3",
        "tuning.ContinuousResolveInterval": "0.5",
        "multicast.ResolveScope": "machine",
        "multicast.AddressesOverride": "{127.0.0.1}",
        "lab.KnownPeers": "{127.0.0.1}",
        "lab.SessionID": "s",
    }


def test_peers_are_asked_beside_this_machine() -> None:
    got = settings(config("site", "s", NetworkSettings(peers=("a.lab", "10.0.0.7"))))
    assert got["lab.KnownPeers"] == "{a.lab, 10.0.0.7, 127.0.0.1}"
    assert got["multicast.ResolveScope"] == "site"
    assert "multicast.AddressesOverride" not in got


def test_an_ipv6_peer_allows_ipv6() -> None:
    assert settings(config("link", "s"))["ports.IPv6"] == "disable"
    got = settings(config("link", "s", NetworkSettings(peers=("fd00::7",))))
    assert got["ports.IPv6"] == "allow"
    assert got["lab.KnownPeers"] == "{fd00::7, 127.0.0.1}"


def test_ports_and_interface() -> None:
    got = settings(config("link", "s", NetworkSettings((), "127.0.0.1", (20000, 64))))
    assert (got["ports.BasePort"], got["ports.PortRange"]) == ("20000", "64")
    assert got["multicast.ListenAddress"] == "127.0.0.1"


@pytest.fixture
def lab_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "lsl_api.cfg"
    path.write_text(
        "[lab]\nKnownPeers = {amp.lab}\nSessionID = hall\n"
        "[ports]\nIPv6 = allow\n[multicast]\nResolveScope = organization\nTTLOverride = 9\n"
    )
    monkeypatch.setenv("LSLAPICFG", str(path))
    return path


def test_the_file_of_lslapicfg_counts_where_no_option_says_otherwise(lab_file: Path) -> None:
    assert default_scope() == "config"
    got = settings(config("config", "default", NetworkSettings(peers=("10.0.0.7",))))
    assert got["lab.KnownPeers"] == "{amp.lab, 10.0.0.7, 127.0.0.1}"
    assert got["lab.SessionID"] == "hall"
    assert got["ports.IPv6"] == "allow"
    assert got["ports.PortRange"] == "512"
    assert (got["multicast.ResolveScope"], got["multicast.TTLOverride"]) == ("organization", "9")


def test_a_scope_and_a_session_of_the_command_come_before_the_file(lab_file: Path) -> None:
    got = settings(config("link", "mine"))
    assert got["multicast.ResolveScope"] == "link"
    assert "multicast.TTLOverride" not in got
    assert got["lab.SessionID"] == "mine"


@pytest.mark.parametrize("text", [None, "no section\n"])
def test_a_file_that_can_not_be_used_is_named(lab_file: Path, text: str | None) -> None:
    lab_file.unlink() if text is None else lab_file.write_text(text)
    with pytest.raises(WireError, match=f"LSLAPICFG names {lab_file}"):
        config("config", "s")


def test_without_a_file_the_scope_is_this_machine() -> None:
    assert default_scope() == "machine"


def test_ports_are_first_and_last() -> None:
    assert parse_ports("16572-16635") == (16572, 64)
    for text in ("16572", "x-y", "17000-16000", "80-400", "16572-16573", "65530-65540"):
        with pytest.raises(WireError, match="ports"):
            parse_ports(text)


def test_an_interface_is_named_or_given_by_its_address() -> None:
    assert interface_address("127.0.0.1") == "127.0.0.1"
    assert interface_address("lo") in ("127.0.0.1", "::1")
    with pytest.raises(
        WireError, match=r"no network interface 'eth77' here; there are .*127\.0\.0\.1"
    ):
        interface_address("eth77")


def test_a_team_files_peers_join_those_of_the_command(monkeypatch) -> None:
    monkeypatch.setenv(PEERS, "a b")
    add_peers(["b", "c"])
    assert NetworkSettings.of_environment().peers == ("a", "b", "c")
    with pytest.raises(WireError, match="is no host"):
        add_peers(["{x, y}"])


@click.group(cls=Commands)
def program() -> None:
    pass


@program.command()
@wire_options
def show(scope: str, lsl_session: str, **_: object) -> None:
    click.echo(config(scope, lsl_session))  # type: ignore[arg-type]


def test_options_reach_the_settings_and_the_processes_that_are_started() -> None:
    words = ["show", "--peer", "a", "--peer", "b", "--interface", "lo", "--ports", "17000-17099"]
    ended = CliRunner().invoke(program, [*words, "--scope", "link"])
    assert ended.exit_code == 0, ended.output
    got = settings(ended.output)
    assert got["lab.KnownPeers"] == "{a, b, 127.0.0.1}"
    assert (got["ports.BasePort"], got["ports.PortRange"]) == ("17000", "100")
    # Without the options, from the environment: as in a process that the command starts.
    assert settings(config("link", "default")) == got | {
        "lab.SessionID": "default",
        "multicast.ResolveScope": "link",
    }


@pytest.mark.parametrize(
    "words", [["--peer", "a b"], ["--interface", "eth77"], ["--ports", "5"], ["--scope", "galaxy"]]
)
def test_wrong_options_are_usage_errors(words: list[str]) -> None:
    ended = CliRunner().invoke(program, ["show", *words])
    assert ended.exit_code == 2
    assert words[0] in ended.output
