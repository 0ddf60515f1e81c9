"""Where LSL looks for streams: scope, peers, interface and ports, as the text of an lsl_api.cfg.

liblsl reads one configuration a process. It is made of our defaults, the file that LSLAPICFG names, and the
options of the command, in this order. Options are kept in environment variables, so that the processes that
a command starts have the same.
"""

import configparser
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from bci_stream.errors import WireError

Scope = Literal["machine", "link", "site", "config"]
"""How far is searched: this machine, this subnet, the site by multicast, or as LSLAPICFG's file has it."""

SCOPES: tuple[str, ...] = get_args(Scope)

LSL_FILE = "LSLAPICFG"
PEERS, INTERFACE, PORTS = "BCI_LSL_PEERS", "BCI_LSL_INTERFACE", "BCI_LSL_PORTS"
"""Environment variables of --peer (separated by commas), --interface and --ports."""

FIRST_PORT, PORT_COUNT = 16572, 512
"""LSL's default of 32 ports allows 32 streams on a machine; a contest has more."""

HERE = "127.0.0.1"
_HOST = re.compile(r"[A-Za-z0-9_.:%-]+")

Sections = dict[str, dict[str, str]]


@dataclass(frozen=True)
class NetworkSettings:
    """What a user chose. peers: hosts that are asked directly. interface: a local address, or its name.

    ports: the first one, and how many; None for the default.
    """

    peers: tuple[str, ...] = ()
    interface: str = ""
    ports: tuple[int, int] | None = None

    @classmethod
    def of_environment(cls) -> "NetworkSettings":
        peers = tuple(filter(None, re.split(r"[,\s]+", os.environ.get(PEERS, ""))))
        ports = os.environ.get(PORTS, "")
        return cls(
            tuple(checked_host(peer) for peer in peers),
            os.environ.get(INTERFACE, ""),
            parse_ports(ports) if ports else None,
        )


def checked_host(text: str) -> str:
    """A host's name or address. Raises WireError."""
    if not _HOST.fullmatch(text):
        raise WireError(f"{text!r} is no host: give a name, or an IPv4 or IPv6 address")
    return text


def parse_ports(text: str) -> tuple[int, int]:
    """FIRST-LAST as (first, count). Raises WireError."""
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal()):
        raise WireError(f"ports {text!r}: give the first and the last, such as 16572-17083")
    begin, end = int(first), int(last)
    if not (1024 <= begin < end <= 65535 and end - begin >= 7):
        raise WireError(
            f"ports {text}: give at least 8 ports from 1024 to 65535, the first one first, such as "
            "16572-17083; a stream takes two"
        )
    return begin, end - begin + 1


def default_scope() -> Scope:
    """`config` where LSLAPICFG names a file, else `machine`: LSL has no access control."""
    return "config" if os.environ.get(LSL_FILE) else "machine"


def add_peers(peers: list[str]) -> None:
    """Add hosts to those that this process, and those that it starts, ask directly.

    It must be called before LSL is used. Raises WireError.
    """
    known = NetworkSettings.of_environment().peers
    new = [checked_host(peer) for peer in peers if peer not in known]
    os.environ[PEERS] = ",".join((*known, *new))


def config(scope: Scope, session: str, network: NetworkSettings | None = None) -> str:
    """liblsl's settings for this process, as the text of an lsl_api.cfg.

    network: by default, what the environment has. Raises WireError for a file of LSLAPICFG that can't be
    read, or an interface that is not there.
    """
    network = network or NetworkSettings.of_environment()
    file = _file_settings()
    settings: Sections = {
        "ports": {"PortRange": str(PORT_COUNT), "IPv6": "disable"},
        "log": {"level": "-3"},
        "tuning": {"ContinuousResolveInterval": "0.5"},
        "multicast": {},
        "lab": {},
    }
    for section, values in file.items():
        settings.setdefault(section, {}).update(values)
    _set_scope(settings, scope)
    _set_peers(settings, scope, network.peers)
    if network.ports is not None:
        settings["ports"] |= {
            "BasePort": str(network.ports[0]),
            "PortRange": str(network.ports[1]),
        }
    if network.interface:
        settings["multicast"]["ListenAddress"] = interface_address(network.interface)
    if any(":" in host for host in (*network.peers, network.interface)):
        settings["ports"]["IPv6"] = "allow"
    own_session = settings["lab"].get("SessionID", session) if session == "default" else session
    settings["lab"]["SessionID"] = own_session
    return _as_text(settings)


def _set_scope(settings: Sections, scope: Scope) -> None:
    """A scope replaces what the file has about multicast; `config` leaves it."""
    if scope == "config":
        return
    settings["multicast"] = {"ResolveScope": scope}
    if scope == "machine":
        settings["multicast"]["AddressesOverride"] = f"{{{HERE}}}"


def _set_peers(settings: Sections, scope: Scope, peers: tuple[str, ...]) -> None:
    listed = settings["lab"].get("KnownPeers", "").strip("{} ")
    known = [peer.strip() for peer in listed.split(",") if peer.strip()]
    known += [peer for peer in peers if peer not in known]
    if (known or scope == "machine") and HERE not in known:
        known.append(HERE)  # without multicast, streams of this machine are found by this alone
    if known:
        settings["lab"]["KnownPeers"] = f"{{{', '.join(known)}}}"


def _file_settings() -> Sections:
    path = os.environ.get(LSL_FILE, "")
    if not path:
        return {}
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(Path(path).expanduser().read_text("utf-8", "replace"), path)
    except OSError as error:
        raise WireError(
            f"{LSL_FILE} names {path}, which can't be read ({error.strerror}); correct or unset it"
        ) from error
    except configparser.Error as error:
        problem = str(error).splitlines()[0]
        raise WireError(f"{LSL_FILE} names {path}, which is no lsl_api.cfg: {problem}") from error
    return {section: dict(parser.items(section)) for section in parser.sections()}


def interface_address(interface: str) -> str:
    """The address of a network interface, by its name or by the address itself. Raises WireError."""
    import socket

    import psutil

    found = {
        name: [a.address for a in addresses if a.family in (socket.AF_INET, socket.AF_INET6)]
        for name, addresses in psutil.net_if_addrs().items()
    }
    if found.get(interface):
        return str(found[interface][0])
    if any(interface in addresses for addresses in found.values()):
        return interface
    listed = ", ".join(f"{name} ({addresses[0]})" for name, addresses in found.items() if addresses)
    raise WireError(f"there is no network interface {interface!r} here; there are {listed}")


def _as_text(settings: Sections) -> str:
    return "".join(
        f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in values.items())
        for section, values in settings.items()
        if values
    )
