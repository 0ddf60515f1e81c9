"""`bci-judge doctor` and `bci-decode doctor`: can a contest be held here, and if not, what is to be done.

Each check gives findings: `ok`, `note` (a contest can be held, but look at it) or `fail` (it can not).
"""

import importlib.util
import json
import os
import platform
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from bci_stream.errors import NotFoundError, WireError
from bci_stream.wire.network import FIRST_PORT, PORT_COUNT, NetworkSettings, Scope
from bci_stream.wire.transport import FoundStream, StreamSpec, Transport

FindingState = Literal["ok", "note", "fail"]

PREFIX = "bci-doctor/"
"""Of the source ids of the doctors' own streams."""

FIND_S = 6.0
"""How long streams are looked for: three waves of questions to peers."""

OPEN_S = 5.0
OFFSETS = 4
"""How often the clock of a host is compared with ours."""

FEWEST_PORTS = 16
LEAST_DISK, SMALL_DISK = 200 << 20, 2 << 30
MOST_JITTER_S = 0.005
LATE_SLEEP_S = 0.01

EXTRAS = {
    "postgres": "psycopg",
    "moabb": "moabb",
    "matlab73": "h5py",
    "nwb": "pynwb",
    "bci2000": "BCI2kReader",
    "formats": "antio",
}
"""Extras of the package, and a module that each one installs."""


@dataclass(frozen=True)
class Finding:
    """One line: what was checked, what was found, and what to do about it."""

    check: str
    state: FindingState
    found: str
    remedy: str = ""


def versions() -> Iterator[Finding]:
    from bci_stream.wire.lsl import lsl_version

    own = metadata.version("bci-stream")
    python = f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    yield Finding("versions", "ok", f"bci-stream {own}, {lsl_version()}, {python}")


def disk(folder: Path) -> Iterator[Finding]:
    """Room for run logs and states."""
    place = next(p for p in (folder, *folder.resolve().parents) if p.exists())
    free = shutil.disk_usage(place).free
    state: FindingState = "fail" if free < LEAST_DISK else "note" if free < SMALL_DISK else "ok"
    writable = os.access(place, os.W_OK)
    if not writable:
        yield Finding("disk", "fail", f"{place} can't be written", "choose another folder")
        return
    remedy = "" if state == "ok" else "make room: an hour of a run takes about 30 MB a team"
    yield Finding("disk", state, f"{free / (1 << 30):.1f} GiB free at {place}", remedy)


def processors(governors: Path = Path("/sys/devices/system/cpu")) -> Iterator[Finding]:
    """The CPU governor, the load, and how late a sleep ends."""
    set_to = {p.read_text().strip() for p in governors.glob("cpu*/cpufreq/scaling_governor")}
    if not set_to:
        yield Finding("CPU governor", "ok", "not shown by this system")
    elif set_to <= {"performance"}:
        yield Finding("CPU governor", "ok", "performance")
    else:
        remedy = "for a live final: cpupower frequency-set -g performance"
        yield Finding("CPU governor", "note", ", ".join(sorted(set_to)), remedy)
    if hasattr(os, "getloadavg"):
        load, cores = os.getloadavg()[0], os.cpu_count() or 1
        busy = load > cores
        found = f"load {load:.1f} on {cores} cores"
        yield Finding("load", "note" if busy else "ok", found, "end other programs" if busy else "")
    late_s = sorted(_sleep_lateness(0.001) for _ in range(200))[-3]
    late = late_s > LATE_SLEEP_S
    remedy = (
        "packets would be late: end other programs, or take a machine of its own" if late else ""
    )
    yield Finding(
        "timing", "note" if late else "ok", f"sleeps end {late_s * 1000:.1f} ms late", remedy
    )


def _sleep_lateness(seconds: float) -> float:
    begun = time.perf_counter()
    time.sleep(seconds)
    return time.perf_counter() - begun - seconds


def optional_parts() -> Iterator[Finding]:
    missing = [
        extra for extra, module in EXTRAS.items() if importlib.util.find_spec(module) is None
    ]
    there = [extra for extra in EXTRAS if extra not in missing]
    if there:
        yield Finding("optional parts", "ok", ", ".join(there))
    if missing:
        remedy = f"if you need them: pip install 'bci-stream[{','.join(missing)}]'"
        yield Finding("optional parts", "note", f"not installed: {', '.join(missing)}", remedy)


def ports(network: NetworkSettings) -> Iterator[Finding]:
    """How many of LSL's ports are free here."""
    first, count = network.ports or (FIRST_PORT, PORT_COUNT)
    free = sum(_is_free(port) for port in range(first, first + count))
    enough = free >= min(FEWEST_PORTS, count)
    remedy = "" if enough else "end other programs with LSL streams, or choose others with --ports"
    found = f"{free} of {first}-{first + count - 1} are free"
    yield Finding("ports", "ok" if enough else "fail", found, remedy)


def _is_free(port: int) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("", port))
            except OSError:
                return False
    return True


FIREWALLS = {"ufw": ("status", "Status: active"), "firewall-cmd": ("--state", "running")}
"""Programs that show whether a firewall is active: their argument, and what they print then."""


def firewall() -> Iterator[Finding]:
    """A firewall of this machine; whether it lets LSL pass is shown by the hosts that are seen."""
    for program, (argument, active) in FIREWALLS.items():
        if path := shutil.which(program):
            done = subprocess.run([path, argument], capture_output=True, text=True, timeout=20)
            if done.stdout.strip().startswith(active):
                remedy = "let LSL's ports pass from the other hosts; see docs/hosts.md"
                yield Finding("firewall", "note", f"{program}: active", remedy)
                return
    yield Finding("firewall", "ok", f"neither of {', '.join(FIREWALLS)} is active here")


def multicast(scope: Scope, network: NetworkSettings) -> Iterator[Finding]:
    """Whether a multicast text comes back to this machine through its network interface."""
    if scope == "machine":
        return
    fault = _multicast_fault()
    if fault is None:
        yield Finding("multicast", "ok", "works on this machine; switches may still drop it")
        return
    needed = not network.peers
    remedy = "name the other hosts with --peer" if needed else ""
    yield Finding("multicast", "fail" if needed else "note", f"does not work: {fault}", remedy)


MULTICAST_GROUP = "239.255.172.215"
"""The group in which LSL looks at the scope `site`."""


def _multicast_fault() -> str | None:
    try:
        with (
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        ):
            receiver.bind(("", 0))
            membership = socket.inet_aton(MULTICAST_GROUP) + socket.inet_aton("0.0.0.0")
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
            receiver.settimeout(2.0)
            sender.sendto(b"bci-doctor", (MULTICAST_GROUP, receiver.getsockname()[1]))
            receiver.recv(64)
    except OSError as error:
        return error.strerror or "nothing came back"
    return None


# --- streams ---------------------------------------------------------------------------------------


@contextmanager
def doctor_stream(transport: Transport) -> Iterator[None]:
    """Keep a stream open that this and other hosts' doctors look for."""
    outlet = transport.text_outlet(StreamSpec("bci-doctor", "BCI-Doctor", own_source_id()))
    try:
        yield
    finally:
        outlet.close()


def own_source_id() -> str:
    """Names this process and the addresses of this host, which LSL itself does not send."""
    return f"{PREFIX}{os.getpid()}/{'+'.join(own_addresses())}"


def own_addresses() -> list[str]:
    """This host's addresses, without loopback and link-local ones."""
    import psutil

    listed = [
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    ]
    return [a for a in listed if not a.startswith(("127.", "fe80:")) and a != "::1"]


def addresses_of(stream: FoundStream) -> tuple[str, ...]:
    """The addresses of the host of a doctor's stream; empty for any other stream."""
    if not stream.source_id.startswith(PREFIX):
        return ()
    return tuple(filter(None, stream.source_id.rpartition("/")[2].split("+")))


def streams(transport: Transport, network: NetworkSettings) -> Iterator[Finding]:
    """Whether streams are found and opened: our own, those of each peer, and of every host seen."""
    watch = transport.watch("")
    try:
        time.sleep(FIND_S)
        found = watch.found()
    finally:
        watch.close()
    own = [stream for stream in found if stream.source_id == own_source_id()]
    yield _own_stream(transport, own)
    yield from _hosts(transport, network, [s for s in found if s not in own])


def _own_stream(transport: Transport, found: Sequence[FoundStream]) -> Finding:
    remedy = "let UDP and TCP on LSL's ports pass on this machine's loopback; see docs/hosts.md"
    if not found:
        return Finding("streams here", "fail", "a stream of this machine is not found", remedy)
    try:
        transport.text_inlet(found[0], OPEN_S).close()
    except (NotFoundError, WireError) as error:
        return Finding("streams here", "fail", str(error), remedy)
    return Finding("streams here", "ok", "a stream is found and opened")


def _hosts(
    transport: Transport, network: NetworkSettings, found: Sequence[FoundStream]
) -> Iterator[Finding]:
    from bci_stream.wire.lsl import stream_host

    by_host: dict[tuple[str, tuple[str, ...]], list[FoundStream]] = {}
    for stream in found:
        by_host.setdefault((stream_host(stream), addresses_of(stream)), []).append(stream)
    for peer in network.peers:
        addresses = _addresses(peer)
        seen = [host for host in by_host if host[0] == peer or addresses & set(host[1])]
        if not addresses:
            yield Finding(
                f"peer {peer}", "fail", "has no address", "check the name, or give an address"
            )
        elif not seen:
            yield Finding(
                f"peer {peer}",
                "fail",
                "no stream of it is seen",
                "start `bci-judge doctor --stay` or `bci-decode doctor --stay` there; if it runs, a "
                "firewall or another --ports or --lsl-session is between; see docs/hosts.md",
            )
    for (name, known), streams_there in sorted(by_host.items()):
        at = f" ({', '.join(known)})" if known else ""
        yield _host(transport, f"host {name}{at}", streams_there)


def _addresses(peer: str) -> set[str]:
    try:
        return {str(info[4][0]) for info in socket.getaddrinfo(peer, None)}
    except OSError:
        return set()


def _host(transport: Transport, check: str, found: Sequence[FoundStream]) -> Finding:
    """Open a stream of a host several times, which compares the clocks each time."""
    offsets: list[float] = []
    count = f"{len(found)} stream{'' if len(found) == 1 else 's'}"
    text = next((s for s in found if s.source_id.startswith(PREFIX)), found[0])
    try:
        for _ in range(OFFSETS):
            inlet = transport.text_inlet(text, OPEN_S)
            offsets.append(inlet.clock_offset_s())
            inlet.close()
    except WireError as error:
        remedy = "let TCP on LSL's ports pass there; see docs/hosts.md"
        return Finding(check, "fail", f"{count} seen, but {error}", remedy)
    jitter_s = max(offsets) - min(offsets)
    state: FindingState = "note" if jitter_s > MOST_JITTER_S else "ok"
    remedy = "use a cable: reports would arrive late and unevenly" if state == "note" else ""
    facts = f"clock offset {statistics.median(offsets):+.4f} s, jitter {jitter_s * 1000:.2f} ms"
    return Finding(check, state, f"{count} seen and opened, {facts}", remedy)


# --- the command -----------------------------------------------------------------------------------


def examine(
    transport: Transport,
    scope: Scope,
    folder: Path,
    more: Sequence[Callable[[], Iterator[Finding]]] = (),
) -> Iterator[Finding]:
    """All findings, as they are made. more: checks of the package that calls."""
    network = NetworkSettings.of_environment()
    yield from versions()
    yield from disk(folder)
    yield from processors()
    yield from ports(network)
    yield from multicast(scope, network)
    yield from firewall()
    yield from streams(transport, network)
    for check in more:
        yield from check()
    yield from optional_parts()


MARKS: dict[FindingState, tuple[str, str]] = {
    "ok": ("✔", "green"),
    "note": ("!", "yellow"),
    "fail": ("✘", "red"),
}


def print_findings(findings: Iterator[Finding], as_json: bool) -> bool:
    """Print them; returns whether a contest can be held."""
    kept: list[Finding] = []
    if as_json:
        kept = list(findings)
        print(json.dumps([asdict(finding) for finding in kept], indent=1))
        return not any(finding.state == "fail" for finding in kept)
    from rich.console import Console
    from rich.text import Text

    console = Console(soft_wrap=True, highlight=False)
    for finding in findings:
        kept.append(finding)
        mark, style = MARKS[finding.state]
        line = Text.assemble((f"{mark} ", style), f"{finding.check}: {finding.found}")
        if finding.remedy:
            line.append(f" -> {finding.remedy}", "bold")
        console.print(line)
    failed = sum(finding.state == "fail" for finding in kept)
    console.print(
        "a contest can be held here" if not failed else f"{failed} of these must be repaired"
    )
    return not failed
