"""A subject: one synthetic person in one set of recordings. All random numbers come from here.

Every random choice is drawn from a generator that is named by what it decides, so a recording is a
pure function of (seed, track, set, number), whatever was generated before it. What belongs to the
person (head, latencies, patterns) is named without the set: subject 3 of the training set and of
the test set are one person.
"""

from dataclasses import dataclass
from zlib import crc32

import numpy as np


@dataclass(frozen=True, slots=True)
class Subject:
    """difficulty: 0 (clear signals) to 1 (a hard case), for everybody in the source alike."""

    track: str
    set: str
    number: int
    seed: int
    difficulty: float

    @property
    def name(self) -> str:
        return f"S{self.number:02d}"

    def trait(self, topic: str) -> np.random.Generator:
        """Random numbers for what this person is, the same in all sets."""
        return self._generator("person", topic)

    def chance(self, topic: str, block: int = 0) -> np.random.Generator:
        """Random numbers for what happens in this set's recording."""
        return self._generator(self.set, topic, block)

    def between(self, easy: float, hard: float) -> float:
        """The value that lies between easy and hard as far as the difficulty says."""
        return easy + (hard - easy) * self.difficulty

    def _generator(self, *path: str | int) -> np.random.Generator:
        words = (self.track, self.number, *path)
        return np.random.default_rng([self.seed, *(_number(word) for word in words)])


def _number(word: str | int) -> int:
    # crc32, because Python's hash() of a text differs from process to process.
    return crc32(word.encode()) if isinstance(word, str) else word
