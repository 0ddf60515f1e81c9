"""A contest in real processes, faults in them, and what must hold afterwards.

The teams' decoder has the right answer to every trial, so each trial that is not void must be right: what a
fault costs a team shows at once. Used by tests/faults, scripts/faults.py and scripts/soak.py.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bci_stream.contest.contest import load_contest
from bci_stream.runlog import score_run
from replay.player.plan import make_plan
from replay.service import secret_seed
from replay.sources import open_source
from tests.processes import Processes
from tracks.common.verdicts import Verdict
from tracks.erp import TARGETS

WAIT_S = 120.0
POLL_S = 0.02
PRIORITY = -10

SPELLER = '''
import json
from pathlib import Path

ANSWERS = json.loads((Path(__file__).parent / "answers.json").read_text())


class Speller:
    """Reports the right character at the end of a trial's first sequence."""

    def start(self, info):
        self._answers = ANSWERS[info.subject]
        self._answer = None

    def step(self, packet):
        reports = []
        for offset, code in packet.triggers:
            if code == 101:
                self._answer = self._answers[str(packet.start + offset)]
            elif code == 200 and self._answer is not None:
                reports.append(self._answer)
                self._answer = None
        return reports
'''


def right_answers(source: str) -> tuple[dict[str, dict[str, str]], int]:
    """Subject -> sample of the trial's trigger -> its character, and the number of packets."""
    plan = make_plan(open_source(source), "erp")
    answers: dict[str, dict[str, str]] = {}
    begun: list[list[int]] = [[] for _ in plan.sessions]
    packets = 0
    for packet in plan.packets():
        packets += 1
        begun[packet.session] += [
            packet.start + offset for offset, code in packet.triggers if code in TARGETS
        ]
    for session, truth, starts in zip(plan.sessions, plan.truths, begun, strict=True):
        assert truth is not None
        (labels,) = truth["blocks"]
        answers[session.subject] = dict(zip(map(str, starts), map(str, labels), strict=True))
    return answers, packets


def wait_for(what: str, happened: Callable[[], object], wait_s: float = WAIT_S) -> None:
    """Wait until it has happened; raises TimeoutError."""
    deadline = time.monotonic() + wait_s
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {wait_s:g} s for {what}, which never happened")
        threading.Event().wait(POLL_S)


def let_pass(seconds: float) -> None:
    """Let this time pass, while a process is stopped or a link is down."""
    threading.Event().wait(seconds)


def prefer(pid: int) -> None:
    """Let a process run before the other work of a busy machine, if this user may: a decoder that gets no
    processor time is late by its own fault."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, PRIORITY)


@dataclass
class FaultRig:
    """Replay, judge and teams of one contest on erp, as processes.

    pace: `lockstep`, where each team has a replay of its own, or a factor. prefix: put before the commands of
    a process, by its name: how it is started in a network namespace. limits: of the contest file.
    """

    folder: Path
    pace: str = "8"
    trials: int = 6
    teams: tuple[str, ...] = ("alice", "bob")
    limits: str = "outage_s = 0.5"
    prefix: dict[str, Sequence[str]] = field(default_factory=dict)
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._processes = Processes(self.folder)
        self.running: dict[str, subprocess.Popen[str]] = {}
        self.source = f"synthetic:erp?subjects=1&trials={self.trials}"
        teams = json.dumps(list(self.teams))
        limits = f"[limits]\n{self.limits}\n" if self.limits else ""
        self.contest = self.folder / "contest"
        self.contest.mkdir(exist_ok=True)
        (self.contest / "contest.toml").write_text(
            f'name = "faults"\nteams = {teams if not self.lockstep else "[]"}\n{limits}'
        )
        secret = secret_seed(self.source, load_contest(self.contest))
        answers, self.packets = right_answers(secret)
        (self.folder / "answers.json").write_text(json.dumps(answers))
        (self.folder / "speller.py").write_text(SPELLER)

    def __enter__(self) -> "FaultRig":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.running.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
        self._processes.end()

    @property
    def lockstep(self) -> bool:
        return self.pace == "lockstep"

    # --- processes ----------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Start or restart a process: judge, replay (replay-TEAM in lockstep), or a team."""
        common = ("--contest", str(self.contest), "--wait", "120", *self.options)
        if name == "judge":
            command = ("bci_stream.judge", "live", "--no-web", *common)
        elif name.startswith("replay"):
            team = name.removeprefix("replay").removeprefix("-")
            mine = ("--team", team) if team else ()
            command = ("replay", "start", self.source, "--track", "erp", "--pace", self.pace,
                       "--name", name, "--foreground", *mine, *common)  # fmt: skip
        else:
            command = ("decoders", "--track", "erp", "--decoder", "speller:Speller",
                       "--team", name, *common)  # fmt: skip
        with self.output(name).open("a") as out:
            self.running[name] = self._processes.start_program(
                [*self.prefix.get(name, ()), sys.executable, "-m", *command], stdout=out
            )
        prefer(self.running[name].pid)

    def start_all(self) -> None:
        for name in ("judge", *self.replays, *self.teams):
            self.start(name)

    @property
    def replays(self) -> tuple[str, ...]:
        return tuple(f"replay-{t}" for t in self.teams) if self.lockstep else ("replay",)

    def output(self, name: str) -> Path:
        return self.folder / f"{name}.out"

    def wait_for_end(self, *names: str, code: int | None = 0) -> None:
        """Wait until these processes (all of them if none is named) have exited, with this code."""
        for name in names or tuple(self.running):
            process = self.running[name]
            process.wait(WAIT_S)
            out = self.output(name).read_text()
            assert "Traceback" not in out, f"{name}: {out}"
            if code is not None and process.returncode != code:
                raise AssertionError(f"{name} exited with {process.returncode}: {out}")

    # --- the logs -----------------------------------------------------------------------------

    @property
    def runs(self) -> Path:
        return self.contest / "runs"

    def log_of(self, team: str) -> Path | None:
        """The team's log; None before its run has begun."""
        return next(iter(sorted(self.runs.glob(f"erp-{team}-*.jsonl"))), None)

    def logged(self, team: str) -> list[dict[str, Any]]:
        """Lines of a log that are whole by now."""
        path = self.log_of(team)
        whole = b"" if path is None else path.read_bytes().rpartition(b"\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def packets_logged(self, team: str) -> int:
        path = self.log_of(team)
        return 0 if path is None else path.read_bytes().count(b'"kind":"packet"')

    def wait_for_packets(self, share: float) -> None:
        """Wait until the first team's log has this share of all packets."""
        wanted = int(share * self.packets)
        wait_for(f"{wanted} packets", lambda: self.packets_logged(self.teams[0]) >= wanted)

    def outages(self, team: str) -> list[dict[str, Any]]:
        return [event for event in self.logged(team) if event["kind"] == "outage"]

    def verdicts(self, team: str) -> list[Verdict]:
        path = self.log_of(team)
        assert path is not None
        return score_run(path).verdicts()

    # --- faults -------------------------------------------------------------------------------

    def freeze(self, name: str, seconds: float) -> None:
        """Stop a process with SIGSTOP for this long."""
        process = self.running[name]
        process.send_signal(signal.SIGSTOP)
        let_pass(seconds)
        process.send_signal(signal.SIGCONT)

    def kill(self, name: str) -> None:
        """kill -9, of the process and of all that it has started."""
        process = self.running[name]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)

    def restart(self, name: str) -> None:
        self.kill(name)
        self.start(name)

    # --- what must hold -----------------------------------------------------------------------

    def check_complete(self, *teams: str) -> None:
        """The logs have every packet once, every answer once, and an end."""
        for team in teams or self.teams:
            events = self.logged(team)
            numbers = [event["i"] for event in events if event["kind"] == "packet"]
            assert numbers == list(range(self.packets)), f"{team}: packets are missing or twice"
            reports = [event["n"] for event in events if event["kind"] == "report"]
            assert len(reports) == len(set(reports)) == self.trials, (
                f"{team}: {len(reports)} reports"
            )
            ends = [event["reason"] for event in events if event["kind"] == "end"]
            assert ends == ["finished"], f"{team}: {ends}"

    def check_no_point_lost(self, *teams: str) -> None:
        """Every trial that is not void is right, as it is without a fault."""
        for team in teams or self.teams:
            verdicts = self.verdicts(team)
            assert len(verdicts) == self.trials
            wrong = [v for v in verdicts if not v.void and v.right != (True,)]
            assert not wrong, f"{team}: {wrong}, outages {self.outages(team)}"

    def check_same_for_all(self) -> None:
        """All teams have the same outages and the same void trials."""
        void = {team: [v.key for v in self.verdicts(team) if v.void] for team in self.teams}
        assert len({tuple(keys) for keys in void.values()}) == 1, void

    def check_outage_near(self, packet: int, code: str, least_s: float) -> None:
        """All teams have an outage of this cause and at least this length, about at this packet."""
        for team in self.teams:
            found = [
                outage
                for outage in self.outages(team)
                if outage["to"] >= packet and outage["why"]["code"] == code
            ]
            longest_s = max((o["why"]["parameters"]["outage_s"] for o in found), default=-1.0)
            assert longest_s >= least_s, f"{team}: {self.outages(team)}"
