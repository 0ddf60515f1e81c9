"""Neuracle's JellyFish (NeuroHub) format: meta frames name leads, data frames carry device time."""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.device_time import DeviceTime
from replay.devices.edges import TimedEdges
from replay.devices.frames import FrameScanner
from replay.devices.jellyfish_frames import (
    ACKNOWLEDGE,
    FRAME_KINDS,
    META_HEAD,
    BrokenFrameError,
    Data,
    Meta,
    decode_data,
    decode_meta,
)
from replay.devices.jellyfish_layout import find_layout
from replay.devices.late_triggers import LateTriggers
from replay.devices.neuracle_heeg import code_of, unread_trigger
from replay.devices.notes import Notes
from replay.devices.trigger_word import LARGEST_CODE, is_code

HOLD_MS = 20
"""A trigger's frame may come after the frame that it marks: how long samples wait for it."""


class JellyfishParser:
    """module: name or serial of the box to take, needed where there are several."""

    counts = True

    def __init__(
        self,
        module: str | None = None,
        leads: tuple[Lead, ...] | None = None,
        hold: bool = True,
        hold_ms: int = HOLD_MS,
    ) -> None:
        self.info: DeviceInfo | None = None
        self._wanted, self._names = module, leads
        self._hold, self._hold_ms = hold, hold_ms
        self._scanner = FrameScanner(FRAME_KINDS)
        self._time = DeviceTime()
        self._reply = b""
        self._frame = (0, 1)
        self._notes = Notes()
        self._unmeasured: set[str] = set()

    @property
    def resyncs(self) -> int:
        return self._scanner.resyncs

    def restart(self) -> None:
        self._scanner.restart()
        self._time.restart()
        self._reply = b""

    def bytes_for(self, samples: int) -> int:
        return self._scanner.bytes_for(samples, self._frame)

    def reply(self) -> bytes:
        reply, self._reply = self._reply, b""
        return reply

    def notes(self) -> list[str]:
        return self._notes.take()

    def feed(self, data: bytes) -> list[Chunk]:
        chunks: list[Chunk] = []
        for frame in self._scanner.feed(data):
            try:
                if frame.head == META_HEAD:
                    self._take_meta(decode_meta(frame.data))
                elif self.info is not None:  # data before meta can't be read: it is waited over
                    chunks += self._take_data(decode_data(frame.data, self._meta), len(frame.data))
            except BrokenFrameError as error:
                self._notes.add(f"{error}: it was passed over")
        return chunks

    def _take_meta(self, meta: Meta) -> None:
        self._reply = ACKNOWLEDGE
        if self.info is None:
            self._meta = meta
            self._layout = find_layout(meta, self._wanted)
            # Whole frames bring each trigger with its samples. A line that comes by itself may be
            # sent only where it is not 0: where it leaves out a sample, it was at rest.
            rest_ms = math.inf if meta.whole else 1000 / self._layout.rate
            self._edges = TimedEdges(self._hold, rest_ms)
            self._late = LateTriggers(0 if meta.whole else self._hold_ms)
            self.info = self._layout.device_info(self._names)
        elif meta != self._meta:
            raise SourceError(
                "the amplifier's leads or rates changed since the stream began; a stream can't "
                "change: start the replay again"
            )

    def _take_data(self, data: Data, frame_bytes: int) -> list[Chunk]:
        samples, place = self._layout.samples(data), None
        if samples is not None:
            self._frame = (frame_bytes, len(samples))
            self._note_unmeasured(data)
            place = self._time.place(data.start_ms, data.length_ms, len(samples))
        for ms, code in (*self._line(data), *self._texts(data)):
            self._late.trigger(ms, code)
        if samples is None or place is None:
            return []
        chunk = Chunk(samples[place.skip :], (), place.lost)
        chunks, notes = self._late.add(chunk, place.start_ms, self._layout.rate)
        for note in notes:
            self._notes.add(note)
        return chunks

    def _line(self, data: Data) -> list[tuple[float, int]]:
        line = self._layout.trigger_line(data)
        if not len(line):
            return []
        start_ms, step_ms = self._time.unwrap(data.start_ms), max(1, data.length_ms) / len(line)
        return self._edges.step(self._codes(line), start_ms, step_ms)

    def _codes(self, line: FloatArray) -> NDArray[np.int64]:
        right = is_code(line)
        if not right[line != 0].all():
            self._notes.add(
                "the amplifier's trigger line has values that are no trigger and were passed over: "
                f"a trigger is a whole number from 1 to {LARGEST_CODE}; check that the recorder "
                "forwards its trigger channel as the last one"
            )
        return np.where(right, line, 0).astype(np.int64)

    def _texts(self, data: Data) -> Iterator[tuple[float, int]]:
        for ms, text in data.triggers:
            code = code_of(text)
            if code:
                yield self._time.unwrap(ms), code
            elif code is None:
                self._notes.add(unread_trigger(text))

    def _note_unmeasured(self, data: Data) -> None:
        names = [name for name in self._layout.unmeasured(data) if name not in self._unmeasured]
        if names:
            self._unmeasured.update(names)
            leads = "lead" if len(names) == 1 else "leads"
            self._notes.add(f"the amplifier marks {leads} {', '.join(names)} as not measured")
