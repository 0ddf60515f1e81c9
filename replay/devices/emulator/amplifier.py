"""An emulated amplifier: what it sends and when, with faults.

The emulator executes these actions in real time; tests execute them in virtual time.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.devices.emulator.encoders import (
    PROTOCOLS,
    EmulatedSignal,
    Encoder,
    JellyfishEncoder,
    SignalPiece,
)


@dataclass(frozen=True, slots=True)
class FaultKind:
    """value: meaning of the number after the colon. only: protocols that can have the fault.

    timed: it begins at @SECONDS; otherwise it concerns the amplifier from its start.
    """

    about: str
    value: str = ""
    default: float = 0.0
    only: tuple[str, ...] = ()
    timed: bool = True


_RAW = ("raw", "raw-uint")
_JELLYFISH = ("jellyfish", "jellyfish-modules")
_FRAMED = ("heeg", *_JELLYFISH)

FAULTS: dict[str, FaultKind] = {
    "half": FaultKind("the connection ends in the middle of a sample or frame"),
    "eof": FaultKind("the connection ends"),
    "rst": FaultKind("the connection is reset"),
    "refuse": FaultKind("the connection ends, and new ones are refused", "seconds", 2.0),
    "stall": FaultKind("nothing is sent on the open connection, then all at once", "seconds", 2.0),
    "gap": FaultKind("samples are left out", "seconds", 0.5),
    "repeat": FaultKind("a piece is sent twice", only=_JELLYFISH),
    "nan": FaultKind("lead 1 is not a number for one piece"),
    "inf": FaultKind("lead 1 is infinite for one piece"),
    "bad-tail": FaultKind("a frame with a wrong tail", only=_FRAMED),
    "absurd-length": FaultKind("a frame with a stated length of 4 GB", only=_FRAMED),
    "token": FaultKind("a frame's head inside the samples of a frame", only=_FRAMED),
    "garbage": FaultKind("bytes that are no frame", "bytes", 100.0),
    "channels": FaultKind("another number of leads than agreed", "leads more or fewer", -1.0),
    "big-endian": FaultKind("numbers with their bytes swapped", only=_RAW),
    "hold": FaultKind("a trigger stays on its line", "samples", 10.0),
    "wrap": FaultKind(
        "the device's clock wraps", "seconds after the start", 2.0, _JELLYFISH, False
    ),
    "data-first": FaultKind("JellyFish: data before meta", "seconds", 0.5, _JELLYFISH, False),
    "new-meta": FaultKind(
        "JellyFish: other leads on a second connection", only=_JELLYFISH, timed=False
    ),
}

_SPELLING = re.compile(r"(?P<kind>[a-z-]+)(@(?P<at>\d+(\.\d+)?))?(:(?P<value>-?\d+(\.\d+)?))?")


@dataclass(frozen=True, slots=True)
class Fault:
    """at_s: seconds into the recording."""

    kind: str
    at_s: float
    value: float

    def covers(self, at_s: float | None) -> bool:
        return at_s is not None and self.at_s <= at_s < self.at_s + self.value


def parse_fault(text: str) -> Fault:
    """KIND, KIND@SECONDS, KIND@SECONDS:VALUE or KIND:VALUE."""
    match = _SPELLING.fullmatch(text)
    if match is None or match["kind"] not in FAULTS:
        raise SourceError(
            f"{text!r} is no fault: write KIND, KIND@SECONDS or KIND@SECONDS:VALUE with one of "
            f"{', '.join(FAULTS)}"
        )
    kind = FAULTS[match["kind"]]
    if match["at"] and not kind.timed:
        spelling = f"{match['kind']}:VALUE ({kind.value})" if kind.value else match["kind"]
        raise SourceError(
            f"{text!r}: {match['kind']} concerns the amplifier from its start, and so takes no "
            f"@SECONDS; write {spelling}"
        )
    value = float(match["value"]) if match["value"] else kind.default
    if not math.isfinite(value):
        raise SourceError(f"{text!r}: the value must be finite")
    return Fault(match["kind"], float(match["at"] or 0.0), value)


def check_fault(fault: Fault, protocol: str) -> None:
    only = FAULTS[fault.kind].only
    if only and protocol not in only:
        raise SourceError(
            f"the fault {fault.kind} can't happen with --protocol {protocol}, only with "
            f"{', '.join(only)}"
        )


ActionKind = Literal["send", "close", "reset", "refuse"]
WRAP_MS = 2**32
_HEAD = b"\x5a\xa5"


@dataclass(frozen=True, slots=True)
class WireAction:
    """due_s: seconds after the start. until_s: end of a `refuse`.

    taken_s: when delayed data were measured; they are sent only to clients connected by then.
    """

    due_s: float
    kind: ActionKind
    data: bytes = b""
    until_s: float = 0.0
    taken_s: float = math.inf

    def is_for(self, connected_s: float) -> bool:
        """Whether a client that connected so many seconds after the start gets it."""
        return connected_s <= self.taken_s


class EmulatedAmplifier:
    """A signal in one of Neuracle's formats, with faults."""

    def __init__(self, signal: EmulatedSignal, protocol: str, faults: Sequence[Fault] = ()) -> None:
        for fault in faults:
            check_fault(fault, protocol)
        self._signal, self._protocol, self._faults = signal, protocol, tuple(faults)
        signal.hold_samples = self._hold_samples
        self._encoder = self._make_encoder(signal.leads)
        self._connections = 0

    @property
    def acknowledged(self) -> bool:
        """Whether the client must answer the greeting before data are sent."""
        return self._encoder.acknowledged and not self._has("data-first")

    def greeting(self) -> bytes:
        """The first bytes of a new connection."""
        self._connections += 1
        if self._has("new-meta") and self._connections > 1:
            return self._make_encoder(self._signal.leads[:-1]).greeting()
        first = self._connections == 1
        return b"" if first and self._has("data-first") else self._encoder.greeting()

    def actions(self) -> Iterator[WireAction]:
        """All actions in order of their time."""
        late_greeting = [fault.value for fault in self._faults if fault.kind == "data-first"]
        busy_until_s = 0.0
        for piece in self._signal.pieces(self._encoder.piece_samples):
            due_s = (piece.number + len(piece.samples)) / self._signal.rate
            now = [fault for fault in self._faults if self._begins(fault, piece)]
            if late_greeting and due_s > late_greeting[0]:
                late_greeting = []
                yield WireAction(due_s, "send", self._encoder.greeting())
            if any(f.kind == "gap" and f.covers(piece.at_s) for f in self._faults):
                continue
            busy_until_s = max([busy_until_s, *(due_s + f.value for f in now if f.kind == "stall")])
            data = self._encoder.encode(self._spoil_samples(piece, now))
            if self._lasting("big-endian", piece.at_s):
                data = np.frombuffer(data, "<u4").byteswap().tobytes()
            for action in self._spoil_sending(data, due_s, now):
                late = busy_until_s > due_s
                yield replace(action, due_s=busy_until_s, taken_s=due_s) if late else action

    def _begins(self, fault: Fault, piece: SignalPiece) -> bool:
        length_s = len(piece.samples) / self._signal.rate
        return piece.at_s is not None and piece.at_s <= fault.at_s < piece.at_s + length_s

    def _lasting(self, kind: str, at_s: float | None) -> list[Fault]:
        """The faults of this kind that have begun; they never end."""
        return [f for f in self._faults if f.kind == kind and f.at_s <= (at_s or 0.0)]

    def _hold_samples(self, at_s: float) -> int:
        return max([1, *(int(fault.value) for fault in self._lasting("hold", at_s))])

    def _has(self, kind: str) -> bool:
        return any(fault.kind == kind for fault in self._faults)

    def _make_encoder(self, leads: tuple[Lead, ...]) -> Encoder:
        encoder = PROTOCOLS[self._protocol](self._signal.rate, leads)
        for fault in self._faults:
            if fault.kind == "wrap" and isinstance(encoder, JellyfishEncoder):
                encoder.first_ms = WRAP_MS - round(1000 * fault.value)
        return encoder

    def _spoil_samples(self, piece: SignalPiece, now: list[Fault]) -> SignalPiece:
        for fault in self._lasting("channels", piece.at_s):
            piece = replace(piece, samples=_other_width(piece, int(fault.value)))
        for fault in now:
            if fault.kind in ("nan", "inf", "token"):
                samples = piece.samples.copy()
                samples[:, 0] = _SPOILT[fault.kind]
                piece = replace(piece, samples=samples)
        return piece

    def _spoil_sending(self, data: bytes, due_s: float, now: list[Fault]) -> Iterator[WireAction]:
        kinds = {fault.kind: fault for fault in now}
        if "bad-tail" in kinds:
            data = data[:-2] + b"\0\0"
        if "absurd-length" in kinds:
            data = data[:6] + b"\xff" * 12 + data[18:]
        if "garbage" in kinds:
            data = bytes(range(256))[: int(kinds["garbage"].value)] + data
        yield WireAction(due_s, "send", data[: len(data) // 2 - 1] if "half" in kinds else data)
        if "repeat" in kinds:
            yield WireAction(due_s, "send", data)
        if kinds.keys() & {"half", "eof"}:
            yield WireAction(due_s, "close")
        if "rst" in kinds:
            yield WireAction(due_s, "reset")
        if "refuse" in kinds:
            yield WireAction(due_s, "refuse", until_s=due_s + kinds["refuse"].value)


_SPOILT = {
    "nan": np.float32(np.nan),
    "inf": np.float32(np.inf),
    "token": np.frombuffer(_HEAD * 2, "<f4")[0],
}


def _other_width(
    piece: SignalPiece, more: int
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    width = piece.samples.shape[1] + more
    columns = np.arange(max(1, width)) % piece.samples.shape[1]
    return np.ascontiguousarray(piece.samples[:, columns])
