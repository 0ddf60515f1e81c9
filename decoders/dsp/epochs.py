"""Epochs are stretches of a running stream, each as long as the others; they may overlap.

An epoch is asked for when its event is seen, and comes out when its last sample has arrived.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from decoders.dsp.buffers import Array, Ring

Tag = TypeVar("Tag")


@dataclass(frozen=True, slots=True)
class Epoch(Generic[Tag]):
    """samples (length, leads), a copy; position of its event, counted over the whole stream."""

    tag: Tag
    position: int
    samples: Array


class Epochs(Generic[Tag]):
    """Cuts `length` samples that begin `before` samples ahead of each event."""

    def __init__(self, length: int, n_leads: int, before: int = 0) -> None:
        self.length = length
        self.before = before
        self._ring = Ring(length, n_leads)
        self._waiting: deque[tuple[int, Tag]] = deque()

    def step(
        self, x: NDArray[np.floating], events: Sequence[tuple[int, Tag]] = ()
    ) -> list[Epoch[Tag]]:
        """x (n, leads), its events (offset in x, tag), in order -> the epochs that are now whole.

        An event whose epoch would begin before the stream did is passed over.
        """
        base = self._ring.count
        stop = base + len(x)
        arriving = [(base + offset, tag) for offset, tag in events if base + offset >= self.before]
        self._waiting.extend(arriving)
        done: list[Epoch[Tag]] = []
        while self._waiting and self._end(self._waiting[0][0]) <= stop:
            position, tag = self._waiting.popleft()
            x = self._push_until(x, self._end(position))
            done.append(Epoch(tag, position, self._ring.last(self.length).copy()))
        self._ring.push(x)
        return done

    def give_up(self) -> None:
        """Forget the events whose epochs are not complete."""
        self._waiting.clear()

    @property
    def waiting(self) -> int:
        """How many epochs are not complete."""
        return len(self._waiting)

    def _end(self, position: int) -> int:
        return position - self.before + self.length

    def _push_until(self, x: NDArray[np.floating], end: int) -> NDArray[np.floating]:
        head = max(0, end - self._ring.count)
        self._ring.push(x[:head])
        return x[head:]
