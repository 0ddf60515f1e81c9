"""Chance decoders: what a contest must beat. They report in time, and know nothing."""

from collections.abc import Sequence

import numpy as np

from bci_stream.packet import Packet, SignalInfo
from decoders.seconds import Seconds
from tracks.angles import ANGLE_RATE
from tracks.erp import CHARACTERS, FIRST_TARGET, TARGETS
from tracks.mi import CLASSES as MI_CLASSES
from tracks.mi import IMAGERY_START, LIMITS_S
from tracks.turing import TASKS_OF_BEHAVIOUR

RESTING_ANGLES = (120.0, 125.0, 170.0, 185.0, 105.0, 125.0, 140.0, 195.0)
"""About where sho elb wri mcp hip kne ank mtp rest, in degrees."""


class _Guess:
    """Reports on the first packet after a trial's trigger packet."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def start(self, info: SignalInfo) -> None:
        del info
        self._rng = np.random.default_rng(self._seed)
        self._due: list[int] = []

    def step(self, packet: Packet) -> Sequence[int]:
        reports, self._due = self._due, []
        for _, code in packet.triggers:
            self._due = self._guesses(code) or self._due
        return reports

    def _guesses(self, code: int) -> list[int]:
        raise NotImplementedError


class ErpChance(_Guess):
    """A random character."""

    def _guesses(self, code: int) -> list[int]:
        if code not in TARGETS:
            return []
        return [FIRST_TARGET + int(self._rng.integers(len(CHARACTERS)))]


class MiChance(_Guess):
    """A random class for each of the three windows."""

    def _guesses(self, code: int) -> list[int]:
        if code != IMAGERY_START:
            return []
        return [int(k) for k in self._rng.choice(sorted(MI_CLASSES), size=len(LIMITS_S))]


class TuringChance(_Guess):
    """A random one of the tasks that the robots' behaviour allows."""

    def _guesses(self, code: int) -> list[int]:
        tasks = TASKS_OF_BEHAVIOUR.get(code >> 3, ()) if code < 128 else ()
        return [int(self._rng.choice(tasks))] if tasks else []


class EmotionChance:
    """A random class after each second."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def start(self, info: SignalInfo) -> None:
        self._rng = np.random.default_rng(self._seed)
        self._seconds = Seconds(info.packet_samples)

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
