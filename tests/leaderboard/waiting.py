"""Waiting for a condition, with a deadline."""

import threading
import time
from collections.abc import Callable
from typing import Final

DEADLINE_S: Final = 60.0


def wait_for(condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Return when the condition holds; fails with `what` after the deadline."""
    pause, until = threading.Event(), time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < until, f"waited {deadline_s:g} s for {what}"
        pause.wait(0.02)
