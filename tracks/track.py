"""A track: the facts of one discipline, and what makes its mask, truth, referee and score."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol, TypeAlias

from tracks.common.events import Event
from tracks.common.masks import Mask
from tracks.common.numbers import exact, exact_rate
from tracks.common.truth import Angles, TruthReader
from tracks.common.verdicts import OpenTrial, Refusals, Verdict
from tracks.errors import RuleError
from tracks.rules import Rules, changed

Score: TypeAlias = Callable[[Sequence[Verdict], Rules], float]


class Referee(Protocol):
    """Judges one session: events in, verdicts out, no clock."""

    refusals: Refusals

    @property
    def asks(self) -> bool:
        """Whether the packet just fed completed something that the decoder must now decide on."""

    def truth(self, event: Event) -> list[Verdict]: ...
    def packet(self, event: Event) -> list[Verdict]: ...
    def report(self, event: Event) -> list[Verdict]: ...
    def verdicts(self) -> list[Verdict]:
        """Of all trials, as if the session ended here."""

    def provisional(self) -> list[Verdict]:
        """What a live score may count before its trial is over (ecog's has no label to hide)."""

    def open_trial(self) -> OpenTrial | None: ...


@dataclass(frozen=True, kw_only=True)
class Track:
    """One discipline, under the rules in force. A registry of all five is `tracks.registry.TRACKS`.

    rate: of the rule document; a recording may have another. lead_kinds: of leads that are not EEG.
    unit: of the score. used_unit: of the data that a report used, where the track counts them.
    classes: number -> name.
    choose_leads: how many leads a decoder must choose before any data, or None for all.
    rules: the decided ones, which a contest file can change, by name.
    read: the class that a result names, or None. score_by, running_by: the score of a session that
    is over, and while it still runs. explain_by: how it comes about, in lines for a human.
    """

    name: str
    title: str
    rate: int
    leads: tuple[str, ...]
    packet_samples: int
    unit: str
    used_unit: str
    classes: Mapping[int, str]
    rules: Rules
    read: Callable[[object], int | None]
    make_mask: Callable[[Fraction], Mask]
    make_truth: Callable[[Fraction, Rules, Angles], TruthReader]
    make_referee: Callable[[str, Fraction, Rules], Referee]
    score_by: Score
    running_by: Score
    explain_by: Callable[[Sequence[Verdict], Rules], list[str]]
    lead_kinds: Mapping[str, str]
    choose_leads: int | None = None

    def under(self, changes: Rules) -> "Track":
        """The same track in a contest that changes some of its rules."""
        return replace(self, rules=changed(self.rules, changes))

    def mask(self, rate: float) -> Mask:
        """A new mask, for one session."""
        return self.make_mask(exact_rate(rate))

    def truth(self, rate: float, angles: Angles = None) -> TruthReader:
        """A new reader of labels, for one session; ecog: with its joint angles."""
        return self.make_truth(exact_rate(rate), self.rules, angles)

    def referee(self, subject: str, rate: float) -> Referee:
        """A new referee, for one session."""
        return self.make_referee(subject, exact_rate(rate), self.rules)

    def score(self, verdicts: Sequence[Verdict]) -> float:
        return self.score_by(verdicts, self.rules)

    def running(self, verdicts: Sequence[Verdict]) -> float:
        return self.running_by(verdicts, self.rules)

    def explain(self, verdicts: Sequence[Verdict]) -> list[str]:
        return self.explain_by(verdicts, self.rules)

    def packet_samples_at(self, rate: float) -> int:
        """How many samples a packet has at another rate: as long in time, at least one."""
        packet_s = exact(
            self.rules.get("packet_s", Fraction(self.packet_samples, self.rate)), "packet_s"
        )
        if packet_s <= 0:
            raise RuleError(f"packet_s must be above 0 s, got {float(packet_s):g}")
        return max(1, round(packet_s * exact_rate(rate)))
