"""A short labelled session of each track, from its labels: the signal and the timing know nothing of them."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from bci_stream.packet import Lead, Triggers
from replay.model.recording import ArrayBlock, Recording
from tracks.common.angles import ANGLE_RATE, JOINTS
from tracks.erp import FLASH_S, GAP_S, SEQUENCES
from tracks.registry import TRACKS

Labels: TypeAlias = Sequence[Sequence[Any]]
"""Of each block, in trial order. emotion: (clip, its start, its end in s); turing: (behaviour, task)."""

RATE = {"mi": 200, "turing": 50, "emotion": 50, "ecog": 200, "erp": 50}
"""A fifth of the document's, so that a session has as many packets in a fifth of the samples."""

LABELS: dict[str, Labels] = {
    "mi": [[1, 2, 3, 1], [3, 2, 1]],
    "turing": [[(2, 1), (6, 7), (9, 2)], [(5, 5), (2, 4), (1, 1)]],
    "emotion": [[(5, 3, 12), (28, 15, 24)], [(13, 3, 12), (20, 15, 24)]],
    "ecog": [[1], [2]],
    "erp": [[1, 20, 36]],
}
OTHER_LABELS: dict[str, Labels] = {
    "mi": [[2, 3, 1, 3], [1, 1, 3]],
    "turing": [[(2, 4), (6, 3), (9, 6)], [(5, 7), (2, 2), (1, 7)]],
    "emotion": [[(20, 3, 12), (13, 15, 24)], [(28, 3, 12), (1, 15, 24)]],
    "ecog": [[3], [4]],
    "erp": [[36, 1, 9]],
}
MOVED_CLIPS: Labels = [[(20, 1.5, 9), (13, 11, 24.5)], [(28, 3, 16), (1, 18, 22)]]
"""emotion hides where clips begin and end, too."""


def labelled(
    track: str, labels: Labels, subject: str = "S01", rate: int | None = None
) -> Recording:
    """The session; 7 samples more than whole packets in each block, so that its last packet is short."""
    facts = TRACKS[track]
    rate = rate or RATE[track]
    leads = tuple(Lead(name, facts.lead_kinds.get(name, "EEG")) for name in facts.leads)
    rng = np.random.default_rng(7)
    blocks = []
    for number, of_block in enumerate(labels):
        marks, seconds = WRITERS[track](of_block)
        n = round(seconds * rate) + 7
        samples = rng.normal(0, 20, (n, len(leads))).astype(np.float32)
        blocks.append(ArrayBlock(samples, _triggers(marks, n, rate, number, len(labels))))
    rows = sum(block.n_samples for block in blocks) * ANGLE_RATE // rate
    angles = _angles(labels, rows) if track == "ecog" else None
    return Recording(subject, float(rate), leads, blocks, angles)


def _triggers(
    marks: list[tuple[float, int]], n: int, rate: int, number: int, blocks: int
) -> Triggers:
    found = [(1, 242), *((round(at * rate), code) for at, code in marks), (n - 2, 243)]
    first = [(0, 250)] if number == 0 else []
    last = [(n - 1, 251)] if number == blocks - 1 else []
    return (*first, *found, *last)


def _angles(labels: Labels, rows: int) -> Any:
    rng = np.random.default_rng([label for block in labels for label in block])
    return rng.normal(0, 30, (rows, len(JOINTS)))


def _mi(labels: Sequence[int]) -> tuple[list[tuple[float, int]], float]:
    marks = []
    for number, label in enumerate(labels):
        at = 1 + 8 * number + 2
        marks += [(at + segment, 10 * label + code) for segment, code in ((0, 1), (2, 2), (3, 3))]
        marks.append((at + 4, 241))
    return marks, 1 + 8 * len(labels)


def _turing(labels: Sequence[tuple[int, int]]) -> tuple[list[tuple[float, int]], float]:
    marks = []
    for number, (behaviour, task) in enumerate(labels):
        at = 1 + 13 * number
        marks += [(at, 240), (at + 3, 8 * behaviour + task), (at + 12.9, 241)]
    return marks, 1 + 13 * len(labels)


def _emotion(clips: Sequence[tuple[int, float, float]]) -> tuple[list[tuple[float, int]], float]:
    marks = []
    for clip, start, end in clips:
        marks += [(start - 0.1, clip), (start, 240), (end, 241)]
    return marks, 26


def _ecog(labels: Sequence[int]) -> tuple[list[tuple[float, int]], float]:
    return [(1, 240), (5, 241), (6, 240), (11, 241)], 12


def _erp(labels: Sequence[int]) -> tuple[list[tuple[float, int]], float]:
    rng = np.random.default_rng(3)
    marks, at = [], 1.0
    for label in labels:
        marks.append((at, 100 + label))
        at += 1
        for _ in range(SEQUENCES):
            for flash in rng.permutation(12):
                marks.append((at, int(flash) + 1))
                at += FLASH_S
            marks.append((at, 200))
            at += GAP_S
        marks.append((at, 241))
        at += 1
    return marks, at


WRITERS = {"mi": _mi, "turing": _turing, "emotion": _emotion, "ecog": _ecog, "erp": _erp}
