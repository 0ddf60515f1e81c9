"""A tape is what an emulated amplifier plays: quiet inputs, then a recording, in equal pieces."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

from bci_stream.packet import FloatArray, Lead, Triggers
from replay.devices.packetiser import Packetiser
from replay.devices.timeline import Placed
from replay.source import RawPacket, Session

QUIET_UV = 1.0
"""The noise of an amplifier whose inputs are shorted: what it sends until the recording begins."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Samples (n, leads) that are sent together; number: of the first one, from the start.

    at_s: its place in the recording; None before the recording begins.
    """

    samples: FloatArray
    triggers: Triggers
    number: int
    at_s: float | None = None


@dataclass
class Tape:
    """quiet: asked with the seconds played so far; the recording begins as soon as it says no.

    hold_samples: how long a trigger stays on its line, by its second in the recording.
    tail_s: how long the quiet inputs are sent after it; an amplifier outlasts the experiment.
    """

    session: Session
    quiet: Callable[[float], bool] = lambda _: False
    seed: int = 0
    hold_samples: Callable[[float], int] = lambda _: 1
    tail_s: float = 0.0
    _random: np.random.Generator = field(init=False)
    _waiting: list[tuple[int, int]] = field(default_factory=list)
    _held: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    @property
    def rate(self) -> float:
        return self.session.rate

    @property
    def leads(self) -> tuple[Lead, ...]:
        return self.session.leads

    def pieces(self, size: int) -> Iterator[Piece]:
        """Blocks follow each other without a seam; then quiet again, for tail_s at least."""
        number = 0
        while self.quiet(number / self.rate):
            yield Piece(self._noise(size), (), number)
            number += size
        cutter = Packetiser(size, stamp=lambda _: 0.0)
        position = 0
        for packet in self.session.packets(size):
            for cut in cutter.push(Placed(packet.samples, packet.triggers, position)):
                yield self._piece(cut, number)
            position += len(packet.samples)
        end = position + round(self.tail_s * self.rate)
        while position < end or position % size:
            quiet = self._noise(size - position % size)
            for cut in cutter.push(Placed(quiet, (), position)):
                yield self._piece(cut, number)
            position += len(quiet)

    def _noise(self, n: int) -> FloatArray:
        return self._random.normal(0, QUIET_UV, (n, len(self.leads))).astype(np.float32)

    def _piece(self, cut: RawPacket, lead_in: int) -> Piece:
        triggers = self._one_a_sample(cut.triggers, cut.start, len(cut.samples))
        return Piece(cut.samples, triggers, lead_in + cut.start, cut.start / self.rate)

    def _one_a_sample(self, triggers: Triggers, start: int, n: int) -> Triggers:
        """An amplifier has one trigger line: the second of two on a sample comes a sample later.

        A trigger that is held ends where the next one begins.
        """
        rises: dict[int, int] = {}
        for offset, code in sorted([*self._waiting, *triggers], key=lambda trigger: trigger[0]):
            while offset in rises:
                offset += 1
            rises[offset] = code
        self._waiting = [(offset - n, code) for offset, code in rises.items() if offset >= n]
        line = []
        code, left = self._held
        for offset in range(n) if rises or left else ():
            if offset in rises:
                code, left = rises[offset], self.hold_samples((start + offset) / self.rate)
            if left:
                line.append((offset, code))
                left -= 1
        self._held = (code, left)
        return tuple(line)
