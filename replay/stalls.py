"""A stall: packets leave late, since the machine slept or can't keep the pace."""

LATE_S = 0.25
"""A packet that leaves later than this is in a stall."""


class Stalls:
    """A stall is told when it begins, and again each time its lateness has doubled: not at every packet."""

    def __init__(self) -> None:
        self._tell_above_s = LATE_S

    def to_be_told(self, late_s: float) -> bool:
        """Takes the next packet's lateness."""
        if late_s <= LATE_S:
            self._tell_above_s = LATE_S
        if late_s <= self._tell_above_s:
            return False
        self._tell_above_s = 2 * late_s
        return True
