"""Faults in real processes over LSL: an organiser's fault costs no team a point, and nothing is lost.

Every decoder has the right answers, so a trial that is neither right nor void is a point lost. On a busy
machine there may be further outages, which is why no test asks how many there are.
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.fault_rig import FaultRig, let_pass, wait_for

pytestmark = [pytest.mark.lsl, pytest.mark.slow, pytest.mark.timeout(300)]

STALL_S = 1.5
SHORT: dict[str, Any] = {"pace": "4", "trials": 3}
"""Twelve seconds, in which a judge can start again."""
Rigs = Callable[..., FaultRig]


@pytest.fixture
def rigs(tmp_path: Path) -> Iterator[Rigs]:
    made: list[FaultRig] = []

    def start(pace: str, **options: Any) -> FaultRig:
        rig = FaultRig(tmp_path / "rig", pace=pace, **options)
        made.append(rig)
        rig.start_all()
        return rig

    yield start
    for rig in made:
        rig.__exit__()


def check_fair(rig: FaultRig) -> None:
    rig.wait_for_end()
    rig.check_complete()
    rig.check_no_point_lost()
    rig.check_same_for_all()


def cut_last_line(rig: FaultRig) -> None:
    """Cut the last line of the log of every run that goes on: in lockstep the second team's run may not have
    begun, or be over."""
    written = (log for log in map(rig.log_of, rig.teams) if log is not None)
    logs = [log for log in written if b'"kind":"end"' not in log.read_bytes()]
    assert logs
    for log in logs:
        os.truncate(log, log.stat().st_size - 20)


class TestRealTime:
    def test_a_stall_of_the_organisers_is_an_outage_for_all(self, rigs: Rigs) -> None:
        rig = rigs(**SHORT)
        before = {}
        for share, name in ((0.2, "replay"), (0.5, "judge")):
            rig.wait_for_packets(share)
            before[name] = rig.packets_logged("alice")
            rig.freeze(name, STALL_S)
        check_fair(rig)
        for name, packet in before.items():
            rig.check_outage_near(packet, f"outage_{name}", 0.9 * STALL_S)

    def test_a_judge_that_is_killed_in_mid_line_is_an_outage_until_the_next_one_judges(
        self, rigs: Rigs
    ) -> None:
        rig = rigs(**SHORT)
        rig.wait_for_packets(0.3)
        before = rig.packets_logged("alice")
        rig.kill("judge")
        cut_last_line(rig)
        rig.start("judge")
        check_fair(rig)
        rig.check_outage_near(before - 1, "outage_judge", 0.0)

    def test_a_worker_that_stands_still_or_is_killed_costs_the_other_team_nothing(
        self, rigs: Rigs
    ) -> None:
        rig = rigs("4", trials=7)  # long enough for a worker to start again on a busy machine
        rig.wait_for_packets(0.05)
        rig.freeze("bob", STALL_S)
        rig.restart("bob")
        rig.wait_for_end()
        rig.check_complete("alice")
        rig.check_no_point_lost("alice")
        places = [[(o["from"], o["to"]) for o in rig.outages(team)] for team in rig.teams]
        assert places[0] == places[1]  # none of his own
        numbers = [event["i"] for event in rig.logged("bob") if event["kind"] == "packet"]
        assert numbers == list(range(rig.packets))
        verdicts = rig.verdicts("bob")
        assert verdicts[-1].void or verdicts[-1].right == (True,)

    def test_a_replay_that_is_killed_ends_the_runs_as_they_stand(self, rigs: Rigs) -> None:
        rig = rigs(**SHORT, limits="outage_s = 0.5\nreturn_s = 1.0")
        rig.wait_for_packets(0.5)
        rig.kill("replay")
        rig.wait_for_end("judge")
        for team in rig.teams:
            events = rig.logged(team)
            (end,) = [event for event in events if event["kind"] == "end"]
            assert end["reason"] == "stopped"
            numbers = [event["i"] for event in events if event["kind"] == "packet"]
            assert numbers == list(range(len(numbers)))
            first = rig.verdicts(team)[0]
            assert first.void or first.right == (True,)
        assert rig.packets_logged("alice") == rig.packets_logged("bob")


class TestLockstep:
    def test_stalls_change_nothing(self, rigs: Rigs) -> None:
        rig = rigs("lockstep", teams=("alice",), trials=12)
        rig.wait_for_packets(0.1)
        for name in ("alice", "replay-alice", "judge"):
            rig.freeze(name, STALL_S)
        check_fair(rig)
        assert not rig.outages("alice")  # no rule of erp is about time

    def test_a_judge_killed_in_mid_line_changes_nothing(self, rigs: Rigs) -> None:
        rig = rigs("lockstep", teams=("alice", "bob"))
        rig.wait_for_packets(0.1)
        rig.kill("judge")
        cut_last_line(rig)
        rig.start("judge")
        check_fair(rig)
        assert not rig.outages("alice")

    def test_a_killed_worker_returns_where_it_was(self, rigs: Rigs) -> None:
        # On a busy machine a worker may need more than the usual 10 s to start.
        limits = "outage_s = 0.5\nreturn_s = 100.0"
        rig = rigs("lockstep", teams=("alice",), trials=8, limits=limits)
        rig.wait_for_packets(0.1)
        rig.restart("alice")
        rig.wait_for_end()
        numbers = [event["i"] for event in rig.logged("alice") if event["kind"] == "packet"]
        assert numbers == list(range(rig.packets))
        wrong = [v for v in rig.verdicts("alice") if v.right != (True,)]
        assert len(wrong) <= 1  # the trial in which it was killed


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 600 kB, which one log fills in mid-run."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(["mount", *options], check=False).returncode != 0:
        pytest.skip("only root can mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_stops_the_judge_and_the_next_one_goes_on(
    rigs: Rigs, small_disk: Path, tmp_path: Path
) -> None:
    runs = tmp_path / "rig" / "contest" / "runs"
    runs.parent.mkdir(parents=True)
    runs.symlink_to(small_disk)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(700_000))
    rig = rigs("8")
    wait_for("the judge to stop", lambda: rig.running["judge"].poll() is not None)
    assert rig.running["judge"].returncode == 1
    out = rig.output("judge").read_text()
    assert "No space left" in out
    assert "Traceback" not in out
    assert not any(event["kind"] == "end" for team in rig.teams for event in rig.logged(team))
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    let_pass(0.5)
    rig.start("judge")
    check_fair(rig)
