"""Triggers that travel beside the samples they mark: the samples wait a little for them."""

from collections import deque
from dataclasses import replace

from bci_stream.packet import Triggers
from replay.devices.chunk import Chunk

MOST_WAITING = 1000


class LateTriggers:
    """Holds chunks back by hold_ms of device time; lays each trigger on the sample of its time."""

    def __init__(self, hold_ms: float) -> None:
        self._hold_ms = hold_ms
        self._chunks: deque[tuple[float, float, Chunk]] = deque()
        self._triggers: deque[tuple[float, int]] = deque(maxlen=MOST_WAITING)
        self._seen: dict[tuple[float, int], None] = {}
        self._latest_ms = 0.0

    def trigger(self, ms: float, code: int) -> None:
        """The same trigger may come twice, as a text and as a channel: it is one."""
        if (ms, code) in self._seen:
            return
        if len(self._seen) == MOST_WAITING:
            del self._seen[next(iter(self._seen))]
        self._seen[ms, code] = None
        self._triggers.append((ms, code))

    def add(self, chunk: Chunk, start_ms: float, rate: float) -> tuple[list[Chunk], list[str]]:
        """The chunks that have waited long enough, and what the user should know."""
        end_ms = start_ms + 1000 * chunk.n / rate
        self._chunks.append((start_ms, end_ms, chunk))
        released: list[Chunk] = []
        notes: list[str] = []
        while self._chunks and (
            self._chunks[0][1] <= end_ms - self._hold_ms
            or (chunk.lost is None and len(self._chunks) > 1)  # what came before a gap is complete
        ):
            start, end, oldest = self._chunks.popleft()
            if chunk.lost is None and len(self._chunks) == 1:
                end = (end + start_ms) / 2  # a trigger in the gap stands on the nearest sample
            triggers, late = self._take(start, end, oldest.n, rate)
            newer = sum(waiting.n + (waiting.lost or 0) for _, _, waiting in self._chunks)
            merged = tuple(sorted(oldest.triggers + triggers, key=lambda trigger: trigger[0]))
            released.append(replace(oldest, triggers=merged, newer=newer))
            notes += late
        return released, notes

    def _take(self, start: float, end: float, n: int, rate: float) -> tuple[Triggers, list[str]]:
        due = sorted(trigger for trigger in self._triggers if trigger[0] < end)
        for trigger in due:
            self._triggers.remove(trigger)
        places = ((max(0, int((ms - start) * rate / 1000)), code) for ms, code in due)
        late_ms = start - due[0][0] if due else 0.0
        return tuple((min(offset, n - 1), code) for offset, code in places), self._notes(late_ms)

    def _notes(self, late_ms: float) -> list[str]:
        """Told where it is later than any before; without its code, which a contest may keep."""
        if late_ms <= self._latest_ms:
            return []
        self._latest_ms = late_ms
        return [
            f"a trigger came {late_ms:.0f} ms too late and stands on the next sample: raise hold_ms="
        ]
