"""The emotion test set: a subject's clips in a new order, each corrected by its own baseline.

Seed 002, section 2.2: the order of the films is shuffled and the signal between two films is
baseline-corrected, so that neighbours need not share their valence. A clip is taken with the
fixation before it; the mean of that is its baseline, so nothing of the clip itself is used.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Triggers
from replay.model.recording import ArrayBlock, Block, Recording
from tracks.common.codes import (
    BLOCK_END,
    BLOCK_START,
    SESSION_END,
    SESSION_START,
    TRIAL_END,
    TRIAL_START,
)
from tracks.emotion import CLIPS

FIXATION_S = 5.0
TAIL_S = 1.0


@dataclass(frozen=True)
class ClipPiece:
    """A clip with its fixation and tail; its triggers count from the start of the piece."""

    samples: FloatArray
    triggers: Triggers


def shuffled_clips(recording: Recording, rng: np.random.Generator) -> Recording:
    """The same clips in an order drawn by rng, with as many clips in each block as before.

    The recording must follow the rules of the track; incomplete clips are left out.
    """
    by_block = [_clips(block, recording.rate) for block in recording.blocks]
    pieces = [piece for clips in by_block for piece in clips]
    if not pieces:
        raise SourceError(
            f"{recording.subject} has no clip: emotion's need a number 1-28, then 240, then 241"
        )
    order = iter(rng.permutation(len(pieces)))
    blocks = [_block([pieces[next(order)] for _ in clips]) for clips in by_block if clips]
    return dataclasses.replace(recording, blocks=_with_session_codes(blocks))


def _clips(block: Block, rate: float) -> list[ClipPiece]:
    pieces, free_from = [], 0
    bounds = _bounds(block.triggers)
    next_numbers = [*(number for number, *_ in bounds[1:]), block.n_samples]
    for (number, start, end, code), next_number in zip(bounds, next_numbers, strict=True):
        first = min(number, max(free_from, number - round(FIXATION_S * rate)))
        # The tail ends where the next clip begins.
        free_from = max(end + 1, min(end + 1 + round(TAIL_S * rate), next_number))
        samples = block.read(first, free_from)
        baseline = samples[: max(start - first, 1)].mean(axis=0, dtype=np.float64)
        triggers = ((number - first, code), (start - first, TRIAL_START), (end - first, TRIAL_END))
        pieces.append(ClipPiece((samples - baseline).astype(np.float32), triggers))
    return pieces


def _bounds(triggers: Triggers) -> list[tuple[int, int, int, int]]:
    """(sample of the clip's number, of its 240, of its 241, the number) of each complete clip."""
    found: list[tuple[int, int, int, int]] = []
    number: tuple[int, int] | None = None
    start: int | None = None
    for sample, code in sorted(triggers, key=_end_first):
        if code in CLIPS:
            number, start = (sample, code), None
        elif code == TRIAL_START:
            start = sample
        elif code == TRIAL_END and number and start is not None:
            found.append((number[0], start, sample, number[1]))
            number, start = None, None
    return found


def _end_first(trigger: tuple[int, int]) -> tuple[int, bool]:
    """Sort key: at one sample a clip ends before the number of the next one."""
    return trigger[0], trigger[1] != TRIAL_END


def _block(pieces: Sequence[ClipPiece]) -> ArrayBlock:
    starts = np.cumsum([0, *(len(piece.samples) for piece in pieces)])
    inside = [
        (int(start) + sample, code)
        for start, piece in zip(starts, pieces, strict=False)
        for sample, code in piece.triggers
    ]
    triggers = ((0, BLOCK_START), *inside, (int(starts[-1]) - 1, BLOCK_END))
    return ArrayBlock(np.concatenate([piece.samples for piece in pieces]), triggers)


def _with_session_codes(blocks: list[ArrayBlock]) -> list[ArrayBlock]:
    """Add 250 and 251 at the ends; 242 and 243 move by a sample, because a TRIGGER row has one code a sample.

    They do not move past a trigger of a clip: without a fixation or tail they share its sample.
    """
    (_, *inside), first = blocks[0].triggers, blocks[0]
    begin = ((0, SESSION_START), (min(1, inside[0][0]), BLOCK_START))
    blocks[0] = dataclasses.replace(first, triggers=(*begin, *inside))
    (*inside, _), last = blocks[-1].triggers, blocks[-1]
    at = last.n_samples - 1
    end = ((max(at - 1, inside[-1][0]), BLOCK_END), (at, SESSION_END))
    blocks[-1] = dataclasses.replace(last, triggers=(*inside, *end))
    return blocks
