"""A contest that goes on and on, with faults at random: nothing may be lost, and memory must stay flat.

    python -m scripts.soak --seconds 3600

Eight teams on erp in real time, one contest after the other until the time is over. In each of them the
judge or the replay stands still, or the judge is killed and started again, at random. The judge's and the
replay's memory is measured all the time; a contest's later half must not need more than its earlier one.
"""

import argparse
import random
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from scripts.fault_rig import FaultRig, let_pass

TEAMS = tuple(f"team{k}" for k in range(1, 9))
MEASURE_EVERY_S = 1.0
WARM_S = 10.0
"""How long after its start a process may still load its libraries and fill its buffers."""

MB_A_PACKET = 0.004
SPARE_MB = 40.0
"""The replay's journal and the judge's lists grow with each packet, by less than this."""


@dataclass
class MemoryCurve:
    """Resident memory in MB of one process, over time in s."""

    begun: float
    points: list[tuple[float, float]] = field(default_factory=list)

    def add(self, pid: int, now: float) -> None:
        try:
            rss = psutil.Process(pid).memory_info().rss
        except psutil.Error:
            return  # it has ended
        if now - self.begun > WARM_S:
            self.points.append((now - self.begun, rss / 1e6))

    def growth_mb(self) -> float:
        """The median of the last quarter less that of the first one; 0 if it was too short."""
        quarter = len(self.points) // 4
        if not quarter:
            return 0.0
        sizes = [size for _, size in self.points]
        first, last = sorted(sizes[:quarter]), sorted(sizes[-quarter:])
        return last[quarter // 2] - first[quarter // 2]


@dataclass
class SoakResult:
    """faults: how many of each kind. growth_mb: the most that a process grew. peak_mb: by process."""

    contests: int = 0
    packets: int = 0
    void: int = 0
    trials: int = 0
    faults: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    growth_mb: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    peak_mb: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def text(self) -> str:
        faults = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.items()))
        memory = ", ".join(
            f"{name} at most {self.peak_mb[name]:.0f} MB, grew by {self.growth_mb[name]:.1f} MB"
            for name in sorted(self.peak_mb)
        )
        return (
            f"{self.contests} contests, {self.packets} packets, {self.trials} trials of teams "
            f"({self.void} void); faults: {faults or 'none'}; {memory}"
        )


class SoakContest:
    """One contest under faults; `run` raises AssertionError if something is lost."""

    def __init__(
        self,
        folder: Path,
        rng: random.Random,
        result: SoakResult,
        *,
        pace: str,
        trials: int,
        fault_every_s: float,
    ) -> None:
        self._rig = FaultRig(folder, pace=pace, trials=trials, teams=TEAMS)
        self._rng = rng
        self._result = result
        self._fault_every_s = fault_every_s
        self._curves: dict[int, tuple[str, MemoryCurve]] = {}

    def run(self) -> None:
        with self._rig as rig:
            rig.start_all()
            rig.wait_for_packets(0.01)
            fault_at = time.monotonic() + self._rng.uniform(1.0, 5.0)
            while rig.packets_logged(TEAMS[0]) < 0.9 * rig.packets:
                self._measure()
                let_pass(MEASURE_EVERY_S)
                if time.monotonic() > fault_at:
                    self._cause_fault()
                    fault_at = time.monotonic() + self._rng.uniform(0.5, 1.5) * self._fault_every_s
            rig.wait_for_end()
            rig.check_complete()
            rig.check_no_point_lost()
            rig.check_same_for_all()
            self._count()

    def _cause_fault(self) -> None:
        fault = self._rng.choice(("replay stopped", "judge stopped", "judge killed"))
        self._result.faults[fault] += 1
        if fault == "judge killed":
            self._rig.restart("judge")
        else:
            self._rig.freeze(fault.split()[0], self._rng.uniform(0.7, 3.0))

    def _measure(self) -> None:
        now = time.monotonic()
        for name in ("judge", "replay"):
            pid = self._rig.running[name].pid
            _, curve = self._curves.setdefault(pid, (name, MemoryCurve(now)))
            curve.add(pid, now)

    def _count(self) -> None:
        result = self._result
        result.contests += 1
        result.packets += self._rig.packets
        for team in TEAMS:
            verdicts = self._rig.verdicts(team)
            result.trials += len(verdicts)
            result.void += sum(verdict.void for verdict in verdicts)
        for name, curve in self._curves.values():
            growth, allowed = curve.growth_mb(), SPARE_MB + MB_A_PACKET * self._rig.packets
            assert growth < allowed, f"{name} grew by {growth:.0f} MB, more than {allowed:.0f}"
            peak = max((size for _, size in curve.points), default=0.0)
            result.growth_mb[name] = max(result.growth_mb[name], growth)
            result.peak_mb[name] = max(result.peak_mb[name], peak)


def soak(
    seconds: float, seed: int, *, pace: str, trials: int, fault_every_s: float = 15.0
) -> SoakResult:
    """Run contests until the time is over, at least one."""
    result, rng = SoakResult(), random.Random(seed)
    deadline = time.monotonic() + seconds
    while not result.contests or time.monotonic() < deadline:
        with tempfile.TemporaryDirectory(prefix="bci-soak-") as folder:
            SoakContest(
                Path(folder), rng, result, pace=pace, trials=trials, fault_every_s=fault_every_s
            ).run()
        print(result.text(), flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pace", default="2")
    parser.add_argument("--trials", type=int, default=60)
    given = parser.parse_args()
    soak(given.seconds, given.seed, pace=given.pace, trials=given.trials)


if __name__ == "__main__":
    main()
