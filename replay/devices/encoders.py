"""An encoder writes pieces of signal as one of Neuracle's formats: the parsers' other half."""

from collections.abc import Callable
from math import gcd
from typing import Protocol

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead, Triggers
from replay.devices.jellyfish_frames import (
    TRIGGER_RATE,
    Channel,
    Meta,
    Module,
    encode_data,
    encode_meta,
)
from replay.devices.neuracle_heeg import encode_frame
from replay.devices.neuracle_raw import encode_rows
from replay.devices.tape import Piece
from replay.devices.trigger_word import WordKind

SERIAL = 20001


class Encoder(Protocol):
    @property
    def piece_samples(self) -> int:
        """How many samples the amplifier sends at a time."""

    @property
    def acknowledged(self) -> bool:
        """The client must answer the greeting before data flow."""

    def greeting(self) -> bytes:
        """What a client is sent first."""

    def encode(self, piece: Piece) -> bytes: ...


class RawEncoder:
    acknowledged = False

    def __init__(self, rate: float, kind: WordKind = "float") -> None:
        self.piece_samples = max(1, round(rate * 0.04))
        self._kind = kind

    def greeting(self) -> bytes:
        return b""

    def encode(self, piece: Piece) -> bytes:
        return encode_rows(piece.samples, piece.triggers, self._kind)


class HeegEncoder:
    acknowledged = False

    def __init__(self, rate: float) -> None:
        self._rate = _whole(rate, "hEEG")
        self.piece_samples = max(1, self._rate // 1000)

    def greeting(self) -> bytes:
        return b""

    def encode(self, piece: Piece) -> bytes:
        text = str(piece.triggers[0][1]) if piece.triggers else ""
        return encode_frame(piece.samples, self._rate, text)


class JellyfishEncoder:
    """whole: leads and trigger in a frame of 40 ms; else 5 ms, and frames for the triggers."""

    acknowledged = True
    first_ms = 0
    """What the device's clock reads at its first sample."""

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

    def encode(self, piece: Piece) -> bytes:
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
        """A code stands on its line for as long as its sample lasts.

        It is seen at the first whole millisecond in it; in a sample that is shorter than one there
        may be none, and the millisecond before has to do.
        """
        line = np.zeros(self._length_ms, dtype=np.float32)
        for offset, code in triggers:
            begin, end = (-(-i * TRIGGER_RATE // self._rate) for i in (offset, offset + 1))
            line[min(begin, end - 1) : end] = code
        return line

    def _describe(self, leads: tuple[Lead, ...]) -> Meta:
        channels = [Channel(lead.name, lead.kind, self._rate, self.piece_samples) for lead in leads]
        count = self._length_ms if self._whole else 1
        trigger = Channel("Trigger", "Trigger", TRIGGER_RATE, count)
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
"""What `bci-replay emulate neuracle --protocol` takes."""
