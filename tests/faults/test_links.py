"""Links that are cut and heal: replay, judge and teams in network namespaces of their own.

Only root can make the namespaces.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.fault_rig import FaultRig, let_pass
from tests.namespaces import Namespaces, made_or_skipped

pytestmark = [pytest.mark.lsl, pytest.mark.slow, pytest.mark.timeout(300)]

MEMBERS = ("replay", "judge", "alice", "bob")
CUT_S = 1.0
"""TCP sends again 1.4 or 3 s after the first loss. An outage of the link counts for twice that time, since a
team's messages may wait longer than packets: after a longer cut it could last until the next one."""


class Network(Namespaces):
    """One bridge, and each member on it."""

    def make(self) -> None:
        super().make()
        self.ip("-n", self.hub, "link", "add", "bridge", "type", "bridge", "mcast_snooping", "0")
        self.ip("-n", self.hub, "link", "set", "bridge", "up")
        for number, member in enumerate(MEMBERS, 1):
            inside = self.connect(member, "bridge", f"10.77.0.{number}/24")
            self.ip("-n", inside, "route", "add", "224.0.0.0/4", "dev", "lan")

    def cut(self, member: str) -> None:
        self.ip("-n", self.hub, "link", "set", member, "down")

    def heal(self, member: str) -> None:
        self.ip("-n", self.hub, "link", "set", member, "up")


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network("bci")
    with made_or_skipped(network):
        yield network


@pytest.fixture
def rig(network: Network, tmp_path: Path) -> Iterator[FaultRig]:
    prefix = {name: ("ip", "netns", "exec", network.namespace(name)) for name in MEMBERS}
    with FaultRig(tmp_path, pace="3", trials=4, prefix=prefix, options=("--scope", "link")) as made:
        made.start_all()
        yield made


def test_a_link_of_the_organisers_that_is_cut_costs_no_team_a_point(
    rig: FaultRig, network: Network
) -> None:
    before = []
    for share, member in ((0.2, "judge"), (0.6, "replay")):
        rig.wait_for_packets(share)
        before.append(rig.packets_logged("alice"))
        network.cut(member)
        let_pass(CUT_S)
        network.heal(member)
    rig.wait_for_end()
    rig.check_complete()
    rig.check_no_point_lost()
    rig.check_same_for_all()
    for team in rig.teams:
        ends = [outage["to"] for outage in rig.outages(team)]
        assert any(before[0] <= end < before[1] for end in ends)
        assert any(end >= before[1] for end in ends)


def test_a_teams_own_link_that_is_cut_is_no_outage_and_costs_the_others_nothing(
    rig: FaultRig, network: Network
) -> None:
    rig.wait_for_packets(0.3)
    network.cut("bob")
    let_pass(CUT_S)
    network.heal("bob")
    rig.wait_for_end()
    rig.check_complete()  # bob's packets and reports came late, but they came
    rig.check_no_point_lost("alice")
    places = [[(o["from"], o["to"]) for o in rig.outages(team)] for team in rig.teams]
    assert places[0] == places[1]
