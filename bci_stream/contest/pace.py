"""The pace of a replay: real time, a multiple of it, or lockstep."""

from dataclasses import dataclass

from bci_stream.errors import SourceError


@dataclass(frozen=True)
class Pace:
    """speed: how many times faster than the recording; lockstep has no speed of its own."""

    lockstep: bool
    speed: float = 1.0

    def __str__(self) -> str:
        if self.lockstep:
            return "lockstep"
        return "realtime" if self.speed == 1.0 else f"{self.speed:g}"


def parse_pace(text: str) -> Pace:
    """Read `lockstep`, `realtime` or a factor; raises SourceError for anything else."""
    if text == "lockstep":
        return Pace(lockstep=True)
    try:
        speed = 1.0 if text == "realtime" else float(text)
    except ValueError:
        speed = 0.0
    if not 0.0 < speed < 1e6:
        raise SourceError(f"pace {text!r}: 'lockstep', 'realtime' or a factor like 2.0 is expected")
    return Pace(lockstep=False, speed=speed)
