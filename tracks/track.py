"""A track: the facts of one discipline, and what makes its mask, truth, referee and score."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

from tracks.errors import RuleError
from tracks.events import Event
from tracks.exact import exact, exact_rate
from tracks.masks import Mask
from tracks.truth import Angles, TruthReader
from tracks.verdict import OpenTrial, Refusals, Verdict

Score: TypeAlias = Callable[[Sequence[Verdict]], float]

VOID_REASONS = ("timeout", "disqualified")
"""Decided: a run that ended so scores 0, every session too; the contest file's `void_reasons`."""


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
    """One discipline. A registry of all five is `tracks.TRACKS`.

    rate: of the rule document; a recording may have another. lead_kinds: of leads that are not EEG.
    unit: of the score. used_unit: of the data that a report used, where the track counts them.
    classes: number -> name.
    choose_leads: how many leads a decoder must choose before any data, or None for all.
    defaults: the decided rules that a contest file can change, by name.
    read: the class that a result names, or None. running: the score while a session still runs.
    explain: how a session's score comes about, in lines for a human.
    """

    name: str
    title: str
    rate: int
    leads: tuple[str, ...]
    packet_samples: int
    unit: str
    used_unit: str
    classes: Mapping[int, str]
    defaults: Mapping[str, Any]
    read: Callable[[object], int | None]
    make_mask: Callable[[Fraction], Mask]
    make_truth: Callable[[Fraction, Angles], TruthReader]
    make_referee: Callable[[str, Fraction, Mapping[str, Any]], Referee]
    score: Score
    running: Score
    explain: Callable[[Sequence[Verdict]], list[str]]
    lead_kinds: Mapping[str, str]
    choose_leads: int | None = None

    def mask(self, rate: float) -> Mask:
        """A new mask, for one session."""
        return self.make_mask(exact_rate(rate))

    def truth(self, rate: float, angles: Angles = None) -> TruthReader:
        """A new reader of labels, for one session; ecog: with its joint angles."""
        return self.make_truth(exact_rate(rate), angles)

    def referee(self, subject: str, rate: float, rules: Mapping[str, Any]) -> Referee:
        """A new referee, for one session; rules: what the contest changes (`self.rules`)."""
        return self.make_referee(subject, exact_rate(rate), self.rules(rules))

    def rules(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """The rules in force: the defaults, and what a contest changes of them.

        Names that this track does not know are passed over; null is the default.
        """
        rules = dict(self.defaults)
        for name, value in changes.items():
            if name in rules and value is not None:
                rules[name] = _checked(name, value, self.defaults[name])
        return rules

    def packet_samples_at(self, rate: float) -> int:
        """How many samples a packet has at another rate: as long in time, at least one."""
        return max(1, round(self.packet_samples * exact_rate(rate) / self.rate))


def _checked(name: str, value: Any, default: Any) -> Any:
    if default is None and value == "off":  # as `bci-judge init` spells it, TOML having no null
        return None
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise RuleError(f"{name} must be true or false, got {value!r}")
        return value
    if name == "void_reasons":
        if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
            raise RuleError(f"void_reasons must be a list of words, got {value!r}")
        return tuple(value)
    exact(value, name)
    return value
