"""The sessions of a replay, as its sealed stream describes them: their signal, their length, their truth."""

from dataclasses import dataclass, field
from typing import Any

from bci_stream.wire.messages import TruthNote


@dataclass
class PlannedSession:
    """One session of the replay.

    n_samples: None for a live device. truth: (packet before which it is written, truth event).
    """

    subject: str
    rate: float
    leads: int
    packet_samples: int
    n_samples: int | None
    truth: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def log_line(self) -> dict[str, Any]:
        rate = int(self.rate) if self.rate == int(self.rate) else self.rate
        return {
            "kind": "session",
            "subject": self.subject,
            "rate": rate,
            "leads": self.leads,
            "packet_samples": self.packet_samples,
        }


SessionPlan = dict[int, PlannedSession]
"""The replay's sessions by number; truth is added all at once (recordings) or by trial (live)."""


def add_truth(plan: SessionPlan, note: TruthNote) -> None:
    """Add a session, or truth of it; a note that the replay repeats changes nothing."""
    session = plan.setdefault(
        note.session,
        PlannedSession(note.subject, note.rate, note.leads, note.packet_samples, note.n_samples),
    )
    session.n_samples = note.n_samples  # more, once a block is played again
    if note.event is not None and (note.packet, note.event) not in session.truth:
        session.truth.append((note.packet, note.event))


def total_samples(plan: SessionPlan) -> int | None:
    """Samples of all sessions; None if a device is live."""
    lengths = [session.n_samples for session in plan.values()]
    return None if None in lengths else sum(n for n in lengths if n is not None)


def duration_s(plan: SessionPlan) -> float | None:
    """Duration of all sessions in seconds; None if a device is live."""
    if total_samples(plan) is None:
        return None
    return sum((session.n_samples or 0) / session.rate for session in plan.values())
