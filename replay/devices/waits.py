"""How long is waited for a device before something is said, tried again or given up."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Waits:
    """In seconds.

    first_s: for a device to be found at the start. reconnect_s: for one that went to come back.
    stall_s: silence of a device that is there. dead_s: such a silence is a dead connection.
    """

    first_s: float = 30.0
    reconnect_s: float = 600.0
    dial_s: float = 5.0
    stall_s: float = 0.5
    dead_s: float = 5.0
    backoff_s: tuple[float, ...] = (0.1, 0.2, 0.5, 1.0)

    def backoff(self, failures: int) -> float:
        """How long to wait after so many failures in a row, from 1."""
        return self.backoff_s[min(failures, len(self.backoff_s)) - 1]
