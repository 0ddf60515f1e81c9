"""A doubt: where a recording departs from its track's rules, though its labels can be read.

What can't be read is refused by the track's truth reader (`tracks.common.truth`).
What is listed here would be
played and judged, but hardly as the rules mean it. Triggers that a rule leaves open are no doubt.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bci_stream.packet import Triggers
from tracks.common.codes import BLOCK_END, BLOCK_START, SESSION_END, TRIAL_END, TRIAL_START
from tracks.emotion import CLIP_NUMBER_LEAD_S, CLIPS, MARGIN_S
from tracks.erp import FLASHES, SEQUENCE_END, SEQUENCES, TARGETS
from tracks.mi import IMAGERY_S, LIMITS_S, SEGMENT_CODES
from tracks.turing import TASK_S, behaviour_of

JITTER_S = 0.1
"""A trigger that is no further off stands in its place: twice the 50 ms of a recording's own jitter."""

SHORTEST_CLIP_S = 2 * MARGIN_S + 1
"""A shorter clip has no second that counts, wherever the grid of seconds lies."""

_ENDS = (TRIAL_END, BLOCK_START, BLOCK_END, SESSION_END)


@dataclass(frozen=True)
class _Block:
    """One block of a recording, its triggers in the order in which they act."""

    number: int
    rate: float
    n_samples: int
    triggers: Triggers

    def seconds(self, start: int, stop: int) -> float:
        return (stop - start) / self.rate

    def doubt(self, sample: int, got: str, expected: str) -> str:
        return f"{place_in(self.number, sample, self.rate)}: {got}; expected {expected}"


def track_doubts(track: str, rate: float, blocks: Sequence[tuple[int, Triggers]]) -> list[str]:
    """What is doubtful about a recording of a track. blocks: (samples, triggers) of each, in order."""
    check = _CHECKS.get(track)
    if check is None:
        return []
    return [
        doubt
        for number, (n_samples, triggers) in enumerate(blocks)
        for doubt in check(_Block(number, rate, n_samples, tuple(sorted(triggers, key=_order))))
    ]


def place_in(block: int, sample: int, rate: float) -> str:
    """A place of a recording, as a truth reader's errors have it."""
    return f"block {block}, sample {sample} ({sample / rate:.3f} s)"


def _order(trigger: tuple[int, int]) -> tuple[int, bool]:
    """By sample; at one and the same sample a trial ends before the next one begins."""
    return trigger[0], trigger[1] != TRIAL_END


def _mi(block: _Block) -> Iterator[str]:
    yield from _cut_short(block, _is_first_segment, "imagery", IMAGERY_S)
    first: int | None = None
    for sample, code in block.triggers:
        if _is_first_segment(code):
            first = sample
        elif code in SEGMENT_CODES and first is not None:
            # The second and third segment begin where the first and second report's window ends.
            due_s, got_s = LIMITS_S[code % 10 - 2], block.seconds(first, sample)
            if abs(got_s - due_s) > JITTER_S:
                got = f"{code} {_s(got_s)} after the first segment"
                yield block.doubt(sample, got, _s(due_s))


def _is_first_segment(code: int) -> bool:
    return code in SEGMENT_CODES and code % 10 == 1


def _turing(block: _Block) -> Iterator[str]:
    # Only the task's own 5 s: a recording without the robots' action after them loses no report.
    yield from _cut_short(block, lambda code: behaviour_of(code) is not None, "task", TASK_S)


def _cut_short(
    block: _Block, begins: Callable[[int], bool], what: str, least_s: float
) -> Iterator[str]:
    """Stretches that are over, by a trigger or with the block, before so many seconds."""
    last = (block.n_samples, 0)
    for number, (start, code) in enumerate(block.triggers):
        if not begins(code):
            continue
        later = block.triggers[number + 1 :]
        stop, ended_by = next(((s, c) for s, c in later if c in _ENDS or begins(c)), last)
        got_s = block.seconds(start, stop)
        if got_s < least_s - JITTER_S:
            end = str(ended_by) if ended_by else "the block's end"
            got = f"{end} comes {_s(got_s)} after {code}"
            yield block.doubt(start, got, f"{_s(least_s)} of {what}")


def _emotion(block: _Block) -> Iterator[str]:
    in_block, clip, announced, start = False, 0, 0, 0
    for sample, code in block.triggers:
        if code in (BLOCK_START, BLOCK_END):
            in_block = code == BLOCK_START
        elif code in CLIPS:
            clip, announced = code, sample
        elif code == TRIAL_START:
            start = sample
            yield from _clip_start(block, clip, announced, start, in_block)
        elif code == TRIAL_END and block.seconds(start, sample) < SHORTEST_CLIP_S:
            got = f"clip {clip} of {_s(block.seconds(start, sample))}, so no second of it counts"
            rule = f"at least {_s(SHORTEST_CLIP_S)}, since its first and last second do not count"
            yield block.doubt(start, got, rule)


def _clip_start(
    block: _Block, clip: int, announced: int, start: int, in_block: bool
) -> Iterator[str]:
    if not in_block:
        got = f"clip {clip} outside a block, so no second of it is decided on"
        yield block.doubt(start, got, "242 before it: a clip of a block that never began is 0")
    lead_s = block.seconds(announced, start)
    if abs(lead_s - CLIP_NUMBER_LEAD_S) > JITTER_S:
        got = f"240 {_s(lead_s)} after its clip's number {clip}"
        yield block.doubt(start, got, _s(CLIP_NUMBER_LEAD_S))


def _erp(block: _Block) -> Iterator[str]:
    start = 0
    sequences: list[list[tuple[int, int]]] = [[]]  # each up to and with its 200
    for sample, code in block.triggers:
        if code in TARGETS:
            start, sequences = sample, [[]]
        elif code in FLASHES:
            sequences[-1].append((sample, code))
        elif code == SEQUENCE_END:
            sequences[-1].append((sample, code))
            sequences.append([])
        elif code == TRIAL_END:
            yield from _speller_trial(block, start, [tuple(each) for each in sequences if each])


def _speller_trial(block: _Block, start: int, sequences: Sequence[Triggers]) -> Iterator[str]:
    found = [doubt for sequence in sequences for doubt in _sequence(block, sequence)]
    if not found and len(sequences) < SEQUENCES:  # where a 200 is missing, that is said already
        got = f"a trial with {len(sequences) or 'no'} sequence{'s' * (len(sequences) != 1)}"
        rule = f"{SEQUENCES} sequences of {len(FLASHES)} flashes"
        found.append(block.doubt(start, got, rule))
    yield from found


def _sequence(block: _Block, sequence: Triggers) -> Iterator[str]:
    """The first thing that is wrong with a sequence: the others most often follow from it."""
    flashes = [(sample, code) for sample, code in sequence if code in FLASHES]
    groups = [group for _, group in flashes]
    twice = next((n for n, group in enumerate(groups) if group in groups[:n]), None)
    missing = ", ".join(str(group) for group in FLASHES if group not in groups)
    rule = f"each of {len(FLASHES)} groups once, then 200"
    if len(groups) > len(FLASHES):
        got = f"{len(groups)} flashes without a 200 between them"
        yield block.doubt(flashes[len(FLASHES)][0], got, rule)
    elif twice is not None:
        yield block.doubt(flashes[twice][0], f"group {groups[twice]} twice in a sequence", rule)
    elif missing:
        yield block.doubt(sequence[0][0], f"a sequence without group {missing}", rule)
    elif sequence[-1][1] != SEQUENCE_END:
        yield block.doubt(sequence[-1][0], "a sequence without its 200", rule)


def _s(seconds: float) -> str:
    return f"{round(seconds, 3):g} s"


# ecog's labels are angles, not triggers: its truth reader refuses whatever they break.
_CHECKS: dict[str, Callable[[_Block], Iterator[str]]] = {
    "mi": _mi,
    "turing": _turing,
    "emotion": _emotion,
    "erp": _erp,
}
