"""Trigger codes of a device: reading them, finding rising edges, placing late ones on their samples."""

import math
import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray, Triggers
from replay.devices.chunk import Chunk
from tracks.common.codes import MAX_CODE

RULE = f"a whole number from 1 to {MAX_CODE}"


class EdgeDetector:
    """Turns a trigger line, one code a sample, into triggers; chunks may cut the line anywhere.

    hold=True: a code that lasts over several samples is one trigger, on the first of them, so the same
    code twice in a row needs a 0 in between. hold=False: every sample that is not 0 is a trigger.
    """

    def __init__(self, hold: bool = True) -> None:
        self._hold = hold
        self._last = 0

    def step(self, codes: NDArray[np.int64]) -> Triggers:
        """codes: (n,), 0 for none. Returns (offset, code) in order."""
        if not len(codes):
            return ()
        before, self._last = self._last, int(codes[-1])
        if not codes.any():
            return ()
        rises = codes != 0
        if self._hold:
            rises &= codes != np.concatenate(([before], codes[:-1]))
        return tuple((int(i), int(codes[i])) for i in np.flatnonzero(rises))

    def reset(self) -> None:
        """Treat the line as 0 before the next sample."""
        self._last = 0


class TimedEdgeDetector:
    """Edge detector for a line whose pieces have device times and may be sent twice.

    rest_ms: after a pause this long the line counts as 0; infinite for a line that is sent always.
    """

    def __init__(self, hold: bool = True, rest_ms: float = math.inf) -> None:
        self._edges = EdgeDetector(hold)
        self._rest_ms = rest_ms
        self._next_ms = -math.inf

    def step(
        self, codes: NDArray[np.int64], start_ms: float, step_ms: float
    ) -> list[tuple[float, int]]:
        """(time, code) of each trigger; the part of the line that was seen before is skipped."""
        if start_ms - self._next_ms >= self._rest_ms:
            self._edges.reset()
        known = math.ceil(max(0.0, self._next_ms - start_ms) / step_ms)
        self._next_ms = max(self._next_ms, start_ms + len(codes) * step_ms)
        start_ms += known * step_ms
        rises = self._edges.step(codes[known:])
        return [(start_ms + i * step_ms, code) for i, code in rises]


MOST_WAITING = 1000


class LateTriggers:
    """Holds chunks back by hold_ms of device time, and places each trigger on the sample of its time.

    note: called with a message when a trigger comes too late.
    """

    def __init__(self, hold_ms: float, note: Callable[[str], None]) -> None:
        self._hold_ms, self._note = hold_ms, note
        self._chunks: deque[tuple[float, float, Chunk]] = deque()
        self._triggers: deque[tuple[float, int]] = deque(maxlen=MOST_WAITING)
        self._seen: dict[tuple[float, int], None] = {}
        self._latest_ms = 0.0

    def trigger(self, ms: float, code: int) -> None:
        """Add a trigger; one that comes twice (as a text and on the line) is added once."""
        if (ms, code) in self._seen:
            return
        if len(self._seen) == MOST_WAITING:
            del self._seen[next(iter(self._seen))]
        self._seen[ms, code] = None
        self._triggers.append((ms, code))

    def add(self, chunk: Chunk, start_ms: float, rate: float) -> list[Chunk]:
        """Add a chunk; returns those that have waited long enough, with their triggers."""
        end_ms = start_ms + 1000 * chunk.n / rate
        self._chunks.append((start_ms, end_ms, chunk))
        released: list[Chunk] = []
        while self._chunks and (
            self._chunks[0][1] <= end_ms - self._hold_ms
            or (chunk.lost is None and len(self._chunks) > 1)  # before a gap, all have come
        ):
            start, end, oldest = self._chunks.popleft()
            if chunk.lost is None and len(self._chunks) == 1:
                end = (end + start_ms) / 2  # a trigger in the gap is placed on the nearest sample
            released.append(self._release(start, end, oldest, rate))
        return released

    def flush(self, rate: float) -> list[Chunk]:
        """All chunks that wait, with their triggers: no more come."""
        held = list(self._chunks)
        released = []
        for start, end, chunk in held:
            self._chunks.popleft()
            released.append(self._release(start, end, chunk, rate))
        return released

    def _release(self, start: float, end: float, chunk: Chunk, rate: float) -> Chunk:
        triggers = (*chunk.triggers, *self._take(start, end, chunk.n, rate))
        newer = sum(waiting.n + (waiting.lost or 0) for _, _, waiting in self._chunks)
        in_order = tuple(sorted(triggers, key=lambda trigger: trigger[0]))
        return replace(chunk, triggers=in_order, newer=newer)

    def _take(self, start: float, end: float, n: int, rate: float) -> Triggers:
        due = sorted(trigger for trigger in self._triggers if trigger[0] < end)
        for trigger in due:
            self._triggers.remove(trigger)
        if due:
            self._note_late(start - due[0][0])
        offsets = ((max(0, int((ms - start) * rate / 1000)), code) for ms, code in due)
        return tuple((min(offset, n - 1), code) for offset, code in offsets)

    def _note_late(self, late_ms: float) -> None:
        """Report only what is later than before, and without the code, which may be a label."""
        if late_ms > self._latest_ms:
            self._latest_ms = late_ms
            self._note(
                f"a trigger came {late_ms:.0f} ms too late and was placed on the next sample: raise "
                "hold_ms="
            )


def is_code(
    values: NDArray[np.uint32] | NDArray[np.float32] | NDArray[np.float64],
) -> NDArray[np.bool_]:
    """Which values are trigger codes: whole numbers from 1 to 65535."""
    inside: NDArray[np.bool_] = (values >= 1) & (values <= MAX_CODE)
    inside[inside] = values[inside] == np.floor(values[inside])
    return inside


class TriggerLine:
    """Reads a trigger line, one value a sample. note: called once, if values are no codes."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._noted = False

    def read(self, values: FloatArray | NDArray[np.float64]) -> NDArray[np.int64]:
        """The codes: 0 for none, and for values that are no code."""
        codes = is_code(values)
        wrong = ~codes & (values != 0)
        if not self._noted and wrong.any():
            self._noted = True
            self._note(
                f"the trigger value {values[wrong.argmax()]:g} is not {RULE}; it and others like it "
                "are ignored: check which channel carries the triggers"
            )
        return np.where(codes, values, 0).astype(np.int64)


_CODE = re.compile(r"(?:^|:)\s*(\d{1,5})\s*$", re.ASCII)


def read_text(text: bytes, note_once: Callable[[str], None]) -> int:
    """The code in a trigger text (`51`, `Trigger-In:51`); 0 if it is empty or has no code."""
    words = text.split(b"\0")[0].decode("utf-8", "replace").strip()
    match = _CODE.search(words)
    code = int(match[1]) if match else None
    if words and (code is None or code > MAX_CODE):
        note_once(
            f"the trigger text {words!r} is not {RULE} (51, Trigger-In:51) and was ignored: send "
            "numeric codes from the stimulus program"
        )
        return 0
    return code or 0
