"""Simulated run logs of simulated teams, for tests and for the leaderboard without teams.

The logs follow the timing of the rules. `skill` is the probability of a right answer; all teams with
the same `seed` get the same trials.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tracks.common.angles import ANGLE_RATE, JOINTS
from tracks.common.codes import BLOCK_END, BLOCK_START, TRIAL_END, TRIAL_START
from tracks.registry import TRACKS
from tracks.turing import TASKS_OF_BEHAVIOUR

LogLine = dict[str, Any]
Reports = dict[int, Any]
"""Result by the number of packets after the trial's trigger packet."""


@dataclass
class SimulatedRun:
    """A simulated run of one team on one track."""

    track: str
    team: str
    skill: float = 0.8
    subjects: int = 1
    blocks: int = 1
    trials: int = 5
    seed: int = 0
    latency_s: float = 0.02
    end: str = "finished"
    detail: str = ""
    _start: int = field(default=0, init=False)
    _seconds: float = field(default=0.0, init=False)
    _samples: int = field(default=0, init=False)
    _truth_rows: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._trial_random = np.random.default_rng(self.seed)
        self._answer_random = np.random.default_rng([self.seed, *self.team.encode()])
        self._rate = TRACKS[self.track].rate
        self._packet_samples = TRACKS[self.track].packet_samples

    def events(self) -> Iterator[LogLine]:
        """The lines of the log, from `run` to `end`."""
        track = TRACKS[self.track]
        yield {"kind": "run", "v": 1, "track": self.track, "team": self.team, "rules": {}}
        for subject in range(self.subjects):
            self._samples = self._truth_rows = 0
            yield {
                "kind": "session",
                "subject": f"S{subject + 1:02d}",
                "rate": self._rate,
                "leads": track.choose_leads or len(track.leads),
                "packet_samples": self._packet_samples,
            }
            for block in range(self.blocks):
                self._start = 0
                yield self._packet([[0, BLOCK_START]])
                yield from SCRIPTS[self.track](self, block)
                yield self._packet([[0, BLOCK_END]])
        yield {"kind": "end", "reason": self.end, "detail": self.detail, "t": self._seconds}

    def _packet(self, triggers: list[list[int]]) -> LogLine:
        n, start = self._packet_samples, self._start
        self._start += n
        self._samples += n
        self._seconds += n / self._rate
        return {
            "kind": "packet", "start": start, "n": n, "triggers": triggers, "t": self._seconds,
        }  # fmt: skip

    def _report(self, result: object) -> LogLine:
        elapsed_s = float(self.latency_s * self._answer_random.lognormal(0.0, 0.5))
        return {"kind": "report", "result": result, "elapsed_s": elapsed_s, "t": self._seconds}

    def _answer(self, wanted: int) -> int:
        """The right class with probability `skill`, otherwise another one."""
        others = [number for number in TRACKS[self.track].classes if number != wanted]
        if self._answer_random.random() < self.skill:
            return wanted
        return int(self._answer_random.choice(others))

    def _packets(
        self, packets: int, triggers: dict[int, int], reports: Reports | None = None
    ) -> Iterator[LogLine]:
        """Packets, with the triggers and the reports that come after the k-th of them."""
        for k in range(packets):
            yield self._packet([[0, triggers[k]]] if k in triggers else [])
            if reports and k in reports:
                yield self._report(reports[k])

    def _label(self, block: int, label: int) -> LogLine:
        return {"kind": "truth", "block": block, "label": label}


def _mi(run: SimulatedRun, block: int) -> Iterator[LogLine]:
    for _ in range(run.trials):
        wanted = int(run._trial_random.integers(1, 4))
        yield run._label(block, wanted)
        yield from run._packets(50, {})
        reports = {k: run._answer(wanted) for k in (49, 74, 98)}
        yield from run._packets(101, {0: 200, 50: 202, 75: 203, 100: TRIAL_END}, reports)
        yield from run._packets(50, {})


def _turing(run: SimulatedRun, block: int) -> Iterator[LogLine]:
    for _ in range(run.trials):
        behaviour = int(run._trial_random.integers(1, 10))
        wanted = int(run._trial_random.choice(sorted(TASKS_OF_BEHAVIOUR[behaviour])))
        yield run._label(block, wanted)
        yield from run._packets(75, {0: TRIAL_START})
        when = int(run._answer_random.integers(25, 115))
        reports = {when: run._answer(wanted)}
        yield from run._packets(252, {0: 8 * behaviour, 251: TRIAL_END}, reports)


def _erp(run: SimulatedRun, block: int) -> Iterator[LogLine]:
    for _ in range(run.trials):
        wanted = int(run._trial_random.integers(1, 37))
        yield run._label(block, wanted)
        yield from run._packets(26, {0: 101})
        used = int(run._answer_random.integers(1, 6))
        for sequence in range(5):
            order = run._trial_random.permutation(12) + 1
            flashes = {int(3.75 * k): int(flash) for k, flash in enumerate(order)}
            reports = {46: run._answer(wanted)} if sequence + 1 == used else {}
            yield from run._packets(66, flashes | {45: 200}, reports)
        yield from run._packets(2, {0: TRIAL_END})


def _emotion(run: SimulatedRun, block: int) -> Iterator[LogLine]:
    for _ in range(run.trials):
        wanted = int(run._trial_random.integers(0, 9))
        length_s = int(run._trial_random.integers(12, 20))
        clip = {"block": block, "start": run._start, "end": run._start + length_s * 250}
        yield {"kind": "truth", "clips": [clip | {"label": wanted}]}
        reports = {k: run._answer(wanted) for k in range(4, 5 * length_s, 5)}
        yield from run._packets(5 * length_s, {}, reports)
        yield from run._packets(10, {}, {4: 0, 9: 0})


def _ecog(run: SimulatedRun, block: int) -> Iterator[LogLine]:
    packets, rows_a_packet = 75, 8
    for _ in range(run.trials):
        first = run._samples * ANGLE_RATE // run._rate
        last = first + packets * rows_a_packet
        # Truth has a row for every 5 ms of the session, between the trials too.
        angles = _walk(run._trial_random, run._truth_rows, last - run._truth_rows)
        run._truth_rows = last
        trial = {"block": block, "start": first, "end": last}
        yield {"kind": "truth", "angles": angles.round(2).tolist(), "trials": [trial]}
        walked = angles[-packets * rows_a_packet :]
        drift = np.cumsum(run._answer_random.normal(0, 6 * (1 - run.skill), walked.shape), axis=0)
        reported = (walked + drift).round(2)
        for k in range(packets):
            yield run._packet([[0, TRIAL_START]] if k == 0 else [])
            yield run._report(reported[8 * k : 8 * k + 8].tolist())
        yield from run._packets(1, {0: TRIAL_END})


def _walk(random: np.random.Generator, first: int, rows: int) -> "np.ndarray[Any, Any]":
    """Joint angles with a period of 0.8 s, each with its own phase and amplitude."""
    seconds = (first + np.arange(rows)) / ANGLE_RATE
    phases = np.linspace(0, 2 * np.pi, len(JOINTS), endpoint=False)
    amplitude = 10 + 20 * random.random(len(JOINTS))
    swing = np.sin(2 * np.pi * seconds[:, None] / 0.8 + phases)
    return np.asarray(90 + amplitude * swing + 0.3 * amplitude * swing**2)


SCRIPTS: Final[dict[str, Callable[[SimulatedRun, int], Iterator[LogLine]]]] = {
    "mi": _mi,
    "turing": _turing,
    "erp": _erp,
    "emotion": _emotion,
    "ecog": _ecog,
}
