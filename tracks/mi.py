"""mi: motor imagery, three classes, three reports a trial. From seed 000.

A trial (section 1): 2 s cue, 4 s imagery, 2 s rest; cue and rest are zeroed. It begins at 200.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

from tracks.common.codes import BLOCK_END, BLOCK_START, SESSION_END, SESSION_START, TRIAL_END
from tracks.common.leads import NEUSEN_64, NEUSEN_64_KINDS
from tracks.common.masks import Samples, Triggers, zeroed_outside
from tracks.common.numbers import exact, read_number, strip
from tracks.common.reasons import Reason
from tracks.common.trials import Label, Trial, TrialReferee, TrialReport, itr_bits_per_min
from tracks.common.truth import JITTER_S, Angles, LabelledBlock, TruthEvent, TruthReader, in_seconds
from tracks.common.verdicts import Answer, Verdict, mean, scored
from tracks.rules import COMMON_RULES, Rules
from tracks.track import FRAMEWORKS, CodeList, MapFacts, Profile, TimelineFacts, Track

CLASSES = {1: "left", 2: "right", 3: "feet"}
CUE_S, IMAGERY_S, REST_S = 2, 4, 2

# Tables 2 and 3: the codes of the labelled recording (the tens digit is the class) and of the test.
IMAGERY_START, IMAGERY_2_S, IMAGERY_3_S = 200, 202, 203
SEGMENT_CODES = {
    **dict.fromkeys((11, 21, 31), IMAGERY_START),
    **dict.fromkeys((12, 22, 32), IMAGERY_2_S),
    **dict.fromkeys((13, 23, 33), IMAGERY_3_S),
}

LIMITS_S = (2, 3, 4)
"""T_k, section 3.6 (1): the window of the k-th report, inclusive ("4 s inclusive")."""

_FIRST = {11: 1, 21: 2, 31: 3}
_LATER = (12, 22, 32, 13, 23, 33)
_OWN_CODES = dict(zip((201, 202, 203), CLASSES, strict=True))
_NO_LATER: dict[int, int | None] = dict.fromkeys(_LATER)

PROFILES = {
    "2024": Profile(
        1000, IMAGERY_START, _FIRST, {c: SEGMENT_CODES[c] for c in _LATER}, {n: n for n in CLASSES}
    ),
    "2023": Profile(250, 200, {**_FIRST, **_OWN_CODES}, _NO_LATER, _OWN_CODES),
    "2022": Profile(250, 249, {**_FIRST, **_OWN_CODES}, _NO_LATER, _OWN_CODES),
}
"""By year. In 2022 and 2023 classes and results are 201-203, so the codes of the second and third
segment, 202 and 203, can't be shown. Packets are 40 ms in all: 10 samples at 250 Hz."""

DEFAULTS = {"window_tolerance_s": 0.0, "class_names": True, "profile": "2024", **COMMON_RULES}
"""Decided: `profile` is the year whose codes are in use. `window_tolerance_s` is added to each T_k;
the packet with 241 ends a trial anyway (2.1; "not 4 s": 2.2). `class_names`: a report may be left,
right or feet instead of 1, 2 or 3."""


def read(
    result: object, class_names: bool = True, results: Mapping[int, int] = PROFILES["2024"].results
) -> int | None:
    """1, 2, 3 (or what the profile has), or (decided) left, right, feet in any case."""
    if class_names and isinstance(result, str):
        word = strip(result).lower()
        for number, name in CLASSES.items():
            if word == name:
                return number
    number_read = read_number(result)
    return None if number_read is None else results.get(number_read)


class MiReferee(TrialReferee):
    """Section 3.6 (valid reports), 3.7 (when a trial's data begins), 3.8 (many, missing, late)."""

    classes = CLASSES
    answers_wanted = len(LIMITS_S)
    next_trigger_ends_trial = True  # by then the previous trial is over: a report counts for none

    def __init__(self, subject: str, rate: Fraction, rules: Rules) -> None:
        super().__init__(subject, rate, rules)
        self._tolerance_s = exact(rules["window_tolerance_s"], "window_tolerance_s")
        self._class_names = bool(rules["class_names"])
        self._profile = PROFILES[rules["profile"]]

    def read(self, result: object) -> int | None:
        return read(result, self._class_names, self._profile.results)

    def _label(self, value: object) -> Label:
        number = read(value)  # a truth line has 1, 2, 3 in all profiles
        return super()._label(value) if number is None else Label(number, CLASSES[number])

    def begins(self, code: int) -> bool:
        return code == self._profile.trial_code

    def judge(self, trial: Trial, label: Label, missing: Reason | None) -> Verdict:
        answers = [self._answer(trial, k, label, missing) for k in range(len(LIMITS_S))]
        right = tuple(bool(answer.right) for answer in answers)
        beyond = Reason("beyond_third")
        extra = [self.answer(report, None, beyond) for report in trial.reports[len(LIMITS_S) :]]
        given = tuple(answer.reason for answer in answers if answer.reason is not None)
        return Verdict(
            self.subject,
            trial.block,
            trial.number,
            label.text,
            (*answers, *extra),
            scored=True,
            right=right,
            reasons=(missing,) if missing is not None else given,
        )

    def _answer(self, trial: Trial, k: int, label: Label, missing: Reason | None) -> Answer:
        if k >= len(trial.reports):
            return self.no_answer(missing or Reason("no_report_number", number=k + 1))
        report = trial.reports[k]
        why = self._why_invalid(report, k) or self.why_wrong(report, label)
        if why is None:
            return self.answer(report, True, None)
        return self.answer(report, False, Reason("report_number", number=k + 1, why=why))

    def _why_invalid(self, report: TrialReport, k: int) -> Reason | None:
        limit_s = LIMITS_S[k] + self._tolerance_s
        if report.used > limit_s * self.rate:
            used_s = self.seconds(report.used)
            return Reason("over_window", used_s=used_s, limit_s=float(limit_s))
        if report.after_end is not None:
            return Reason("after_submission_point")
        return None


def score(verdicts: Sequence[Verdict], _: Rules = DEFAULTS) -> float:
    """Section 3.6: the mean over k of ITR_k, P_k over all k-th reports of the session."""
    trials = scored(verdicts)
    if not trials:
        return 0.0
    return mean([_itr_k(trials, k, limit_s) for k, limit_s in enumerate(LIMITS_S)])


def explain(verdicts: Sequence[Verdict], _: Rules = DEFAULTS) -> list[str]:
    trials = scored(verdicts)
    return [
        f"report {k + 1}, T = {limit_s} s: {sum(verdict.right[k] for verdict in trials)} of "
        f"{len(trials)} right, {_itr_k(trials, k, limit_s):.4f} bits/min"
        for k, limit_s in enumerate(LIMITS_S)
        if trials
    ]


def _itr_k(trials: Sequence[Verdict], k: int, limit_s: float) -> float:
    right = sum(verdict.right[k] for verdict in trials)
    return itr_bits_per_min(right, len(trials), len(CLASSES), limit_s)


class MiMask:
    """Section 1: only the 4 s of imagery are shown, and no class in the triggers."""

    _ENDS = (TRIAL_END, BLOCK_START, BLOCK_END, SESSION_START, SESSION_END)

    def __init__(self, rate: Fraction, profile: Profile = PROFILES["2024"]) -> None:
        self._imagery = int(IMAGERY_S * rate)
        self._left = 0  # samples of imagery that are still to come
        self._start = profile.trial_code
        self._codes = {**profile.shown, **dict.fromkeys(profile.labels, profile.trial_code)}

    def step(self, samples: Samples, triggers: Triggers) -> tuple[Samples, Triggers]:
        recoded = ((at, self._codes.get(int(code), int(code))) for at, code in triggers)
        shown = tuple((at, code) for at, code in recoded if code is not None)
        return zeroed_outside(samples, self._windows(len(samples), shown)), shown

    def _windows(self, n: int, triggers: Triggers) -> list[tuple[int, int]]:
        """Stretches of imagery within this piece, and how much of the last one is left after it."""
        windows = []
        position = 0
        for offset, code in (*sorted(triggers, key=lambda pair: pair[0]), (n, 0)):
            windows.append((position, min(offset, position + self._left)))
            self._left = max(0, self._left - (offset - position))
            position = offset
            if code == self._start:
                self._left = self._imagery
            elif code in self._ENDS:
                self._left = 0
        return windows


class MiTruth(TruthReader):
    """Table 2: first, second, third segment of one class, then 241.

    The codes of the second and third segment and the 241 may be absent (imagery ends after 4 s by
    itself), but not contradict.
    """

    labels = "trigger 11, 21 or 31 (a first segment)"

    def __init__(self, rate: Fraction, rules: Rules, angles: Angles = None) -> None:
        super().__init__(rate, rules, angles)
        self._profile = PROFILES[rules["profile"]]
        self._open: tuple[int, int, int] | None = None  # position, class, segment

    def code(self, position: int, code: int) -> list[TruthEvent]:
        if code in self._profile.labels:
            code = 10 * self._profile.labels[code] + 1
        if code in SEGMENT_CODES:
            return self._segment(position, code)
        if code == self._profile.trial_code:
            raise self.error(position, f"{code} is a test recording's code", "11, 21 or 31")
        if code == TRIAL_END:
            if self._open is None:
                raise self.error(position, "241 without a trial", "11, 21 or 31 before it")
            self._open = None
        return []

    def _segment(self, position: int, code: int) -> list[TruthEvent]:
        label, segment = divmod(code, 10)
        if segment == 1:
            if self._open and position - self._open[0] < IMAGERY_S * self.rate:
                raise self.error(position, f"{code} within a trial", "241 before the next trial")
            self._open = (position, label, segment)
            return [self.label(label)]
        if self._open is None or self._open[1:] != (label, segment - 1):
            raise self.error(position, f"{code} without {code - 1}", f"{code - 1} before it")
        self._open = (self._open[0], label, segment)
        return []

    def block_over(self) -> None:
        self._open = None


def _is_first_segment(code: int) -> bool:
    return code in SEGMENT_CODES and code % 10 == 1


def check_block(block: LabelledBlock) -> Iterator[str]:
    """Warnings: imagery of less than 4 s, segments at another time than section 1 has them."""
    yield from block.cut_short(_is_first_segment, "imagery", IMAGERY_S)
    first: int | None = None
    for sample, code in block.ordered():
        if _is_first_segment(code):
            first = sample
        elif code in SEGMENT_CODES and first is not None:
            # The second and third segment begin where the first and second report's window ends.
            due_s, got_s = LIMITS_S[code % 10 - 2], block.seconds(first, sample)
            if abs(got_s - due_s) > JITTER_S:
                got = f"{code} {in_seconds(got_s)} after the first segment"
                yield block.warning(sample, got, in_seconds(due_s))


def _moments(codes: CodeList) -> Iterator[tuple[int, str]]:
    return ((at, CLASSES[code // 10]) for at, code in codes if _is_first_segment(code))


def trial_events(label: int, begins_s: float) -> str:
    """The codes of a trial of this class: three segments and 241, counted from an event."""
    times_s = (begins_s, *(begins_s + limit_s for limit_s in LIMITS_S))
    codes = (*(10 * label + segment for segment in (1, 2, 3)), TRIAL_END)
    return "+".join(f"{code}@{at_s:g}" for code, at_s in zip(codes, times_s, strict=True))


def fit_profile(track: Track) -> Track:
    """The track with the facts of its profile."""
    profile = PROFILES[track.rules["profile"]]
    return replace(
        track,
        rate=profile.rate,
        packet_samples=track.packet_samples * profile.rate // track.rate,
        read=partial(read, results=profile.results),
        make_mask=partial(MiMask, profile=profile),
        timeline=TimelineFacts(8.0, begins=lambda code: code == profile.trial_code),
    )


NAMES = {
    "en": {"mi": "Motor imagery"},
    "zh": {
        "mi": "运动想象",
        "bits/min": "比特/分",
        "left": "左手",
        "right": "右手",
        "feet": "双脚",
    },
}

TRACK = Track(
    name="mi",
    title="Motor imagery",
    rate=1000,
    leads=NEUSEN_64,
    lead_kinds=NEUSEN_64_KINDS,
    packet_samples=40,
    unit="bits/min",
    used_unit="s",
    classes=CLASSES,
    rules=DEFAULTS,
    read=read,
    make_mask=MiMask,
    make_truth=MiTruth,
    make_referee=MiReferee,
    score_by=score,
    running_by=score,
    explain_by=explain,
    names=NAMES,
    timeline=TimelineFacts(8.0, begins=lambda code: code == IMAGERY_START),
    maps=MapFacts(_moments, window_s=(0.5, 4.0), band_hz=(8.0, 30.0)),
    check_block=check_block,
    left_out="classes",
    synthetic="replay.synthetic.mi:SETS",
    sample_params={"blocks": "1", "trials": "2"},
    dry_run_params={"blocks": "1", "trials": "6"},
    default_decoder="mi-riemann",
    trial_events=trial_events,
    interfaces=(*FRAMEWORKS, "g5"),
    profiles=PROFILES,
    fit_profile=fit_profile,
)
