"""Random faults in a contest of real processes, and how often everything held that must hold.

    python -m scripts.faults --times 5 --out faults.md

For each kind of fault and each pace a contest is begun, the fault comes at a random moment, and at the end
the logs are checked (scripts/fault_rig.py): every packet and report is in the log once, no team has lost a
trial that is not void, and all teams have the same void trials.
"""

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scripts.fault_rig import FaultRig, let_pass

PACE = "4"


@dataclass(frozen=True)
class FaultKind:
    """cause: makes the fault. check: what must hold; innocent teams only where a team itself failed.

    return_s: how long the judge waits for a team or a replay that is gone; on a busy machine a worker may
    need many seconds to start.
    """

    name: str
    cause: Callable[[FaultRig, random.Random], None]
    check: Callable[[FaultRig], None]
    return_s: float = 4.0


def check_all(rig: FaultRig) -> None:
    rig.wait_for_end()
    rig.check_complete()
    rig.check_no_point_lost()
    rig.check_same_for_all()


def check_others(rig: FaultRig) -> None:
    """The last team has failed; the first one must not notice."""
    rig.wait_for_end()
    rig.check_complete(rig.teams[0])
    rig.check_no_point_lost(rig.teams[0])


def check_ended(rig: FaultRig) -> None:
    """Without a replay the runs end as they stand: what was logged is whole, and the same for all."""
    rig.wait_for_end("judge")
    for team in rig.teams if not rig.lockstep else rig.teams[-1:]:
        events = rig.logged(team)
        assert [event["reason"] for event in events if event["kind"] == "end"] == ["stopped"]
        numbers = [event["i"] for event in events if event["kind"] == "packet"]
        assert numbers == list(range(len(numbers)))
        reported = [v for v in rig.verdicts(team) if v.answers and v.answers[0].when is not None]
        assert all(v.void or v.right == (True,) for v in reported)
    if rig.lockstep:
        rig.check_complete(rig.teams[0])
        rig.check_no_point_lost(rig.teams[0])


def _restart_judge(rig: FaultRig, rng: random.Random) -> None:
    rig.kill("judge")
    let_pass(rng.uniform(0.0, 2.0))
    rig.start("judge")


def _cut_log(rig: FaultRig, rng: random.Random) -> None:
    rig.kill("judge")
    for team in rig.teams:
        log = rig.log_of(team)
        if log is not None:
            os.truncate(log, log.stat().st_size - rng.randint(1, 60))
    rig.start("judge")


def _stop(which: int | str) -> Callable[[FaultRig, random.Random], None]:
    def stop(rig: FaultRig, rng: random.Random) -> None:
        name = which if isinstance(which, str) else (*rig.replays, *rig.teams)[which]
        rig.freeze(name, rng.uniform(0.8, 4.0))

    return stop


FAULTS = (
    FaultKind("none", lambda *_: None, check_all),
    FaultKind("replay stands still (SIGSTOP 0.8 to 4 s)", _stop(0), check_all),
    FaultKind("judge stands still (SIGSTOP 0.8 to 4 s)", _stop("judge"), check_all),
    FaultKind("judge killed (kill -9), started again 0 to 2 s later", _restart_judge, check_all),
    FaultKind("judge killed, the last line of each log cut", _cut_log, check_all),
    FaultKind("a team's worker stands still: the other team", _stop(-1), check_others),
    FaultKind(
        "a team's worker killed, started again: the other team",
        lambda rig, _: rig.restart(rig.teams[-1]),
        check_others,
        return_s=60.0,
    ),
    FaultKind(
        "replay killed: the runs end as they stand",
        lambda rig, _: rig.kill(rig.replays[-1]),
        check_ended,
    ),
)


def holds(kind: FaultKind, pace: str, seed: int) -> str:
    """Run one contest with one fault; empty if everything held, else what did not."""
    rng = random.Random(f"{kind.name} {pace} {seed}")
    with tempfile.TemporaryDirectory(prefix="bci-faults-") as folder:
        limits = f"outage_s = 0.5\nreturn_s = {kind.return_s}"
        with FaultRig(Path(folder), pace=pace, trials=6, limits=limits) as rig:
            try:
                rig.start_all()
                rig.wait_for_packets(rng.uniform(0.02, 0.3 if rig.lockstep else 0.8))
                kind.cause(rig, rng)
                kind.check(rig)
            except Exception as error:  # noqa: BLE001 - it is what this script looks for
                return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=5, help="faults of each kind and pace")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="contests at the same time")
    parser.add_argument("--only", default="", help="kinds of fault whose name has this text")
    parser.add_argument("--out", type=Path, help="write the table to this file, too")
    given = parser.parse_args()
    begun = time.monotonic()
    pool = ThreadPoolExecutor(given.jobs)
    lines = ["| fault | lockstep | real time |", "|---|---|---|"]
    failures = []
    for kind in (kind for kind in FAULTS if given.only in kind.name):
        cells = []
        for pace in ("lockstep", PACE):
            seeds = range(given.first_seed, given.first_seed + given.times)
            outcomes = list(pool.map(partial(holds, kind, pace), seeds))
            failures += [f"{kind.name}, pace {pace}: {o}" for o in outcomes if o]
            print(*(f"{kind.name}, pace {pace}: {o}" for o in outcomes if o), sep="\n", end="")
            cells.append(f"{outcomes.count('')} of {len(outcomes)}")
        lines.append(f"| {kind.name} | {cells[0]} | {cells[1]} |")
        print(lines[-1], flush=True)
    minutes = (time.monotonic() - begun) / 60
    lines += [
        "",
        f"Made by `python -m scripts.faults --times {given.times}` in {minutes:.0f} minutes.",
    ]
    print("\n".join([*lines, *failures]))
    if given.out is not None:
        given.out.write_text(HEADER + "\n".join(lines) + "\n")
    raise SystemExit(1 if failures else 0)


HEADER = """# Faults

How often everything held that must hold, in a contest of real processes over LSL on one machine: two teams
on erp with 6 trials, in lockstep (a replay for each team) and in real time at 4 times the pace. The decoders
have the right answers, so a trial that is neither right nor void is a point lost. A cell counts the contests
in which every packet and report was in each log once, every run ended, no team had lost a point, and all
teams had the same void trials. Where a team itself failed, the other team is looked at.

"""


if __name__ == "__main__":
    main()
