"""Chance decoders: what a contest must beat. They know nothing, and report when a decoder would.

Not at once: in real time the judge takes a grace off what a report used, and one made on a trial's
first packet would then lie before the trial and be refused.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Packet, SignalInfo
from decoders.emotion.features import SecondCounter
from decoders.mi.trials import ImageryTrials, Windows
from tracks.common.angles import ANGLE_RATE
from tracks.common.codes import TRIAL_END
from tracks.erp import CHARACTERS, FIRST_TARGET, SEQUENCE_END, TARGETS
from tracks.mi import CLASSES as MI_CLASSES
from tracks.turing import TASKS_OF_BEHAVIOUR

RESTING_ANGLES = (120.0, 125.0, 170.0, 185.0, 105.0, 125.0, 140.0, 195.0)
"""About where sho elb wri mcp hip kne ank mtp rest, in degrees."""
TURING_S = 1.0
"""Data that a guess at a task uses: about the least that tells anything of a flicker."""


class ErpChance:
    """A random character, at the end of the first sequence."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def start(self, info: SignalInfo) -> None:
        del info
        self._rng = np.random.default_rng(self._seed)
        self._asked = False

    def step(self, packet: Packet) -> Sequence[int]:
        reports: list[int] = []
        for _, code in packet.triggers:
            if code in TARGETS:
                self._asked = True
            elif self._asked and code in (SEQUENCE_END, TRIAL_END):
                self._asked = False
                reports.append(FIRST_TARGET + int(self._rng.integers(len(CHARACTERS))))
        return reports


class MiChance:
    """A random class for each of the three windows, at its end."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def start(self, info: SignalInfo) -> None:
        self._rng = np.random.default_rng(self._seed)
        self._trials = ImageryTrials(Windows.of(info), self)

    def step(self, packet: Packet) -> Sequence[int]:
        return self._trials.step(packet)

    def begin(self) -> None:
        """A trial begins: that says nothing of its class."""

    def add(self, x: NDArray[np.floating]) -> None:
        """What is seen is not looked at."""

    def look(self) -> None:
        """Nor where looking would begin."""

    def decide(self, number: int, last: bool) -> int:
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
    """The tasks that a trigger leaves open; none where it begins no trial."""
    return tuple(TASKS_OF_BEHAVIOUR.get(code >> 3, ())) if code < 128 else ()


class EmotionChance:
    """A random class after each second."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def start(self, info: SignalInfo) -> None:
        self._rng = np.random.default_rng(self._seed)
        self._seconds = SecondCounter(info.packet_samples)

    def step(self, packet: Packet) -> list[int]:
        over = [stretch for stretch in self._seconds.stretches(packet) if stretch.completes]
        return [int(self._rng.integers(9)) for _ in over]


class EcogConstant:
    """The joints at rest, for ever."""

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
        return [[list(RESTING_ANGLES)] * rows] if rows else []
