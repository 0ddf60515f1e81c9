"""The emulated signal, and encoders that write it in Neuracle's formats."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import gcd

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead, Triggers
from replay.devices.chunk import Packetiser, Placed
from replay.devices.neuracle.heeg import encode_frame
from replay.devices.neuracle.jellyfish_frames import (
    TRIGGER_RATE,
    JellyfishChannel,
    Meta,
    Module,
    encode_data,
    encode_meta,
)
from replay.devices.neuracle.raw import WordKind, encode_rows
from replay.model.source import RawPacket, Session

QUIET_UV = 1.0
"""Noise of an amplifier with shorted inputs, sent before and after the recording."""


@dataclass(frozen=True, slots=True)
class SignalPiece:
    """Samples (n, leads) that are sent together. number: of the first one, from the start.

    at_s: its time in the recording; None before the recording begins.
    """

    samples: FloatArray
    triggers: Triggers
    number: int
    at_s: float | None = None


@dataclass
class EmulatedSignal:
    """A recording between two periods of noise.

    lead_in: called with the seconds played so far; the recording begins when it returns False.
    hold_samples: how long a trigger stays on its line, by its second in the recording.
    tail_s: duration of the noise after the recording.
    """

    session: Session
    lead_in: Callable[[float], bool] = lambda _: False
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

    def pieces(self, size: int) -> Iterator[SignalPiece]:
        """Lead-in, all blocks without a gap between them, and at least tail_s of noise."""
        number = 0
        while self.lead_in(number / self.rate):
            yield SignalPiece(self._noise(size), (), number)
            number += size
        cutter = Packetiser(size, stamp=lambda _: 0.0)
        position = 0
        for packet in self.session.packets(size):
            for cut in cutter.push(Placed(packet.samples, packet.triggers, position)):
                yield self._piece(cut, number)
            position += len(packet.samples)
        end = position + round(self.tail_s * self.rate)
        while position < end or position % size:
            noise = self._noise(size - position % size)
            for cut in cutter.push(Placed(noise, (), position)):
                yield self._piece(cut, number)
            position += len(noise)

    def _noise(self, n: int) -> FloatArray:
        return self._random.normal(0, QUIET_UV, (n, len(self.leads))).astype(np.float32)

    def _piece(self, cut: RawPacket, lead_in: int) -> SignalPiece:
        triggers = self._one_a_sample(cut.triggers, cut.start, len(cut.samples))
        return SignalPiece(cut.samples, triggers, lead_in + cut.start, cut.start / self.rate)

    def _one_a_sample(self, triggers: Triggers, start: int, n: int) -> Triggers:
        """There is one trigger line: the second of two triggers on a sample comes a sample later.

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


SERIAL = 20001


class Encoder(ABC):
    """piece_samples: sent together. acknowledged: the client must answer the greeting first."""

    piece_samples: int
    acknowledged = False

    def greeting(self) -> bytes:
        """The first bytes of a connection."""
        return b""

    @abstractmethod
    def encode(self, piece: SignalPiece) -> bytes: ...


class RawEncoder(Encoder):
    def __init__(self, rate: float, kind: WordKind = "float") -> None:
        self.piece_samples = max(1, round(rate * 0.04))
        self._kind = kind

    def encode(self, piece: SignalPiece) -> bytes:
        return encode_rows(piece.samples, piece.triggers, self._kind)


class HeegEncoder(Encoder):
    def __init__(self, rate: float) -> None:
        self._rate = _whole(rate, "hEEG")
        self.piece_samples = max(1, self._rate // 1000)

    def encode(self, piece: SignalPiece) -> bytes:
        text = str(piece.triggers[0][1]) if piece.triggers else ""
        return encode_frame(piece.samples, self._rate, text)


class JellyfishEncoder(Encoder):
    """whole: leads and trigger in one frame of 40 ms; else frames of 5 ms, and others for triggers."""

    acknowledged = True
    first_ms = 0
    """Device time of the first sample."""

    def __init__(self, rate: float, leads: tuple[Lead, ...], whole: bool = True) -> None:
        self._rate = _whole(rate, "JellyFish")
        self._whole = whole
        # A frame lasts whole milliseconds and holds whole samples.
        grain_ms = TRIGGER_RATE // gcd(self._rate, TRIGGER_RATE)
        self._length_ms = -(-(40 if whole else 5) // grain_ms) * grain_ms
        self.piece_samples = self._length_ms * self._rate // 1000
        self._meta = self._describe(leads)

    def greeting(self) -> bytes:
        return encode_meta(self._meta)

    def encode(self, piece: SignalPiece) -> bytes:
        start_ms = self.first_ms + piece.number * 1000 // self._rate
        channels: list[FloatArray] = list(np.ascontiguousarray(piece.samples.T))
        line = self._trigger_line(piece.triggers)
        if self._whole:
            channels.append(line)
            return encode_data(self._meta.flag, start_ms, self._length_ms, {SERIAL: channels})
        signal = encode_data(self._meta.flag, start_ms, self._length_ms, {SERIAL: channels})
        return signal + b"".join(
            encode_data(self._meta.flag, start_ms + int(ms), 1, {0: [line[ms : ms + 1]]})
            for ms in np.flatnonzero(line)
        )

    def _trigger_line(self, triggers: Triggers) -> FloatArray:
        """The line at 1000 Hz: a code lasts as long as its sample, from its first whole millisecond.

        A sample shorter than a millisecond may contain none; then the one before is used.
        """
        line = np.zeros(self._length_ms, dtype=np.float32)
        for offset, code in triggers:
            begin, end = (-(-i * TRIGGER_RATE // self._rate) for i in (offset, offset + 1))
            line[min(begin, end - 1) : end] = code
        return line

    def _describe(self, leads: tuple[Lead, ...]) -> Meta:
        channels = [
            JellyfishChannel(lead.name, lead.kind, self._rate, self.piece_samples) for lead in leads
        ]
        count = self._length_ms if self._whole else 1
        trigger = JellyfishChannel("Trigger", "Trigger", TRIGGER_RATE, count)
        if self._whole:
            return Meta(0, (Module(SERIAL, "EMULATED", (*channels, trigger), "emulator"),))
        boxes = (Module(SERIAL, "EMULATED", tuple(channels), "emulator"), Module(0, "", (trigger,)))
        return Meta(1, boxes)


def _whole(rate: float, protocol: str) -> int:
    if rate != int(rate):
        raise SourceError(
            f"{protocol} has whole sampling rates only, the recording has {rate:g} Hz"
        )
    return int(rate)


PROTOCOLS: dict[str, Callable[[float, tuple[Lead, ...]], Encoder]] = {
    "raw": lambda rate, _: RawEncoder(rate),
    "raw-uint": lambda rate, _: RawEncoder(rate, "uint"),
    "heeg": lambda rate, _: HeegEncoder(rate),
    "jellyfish": JellyfishEncoder,
    "jellyfish-modules": lambda rate, leads: JellyfishEncoder(rate, leads, whole=False),
}
"""Values of `bci-replay emulate neuracle --protocol`."""
