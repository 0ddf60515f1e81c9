"""A contest over two subnets, without multicast: every host is found by --peer alone.

The organiser's hosts (replay, judge) are in one subnet, the teams in another. A router stands between them
that forwards no multicast, and within the subnets multicast and broadcast are dropped as well. The replay's
host may have a clock of its own. Only root can make the namespaces.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bci_stream.contest.contest import load_contest
from scripts.fault_rig import FaultRig
from tests.namespaces import Namespaces, made_or_skipped

pytestmark = [pytest.mark.lsl, pytest.mark.slow, pytest.mark.timeout(300)]

ADDRESSES = {
    "replay": "10.78.1.1",
    "judge": "10.78.1.2",
    "alice": "10.78.2.1",
    "bob": "10.78.2.2",
}
IPV6 = {
    name: address.replace("10.78.", "fd78::").replace(".", ":")
    for name, address in ADDRESSES.items()
}
CLOCK_OFFSET_S = 5000
PORTS = "16600-16663"


class RoutedNetwork(Namespaces):
    """Two subnets; the hub has a bridge for each, and routes between them."""

    def make(self) -> None:
        super().make()
        for setting in ("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"):
            self.ip("netns", "exec", self.hub, "sysctl", "-qw", setting)
        for subnet in ("1", "2"):
            bridge = ("dev", f"subnet{subnet}")
            self.ip("-n", self.hub, "link", "add", *bridge, "type", "bridge")
            self.ip("-n", self.hub, "addr", "add", f"10.78.{subnet}.254/24", *bridge)
            self.ip("-n", self.hub, "addr", "add", f"fd78::{subnet}:254/112", *bridge, "nodad")
            self.ip("-n", self.hub, "link", "set", *bridge, "up")
        for host, address in ADDRESSES.items():
            self._add_host(host, address, address.split(".")[2])

    def _add_host(self, host: str, address: str, subnet: str) -> None:
        inside = self.connect(host, f"subnet{subnet}", f"{address}/24", f"{IPV6[host]}/112")
        self.ip("-n", inside, "link", "set", "lan", "multicast", "off")
        self.ip("-n", inside, "route", "add", "default", "via", f"10.78.{subnet}.254")
        self.ip("-n", inside, "-6", "route", "add", "default", "via", f"fd78::{subnet}:254")
        # Neither multicast nor broadcast leaves this host, whatever liblsl tries.
        self.ip("-n", inside, "route", "add", "prohibit", "224.0.0.0/4")
        self.ip("-n", inside, "route", "add", "prohibit", "255.255.255.255/32")


@pytest.fixture
def network() -> Iterator[RoutedNetwork]:
    network = RoutedNetwork("bcr")
    with made_or_skipped(network):
        yield network


def own_clock() -> tuple[str, ...]:
    """How a process gets a clock that is 5000 s ahead of this machine's; empty where that is not possible."""
    command = ("unshare", "--time", f"--monotonic={CLOCK_OFFSET_S}", "--fork", "--kill-child")
    try:
        done = subprocess.run([*command, "true"], capture_output=True, timeout=20, check=False)
    except OSError:
        return ()
    return command if done.returncode == 0 else ()


class RoutedRig(FaultRig):
    """Gives each process the peers that it needs: a team those of the organiser alone, in its file."""

    addresses = ADDRESSES

    def start(self, name: str) -> None:
        needed = ("replay", "judge") if name in self.teams else tuple(self.addresses)
        peers = [self.addresses[other] for other in needed if other != name]
        self.options = (*(word for peer in peers for word in ("--peer", peer)), "--ports", PORTS)
        if name == "bob":
            self._start_with_team_file(name, peers)
        else:
            super().start(name)

    def _start_with_team_file(self, name: str, peers: list[str]) -> None:
        """As on the team's own machine, which has nothing of the contest but this file."""
        contest = load_contest(self.contest)
        path = contest.keys.team_file(name, contest.name, contest.results)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"peers": peers}))
        command = ("decoders", "--track", "erp", "--decoder", "speller:Speller",
                   "--team-file", str(path), "--wait", "120", "--ports", PORTS)  # fmt: skip
        with self.output(name).open("a") as out:
            self.running[name] = self._processes.start_program(
                [*self.prefix[name], sys.executable, "-m", *command], stdout=out
            )


def prefixes(network: RoutedNetwork, clock: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    made = {host: ("ip", "netns", "exec", network.namespace(host)) for host in ADDRESSES}
    return made | {"replay": (*made["replay"], *clock)}


def test_a_contest_across_a_router_is_scored_right(network: RoutedNetwork, tmp_path: Path) -> None:
    clock = own_clock()
    with RoutedRig(tmp_path, pace="8", trials=3, prefix=prefixes(network, clock)) as rig:
        rig.start_all()
        rig.wait_for_end()
        rig.check_complete()
        rig.check_no_point_lost()
        rig.check_same_for_all()
        assert not rig.outages("alice")
        if clock:
            logged = rig.output("judge").read_text()
            found = re.search(r"replay replay: clock offset ([-+0-9.]+) s; its times", logged)
            assert found is not None, logged
            assert float(found[1]) == pytest.approx(-CLOCK_OFFSET_S, abs=1)


def test_the_same_over_ipv6(network: RoutedNetwork, tmp_path: Path) -> None:
    with RoutedRig(tmp_path, pace="lockstep", trials=2, teams=("alice",)) as rig:
        rig.prefix = prefixes(network, ()) | {
            "replay-alice": ("ip", "netns", "exec", network.namespace("replay"))
        }
        rig.addresses = {**IPV6, "replay-alice": IPV6["replay"]}
        rig.start_all()
        rig.wait_for_end()
        rig.check_complete()
        rig.check_no_point_lost()
