"""A synthetic person in one set of recordings, and the random numbers of all that they do.

Every random choice has a generator of its own, seeded by what it decides, so a recording is a pure
function of (seed, track, set, number), whatever was generated before it. What belongs to the person
(head, latencies, patterns) is seeded without the set: subject 3 of the training set and of the test
set are the same person.
"""

from dataclasses import dataclass
from zlib import crc32

import numpy as np


@dataclass(frozen=True, slots=True)
class Subject:
    """difficulty: from 0 (clear signals) to 1 (weak ones), the same for all subjects of a source."""

    track: str
    set: str
    number: int
    seed: int
    difficulty: float

    @property
    def name(self) -> str:
        return f"S{self.number:02d}"

    def person_rng(self, topic: str) -> np.random.Generator:
        """Random numbers for traits of the person, the same in all sets."""
        return self._generator("person", topic)

    def session_rng(self, topic: str, block: int = 0) -> np.random.Generator:
        """Random numbers for what happens in this set's recording."""
        return self._generator(self.set, topic, block)

    def by_difficulty(self, easy: float, hard: float) -> float:
        """Interpolate linearly from `easy` at difficulty 0 to `hard` at 1."""
        return easy + (hard - easy) * self.difficulty

    def _generator(self, *path: str | int) -> np.random.Generator:
        words = (self.track, self.number, *path)
        return np.random.default_rng([self.seed, *(_number(word) for word in words)])


def _number(word: str | int) -> int:
    # crc32, because Python's hash() of a text differs from process to process.
    return crc32(word.encode()) if isinstance(word, str) else word
