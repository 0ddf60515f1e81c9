"""A track is one discipline of the contest: all its facts, its mask, truth, referee and score.

Everything else in the four packages asks the track; no other module names one or repeats its
numbers. docs/howto/add-a-track.md shows how to write another one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal, Protocol, TypeAlias

from tracks.common.events import Event
from tracks.common.masks import Mask, Triggers
from tracks.common.numbers import exact, exact_rate, read_int
from tracks.common.outages import Voids
from tracks.common.truth import Angles, LabelledBlock, TruthReader
from tracks.common.verdicts import OpenTrial, Refusals, Traces, Verdict
from tracks.errors import RuleError
from tracks.rules import Rules, changed

Score: TypeAlias = Callable[[Sequence[Verdict], Rules], float]
LeftOut: TypeAlias = Literal["block", "person", "classes"]
CodeList: TypeAlias = Sequence[tuple[int, int]]
"""(sample, code) of the triggers of a recording, in order."""

FRAMEWORKS = ("g4", "g3", "g2-online", "g1", "g2")
"""The contests' frameworks in which a submission pulls packets (`decoders.host.detect`)."""


class Referee(Protocol):
    """Judges one session: events in, verdicts out, no clock.

    voids: what its run log declares void; `Run` adds to it, and `verdicts` takes it into account.
    """

    refusals: Refusals
    voids: Voids

    @property
    def decision_due(self) -> bool:
        """Whether the packet just fed completed something that the decoder must now decide on."""

    def truth(self, event: Event) -> list[Verdict]: ...
    def packet(self, event: Event) -> list[Verdict]: ...
    def report(self, event: Event) -> list[Verdict]: ...
    def verdicts(self) -> list[Verdict]:
        """Of all trials, as if the session ended here."""

    def provisional(self) -> list[Verdict]:
        """What a live score may count before its trial is over (ecog's has no label to hide)."""

    def open_trial(self) -> OpenTrial | None: ...
    def last_traces(self) -> Traces | None:
        """What a display draws of the trial that was judged last, where reports are traces."""


@dataclass(frozen=True, slots=True)
class TimelineFacts:
    """How the page draws the running trial on a time line.

    span_s: seconds shown. begins: whether a code on the wire begins a trial; None for a track whose
    trials are not visible there: its time line starts again every `span_s`.
    """

    span_s: float
    begins: Callable[[int], bool] | None = None


@dataclass(frozen=True, slots=True)
class MapFacts:
    """Which scalp maps by class a report draws from a labelled recording.

    moments: (sample, class) of each stimulus, from the recording's triggers. window_s: after each.
    band_hz: of the power that is mapped; None for the mean amplitude.
    """

    moments: Callable[[CodeList], Iterator[tuple[int, str]]]
    window_s: tuple[float, float]
    band_hz: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class TraceFacts:
    """What a report holds on a track without classes: rows at `rate` Hz, one column a name."""

    names: tuple[str, ...]
    rate: int


@dataclass(frozen=True, slots=True)
class Profile:
    """The facts of one year's contest on a track; the referee and the score are the same.

    rate: in Hz. trial_code: what begins a trial on the wire. labels: codes of a labelled recording
    that begin a trial -> class. shown: other codes of a labelled recording -> code on the wire; None
    where they are taken away. results: what a decoder reports -> class.
    """

    rate: int
    trial_code: int
    labels: Mapping[int, int]
    shown: Mapping[int, int | None]
    results: Mapping[int, int]


def no_warnings(_: LabelledBlock) -> Iterator[str]:
    """For a track whose truth reader refuses all that is wrong with a recording."""
    return iter(())


@dataclass(frozen=True, kw_only=True)
class Track:
    """One discipline, under the rules in force. `tracks.registry.TRACKS` has them by name.

    Signal
        rate: in Hz, of the rule document; a recording may have another. leads: in its order.
        lead_orders: other orders in which its recordings list the leads, by number of the batch.
        lead_kinds: MNE channel types of leads that are not EEG. packet_samples: at `rate`.
        choose_leads: how many leads a decoder must choose before any data; None for all.
    Rules
        rules: the decided ones by name, which a contest file can change. make_mask, make_truth,
        make_referee: new ones for a session. read: the class that a result names, or None.
        score_by, running_by: the score of a session that is over, and while it still runs.
        explain_by: how a score is made up, in lines for a human.
        profiles: what other years' documents have otherwise, by name; the rule `profile` chooses one.
        fit_profile: the track with the facts of the profile that its rules name.
    Words
        unit: of the score. used_unit: of the data that a report used ("s", "sequences"); empty
        where the track does not count them. classes: number -> name. traces: the columns of a
        report; None for a track with classes. names: by language ("en", "zh") what the page shows
        for the track's name, classes, traces and units, where it differs from the name itself.
        parts: what a trial is made of, if an outage can void a part of it ("seconds", "rows").
        reasons: by language, templates of the track's own reason codes (`tracks.common.words`).
    Display
        timeline, maps. waits: whether a decoder may wait for more data, so that the page shows how
        much it used.
    Recordings
        check_block: warnings about a labelled block. left_out: what is left out at a time in
        cross-validation: a block, a person, or blocks that have all classes together.
        synthetic: "module:SETS" of its synthetic recordings. sample_params: of a short one that
        proves the laws of a decoder. dry_run_params: of one that shows a submission's mistakes.
        rearrange_test: "module:function" that makes a test recording of a labelled one; empty: none.
        trial_events: (class, seconds) -> the codes of a trial of that class whose data begins so long
        after an event of another format, as in ?events=; None where a class alone makes no trial.
    Decoders
        default_decoder: a name of `decoders.registry` or "module:Class". interfaces: which kinds of
        submission can take part (`decoders.host.detect`).
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
    names: Mapping[str, Mapping[str, str]]
    timeline: TimelineFacts
    synthetic: str
    sample_params: Mapping[str, str]
    dry_run_params: Mapping[str, str]
    default_decoder: str
    reasons: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    interfaces: tuple[str, ...] = FRAMEWORKS
    lead_orders: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    choose_leads: int | None = None
    traces: TraceFacts | None = None
    parts: str = ""
    waits: bool = True
    maps: MapFacts | None = None
    check_block: Callable[[LabelledBlock], Iterator[str]] = no_warnings
    left_out: LeftOut = "block"
    rearrange_test: str = ""
    trial_events: Callable[[int, float], str] | None = None
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    fit_profile: "Callable[[Track], Track] | None" = None

    def under(self, changes: Rules) -> "Track":
        """The same track in a contest that changes some of its rules, its profile among them."""
        if changes.get("profile") is not None and self.profiles:
            name = changes["profile"]
            if not isinstance(name, str) or name not in self.profiles:
                known = ", ".join(f'"{each}"' for each in self.profiles)
                raise RuleError(f"profile must be one of {known}, got {name!r}")
        made = replace(self, rules=changed(self.rules, changes))
        return made if self.fit_profile is None else self.fit_profile(made)

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

    def warnings(self, rate: float, blocks: Sequence[tuple[int, Triggers]]) -> list[str]:
        """Where a labelled recording departs from the rules, though its labels can be read.

        blocks: (number of samples, triggers) of each, in order.
        """
        return [
            warning
            for number, (n_samples, triggers) in enumerate(blocks)
            for warning in self.check_block(LabelledBlock(number, rate, n_samples, triggers))
        ]

    @property
    def timed(self) -> bool:
        """Whether a rule limits the time that a decision takes, which the judge measures."""
        return self.rules.get("decision_limit_s") is not None

    @property
    def lead_kind(self) -> str:
        """The MNE channel type of its first lead: EEG, or ECOG where no lead is EEG."""
        return self.lead_kinds.get(self.leads[0], "EEG")

    def check_leads(self, numbers: Sequence[object], available: int | None = None) -> list[int]:
        """The leads that a decoder chose, by number from 1, in its order.

        available: how many there are; the track's own leads where it is None. Raises RuleError
        unless they are exactly `choose_leads` distinct whole numbers from 1 to `available`.
        """
        highest = len(self.leads) if available is None else available
        chosen = [read_int(number) for number in numbers]
        for number, given in zip(chosen, numbers, strict=True):
            if number is None or not 1 <= number <= highest:
                raise RuleError(f"channels must be whole numbers of 1-{highest}; got {given!r}")
        if len(chosen) != self.choose_leads or len(set(chosen)) != self.choose_leads:
            raise RuleError(
                f"exactly {self.choose_leads} distinct channels must be chosen; "
                f"got {len(chosen)}, {len(set(chosen))} of them distinct"
            )
        return [number for number in chosen if number is not None]

    def packet_samples_at(self, rate: float) -> int:
        """Samples of a packet at another rate: as long in time, at least one."""
        packet_s = exact(
            self.rules.get("packet_s", Fraction(self.packet_samples, self.rate)), "packet_s"
        )
        if packet_s <= 0:
            raise RuleError(f"packet_s must be above 0 s, got {float(packet_s):g}")
        return max(1, round(packet_s * exact_rate(rate)))
