"""A track of another package, in one file: are the subject's eyes open or closed?

A trial begins with 51 (open) or 52 (closed), of which the wire shows 50, and ends with 241 after 4 s.
The first report counts, from 1 s of data on. The score is the share of right trials, in percent.
docs/howto/add-a-track.md explains this file; tests/end_to_end/test_sixth_track.py runs it.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from bci_stream.packet import FloatArray, Packet, SignalInfo
from replay.model.recording import Recording
from replay.synthetic.source import NumberParam, Params, RecordingSet, eeg_leads, recording
from replay.synthetic.subject import Subject
from replay.synthetic.timeline import BlockTimeline, TimelineBuilder
from tracks.common.codes import TRIAL_END
from tracks.common.masks import CodeMask
from tracks.common.numbers import exact, read_number
from tracks.common.reasons import Reason
from tracks.common.trials import Label, Trial, TrialReferee
from tracks.common.truth import LabelledBlock, TruthEvent, TruthReader
from tracks.common.verdicts import Verdict, mean, scored
from tracks.rules import COMMON_RULES, Rules
from tracks.track import CodeList, MapFacts, TimelineFacts, Track

# --- facts -----------------------------------------------------------------------------------

LEADS = ("Fp1", "Fp2", "C3", "C4", "P3", "P4", "O1", "O2")
OPEN, CLOSED = 1, 2
CLASSES = {OPEN: "open", CLOSED: "closed"}
TRIAL_S = 4.0
SHOWN = 50  # the code on the wire; 50 + class in a labelled recording
LABELS = {SHOWN + number: number for number in CLASSES}

DEFAULTS = {"least_s": 1.0, **COMMON_RULES}
"""least_s: seconds of data that a report needs at least."""

WORDS = {
    "en": {"too_early": "at {used_s:.2f} s: at least {least_s:g} s are needed"},
    "zh": {"too_early": "{used_s:.2f} 秒时报告：至少需要 {least_s:g} 秒"},
}


# --- mask, truth, referee, score -------------------------------------------------------------


class EyesMask(CodeMask):
    """Hides the class: 51 and 52 become 50."""

    def show(self, code: int) -> int | None:
        return SHOWN if code in LABELS else code


class EyesTruth(TruthReader):
    """Reads the labels of a recording: 51 or 52, then 241."""

    labels = "trigger 51 or 52 (a trial's start)"
    _start: int | None = None

    def code(self, position: int, code: int) -> list[TruthEvent]:
        if code in LABELS:
            if self._start is not None:
                raise self.error(position, f"{code} within a trial", "241 before it")
            self._start = position
            return [self.label(LABELS[code])]
        if code == TRIAL_END:
            self._start = None
        return []

    def block_over(self) -> None:
        if self._start is not None:
            raise self.error(self._start, "a trial without 241", "241 before the block ends")


def read(result: object) -> int | None:
    number = read_number(result)
    return number if number in CLASSES else None


class EyesReferee(TrialReferee):
    """The first report of a trial counts, once enough data was received."""

    classes = CLASSES

    def __init__(self, subject: str, rate: Fraction, rules: Rules) -> None:
        super().__init__(subject, rate, rules)
        self._least_s = float(exact(rules["least_s"], "least_s"))

    def read(self, result: object) -> int | None:
        return read(result)

    def begins(self, code: int) -> bool:
        return code == SHOWN

    def judge(self, trial: Trial, label: Label, missing: Reason | None) -> Verdict:
        if not trial.reports:
            answer = self.no_answer(missing or Reason("no_report"))
            return self.one_answer(trial, label, answer, TRIAL_S)
        first = trial.reports[0]
        used_s = self.seconds(first.used)
        if used_s < self._least_s:
            why: Reason | None = Reason("too_early", used_s=used_s, least_s=self._least_s)
        else:
            why = self.why_wrong(first, label)
        return self.one_answer(trial, label, self.answer(first, why is None, why), used_s)


def score(verdicts: Sequence[Verdict], _: Rules = DEFAULTS) -> float:
    return 100 * mean([float(verdict.right[0]) for verdict in scored(verdicts)])


def explain(verdicts: Sequence[Verdict], _: Rules = DEFAULTS) -> list[str]:
    trials = scored(verdicts)
    return [f"{sum(verdict.right[0] for verdict in trials)} of {len(trials)} trials right"]


def check_block(block: LabelledBlock) -> Iterator[str]:
    """Warnings: trials of less than 4 s."""
    return block.cut_short(LABELS.__contains__, "one state of the eyes", TRIAL_S)


def _moments(codes: CodeList) -> Iterator[tuple[int, str]]:
    return ((at, CLASSES[LABELS[code]]) for at, code in codes if code in LABELS)


# --- the track -------------------------------------------------------------------------------

TRACK = Track(
    name="eyes",
    title="Eyes open or closed",
    rate=250,
    leads=LEADS,
    lead_kinds={},
    packet_samples=25,
    unit="percent",
    used_unit="s",
    classes=CLASSES,
    rules=DEFAULTS,
    read=read,
    make_mask=EyesMask,
    make_truth=EyesTruth,
    make_referee=EyesReferee,
    score_by=score,
    running_by=score,
    explain_by=explain,
    names={
        "en": {"eyes": "Eyes", "percent": "%"},
        "zh": {"eyes": "睁眼闭眼", "percent": "%", "open": "睁眼", "closed": "闭眼"},
    },
    reasons=WORDS,
    timeline=TimelineFacts(TRIAL_S + 2, begins=lambda code: code == SHOWN),
    maps=MapFacts(_moments, window_s=(0.5, TRIAL_S), band_hz=(8.0, 12.0)),
    check_block=check_block,
    synthetic="sixth_track:SETS",
    sample_params={"trials": "2"},
    dry_run_params={"trials": "4"},
    default_decoder="sixth_track:AlphaPower",
)


# --- synthetic recordings --------------------------------------------------------------------

PARAMS = {
    "blocks": NumberParam(1, 1, 100, "blocks a subject"),
    "trials": NumberParam(10, 1, 1000, "trials a block"),
}


def record(subject: Subject, params: Params) -> Recording:
    blocks = range(int(params["blocks"]))
    timelines = [_timeline(subject, block, params) for block in blocks]

    def render(block: int) -> FloatArray:
        line = timelines[block]
        rng = subject.session_rng("signal", block)
        data = rng.normal(0, 5, (line.n_samples, len(LEADS))).astype(np.float32)
        alpha = 20 * np.sin(2 * np.pi * 10 * np.arange(line.n_samples) / TRACK.rate)
        for event in line.events:
            if event.label == CLOSED:
                data[event.start : event.stop, -2:] += alpha[event.start : event.stop, None]
        return data

    return recording(subject, TRACK.rate, eeg_leads(LEADS), timelines, render)


def _timeline(subject: Subject, block: int, params: Params) -> BlockTimeline:
    rng = subject.session_rng("timeline", block)
    builder = TimelineBuilder(TRACK.rate, rng)
    builder.begin_block(first=block == 0)
    for trial in range(int(params["trials"])):
        label = OPEN if trial % 2 else CLOSED
        builder.trigger(SHOWN + label)
        builder.event(TRIAL_S, label)
        builder.advance(TRIAL_S)
        builder.trigger(TRIAL_END)
        builder.advance(1.0)
    return builder.finish_block(block == params["blocks"] - 1, TRACK.packet_samples)


SETS = {
    "train": RecordingSet(record, PARAMS),
    "test": RecordingSet(record, PARAMS, first_subject=11),
}


# --- a decoder -------------------------------------------------------------------------------


class AlphaPower:
    """Compares the spread of the last two leads (O1, O2) with that of the others over 2 s."""

    WINDOW_S = 2.0

    def start(self, info: SignalInfo) -> None:
        self._needed = round(self.WINDOW_S * info.rate)
        self._collected: list[FloatArray] | None = None

    def step(self, packet: Packet) -> list[object]:
        results: list[object] = []
        if self._collected is not None:
            self._collected.append(packet.signal.copy())
            signal = np.concatenate(self._collected)
            if len(signal) >= self._needed:
                spread = signal[: self._needed].std(axis=0)
                results.append(CLOSED if spread[-2:].mean() > 1.5 * spread[:-2].mean() else OPEN)
                self._collected = None
        if any(code == SHOWN for _, code in packet.triggers):
            self._collected = []  # the trial's data begin with the next packet
        return results
