"""emotion: nine classes, a decision each second. From seed 002.

`tracks.common.seconds` has which second a report belongs to; this module has how it counts. A trial is
a clip: 28 of them in 7 blocks (section 2.1).
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from tracks.common.codes import BLOCK_END, BLOCK_START, TRIAL_END, TRIAL_START
from tracks.common.events import Event, count, items, range_in, triggers
from tracks.common.events import field as event_field
from tracks.common.leads import EMOTION_FIRST_BATCH, EMOTION_SECOND_BATCH
from tracks.common.masks import CodeMask
from tracks.common.numbers import exact, read_int
from tracks.common.outages import Voids, voided
from tracks.common.reasons import Reason
from tracks.common.seconds import Second, SecondGrid
from tracks.common.truth import JITTER_S, Angles, LabelledBlock, TruthEvent, TruthReader, in_seconds
from tracks.common.verdicts import Answer, OpenTrial, Refusals, Traces, Verdict, brief, mean, scored
from tracks.rules import COMMON_RULES, Rules
from tracks.track import FRAMEWORKS, CodeList, MapFacts, TimelineFacts, Track

# Section 3.1.3 and table 1.
CLASSES = {
    0: "anger",
    1: "disgust",
    2: "fear",
    3: "sadness",
    4: "neutral",
    5: "amusement",
    6: "inspiration",
    7: "joy",
    8: "tenderness",
}

# Seed 002, table 1: number of the clip -> (its length in s, its class).
# fmt: off
CLIPS = {
    1: (81, 0), 2: (63, 0), 3: (73, 0),
    4: (78, 1), 5: (69, 1), 6: (90, 1),
    7: (56, 2), 8: (60, 2), 9: (81, 2),
    10: (45, 3), 11: (60, 3), 12: (81, 3),
    13: (35, 4), 14: (44, 4), 15: (38, 4), 16: (43, 4),
    17: (55, 5), 18: (69, 5), 19: (73, 5),
    20: (129, 6), 21: (77, 6), 22: (83, 6),
    23: (34, 7), 24: (37, 7), 25: (67, 7),
    26: (63, 8), 27: (83, 8), 28: (77, 8),
}
# fmt: on

BLOCKS, CLIPS_A_BLOCK = 7, 4
CLIP_NUMBER_LEAD_S = 0.1
"""Section 2.2.1: the clip's number comes so long before its 240."""

SECONDS_NAMED = 4
MARGIN_S = 1
"""Section 3.1.3: the first and the last second of a clip do not count."""

DEFAULTS = {
    "decision_limit_s": None,
    "grid_after_packet": True,
    "end_packet_counts": True,
    "restart_ends_block": True,
    **COMMON_RULES,
}
"""`decision_limit_s` (3.1.5): a decision that took longer is skipped; off, and 0.5 in the final. The
others were decided, and define the grid of seconds: `tracks.common.seconds`."""


def read(result: object) -> int | None:
    """Section 3.2.3: an int of 0-8, nothing else."""
    number = read_int(result)
    return number if number in CLASSES else None


@dataclass(frozen=True, slots=True)
class Clip:
    """start, end: samples, in the numbering of the packets' `start`; end is exclusive."""

    block: int
    number: int
    start: int
    end: int
    label: object


def clips_in(event: Event) -> Iterator[tuple[int, int, int, object]]:
    """(block, start, end, label) of the clips of a truth line."""
    for clip in items(event, "clips") if "clips" in event else []:
        yield (*range_in(clip, "clips"), event_field(clip, "label"))


@dataclass(frozen=True, slots=True)
class Decision:
    """The report on one second; `number` is the class, None if it is wrong whatever the label is."""

    result: object
    number: int | None
    reason: Reason | None


class EmotionReferee:
    """Section 3.1.3 (a decision a second), 3.1.5 (its limit), 3.3 (the share of right seconds)."""

    def __init__(self, subject: str, rate: Fraction, rules: Rules) -> None:
        self.subject = subject
        self.refusals = Refusals(subject)
        self.voids = Voids()
        self.decision_due = False
        limit = rules["decision_limit_s"]
        self._limit_s = None if limit is None else float(exact(limit, "decision_limit_s"))
        self._grid = SecondGrid(rate, rules)
        self._decisions: dict[Second, Decision] = {}
        self._clips: list[Clip] = []
        self._open: list[Clip] = []  # those without a verdict yet
        self._next_over = 0  # the second of this block with which one of them is over
        self._packets = 0

    def truth(self, event: Event) -> list[Verdict]:
        for block, start, end, label in clips_in(event):
            number = sum(clip.block == block for clip in self._clips)
            self._clips.append(Clip(block, number, start, end, label))
            self._open.append(self._clips[-1])
        return self._settle() + self._moved(event)

    def packet(self, event: Event) -> list[Verdict]:
        self._packets += 1
        listed = triggers(event)
        self.decision_due = self._grid.packet(count(event, "start"), count(event, "n"), listed)
        due = (
            self.decision_due
            and self._grid.last is not None
            and self._grid.last[1] >= self._next_over
        )
        return self._settle() if due or listed else []

    def report(self, event: Event) -> list[Verdict]:
        result = event.get("result")
        second = self._grid.last
        if second is None:
            self.refusals.add(self._packets, result, Reason("no_second_complete"))
        elif second in self._decisions:
            self.refusals.add(self._packets, result, Reason("second_decided"))
        else:
            self._decisions[second] = self._decision(result, event.get("elapsed_s"))
        return []

    def verdicts(self) -> list[Verdict]:
        return [self._judge(clip) for clip in self._clips]

    def provisional(self) -> list[Verdict]:
        return []

    def last_traces(self) -> Traces | None:
        return None

    def open_trial(self) -> OpenTrial | None:
        """The second that was completed last."""
        last = self._grid.last
        if last is None or not self._grid.in_block:
            return None
        return OpenTrial(*last, used_s=last[1] + 1.0, reports=last in self._decisions)

    def _decision(self, result: object, elapsed_s: object) -> Decision:
        limit_s = self._limit_s
        if limit_s is not None and isinstance(elapsed_s, int | float) and elapsed_s > limit_s:
            why = Reason("over_decision_limit", elapsed_s=elapsed_s, limit_s=limit_s)
            return Decision(result, None, why)
        number = read(result)
        unread = Reason("not_an_int", result=brief(result)) if number is None else None
        return Decision(result, number, unread)

    def _settle(self) -> list[Verdict]:
        """Verdicts of the clips whose last second can take no more decision."""
        over = [clip for clip in self._open if self._is_over(clip)]
        self._open = [clip for clip in self._open if clip not in over]
        stops = [self._seconds_of(clip).stop for clip in self._open if self._is_playing(clip)]
        self._next_over = min(stops, default=sys.maxsize)
        return [self._judge(clip) for clip in over]

    def _moved(self, event: Event) -> list[Verdict]:
        """Verdicts in blocks where a truth line may have moved the places of clips."""
        blocks = {block for block, *_ in clips_in(event)} if self.voids else set()
        moved = (clip for clip in self._clips if clip.block in blocks and clip not in self._open)
        return [self._judge(clip) for clip in moved]

    def _is_over(self, clip: Clip) -> bool:
        if not self._is_playing(clip):
            return clip.block < self._grid.block
        last = self._grid.last
        return last is not None and last[1] >= self._seconds_of(clip).stop

    def _is_playing(self, clip: Clip) -> bool:
        return clip.block == self._grid.block and self._grid.began(clip.block)

    def _seconds_of(self, clip: Clip) -> range:
        return self._grid.inside(clip.block, clip.start, clip.end, MARGIN_S)

    def _judge(self, clip: Clip) -> Verdict:
        began = self._grid.began(clip.block)
        answers = tuple(self._answers(clip)) if began else ()
        right = tuple(answer.right for answer in answers if answer.right is not None)
        verdict = Verdict(
            self.subject,
            clip.block,
            clip.number,
            _name(clip),
            answers,
            scored=bool(right) or not began,
            right=right,
            share=mean(right),
            reasons=self._reasons(clip, answers) if began else (Reason("block_missing"),),
            void_parts=len(answers) - len(right),
        )
        why = self._why_void(clip, answers, began)
        return verdict if why is None else voided(verdict, why, len(answers))

    def _why_void(self, clip: Clip, answers: Sequence[Answer], began: bool) -> Reason | None:
        """Why the whole clip is void; None if a second of it counts, or none ever did."""
        if began and not answers:
            return None
        outages = [answer.reason for answer in answers if answer.right is None]
        by_outage = outages[0] if outages and len(outages) == len(answers) else None
        return self.voids.by_operator(clip.block, self._place(clip)) or by_outage

    def _place(self, clip: Clip) -> int:
        """The place of a clip in its block, in order of `start`: `void` lines count so."""
        in_block = [
            (other.start, other.number) for other in self._clips if other.block == clip.block
        ]
        return sorted(in_block).index((clip.start, clip.number))

    def _reasons(self, clip: Clip, answers: Sequence[Answer]) -> tuple[Reason, ...]:
        """How many seconds are right, and each reason with the seconds that it holds for."""
        if not answers:
            return (Reason("no_whole_second"),)
        counted = [answer.right for answer in answers if answer.right is not None]
        wrong: dict[Reason, list[int]] = {}
        for second, answer in zip(self._seconds_of(clip), answers, strict=True):
            if answer.reason is not None:
                wrong.setdefault(answer.reason, []).append(second)
        reasons = (_in_seconds(seconds, reason) for reason, seconds in wrong.items())
        return (Reason("seconds_right", right=sum(counted), total=len(counted)), *reasons)

    def _answers(self, clip: Clip) -> list[Answer]:
        return [self._answer(clip, second) for second in self._seconds_of(clip)]

    def _answer(self, clip: Clip, second: int) -> Answer:
        answer = _decided(second, self._decisions.get((clip.block, second)), clip)
        why = self.voids.by_outage(self._grid.occupied(clip.block, second))
        return answer if why is None else replace(answer, right=None, reason=why)


def _name(clip: Clip) -> str:
    wanted = read(clip.label)
    return brief(clip.label) if wanted is None else CLASSES[wanted]


def _decided(second: int, decision: Decision | None, clip: Clip) -> Answer:
    if decision is None:
        return Answer(None, None, None, "second", False, Reason("no_report"))
    name = None if decision.number is None else CLASSES[decision.number]
    if name is None:
        return Answer(decision.result, None, second, "second", False, decision.reason)
    right = decision.number == read(clip.label)
    why = None if right else Reason("wrong_class", answer=name, label=_name(clip))
    return Answer(decision.result, name, second, "second", right, why)


def _in_seconds(seconds: list[int], why: Reason) -> Reason:
    """The seconds by number if they are few, else how many they are."""
    if len(seconds) == 1:
        return Reason("in_second", second=seconds[0], why=why)
    if len(seconds) > SECONDS_NAMED:
        return Reason("in_many_seconds", count=len(seconds), why=why)
    return Reason("in_seconds", seconds=tuple(seconds), why=why)


def score(verdicts: Sequence[Verdict], _: Rules = DEFAULTS) -> float:
    """Section 3.3: the mean over a subject's clips of the share of right seconds."""
    return mean([verdict.share or 0.0 for verdict in scored(verdicts)])


def explain(verdicts: Sequence[Verdict], _: Rules = DEFAULTS) -> list[str]:
    return [f"the mean of {len(scored(verdicts))} clips"]


class EmotionMask(CodeMask):
    """Section 2.2.2: clip numbers, 240 and 241 are not shown."""

    def show(self, code: int) -> int | None:
        return None if code in CLIPS or code in (TRIAL_START, TRIAL_END) else code


class EmotionTruth(TruthReader):
    """Section 2.2.1: the clip's number, 240 where it begins, 241 where it ends; each clip once."""

    labels = "trigger 240 after a clip's number 1-28"

    def __init__(self, rate: Fraction, rules: Rules, angles: Angles = None) -> None:
        super().__init__(rate, rules, angles)
        self._seen: dict[int, str] = {}
        self._announced: tuple[int, int] | None = None  # position, clip
        self._playing: tuple[int, int] | None = None

    def code(self, position: int, code: int) -> list[TruthEvent]:
        if code == TRIAL_START:
            self._begin(position)
        elif code == TRIAL_END:
            return [self._end(position)]
        elif code in CLIPS:
            self._announce(position, code)
        return []

    def block_over(self) -> None:
        if self._playing:
            raise self.error(self._playing[0], "240 without 241", "241 before the block ends")
        if self._announced:
            position, clip = self._announced
            raise self.error(position, f"clip {clip} without 240", "240 before the block ends")

    def _announce(self, position: int, clip: int) -> None:
        if clip in self._seen:
            got = f"clip {clip} twice (before: {self._seen[clip]})"
            raise self.error(position, got, "each clip once in a session")
        before = self._announced or self._playing
        if before:
            got = f"clip {clip} within clip {before[1]}"
            raise self.error(position, got, "240 and 241 before it")
        self._seen[clip] = self.place(position)
        self._announced = position, clip

    def _begin(self, position: int) -> None:
        if self._playing:
            raise self.error(position, "240 within a clip", "241 before it")
        if not self._announced:
            raise self.error(position, "240 without a clip", "a clip's number 1-28 before it")
        self._playing, self._announced = (position, self._announced[1]), None

    def _end(self, position: int) -> TruthEvent:
        if not self._playing:
            raise self.error(position, "241 without 240", "240 before it")
        (start, number), self._playing = self._playing, None
        label = CLIPS[number][1]
        clip = {"block": self.blocks.current, "start": start, "end": position, "label": label}
        return {"kind": "truth", "clips": [clip]}


SHORTEST_CLIP_S = 2 * MARGIN_S + 1
"""A shorter clip has no second that counts, wherever the grid of seconds lies."""


def check_block(block: LabelledBlock) -> Iterator[str]:
    """Warnings: clips of which no second counts, a number at the wrong time before its clip."""
    in_block, clip, announced, start = False, 0, 0, 0
    for sample, code in block.ordered():
        if code in (BLOCK_START, BLOCK_END):
            in_block = code == BLOCK_START
        elif code in CLIPS:
            clip, announced = code, sample
        elif code == TRIAL_START:
            start = sample
            if not in_block:
                got = f"clip {clip} outside a block, so no second of it is decided on"
                rule = "242 before it: a clip of a block that never began is 0"
                yield block.warning(start, got, rule)
            lead_s = block.seconds(announced, start)
            if abs(lead_s - CLIP_NUMBER_LEAD_S) > JITTER_S:
                got = f"240 {in_seconds(lead_s)} after its clip's number {clip}"
                yield block.warning(start, got, in_seconds(CLIP_NUMBER_LEAD_S))
        elif code == TRIAL_END and block.seconds(start, sample) < SHORTEST_CLIP_S:
            length = in_seconds(block.seconds(start, sample))
            got = f"clip {clip} of {length}, so no second of it counts"
            least = in_seconds(SHORTEST_CLIP_S)
            rule = f"at least {least}, since its first and last second do not count"
            yield block.warning(start, got, rule)


def _moments(codes: CodeList) -> Iterator[tuple[int, str]]:
    clip = None
    for at, code in codes:
        if code in CLIPS:
            clip = code
        elif code == TRIAL_START and clip is not None:
            yield at, CLASSES[CLIPS[clip][1]]


NAMES = {
    "en": {"emotion": "Emotion", "share of seconds": "of seconds"},
    "zh": {
        "emotion": "情绪",
        "share of seconds": "秒正确率",
        "anger": "愤怒",
        "disgust": "恶心",
        "fear": "恐惧",
        "sadness": "悲伤",
        "neutral": "中性",
        "amusement": "愉悦",
        "inspiration": "激励",
        "joy": "高兴",
        "tenderness": "温情",
    },
}

TRACK = Track(
    name="emotion",
    title="Emotion recognition",
    rate=250,
    leads=EMOTION_SECOND_BATCH,
    lead_kinds={},
    packet_samples=50,
    unit="share of seconds",
    used_unit="",
    classes=CLASSES,
    rules=DEFAULTS,
    read=read,
    make_mask=EmotionMask,
    make_truth=EmotionTruth,
    make_referee=EmotionReferee,
    score_by=score,
    running_by=score,
    explain_by=explain,
    lead_orders={1: EMOTION_FIRST_BATCH, 2: EMOTION_SECOND_BATCH},
    names=NAMES,
    timeline=TimelineFacts(20.0),
    parts="seconds",
    waits=False,
    maps=MapFacts(_moments, window_s=(1.0, 30.0), band_hz=(8.0, 13.0)),
    check_block=check_block,
    left_out="person",
    synthetic="replay.synthetic.emotion:SETS",
    sample_params={"blocks": "1", "pace": "0.02"},
    dry_run_params={"blocks": "1", "pace": "0.1"},
    rearrange_test="replay.tools.clip_shuffle:shuffled_clips",
    default_decoder="emotion-de",
    interfaces=(*FRAMEWORKS, "my_algorithm"),
)
