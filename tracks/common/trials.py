"""Trials that a trigger begins and that are judged against one label (mi, turing, erp).

`TrialReferee` has what the three tracks share: which trial a report belongs to, how much data it
used, and which label belongs to a trial. Each track's own file has the rest.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import log2
from typing import ClassVar

from tracks.common.codes import TRIAL_END, BlockCounter
from tracks.common.events import Event, count, items, triggers
from tracks.common.events import field as event_field
from tracks.common.outages import PacketSpan, Voids, voided
from tracks.common.reasons import Reason
from tracks.common.verdicts import Answer, OpenTrial, Refusals, Traces, Verdict, brief
from tracks.errors import RuleError
from tracks.rules import Rules

MOST_REPORTS = 100
"""Reports of a trial that are kept for display; at most three ever count."""


@dataclass(frozen=True, slots=True)
class TrialReport:
    """A report, and what its team had received when it was made.

    used: samples of the packets after the trial's trigger packet. after_end: packets since the one
    that carries the trial's 241 (0 on that packet itself); None before it. sequences: erp.
    """

    result: object
    used: int
    after_end: int | None
    sequences: int


@dataclass(slots=True)
class Trial:
    """A trial that a trigger has begun.

    origin: samples received when its trigger packet was complete. end_packet: number of the packet
    that carries its 241. flashes: of the running sequence, sequences: those that count (erp).
    first_packet, last_packet: what it occupies, counted from 0: from its trigger packet to the one
    where it closes. The last is None until it closes; both are None for a label without a trigger.
    """

    block: int
    number: int
    origin: int
    end_packet: int | None = None
    flashes: int = 0
    sequences: int = 0
    over: bool = False
    reports: list[TrialReport] = field(default_factory=list)
    first_packet: int | None = None
    last_packet: int | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """The label of a trial; `number` is None if it names no class, and then no answer is right."""

    number: int | None
    text: str


class TrialReferee(ABC):
    """Base of a referee; a track defines what begins a trial and how it counts."""

    classes: Mapping[int, str]
    answers_wanted: ClassVar[int] = 1
    next_trigger_ends_trial: ClassVar[bool] = False
    closes_after_s: ClassVar[int | None] = None
    """Seconds of data with which a trial closes; None where its 241 closes it."""
    decision_due = False

    def __init__(self, subject: str, rate: Fraction, rules: Rules) -> None:
        self.subject = subject
        self.rate = rate
        self.refusals = Refusals(subject)
        self.voids = Voids()
        self._blocks = BlockCounter(rules.get("block_codes", True))
        self._end_closes = bool(rules.get("end_closes_trial", False))
        self._trials: dict[int, list[Trial]] = {}
        self._labels: dict[int, list[Label]] = {}
        self._given: set[tuple[int, int]] = set()
        self._active: Trial | None = None
        self._begun: Trial | None = None
        self._received = 0
        self._packets = 0

    @abstractmethod
    def read(self, result: object) -> int | None:
        """The class that a result or a label names; None where it names none."""

    @abstractmethod
    def begins(self, code: int) -> bool:
        """Whether a trigger begins a trial."""

    @abstractmethod
    def judge(self, trial: Trial, label: Label, missing: Reason | None) -> Verdict:
        """The verdict on a labelled trial; missing: why it has no trigger and so no reports."""

    def act(self, trial: Trial, code: int) -> None:
        """What any other trigger does to the trial that was begun last."""
        if code == TRIAL_END and trial.end_packet is None:
            trial.end_packet = self._packets
            if self.closes_after_s is None:
                self._close(trial)

    def truth(self, event: Event) -> list[Verdict]:
        given: list[Verdict] = []
        for block, value in labels_in(event):
            labels = self._labels.setdefault(block, [])
            labels.append(self._label(value))
            trials = self._trials.get(block, [])
            if len(labels) <= len(trials):
                given += self._settle(trials[len(labels) - 1])
        return given

    def packet(self, event: Event) -> list[Verdict]:
        self._received += count(event, "n")
        self._packets += 1
        given: list[Verdict] = []
        if self._begun is not None:  # this is its first packet beyond the trigger packet
            given += self._retire(self._active)
            self._active, self._begun = self._begun, None
        if self._active is not None and self._active.last_packet is None:
            given += self._extend(self._active)
        for _, code in triggers(event):
            given += self._trigger(code)
        return given

    def report(self, event: Event) -> list[Verdict]:
        result = event.get("result")
        trial = self._active
        if trial is None:
            return self._refuse(result, Reason("before_first_packet"))
        if self._begun is not None and self.next_trigger_ends_trial:
            return self._refuse(result, Reason("on_next_trigger"))
        if len(trial.reports) == MOST_REPORTS:
            return self._refuse(result, Reason("too_many_reports"))
        after = None if trial.end_packet is None else self._packets - trial.end_packet
        if after and self._end_closes:
            return self._refuse(result, Reason("after_end_packet"))
        used = self._received - trial.origin
        trial.reports.append(TrialReport(result, used, after, trial.sequences))
        return self._retire(trial) if self._complete(trial) else []

    def verdicts(self) -> list[Verdict]:
        """Of every trial and every label, as if the session ended here."""
        found = []
        for block in sorted(self._trials.keys() | self._labels.keys()):
            trials, labels = self._trials.get(block, []), self._labels.get(block, [])
            for number in range(max(len(trials), len(labels))):
                trial = trials[number] if number < len(trials) else None
                label = labels[number] if number < len(labels) else None
                found.append(self._judged(trial, label, block, number))
        return found

    def provisional(self) -> list[Verdict]:
        return []

    def last_traces(self) -> Traces | None:
        return None

    def open_trial(self) -> OpenTrial | None:
        trial = self._active
        if trial is None or trial.over:
            return None
        used_s = float((self._received - trial.origin) / self.rate)
        return OpenTrial(trial.block, trial.number, used_s, len(trial.reports))

    def seconds(self, samples: int) -> float:
        return float(samples / self.rate)

    def answer(self, report: TrialReport, right: bool | None, reason: Reason | None) -> Answer:
        number = self.read(report.result)
        name = None if number is None else self.classes[number]
        return Answer(report.result, name, self.seconds(report.used), "s", right, reason)

    def no_answer(self, reason: Reason) -> Answer:
        return Answer(None, None, None, "s", False, reason)

    def one_answer(self, trial: Trial, label: Label, first: Answer, charged_s: float) -> Verdict:
        """The verdict of a track where a trial's first report counts, and no other."""
        why = Reason("only_first_counts")
        extra = (self.answer(report, None, why) for report in trial.reports[1:])
        return Verdict(
            self.subject,
            trial.block,
            trial.number,
            label.text,
            (first, *extra),
            scored=True,
            right=(bool(first.right),),
            charged_s=charged_s,
            reasons=() if first.reason is None else (first.reason,),
        )

    def why_wrong(self, report: TrialReport, label: Label) -> Reason | None:
        """Why an answer that came in time is wrong; None if it is right."""
        number = self.read(report.result)
        if number is None:
            return Reason("names_no_class", result=brief(report.result))
        if number == label.number:
            return None
        return Reason("wrong_class", answer=self.classes[number], label=label.text)

    def _trigger(self, code: int) -> list[Verdict]:
        self._blocks.see(code)
        if self.begins(code):
            return self._begin()
        trial = self._begun or self._active
        if trial is None:
            return []
        self.act(trial, code)
        return self._retire(trial) if code == TRIAL_END and self._complete(trial) else []

    def _begin(self) -> list[Verdict]:
        skipped = self._begun  # one packet begins two trials: the first has no packet of its own
        self._close(self._begun or self._active)
        block, packet = self._blocks.current, self._packets - 1
        trials = self._trials.setdefault(block, [])
        self._begun = Trial(block, len(trials), self._received, first_packet=packet)
        trials.append(self._begun)
        return self._retire(skipped)

    def _close(self, trial: Trial | None) -> None:
        """The packet that was received last is the last one that a trial occupies."""
        if trial is not None and trial.last_packet is None:
            trial.last_packet = self._packets - 1

    def _extend(self, trial: Trial) -> list[Verdict]:
        """The running trial occupies one packet more: close it if it has all its data.

        Returns its verdict if it was given before, since an outage may touch this packet.
        """
        limit_s = self.closes_after_s
        if limit_s is not None and self._received - trial.origin >= limit_s * self.rate:
            self._close(trial)
        key = trial.block, trial.number
        if not self.voids or key not in self._given:
            return []
        return [self._judged(trial, self._labels[trial.block][trial.number], *key)]

    def _complete(self, trial: Trial) -> bool:
        """Its end was seen and it has all its answers: no further one counts."""
        return trial.end_packet is not None and len(trial.reports) >= self.answers_wanted

    def _retire(self, trial: Trial | None) -> list[Verdict]:
        if trial is None:
            return []
        trial.over = True
        return self._settle(trial)

    def _settle(self, trial: Trial) -> list[Verdict]:
        labels = self._labels.get(trial.block, [])
        key = trial.block, trial.number
        if not trial.over or trial.number >= len(labels) or key in self._given:
            return []
        self._given.add(key)
        return [self._judged(trial, labels[trial.number], *key)]

    def _judged(self, trial: Trial | None, label: Label | None, block: int, number: int) -> Verdict:
        if label is None:
            assert trial is not None
            unlabelled = Reason("trial_unlabelled")
            answers = tuple(self.answer(report, None, unlabelled) for report in trial.reports)
            reasons = (Reason("no_label"),)
            return Verdict(
                self.subject, block, number, None, answers, scored=False, reasons=reasons
            )
        missing = Reason("trigger_missing") if trial is None else None
        trial = trial or Trial(block, number, 0)
        verdict = self.judge(trial, label, missing)
        why = self.voids.by_operator(block, number) or self.voids.by_outage(self._occupied(trial))
        return verdict if why is None else voided(verdict, why)

    def _occupied(self, trial: Trial) -> PacketSpan | None:
        """The packets of a trial, as if the session ended here; None without a trigger."""
        if trial.first_packet is None:
            return None
        last = self._packets - 1 if trial.last_packet is None else trial.last_packet
        return trial.first_packet, last

    def _label(self, value: object) -> Label:
        number = self.read(value)
        return Label(number, brief(value) if number is None else self.classes[number])

    def _refuse(self, result: object, reason: Reason) -> list[Verdict]:
        self.refusals.add(self._packets, result, reason)
        return []


def labels_in(event: Event) -> Iterator[tuple[int, object]]:
    """(block, label) of a truth line: `blocks` [[label, ...], ...], or `block` and `label`."""
    if "blocks" in event:
        for block, labels in enumerate(items(event, "blocks")):
            if not isinstance(labels, list | tuple):
                raise RuleError(f"`blocks` must be a list of lists of labels; got {labels!r}")
            yield from ((block, label) for label in labels)
    if "label" in event:
        yield count(event, "block"), event_field(event, "label")


def itr_bits_per_min(right: int, trials: int, classes: int, trial_s: float) -> float:
    """60/T * (log2 M + P log2 P + (1-P) log2((1-P)/(M-1))) with P = right/trials; 0 up to chance.

    Chance is compared in whole numbers: at P = 1/M the formula gives 0 but for rounding.
    """
    if right * classes <= trials:
        return 0.0
    p = right / trials
    bits = log2(classes) + p * log2(p)
    if right < trials:
        bits += (1 - p) * log2((1 - p) / (classes - 1))
    return 60.0 / trial_s * bits
