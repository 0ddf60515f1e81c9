"""A held trigger line is one trigger, on the sample where it rises."""

import math
import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray, Triggers
from replay.devices.chunk import Chunk
from replay.devices.status import Notes
from tracks.common.codes import MAX_CODE


class EdgeDetector:
    """Turns a line of codes, one a sample, into triggers; chunks may cut the line anywhere.

    hold=True (the default): a code that lasts over several samples is one trigger, and so the same
    code twice in a row needs a 0 in between. hold=False: each sample that is not 0 is a trigger.
    """

    def __init__(self, hold: bool = True) -> None:
        self._hold = hold
        self._last = 0

    def step(self, codes: NDArray[np.int64]) -> Triggers:
        """codes: (n,), 0 where there is none. Returns (offset, code) in order."""
        if not len(codes):
            return ()
        before, self._last = self._last, int(codes[-1])
        if not codes.any():
            return ()
        rises = codes != 0
        if self._hold:
            rises &= codes != np.concatenate(([before], codes[:-1]))
        return tuple((int(i), int(codes[i])) for i in np.flatnonzero(rises))

    def rest(self) -> None:
        """The line was at 0, though nobody sent that."""
        self._last = 0


class TimedEdgeDetector:
    """The same for a line whose pieces say when they were taken, and which may be sent twice.

    rest_ms: after a pause that long the line was at rest; infinite where it is sent all the time.
    """

    def __init__(self, hold: bool = True, rest_ms: float = math.inf) -> None:
        self._edges = EdgeDetector(hold)
        self._rest_ms = rest_ms
        self._next_ms = -math.inf

    def step(
        self, codes: NDArray[np.int64], start_ms: float, step_ms: float
    ) -> list[tuple[float, int]]:
        """(time, code) of each trigger; what was there already is passed over."""
        if start_ms - self._next_ms >= self._rest_ms:
            self._edges.rest()
        known = math.ceil(max(0.0, self._next_ms - start_ms) / step_ms)
        self._next_ms = max(self._next_ms, start_ms + len(codes) * step_ms)
        start_ms += known * step_ms
        rises = self._edges.step(codes[known:])
        return [(start_ms + i * step_ms, code) for i, code in rises]


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


RULE = f"a whole number from 1 to {MAX_CODE}"


class CodeReader:
    """note: takes what the user should know."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self._doubted = False
        self._texts = Notes()

    def read(self, values: FloatArray | NDArray[np.float64]) -> NDArray[np.int64]:
        """A trigger line, one value a sample: its codes, 0 where there is none."""
        codes = is_code(values)
        wrong = ~codes & (values != 0)
        if wrong.any() and not self._doubted:
            self._doubted = True
            self._note(
                f"the trigger value {values[wrong.argmax()]:g} is not {RULE}: it and others like "
                "it are passed over"
            )
        return np.where(codes, values, 0).astype(np.int64)

    def read_text(self, text: str) -> int:
        """A marker's code, 0 where it has none."""
        code = code_of(text.encode())
        if code is None:
            self._texts.add(f"the marker {text!r} is not {RULE} and was passed over")
            for note in self._texts.take():
                self._note(note)
        return code or 0


_CODE = re.compile(r"(?:^|:)\s*(\d{1,5})\s*$", re.ASCII)


def code_of(text: bytes) -> int | None:
    """The code in a trigger text (`51`, `Trigger-In:51`); 0: empty; None: no code in it."""
    words = text.split(b"\0")[0].decode("ascii", "replace").strip()
    if not words:
        return 0
    match = _CODE.search(words)
    code = int(match[1]) if match else None
    return code if code is not None and code <= MAX_CODE else None


def unread_trigger(text: bytes) -> str:
    shown = text.rstrip(b"\0").decode("ascii", "replace")
    return (
        f"the trigger text {shown!r} is no number from 1 to {MAX_CODE} (51, Trigger-In:51) and "
        "was passed over: send numeric codes from the stimulus program"
    )


def is_code(
    values: NDArray[np.uint32] | NDArray[np.float32] | NDArray[np.float64],
) -> NDArray[np.bool_]:
    """A trigger is a whole number from 1 to 65535."""
    inside: NDArray[np.bool_] = (values >= 1) & (values <= MAX_CODE)
    inside[inside] = values[inside] == np.floor(values[inside])
    return inside
