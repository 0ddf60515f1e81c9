"""Epochs of equal length from a running stream; they may overlap.

An event starts an epoch, which is returned when its last sample has arrived.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from decoders.dsp import Array
from decoders.dsp.buffers import Ring

Tag = TypeVar("Tag")


@dataclass(frozen=True, slots=True)
class Epoch(Generic[Tag]):
    """samples (length, leads), a copy; position of its event in the stream."""

    tag: Tag
    position: int
    samples: Array


class Epochs(Generic[Tag]):
    """Cuts the `length` samples that begin at each event."""

    def __init__(self, length: int, n_leads: int) -> None:
        self.length = length
        self._ring = Ring(length, n_leads)
        self._waiting: deque[tuple[int, Tag]] = deque()

    def step(
        self, x: NDArray[np.floating], events: Sequence[tuple[int, Tag]] = ()
    ) -> list[Epoch[Tag]]:
        """x (n, leads) and its events (offset in x, tag), in order -> the epochs now complete."""
        base = self._ring.count
        stop = base + len(x)
        self._waiting.extend((base + offset, tag) for offset, tag in events)
        done: list[Epoch[Tag]] = []
        while self._waiting and self._waiting[0][0] + self.length <= stop:
            position, tag = self._waiting.popleft()
            x = self._push_until(x, position + self.length)
            done.append(Epoch(tag, position, self._ring.last(self.length).copy()))
        self._ring.push(x)
        return done

    def clear(self) -> None:
        """Drop the epochs that are not complete."""
        self._waiting.clear()

    def _push_until(self, x: NDArray[np.floating], end: int) -> NDArray[np.floating]:
        head = max(0, end - self._ring.count)
        self._ring.push(x[:head])
        return x[head:]
