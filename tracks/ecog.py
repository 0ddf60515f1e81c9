"""ecog: eight joint angles of a walking animal, 24 of 32 leads. From seed 003.

The decoder first names 24 channels for each subject; after each packet of 40 ms (decided) it
reports the angles of that packet: eight rows of eight joints, at 200 Hz.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tracks.common.angles import (
    ANGLE_RATE,
    JOINTS,
    AngleComparison,
    AngleMoments,
    Prediction,
    RowMask,
    Rows,
    Trace,
    as_rows,
    compare,
    row_at,
)
from tracks.common.codes import TRIAL_END, TRIAL_START, BlockCounter
from tracks.common.events import Event, count, items, range_in, triggers
from tracks.common.leads import ECOG_32
from tracks.common.masks import CodeMask, Triggers
from tracks.common.numbers import exact
from tracks.common.outages import VoidRows, Voids, voided
from tracks.common.reasons import Reason
from tracks.common.truth import Angles, TruthEvent, TruthReader
from tracks.common.verdicts import Answer, OpenTrial, Refusals, Traces, Verdict, by_block, mean
from tracks.errors import TruthError
from tracks.rules import COMMON_RULES, Rules
from tracks.track import TimelineFacts, TraceFacts, Track

CHANNELS_SENT = 24
"""Section 3.2 (2): as many leads as a decoder may choose."""

DEFAULTS = {
    "packet_s": 0.04,
    "short_report_held": True,
    "long_report_cut": True,
    "missing_report_held": True,
    "initial_angle": 0.0,
    "constant_corr": 0.0,
    "constant_nrmse": 1.0,
    "block_codes": True,
    **COMMON_RULES,
}
"""Decided: how long a packet is; that fewer rows than a packet has are held to its end, rows too many
dropped (else such a report is refused), and the last value held over a packet without a report (else
`initial_angle`, which also precedes the first one); what a constant trace scores; that 242 and
243 bound blocks."""

NRMSE_WEIGHT, CORR_WEIGHT = 50, 50
"""Section 3.3 (3)."""

LEAST_ROWS = 2
"""A trial that an outage leaves fewer rows is void."""


class EcogReferee:
    """Section 3.2 (what is reported) and 3.3 (how it is scored)."""

    def __init__(self, subject: str, rate: Fraction, rules: Rules) -> None:
        self.subject = subject
        self.rate = rate
        self.refusals = Refusals(subject)
        self.voids = Voids()
        self.decision_due = False
        self._constant_corr = float(exact(rules["constant_corr"], "constant_corr"))
        self._constant_nrmse = float(exact(rules["constant_nrmse"], "constant_nrmse"))
        self._truth = Trace()
        self._predicted = Prediction(rate, rules)
        self._trials: list[tuple[int, int, int]] = []  # block, first row, row after the last
        self._given = 0
        self._judged: dict[int, tuple[Reason | None, list[VoidRows], Verdict]] = {}
        self._moments = AngleMoments()  # of the rows since the last verdict
        self._measured_from = 0
        self._measured = 0
        self._voids_measured = 0  # lines in `voids` that the moments take into account
        self._row_ends: list[int] = []  # of each packet, the row after its last one
        self._final = 0  # rows before it can change no more
        self._blocks = BlockCounter(rules["block_codes"])
        self._packets = 0

    def truth(self, event: Event) -> list[Verdict]:
        if "angles" in event:
            self._truth.append(as_rows(event["angles"]))
        for trial in items(event, "trials") if "trials" in event else []:
            self._trials.append(range_in(trial, "trials"))
        return self._settle()

    def packet(self, event: Event) -> list[Verdict]:
        self._final = len(self._predicted)
        given = self._settle()
        for _, code in triggers(event):
            self._blocks.see(code)
        self.decision_due = self._predicted.packet(count(event, "n")) > 0
        self._row_ends.append(len(self._predicted))
        self._packets += 1
        return given

    def report(self, event: Event) -> list[Verdict]:
        result = event.get("result")
        refused = self._predicted.report(result)
        if refused is not None:
            self.refusals.add(self._packets, result, refused)
        return []

    def verdicts(self) -> list[Verdict]:
        predicted = self._predicted.filled(len(self._truth))
        return [self._judge(number, predicted) for number in range(len(self._ranges()))]

    def provisional(self) -> list[Verdict]:
        """The rows since the last verdict, as if they were a trial of their own."""
        self._measure()
        found = self._moments.compare(self._constant_nrmse, self._constant_corr)
        if found is None:
            return []
        ahead = self._trials[self._given :]  # in a live run a trial is known once it has ended
        block = ahead[0][0] if ahead else self._blocks.current
        if self.voids and self.voids.by_operator(block, self._place(block, self._given)):
            return []
        return [self._verdict(block, len(self._trials), "", self._measured, found)]

    def last_traces(self) -> Traces | None:
        """Measured and reported angles of the trial that was judged last; None before the first."""
        if not self._given:
            return None
        _, start, end = self._trials[self._given - 1]
        rows = slice(max(0, start), max(0, end))
        return Traces(self._truth.rows[rows], self._predicted.rows[rows])

    def open_trial(self) -> OpenTrial | None:
        if not self._packets:
            return None
        return OpenTrial(self._blocks.current, self._given, self._predicted.seconds, self._packets)

    def _ranges(self) -> list[tuple[int, int, int]]:
        """The trials; without any, all rows are one trial of block 0."""
        return self._trials or [(0, 0, len(self._truth))]

    def _settle(self) -> list[Verdict]:
        """Verdicts of the trials whose rows are all there, in order."""
        given = []
        known = min(len(self._truth), self._final)
        while self._given < len(self._trials) and self._trials[self._given][2] <= known:
            self._given += 1
            given.append(self._judge(self._given - 1, self._predicted.rows))
            self._moments = AngleMoments()
            self._measured = max(self._measured, self._trials[self._given - 1][2])
            self._measured_from = self._measured
        return given

    def _measure(self) -> None:
        if len(self.voids) != self._voids_measured:
            self._moments, self._measured = AngleMoments(), self._measured_from
            self._voids_measured = len(self.voids)
        start, stop = self._measured, min(len(self._truth), self._final)
        if stop > start:
            void = self.voids.rows(self._row_ends, start, stop)
            rows = np.flatnonzero(_kept(range(start, stop), void)) + start
            if len(rows):
                self._moments.add(self._truth.rows[rows], self._predicted.rows[rows])
            self._measured = stop

    def _place(self, block: int, number: int) -> int:
        """The place in its block of a trial, of which `number` trials come before it."""
        return [trial[0] for trial in self._trials[:number]].count(block)

    def _judge(self, number: int, predicted: Rows) -> Verdict:
        """The verdict on a trial; once given, it is computed again only if what is void changed."""
        block, start, end = self._ranges()[number]
        place = self._place(block, number)
        rows = range(max(0, start), min(end, len(self._truth)))
        if not rows:
            no_rows = (Reason("no_angles"),)
            return Verdict(self.subject, block, place, None, (), scored=False, reasons=no_rows)
        void = self.voids.rows(self._row_ends, rows.start, rows.stop)
        why = self.voids.by_operator(block, place)
        if self._judged.get(number, ())[:2] == (why, void):
            return self._judged[number][2]
        label = f"rows {start}-{start + len(rows) - 1}"
        judged = self._compare(block, place, label, rows, predicted, void)
        verdict = judged if why is None else voided(judged, why, len(rows))
        if number < self._given:  # its rows can change no more
            self._judged[number] = why, void, verdict
        return verdict

    def _compare(
        self,
        block: int,
        place: int,
        label: str,
        rows: range,
        predicted: Rows,
        void: list[VoidRows],
    ) -> Verdict:
        """The verdict on rows without those that an outage touches."""
        kept = _kept(rows, void)
        left = int(np.sum(kept))
        if void and left < LEAST_ROWS:
            empty = Verdict(self.subject, block, place, label, (), scored=False)
            return voided(empty, void[0][2], len(rows))
        stretch = slice(rows.start, rows.stop)
        truth, reported = self._truth.rows[stretch][kept], predicted[stretch][kept]
        found = compare(truth, reported, self._constant_nrmse, self._constant_corr)
        more = self._predicted.unreported(rows.start, kept)
        if void:
            why = void[0][2]
            more += (Reason("rows_void", rows=len(rows) - left, total=len(rows), why=why),)
        verdict = self._verdict(block, place, label, left, found, more)
        return replace(verdict, void_parts=len(rows) - left)

    def _verdict(
        self,
        block: int,
        trial: int,
        label: str,
        rows: int,
        found: AngleComparison,
        more: tuple[Reason, ...] = (),
    ) -> Verdict:
        measured = Reason("angles", nrmse=found.nrmse, corr=found.corr)
        answer = Answer(None, None, rows / ANGLE_RATE, "s", None, measured)
        share = trial_score(found.nrmse, found.corr)
        reasons = (measured, *more)
        return Verdict(
            self.subject, block, trial, label, (answer,), scored=True, share=share, reasons=reasons
        )


def _kept(rows: range, void: list[VoidRows]) -> RowMask:
    """Which of the rows no outage touches."""
    kept = np.ones(len(rows), dtype=np.bool_)
    for start, stop, _ in void:
        kept[start - rows.start : stop - rows.start] = False
    return kept


def trial_score(nrmse: float, corr: float) -> float:
    """Section 3.3 (3): (1 - NRMSE) * 50 + CORR * 50."""
    return NRMSE_WEIGHT * (1 - nrmse) + CORR_WEIGHT * corr


def score(verdicts: Sequence[Verdict], _: Rules = DEFAULTS) -> float:
    """A block is the mean of its trials, a session the mean of its blocks."""
    return mean([mean([v.share or 0.0 for v in block]) for block in by_block(verdicts)])


def explain(verdicts: Sequence[Verdict], _: Rules = DEFAULTS) -> list[str]:
    return [
        f"block {block[0].block + 1}: {mean([v.share or 0.0 for v in block]):.4f}, "
        f"the mean of {len(block)} trial{'s' * (len(block) > 1)}"
        for block in by_block(verdicts)
    ]


class EcogTruth(TruthReader):
    """The rows of angles that each piece holds, and the trials, from 240 to 241, in rows."""

    labels = "row of joint angles"

    def __init__(self, rate: Fraction, rules: Rules, angles: Angles = None) -> None:
        super().__init__(rate, rules, angles)
        if angles is None:
            raise TruthError("ecog needs the joint angles of the recording; it has none")
        self._rows = as_rows(angles)
        self._received = 0
        self._shift = 0  # from a position in the block to one in the session
        self._start: tuple[int, int] | None = None  # position and row

    def step(self, block: int, start: int, n: int, triggers: Triggers) -> list[TruthEvent]:
        self._shift = self._received - start
        events = super().step(block, start, n, triggers)
        first = row_at(self._received, self.rate)
        self._received += n
        rows = self._rows[first : row_at(self._received, self.rate)]
        if len(rows):
            events.append({"kind": "truth", "angles": rows.tolist()})
            self._found = True
        return events

    def code(self, position: int, code: int) -> list[TruthEvent]:
        row = row_at(position + self._shift, self.rate)
        if code == TRIAL_START:
            if self._start is not None:
                raise self.error(position, "240 within a trial", "241 before it")
            self._start = position, row
        elif code == TRIAL_END:
            return [self._end(position, row)]
        return []

    def block_over(self) -> None:
        if self._start is not None:
            raise self.error(self._start[0], "240 without 241", "241 before the block ends")

    def _end(self, position: int, row: int) -> TruthEvent:
        if self._start is None:
            raise self.error(position, "241 without 240", "240 before it")
        if row > len(self._rows):
            raise self.error(position, f"angles end at row {len(self._rows)}", f"{row} rows")
        trial = {"block": self.blocks.current, "start": self._start[1], "end": row}
        self._start = None
        return {"kind": "truth", "trials": [trial]}


def _no_class(result: object) -> None:
    """Angles are no classes."""


NAMES = {
    "en": {
        "ecog": "ECoG",
        "sho": "shoulder",
        "elb": "elbow",
        "wri": "wrist",
        "kne": "knee",
        "ank": "ankle",
    },
    "zh": {
        "ecog": "皮层脑电",
        "points": "分",
        "sho": "肩关节",
        "elb": "肘关节",
        "wri": "腕关节",
        "mcp": "掌指关节",
        "hip": "髋关节",
        "kne": "膝关节",
        "ank": "踝关节",
        "mtp": "跖趾关节",
    },
}

TRACK = Track(
    name="ecog",
    title="Joint angles from ECoG",
    rate=1000,
    leads=ECOG_32,
    lead_kinds=dict.fromkeys(ECOG_32, "ECOG"),
    packet_samples=40,
    unit="points",
    used_unit="",
    classes={},
    choose_leads=CHANNELS_SENT,
    rules=DEFAULTS,
    read=_no_class,
    make_mask=CodeMask,
    make_truth=EcogTruth,
    make_referee=EcogReferee,
    score_by=score,
    running_by=score,
    explain_by=explain,
    traces=TraceFacts(JOINTS, ANGLE_RATE),
    names=NAMES,
    timeline=TimelineFacts(10.0),
    parts="rows",
    waits=False,
    synthetic="replay.synthetic.ecog:SETS",
    sample_params={"blocks": "1", "trials": "1", "seconds": "8"},
    dry_run_params={"blocks": "1", "trials": "2", "seconds": "5"},
    default_decoder="ecog-ridge",
    interfaces=("ecog",),
)
