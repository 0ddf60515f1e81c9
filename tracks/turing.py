"""turing: which of seven tasks is it, as early as possible. From seed 001.

A trial (section 4): 3 s cue, 5 s task, 5 s action of the robots. It begins at the task's trigger.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction

from tracks.common.codes import TRIAL_END, TRIAL_START
from tracks.common.leads import NEUSEN_64, NEUSEN_64_KINDS
from tracks.common.masks import CodeMask
from tracks.common.numbers import exact, read_number
from tracks.common.reasons import Reason
from tracks.common.trials import Label, Trial, TrialReferee, TrialReport
from tracks.common.truth import Angles, LabelledBlock, TruthEvent, TruthReader
from tracks.common.verdicts import Verdict, by_block, mean
from tracks.rules import COMMON_RULES, Rules
from tracks.track import CodeList, MapFacts, TimelineFacts, Track

# Table 3: bits 2-0 of a code below 128.
CLASSES = {
    1: "Left-MI",
    2: "Right-MI",
    3: "Left-SSVEP",
    4: "Right-SSVEP",
    5: "Pass-SSVEP",
    6: "Shoot-SSVEP",
    7: "Idle",
}

# Table 2: bits 6-3 are what the two robots do, and each behaviour allows only some tasks.
TASKS_OF_BEHAVIOUR = {
    1: (1, 3, 7),
    2: (1, 2, 3, 4),
    3: (1, 2, 3, 4),
    4: (2, 4, 7),
    5: (5, 7),
    6: (6, 3, 1, 7),
    7: (6, 4, 2, 7),
    8: (6, 3, 1, 7),
    9: (6, 4, 2, 7),
}

SSVEP_HZ = {3: 15.4, 4: 15.5, 5: 15.6, 6: 15.7}
"""Section 3.2: sinusoidal luminance, all of initial phase 0."""

CUE_S, TASK_S, ACTION_S = 3, 5, 5

LIMIT_S = 5
"""Section 8.2: the used data of a report, at most (`limit_inclusive`) or below."""

DEFAULTS = {
    "limit_inclusive": False,
    "missing_trial_s": 5.0,
    "end_closes_trial": False,
    **COMMON_RULES,
}
"""Decided: a report with 5 s is late (8.2 has "below 5 s", 9.9.2 "more than 5 s"); an unreported or
missing trial is charged with `missing_trial_s`; "the next trigger", up to which a report is a
trial's (8.1), is the next trial's, unless `end_closes_trial`: then 241 is one, too."""

SCORE_FACTOR = 200
"""K, section 9.7.2."""


def behaviour_of(code: int) -> int | None:
    """What the robots do, of a task's trigger; None for any other code."""
    behaviour = code >> 3
    return behaviour if behaviour in TASKS_OF_BEHAVIOUR else None


def read(result: object) -> int | None:
    number = read_number(result)
    return number if number in CLASSES else None


class TuringReferee(TrialReferee):
    """Section 8 (one report, its limit), 9.8 (when a trial's data begins), 9.9 (late reports)."""

    classes = CLASSES
    closes_after_s = LIMIT_S

    def __init__(self, subject: str, rate: Fraction, rules: Rules) -> None:
        super().__init__(subject, rate, rules)
        self._missing_s = float(exact(rules["missing_trial_s"], "missing_trial_s"))
        self._inclusive = bool(rules["limit_inclusive"])

    def read(self, result: object) -> int | None:
        return read(result)

    def begins(self, code: int) -> bool:
        return _is_task(code)

    def judge(self, trial: Trial, label: Label, missing: Reason | None) -> Verdict:
        if not trial.reports:
            missing = missing or Reason("no_report")
            charged = Reason("charged", why=missing, charged_s=self._missing_s)
            return self.one_answer(trial, label, self.no_answer(charged), self._missing_s)
        first = trial.reports[0]
        why = self._why_late(first) or self.why_wrong(first, label)
        return self.one_answer(
            trial, label, self.answer(first, why is None, why), self.seconds(first.used)
        )

    def _why_late(self, report: TrialReport) -> Reason | None:
        limit = LIMIT_S * self.rate
        if report.used < limit or (self._inclusive and report.used == limit):
            return None
        used_s = self.seconds(report.used)
        if self._inclusive:
            return Reason("over_limit", used_s=used_s, limit_s=float(LIMIT_S))
        return Reason("at_limit", used_s=used_s, limit_s=float(LIMIT_S))


def score(verdicts: Sequence[Verdict], _: Rules = DEFAULTS) -> float:
    """Section 9.7: the mean over blocks of 200 * N / L, N = ceil(0.8 * trials)."""
    return mean([block_score(block) for block in by_block(verdicts)])


def block_score(block: Sequence[Verdict]) -> float:
    """200 * N / L at the trial with which N are right; 0 where that is never reached."""
    wanted = needed(len(block))
    right, used_s = 0, 0.0
    for verdict in block:
        right += verdict.right[0]
        used_s += verdict.charged_s or 0.0
        if right == wanted:
            return _rate(right, used_s)
    return 0.0


def explain(verdicts: Sequence[Verdict], _: Rules = DEFAULTS) -> list[str]:
    return [_explain_block(block) for block in by_block(verdicts)]


def _explain_block(block: Sequence[Verdict]) -> str:
    wanted = needed(len(block))
    right = sum(verdict.right[0] for verdict in block)
    begin = f"block {block[0].block + 1}: {right} of {len(block)} right, {wanted} needed"
    points = block_score(block)
    if right < wanted or not points:
        return f"{begin}: 0"
    used_s = SCORE_FACTOR * wanted / points
    return f"{begin} and reached with {used_s:.2f} s: {SCORE_FACTOR} * {wanted} / L = {points:.4f}"


def needed(trials: int) -> int:
    """ceil(0.8 * trials), in whole numbers."""
    return -(-4 * trials // 5)


def running(verdicts: Sequence[Verdict], _: Rules = DEFAULTS) -> float:
    """While a block runs: 200 * correct / L so far; the blocks before it as they ended."""
    blocks = by_block(verdicts)
    if not blocks:
        return 0.0
    *ended, last = blocks
    right = sum(verdict.right[0] for verdict in last)
    used_s = sum(verdict.charged_s or 0.0 for verdict in last)
    return mean([*(block_score(block) for block in ended), _rate(right, used_s)])


def _rate(right: int, used_s: float) -> float:
    return SCORE_FACTOR * right / used_s if used_s else 0.0


class TuringMask(CodeMask):
    """Section 6: bits 2-0 of every code below 128 are cleared; what becomes 0 is no trigger."""

    def show(self, code: int) -> int | None:
        if not 0 <= code < 128:
            return code
        return (code & ~0b111) or None


class TuringTruth(TruthReader):
    """Section 6: 240, the task's trigger, 241. Training data (section 10) has the same triggers."""

    labels = "trigger 8-79 (a task)"

    def __init__(self, rate: Fraction, rules: Rules, angles: Angles = None) -> None:
        super().__init__(rate, rules, angles)
        self._start: int | None = None  # of the trial that is open
        self._task: int | None = None
        self._marked = False  # whether the recording has 240 at all

    def code(self, position: int, code: int) -> list[TruthEvent]:
        if code == TRIAL_START:
            return self._begin(position)
        if code == TRIAL_END:
            return self._end(position)
        if 0 < code < 128:
            return self._label(position, code)
        return []

    def block_over(self) -> None:
        if self._start is not None:
            raise self.error(self._start, "240 without 241", "241 before the block ends")

    def _begin(self, position: int) -> list[TruthEvent]:
        if self._start is not None:
            raise self.error(position, "240 within a trial", f"241 after the 240 at {self._start}")
        self._start, self._task, self._marked = position, None, True
        return []

    def _end(self, position: int) -> list[TruthEvent]:
        if self._start is None:
            raise self.error(position, "241 without 240", "240 before it")
        if self._task is None:
            raise self.error(position, "a trial without a task", "a code 8-79 between 240 and 241")
        self._start = None
        return []

    def _label(self, position: int, code: int) -> list[TruthEvent]:
        behaviour, task = code >> 3, code & 0b111
        if behaviour not in TASKS_OF_BEHAVIOUR:
            raise self.error(position, f"code {code}, behaviour {behaviour}", "a behaviour of 1-9")
        allowed = TASKS_OF_BEHAVIOUR[behaviour]
        if task not in allowed:
            got = f"code {code}, task {task} with behaviour {behaviour}"
            raise self.error(position, got, f"one of the tasks {', '.join(map(str, allowed))}")
        if self._marked and self._start is None:
            raise self.error(position, f"task {code} outside a trial", "240 before it")
        if self._marked and self._task is not None:
            raise self.error(position, f"task {code} after task {self._task}", "one task a trial")
        self._task = code
        return [self.label(task)]


def _is_task(code: int) -> bool:
    return behaviour_of(code) is not None


def check_block(block: LabelledBlock) -> Iterator[str]:
    """Warnings: a task of less than 5 s. The robots' action after it may be left out."""
    return block.cut_short(_is_task, "task", TASK_S)


def _moments(codes: CodeList) -> Iterator[tuple[int, str]]:
    return ((at, CLASSES[code & 0b111]) for at, code in codes if _is_task(code) and code & 0b111)


NAMES = {
    "en": {"turing": "Turing"},
    "zh": {"turing": "图灵", "points": "分"},
}

TRACK = Track(
    name="turing",
    title="Brain-computer Turing test",
    rate=250,
    leads=NEUSEN_64,
    lead_kinds=NEUSEN_64_KINDS,
    packet_samples=10,
    unit="points",
    used_unit="s",
    classes=CLASSES,
    rules=DEFAULTS,
    read=read,
    make_mask=TuringMask,
    make_truth=TuringTruth,
    make_referee=TuringReferee,
    score_by=score,
    running_by=running,
    explain_by=explain,
    names=NAMES,
    timeline=TimelineFacts(10.0, begins=_is_task),
    maps=MapFacts(_moments, window_s=(0.5, 5.0), band_hz=(15.0, 16.0)),
    check_block=check_block,
    synthetic="replay.synthetic.turing:SETS",
    sample_params={"blocks": "1", "rounds": "1", "trials": "2"},
    dry_run_params={"blocks": "1", "rounds": "2", "trials": "4"},
    default_decoder="turing-phase",
)
