"""The docket: what is to be played in a run, as only the judge knows it (subjects, rates, truth)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from bci_stream.wire.messages import TruthNote


@dataclass
class Case:
    """One session: what its log line says, and its truth, by the packet before which it is written."""

    subject: str
    rate: float
    leads: int
    packet_samples: int
    n_samples: int | None
    truth: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def line(self) -> dict[str, Any]:
        rate = int(self.rate) if self.rate == int(self.rate) else self.rate
        return {
            "kind": "session",
            "subject": self.subject,
            "rate": rate,
            "leads": self.leads,
            "packet_samples": self.packet_samples,
        }


class Docket:
    """Sessions by number; truth comes all at once (recordings) or a trial at a time (live)."""

    def __init__(self) -> None:
        self._cases: dict[int, Case] = {}

    def add(self, note: TruthNote) -> None:
        case = self._cases.get(note.session)
        if case is None:
            case = self._cases[note.session] = Case(
                note.subject, note.rate, note.leads, note.packet_samples, note.n_samples
            )
        if note.event is not None:
            case.truth.append((note.packet, note.event))

    def case(self, session: int) -> Case:
        return self._cases[session]

    def sessions(self) -> Iterator[int]:
        return iter(sorted(self._cases))

    def knows(self, session: int) -> bool:
        return session in self._cases

    def n_samples(self) -> int | None:
        """Of all sessions; None where a device is live."""
        lengths = [case.n_samples for case in self._cases.values()]
        return None if None in lengths else sum(n for n in lengths if n is not None)

    def duration_s(self) -> float | None:
        """How much data there is; None where a device is live."""
        seconds = 0.0
        for case in self._cases.values():
            if case.n_samples is None:
                return None
            seconds += case.n_samples / case.rate
        return seconds
