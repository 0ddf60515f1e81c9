"""Calibration sets for submissions of 2026, and what the host measures of them.

A calibration set is one labelled block of a training recording of the subject: never of the recording
that is played. The host hands over at most MOST_A_CLASS trials of each class, of the leads that the
submission named before, and counts both: nothing that a submission claims is used.
"""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from decoders.host.inside import stages
from decoders.host.limits import SubmissionRefused, escape_text
from replay.model.options import SourceOptions
from replay.model.source import Session
from replay.sources import open_source
from tracks.mi import CLASSES, IMAGERY_S, IMAGERY_START, SEGMENT_CODES

logger = logging.getLogger(__name__)

MOST_A_CLASS = 10
"""Trials of each class and subject that are handed over."""
MOST_LEADS = 8

LabelledTrial = tuple[int, NDArray[np.float32]]
"""Label, and samples x leads."""


class CalibrationSets:
    """The calibration sets of each subject, read from training recordings when they are requested.

    track: of the recordings; uris: none, or labelled recordings. Raises SourceError for live devices.
    """

    def __init__(self, track: str, uris: Sequence[str]) -> None:
        self._track, self._uris = track, tuple(uris)
        self._left: dict[str, Iterator[tuple[str, list[LabelledTrial], bool]]] = {}

    def next(
        self, subject: str, leads: Sequence[str], places: Sequence[int]
    ) -> tuple[bytes, list[int]]:
        """The next set of a subject as a message for its process, and its labels; empty after the last.

        leads: the names in the run, which those of the training recording must equal. places: chosen ones.
        """
        left = self._left.setdefault(subject, _with_end(self._blocks(subject, leads)))
        session, trials, last = next(left, ("", [], True))
        if not trials:
            logger.warning("there is no further calibration set of subject %s", subject)
        labels = [label for label, _ in trials]
        facts: dict[str, Any] = {"session": session, "labels": labels, "finish": last}
        data = np.array([x[:, places].T for _, x in trials], np.float32)
        head = json.dumps({**facts, "shape": data.shape}).encode()
        return stages.SET_HEAD.pack(len(head)) + head + data.tobytes(), labels

    def _blocks(
        self, subject: str, leads: Sequence[str]
    ) -> Iterator[tuple[str, list[LabelledTrial]]]:
        """The blocks of this subject that have trials which are still to be handed over."""
        given: Counter[int] = Counter()
        for uri in self._uris:
            source = open_source(uri, SourceOptions(track=self._track))
            try:
                if source.live:
                    raise SourceError(f"{uri}: a live device has no labels to calibrate on")
                for session in source.sessions():
                    if session.subject != subject:
                        continue
                    if [lead.name for lead in session.leads] != list(leads):
                        raise SourceError(
                            f"{uri}: subject {subject} has other leads there than in this run; calibrate "
                            "on a recording of the same leads"
                        )
                    for number, trials in enumerate(_labelled_blocks(session)):
                        kept = []
                        for label, x in trials:
                            given[label] += 1
                            if given[label] <= MOST_A_CLASS:
                                kept.append((label, x))
                        if kept:
                            yield f"{subject}-{number + 1}", kept
                        if min(given[label] for label in CLASSES) >= MOST_A_CLASS:
                            return
            finally:
                source.close()


def _with_end(
    blocks: Iterator[tuple[str, list[LabelledTrial]]],
) -> Iterator[tuple[str, list[LabelledTrial], bool]]:
    """Each block, and whether it is the last one."""
    current = next(blocks, None)
    while current is not None:
        following = next(blocks, None)
        yield (*current, following is None)
        current = following


def _labelled_blocks(session: Session) -> Iterator[list[LabelledTrial]]:
    """The complete imageries of each block, from their triggers on."""
    length, packet = round(IMAGERY_S * session.rate), round(session.rate)
    pieces: list[NDArray[np.float32]] = []
    begins: list[tuple[int, int]] = []
    for raw in session.packets(packet):
        begins += [
            (raw.start + offset, code // 10)
            for offset, code in raw.triggers
            if SEGMENT_CODES.get(code) == IMAGERY_START
        ]
        pieces.append(raw.samples.copy())
        if raw.last_of_block:
            samples = np.concatenate(pieces)
            whole = [(label, samples[at : at + length]) for at, label in begins]
            yield [(label, x) for label, x in whole if len(x) == length]
            pieces, begins = [], []


def find_places(named: object, leads: Sequence[str]) -> list[int]:
    """The places of the leads that a submission named; all where it named none.

    Raises SubmissionRefused for a lead that is not there, one that is named twice, or too many.
    """
    if not named:
        return list(range(len(leads)))
    names = named if isinstance(named, list) else [named]
    if len(names) > MOST_LEADS or len(set(map(str, names))) < len(names):
        raise SubmissionRefused(
            f"the submission requires the leads {escape_text(str(names), 200)}; 1 to {MOST_LEADS} "
            "different ones are allowed"
        )
    known = {lead.upper(): place for place, lead in enumerate(leads)}
    for name in names:
        if str(name).upper() not in known:
            raise SubmissionRefused(
                f"the submission requires a lead {escape_text(str(name), 40)!r}, which this recording "
                f"does not have; it has {', '.join(leads)}"
            )
    return [known[str(name).upper()] for name in names]


@dataclass
class Measured:
    """What the host measured of one submission.

    leads: handed over, of all subjects the most. size_bytes: of its package. trials: labelled trials
    that were handed over, by subject and class. reaction_s: from each packet to the report on it.
    """

    size_bytes: int = 0
    leads: int = 0
    trials: dict[str, Counter[int]] = field(default_factory=dict)
    reaction_s: list[float] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """Leads, calibration trials a class (mean over subjects), package in MiB, reaction in ms."""
        most = [max(counts.values(), default=0) for counts in self.trials.values()]
        return {
            "leads": self.leads,
            "calibration": round(sum(most) / len(most), 2) if most else 0,
            "size_mib": round(self.size_bytes / (1 << 20), 3),
            "reaction_ms": round(1000 * median(self.reaction_s), 3) if self.reaction_s else 0,
        }


def package_bytes(root: Path) -> int:
    """The size of all files of a package."""
    return sum(path.lstat().st_size for path in root.rglob("*") if path.is_file())
