"""The pace of a replay: lockstep (a packet when it is asked for), or real time by a factor."""

from dataclasses import dataclass

from bci_stream.errors import SourceError


@dataclass(frozen=True)
class Pace:
    """speed: how many times faster than life; lockstep has no speed of its own."""

    lockstep: bool
    speed: float = 1.0

    def __str__(self) -> str:
        if self.lockstep:
            return "lockstep"
        return "realtime" if self.speed == 1.0 else f"{self.speed:g}"


def parse_pace(text: str) -> Pace:
    if text == "lockstep":
        return Pace(lockstep=True)
    try:
        speed = 1.0 if text == "realtime" else float(text)
    except ValueError:
        speed = 0.0
    if not 0.0 < speed < 1e6:
        raise SourceError(f"pace {text!r}: 'lockstep', 'realtime' or a factor like 2.0 is expected")
    return Pace(lockstep=False, speed=speed)


def check_live_pace(uri: str, pace: Pace) -> None:
    """A live device sets the pace itself: it can neither wait for a team nor run faster than time."""
    if pace != Pace(lockstep=False):
        raise SourceError(
            f"--pace {pace}: {uri} is a live device, which can neither wait nor run faster or slower "
            "than time; leave --pace away"
        )
