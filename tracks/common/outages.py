"""What is void: trials, seconds and rows that an outage touches or an operator takes out.

A fault on the organiser's side must not count against a team. An `outage` line of the run log names
packets of a session, a `void` line a block or a trial of its truth; a `Voids` holds those of one
session. What is void is left out of every count. The rule removes, it never shifts: a report's
trial, charge and validity are reckoned as if there were no outage.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tracks.common.events import Event, whole
from tracks.common.reasons import Reason
from tracks.common.verdicts import Verdict, brief

PacketSpan: TypeAlias = tuple[int, int]
"""First and last packet, both inclusive; the packets of a session are counted from 0."""

VoidRows: TypeAlias = tuple[int, int, Reason]
"""First row, row after the last, and why they are void."""

NO_TEXT = "–"
"""Shown where a line gives no cause or reason."""


@dataclass(frozen=True, slots=True)
class Outage:
    """An `outage` line: the packets of its session that a fault touched."""

    packets: PacketSpan
    cause: str


@dataclass(frozen=True, slots=True)
class VoidDecision:
    """A `void` line: an operator's decision on a trial; trial None: on the whole block."""

    block: int
    trial: int | None
    reason: str


def read_outage(event: Event) -> tuple[int, Outage]:
    """The number of its session, and an outage. Raises RuleError for a field that can't be read."""
    packets = whole(event, "from"), whole(event, "to")
    return whole(event, "session"), Outage(packets, _text(event.get("cause")))


def read_void(event: Event) -> tuple[int, VoidDecision]:
    """The number of its session, and a decision. Raises RuleError for a field that can't be read."""
    trial = None if event.get("trial") is None else whole(event, "trial")
    decision = VoidDecision(whole(event, "block"), trial, _text(event.get("reason")))
    return whole(event, "session"), decision


def _text(value: object) -> str:
    """No rule reads a cause or a reason, so anything is accepted."""
    return (value if isinstance(value, str) else "" if value is None else brief(value)) or NO_TEXT


class Voids:
    """The outages and decisions of one session. Which of several lines came first has no effect
    on what is void, only on which of them is named as the reason."""

    def __init__(self) -> None:
        self._outages: dict[PacketSpan, Reason] = {}
        self._decisions: dict[tuple[int, int | None], Reason] = {}

    def __len__(self) -> int:
        """How many different lines there are: it changes whenever something else becomes void."""
        return len(self._outages) + len(self._decisions)

    def add(self, line: Outage | VoidDecision) -> None:
        if isinstance(line, Outage):
            self._outages.setdefault(line.packets, Reason("void_outage", cause=line.cause))
        else:
            why = Reason("void_operator", reason=line.reason)
            self._decisions.setdefault((line.block, line.trial), why)

    def by_operator(self, block: int, trial: int) -> Reason | None:
        """Why an operator voided a trial, or its block; None if it is not."""
        return self._decisions.get((block, trial)) or self._decisions.get((block, None))

    def by_outage(self, packets: PacketSpan | None) -> Reason | None:
        """The outage that touches one of the packets; None if none does, or without packets."""
        if packets is None:
            return None
        first, last = packets
        for (begin, end), why in self._outages.items():
            if max(first, begin) <= min(last, end):
                return why
        return None

    def rows(self, ends: Sequence[int], start: int, stop: int) -> list[VoidRows]:
        """The rows from `start` to `stop` that an outage touches; two outages may share some.

        ends: for each packet received, the row after its last one.
        """
        found = []
        for (begin, end), why in self._outages.items():
            first, last = max(begin, 0), min(end, len(ends) - 1)
            if first > last:
                continue
            low = max(start, ends[first - 1] if first else 0)
            high = min(stop, ends[last])
            if low < high:
                found.append((low, high, why))
        return found


def voided(verdict: Verdict, why: Reason, parts: int = 0) -> Verdict:
    """The same trial, void. parts: its seconds or rows, where a trial is made of them."""
    return replace(
        verdict,
        answers=tuple(replace(answer, right=None) for answer in verdict.answers),
        scored=False,
        right=(),
        charged_s=None,
        share=None,
        reasons=(why,),
        void=True,
        void_parts=parts,
    )


def nothing_left(verdicts: Sequence[Verdict]) -> bool:
    """Whether something is void and nothing is scored: such a session is left out of the mean."""
    return not any(v.scored for v in verdicts) and any(v.void for v in verdicts)
