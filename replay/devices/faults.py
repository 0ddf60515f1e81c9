"""A fault is something that goes wrong with an amplifier; an emulator can make each one when asked.

`stall@5:2` is a stall that begins 5 s into the recording and lasts 2 s.
"""

import math
import re
from dataclasses import dataclass

from bci_stream.errors import SourceError


@dataclass(frozen=True, slots=True)
class FaultKind:
    """value: what the number after the colon means. only: the protocols that can have it.

    timed: it begins at @SECONDS; else it is there from the amplifier's start, or not at all.
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
    "absurd-length": FaultKind("a frame that says it is 4 GB long", only=_FRAMED),
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
