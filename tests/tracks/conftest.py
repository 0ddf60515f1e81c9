"""A run log written event by event, as a test tells it."""

from collections.abc import Callable
from typing import Any

import pytest

from tracks.registry import TRACKS
from tracks.run import Run


class LogWriter:
    """Writes the events of a run; `packet(200)` is a packet that carries trigger 200."""

    def __init__(
        self,
        track: str,
        rules: dict[str, Any] | None = None,
        rate: float | None = None,
        n: int | None = None,
    ) -> None:
        self.rate = rate or TRACKS[track].rate
        self.n = TRACKS[track].packet_samples if n is None else n
        self.position = 0
        run = {"kind": "run", "v": 1, "track": track, "team": "t", "rules": rules or {}}
        self.events: list[dict[str, Any]] = [run]
        self.session()

    def session(self, subject: str = "S01") -> "LogWriter":
        self.position = 0
        return self.add("session", subject=subject, rate=self.rate, leads=1, packet_samples=self.n)

    def add(self, kind: str, **fields: Any) -> "LogWriter":
        self.events.append({"kind": kind, **fields})
        return self

    def truth(self, **fields: Any) -> "LogWriter":
        return self.add("truth", **fields)

    def packet(self, *codes: int | tuple[int, int], n: int | None = None) -> "LogWriter":
        """Bare codes stand at offset 0."""
        size = self.n if n is None else n
        triggers = [[0, code] if isinstance(code, int) else list(code) for code in codes]
        self.add("packet", start=self.position, n=size, triggers=triggers)
        self.position += size
        return self

    def packets(self, count: int) -> "LogWriter":
        for _ in range(count):
            self.packet()
        return self

    def report(self, result: Any, **fields: Any) -> "LogWriter":
        return self.add("report", result=result, **fields)

    def outage(self, first: int, last: int, session: int = 0, cause: str = "x") -> "LogWriter":
        """first, last: packets of the session, both inclusive."""
        return self.add("outage", **{"session": session, "from": first, "to": last, "cause": cause})

    def void(self, block: int, trial: int | None = None, session: int = 0) -> "LogWriter":
        """trial None: the whole block."""
        named = {} if trial is None else {"trial": trial}
        return self.add("void", session=session, block=block, **named, reason="wrong cue")

    def end(self, reason: str = "finished") -> "LogWriter":
        return self.add("end", reason=reason)

    def run(self) -> Run:
        run = Run()
        for event in self.events:
            run.feed(event)
        return run

    def score(self) -> float:
        return float(self.run().result()["score"])


@pytest.fixture(scope="session")
def new_log() -> Callable[..., LogWriter]:
    return LogWriter
