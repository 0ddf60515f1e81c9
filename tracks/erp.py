"""erp: a P300 speller of 36 characters, no training on the subject. From seed 004.

A trial (section 1): 1 s cue, 5 sequences of 12 flashes of 150 ms, 850 ms between sequences. It
begins at 101-136, of which the wire shows 101 only.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import log2

from tracks.common.codes import TRIAL_END
from tracks.common.leads import NEUSEN_64, NEUSEN_64_KINDS
from tracks.common.masks import CodeMask
from tracks.common.numbers import exact, read_number, strip
from tracks.common.reasons import Reason
from tracks.common.trials import Label, Trial, TrialReferee, TrialReport, itr_bits_per_min
from tracks.common.truth import Angles, LabelledBlock, TruthEvent, TruthReader
from tracks.common.verdicts import Answer, Verdict, mean, scored
from tracks.rules import COMMON_RULES, Rules
from tracks.track import CodeList, MapFacts, TimelineFacts, Track

CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ123456789_"
"""Decided: 101-136 in this order."""

CLASSES = dict(enumerate(CHARACTERS, start=1))

GROUPS = {
    1: "ABCDEF2",
    2: "GHIJKL9",
    3: "MNOPQR8",
    4: "ASTUVWX",
    5: "BHYZ134",
    6: "CIO567_",
    7: "DJPV",
    8: "EKQW3",
    9: "FLRX4_",
    10: "GMSY25",
    11: "NTZ69",
    12: "U178",
}
"""Table 2: which characters flash together, by trigger."""

FIRST_TARGET = 101
TARGETS = range(FIRST_TARGET, FIRST_TARGET + len(CHARACTERS))
FLASHES = range(1, 13)
SEQUENCE_END = 200

CUE_S, FLASH_S, GAP_S = 1.0, 0.15, 0.85
SEQUENCES = 5
FLASHES_THAT_COUNT = 3
"""Section 4.7: with so many of its flashes received, a sequence is used."""

DEFAULTS = {
    "characters": CHARACTERS,
    "numbers_read": True,
    "sequence_s": 1.8,
    "missing_trial_s": 9.0,
    "half_scores_zero": True,
    "block_codes": True,
    **COMMON_RULES,
}
"""Decided: `characters` are 101-136, in order; with `numbers_read` a report may be 1-36 or 101-136;
`sequence_s`, T_s of section 4.6, is 12 flashes of 150 ms; missing or late is 9 s (4.8); where no more
than half are right, the score is 0 (4.6 sets P to 0, which the formula would still pay); 242 and 243
bound blocks."""

LEAST_SHARE_RIGHT = 0.5
"""Section 4.6: more than this must be right."""


def read(result: object, characters: str = CHARACTERS, numbers_read: bool = True) -> int | None:
    """The place of a character, from 1: of a one-character string, in any case, or of a number."""
    if isinstance(result, str):
        text = strip(result)
        if len(text) == 1:
            place = characters.find(text.upper()) if text.isascii() else -1
            return place + 1 or None
    number = read_number(result) if numbers_read else None
    if number is not None and number in TARGETS:
        return number - FIRST_TARGET + 1
    return number if number in CLASSES else None


class ErpReferee(TrialReferee):
    """Section 3.1-2 (when a report is in time), 4.7 (sequences used), 4.8 (many, missing, late)."""

    def __init__(self, subject: str, rate: Fraction, rules: Rules) -> None:
        super().__init__(subject, rate, rules)
        self._characters = str(rules["characters"])
        self._numbers_read = bool(rules["numbers_read"])
        self.classes = dict(enumerate(self._characters, start=1))
        self._sequence_s = float(exact(rules["sequence_s"], "sequence_s"))
        self._missing_s = float(exact(rules["missing_trial_s"], "missing_trial_s"))

    def read(self, result: object) -> int | None:
        return read(result, self._characters, self._numbers_read)

    def begins(self, code: int) -> bool:
        return code in TARGETS

    def act(self, trial: Trial, code: int) -> None:
        super().act(trial, code)
        if trial.end_packet is not None:
            return
        if code == SEQUENCE_END:
            trial.flashes = 0
        elif code in FLASHES:
            trial.flashes += 1
            trial.sequences += trial.flashes == FLASHES_THAT_COUNT

    def judge(self, trial: Trial, label: Label, missing: Reason | None) -> Verdict:
        if not trial.reports:
            answer = self.no_answer(self._charged(missing or Reason("no_report")))
            return self.one_answer(trial, label, answer, self._missing_s)
        first = trial.reports[0]
        if first.after_end:
            answer = self.answer(first, False, self._charged(Reason("after_trial_end")))
            return self.one_answer(trial, label, answer, self._missing_s)
        why = self.why_wrong(first, label)
        charged_s = used_sequences(first) * self._sequence_s
        return self.one_answer(trial, label, self.answer(first, why is None, why), charged_s)

    def _charged(self, why: Reason) -> Reason:
        return Reason("charged", why=why, charged_s=self._missing_s)

    def answer(self, report: TrialReport, right: bool | None, reason: Reason | None) -> Answer:
        number = self.read(report.result)
        name = None if number is None else self.classes[number]
        return Answer(report.result, name, used_sequences(report), "sequences", right, reason)


def used_sequences(report: TrialReport) -> int:
    """m: at least 1, at most 5."""
    return min(max(report.sequences, 1), SEQUENCES)


def score(verdicts: Sequence[Verdict], rules: Rules = DEFAULTS) -> float:
    """Section 4.6: ITR over the mean trial time; where P <= 0.5 0, or what the formula pays for 0."""
    trials = scored(verdicts)
    right = sum(verdict.right[0] for verdict in trials)
    if right > LEAST_SHARE_RIGHT * len(trials):
        return itr_bits_per_min(right, len(trials), len(CLASSES), _mean_s(trials))
    if rules["half_scores_zero"] or not trials:
        return 0.0
    return 60.0 / _mean_s(trials) * log2(len(CLASSES) / (len(CLASSES) - 1))


def explain(verdicts: Sequence[Verdict], rules: Rules = DEFAULTS) -> list[str]:
    trials = scored(verdicts)
    right = sum(verdict.right[0] for verdict in trials)
    begin = f"{right} of {len(trials)} right"
    if right > LEAST_SHARE_RIGHT * len(trials):
        return [f"{begin}, {_mean_s(trials):.4f} s a trial in the mean"]
    so = "so 0" if rules["half_scores_zero"] else "so P is set to 0"
    return [f"{begin}: more than half must be, {so}"]


def _mean_s(trials: Sequence[Verdict]) -> float:
    return mean([verdict.charged_s or 0.0 for verdict in trials])


class ErpMask(CodeMask):
    """Section 2: every trial start is replaced by 101."""

    def show(self, code: int) -> int | None:
        return FIRST_TARGET if code in TARGETS else code


class ErpTruth(TruthReader):
    """Table 2: 101-136, flashes and 200, then 241."""

    labels = "trigger 101-136 (a trial's start)"

    def __init__(self, rate: Fraction, rules: Rules, angles: Angles = None) -> None:
        super().__init__(rate, rules, angles)
        self._characters = str(rules["characters"])
        self._start: int | None = None

    def code(self, position: int, code: int) -> list[TruthEvent]:
        if code in TARGETS:
            if self._start is not None:
                expected = f"241 after the trial's start at {self._start}"
                raise self.error(position, f"{code} within a trial", expected)
            self._start = position
            return [self.label(self._characters[code - FIRST_TARGET])]
        if code == TRIAL_END:
            if self._start is None:
                raise self.error(position, "241 without a trial", "101-136 before it")
            self._start = None
        elif self._start is None and (code in FLASHES or code == SEQUENCE_END):
            raise self.error(position, f"{code} outside a trial", "101-136 before it")
        return []

    def block_over(self) -> None:
        if self._start is not None:
            raise self.error(self._start, "a trial without 241", "241 before the block ends")


def check_block(block: LabelledBlock) -> Iterator[str]:
    """Warnings: sequences that are not 12 groups and a 200, trials of fewer than 5 sequences."""
    start = 0
    sequences: list[list[tuple[int, int]]] = [[]]  # each up to and with its 200
    for sample, code in block.ordered():
        if code in TARGETS:
            start, sequences = sample, [[]]
        elif code in FLASHES:
            sequences[-1].append((sample, code))
        elif code == SEQUENCE_END:
            sequences[-1].append((sample, code))
            sequences.append([])
        elif code == TRIAL_END:
            yield from _check_trial(block, start, [each for each in sequences if each])


def _check_trial(block: LabelledBlock, start: int, sequences: Sequence[CodeList]) -> Iterator[str]:
    found = [warning for each in sequences for warning in _check_sequence(block, each)]
    if not found and len(sequences) < SEQUENCES:  # a missing 200 has its own warning
        got = f"a trial with {len(sequences) or 'no'} sequence{'s' * (len(sequences) != 1)}"
        rule = f"{SEQUENCES} sequences of {len(FLASHES)} flashes"
        found.append(block.warning(start, got, rule))
    yield from found


def _check_sequence(block: LabelledBlock, sequence: CodeList) -> Iterator[str]:
    """The first thing that is wrong with a sequence: the others mostly follow from it."""
    flashes = [(sample, code) for sample, code in sequence if code in FLASHES]
    groups = [group for _, group in flashes]
    twice = next((n for n, group in enumerate(groups) if group in groups[:n]), None)
    missing = ", ".join(str(group) for group in FLASHES if group not in groups)
    rule = f"each of {len(FLASHES)} groups once, then 200"
    if len(groups) > len(FLASHES):
        got = f"{len(groups)} flashes without a 200 between them"
        yield block.warning(flashes[len(FLASHES)][0], got, rule)
    elif twice is not None:
        yield block.warning(flashes[twice][0], f"group {groups[twice]} twice in a sequence", rule)
    elif missing:
        yield block.warning(sequence[0][0], f"a sequence without group {missing}", rule)
    elif sequence[-1][1] != SEQUENCE_END:
        yield block.warning(sequence[-1][0], "a sequence without its 200", rule)


def _moments(codes: CodeList) -> Iterator[tuple[int, str]]:
    character = None
    for at, code in codes:
        if code in TARGETS:
            character = CHARACTERS[code - FIRST_TARGET]
        elif code in FLASHES and character is not None:
            yield at, "target flash" if character in GROUPS[code] else "other flash"


NAMES = {
    "en": {"erp": "P300 speller"},
    "zh": {"erp": "P300 拼写", "bits/min": "比特/分", "sequences": "轮"},
}

TRACK = Track(
    name="erp",
    title="P300 speller",
    rate=250,
    leads=NEUSEN_64,
    lead_kinds=NEUSEN_64_KINDS,
    packet_samples=10,
    unit="bits/min",
    used_unit="sequences",
    classes=CLASSES,
    rules=DEFAULTS,
    read=read,
    make_mask=ErpMask,
    make_truth=ErpTruth,
    make_referee=ErpReferee,
    score_by=score,
    running_by=score,
    explain_by=explain,
    names=NAMES,
    timeline=TimelineFacts(14.0, begins=TARGETS.__contains__),
    maps=MapFacts(_moments, window_s=(0.25, 0.45), band_hz=None),
    check_block=check_block,
    left_out="person",
    synthetic="replay.synthetic.erp:SETS",
    sample_params={"trials": "2"},
    dry_run_params={"blocks": "1", "trials": "6"},
    default_decoder="erp-bayes",
)
