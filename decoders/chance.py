"""Chance decoders: random or constant results at the times when a decoder would report.

Not on a trial's first packet: in real time the judge subtracts a grace from the data that a report
used, so such a report would fall before the trial and be refused.
"""

from collections.abc import Sequence

import numpy as np

from bci_stream.packet import Packet, SignalInfo
from decoders.mi.trials import ImageryTrials, Windows
from tracks.common.angles import ANGLE_RATE
from tracks.common.codes import TRIAL_END
from tracks.erp import CHARACTERS, FIRST_TARGET, SEQUENCE_END, TARGETS
from tracks.mi import CLASSES as MI_CLASSES
from tracks.turing import TASKS_OF_BEHAVIOUR

RESTING_ANGLES = (120.0, 125.0, 170.0, 185.0, 105.0, 125.0, 140.0, 195.0)
"""Approximate resting angles of sho elb wri mcp hip kne ank mtp, in degrees."""
TURING_S = 1.0
"""Data used by a guess: about the least that carries information about a flicker."""


class ErpChance:
    """A random character, at the end of the first sequence."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def start(self, info: SignalInfo) -> None:
        del info
        self._rng = np.random.default_rng(self._seed)
        self._pending = False

    def step(self, packet: Packet) -> Sequence[int]:
        reports: list[int] = []
        for _, code in packet.triggers:
            if code in TARGETS:
                self._pending = True
            elif self._pending and code in (SEQUENCE_END, TRIAL_END):
                self._pending = False
                reports.append(FIRST_TARGET + int(self._rng.integers(len(CHARACTERS))))
        return reports


class MiChance:
    """A random class for each of the three windows, at its end."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def start(self, info: SignalInfo) -> None:
        self._rng = np.random.default_rng(self._seed)
        self._trials = ImageryTrials(Windows.of(info), None, self._guess)

    def step(self, packet: Packet) -> Sequence[int]:
        return self._trials.step(packet)

    def _guess(self, number: int, last: bool) -> int:
        del number, last
        return int(self._rng.choice(sorted(MI_CLASSES)))


class TuringChance:
    """A random one of the tasks that the robots' behaviour allows, after a second."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def start(self, info: SignalInfo) -> None:
        self._rng = np.random.default_rng(self._seed)
        self._samples = TURING_S * info.rate
        self._tasks: tuple[int, ...] = ()
        self._used = 0

    def step(self, packet: Packet) -> Sequence[int]:
        self._used += packet.n
        over = bool(self._tasks) and self._used >= self._samples
        reports = [int(self._rng.choice(self._tasks))] if over else []
        if over:
            self._tasks = ()
        for _, code in packet.triggers:
            if tasks := tasks_of(code):
                self._tasks, self._used = tasks, 0
        return reports


def tasks_of(code: int) -> tuple[int, ...]:
    """The tasks that a trigger allows; empty if it does not begin a trial."""
    return tuple(TASKS_OF_BEHAVIOUR.get(code >> 3, ())) if code < 128 else ()


class EmotionChance:
    """A random class after each second."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def start(self, info: SignalInfo) -> None:
        self._rng = np.random.default_rng(self._seed)
        # Here, because its module imports scipy.signal, which takes a second.
        from decoders.emotion.features import SecondCounter

        self._seconds = SecondCounter(info.packet_samples)

    def step(self, packet: Packet) -> list[int]:
        spans = self._seconds.spans(packet)
        return [int(self._rng.integers(9)) for span in spans if span.completes]


class EcogConstant:
    """Constant angles."""

    def __init__(self, angles: Sequence[float] = RESTING_ANGLES) -> None:
        self._angles = list(angles)

    def choose(self, info: SignalInfo, count: int) -> list[int]:
        """The first leads."""
        return list(range(1, min(count, len(info.leads)) + 1))

    def start(self, info: SignalInfo) -> None:
        self._rate = info.rate
        self._seen = 0

    def step(self, packet: Packet) -> list[list[list[float]]]:
        before = int(self._seen * ANGLE_RATE / self._rate)
        self._seen += packet.n
        rows = int(self._seen * ANGLE_RATE / self._rate) - before
        return [[self._angles] * rows] if rows else []
