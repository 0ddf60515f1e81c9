"""Neuracle's JellyFish (NeuroHub) format: meta frames name leads, data frames carry device time."""

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead, Triggers
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.device_time import DeviceTime
from replay.devices.edges import Edges
from replay.devices.frames import FrameScanner
from replay.devices.jellyfish_frames import (
    ACKNOWLEDGE,
    FRAME_KINDS,
    META_HEAD,
    BrokenFrameError,
    Channel,
    Data,
    Meta,
    Module,
    decode_data,
    decode_meta,
)
from replay.devices.late_triggers import LateTriggers
from replay.devices.neuracle_heeg import code_of, unread_trigger
from replay.devices.trigger_word import LARGEST_CODE

KINDS = {"EEG": "EEG", "EOG": "EOG", "ECG": "ECG", "EMG": "EMG", "ECOG": "ECOG", "SEEG": "SEEG"}
HOLD_MS = 20
"""A trigger's frame may come after the frame that it marks: how long samples wait for it."""


class JellyfishParser:
    """module: name or serial of the box to take, needed where there are several."""

    def __init__(
        self,
        module: str | None = None,
        leads: tuple[Lead, ...] | None = None,
        hold: bool = True,
        hold_ms: int = HOLD_MS,
    ) -> None:
        self.info: DeviceInfo | None = None
        self._wanted = module
        self._names = leads
        self._scanner = FrameScanner(FRAME_KINDS)
        self._edges = Edges(hold)
        self._time = DeviceTime()
        self._late = LateTriggers(hold_ms)
        self._reply = b""
        self._frame = (0, 1)
        self._notes: list[str] = []
        self._unmeasured: set[str] = set()

    @property
    def resyncs(self) -> int:
        return self._scanner.resyncs

    def restart(self) -> None:
        self._scanner.restart()
        self._reply = b""

    def bytes_for(self, samples: int) -> int:
        return self._scanner.bytes_for(samples, self._frame)

    def reply(self) -> bytes:
        reply, self._reply = self._reply, b""
        return reply

    def notes(self) -> list[str]:
        notes, self._notes = self._notes, []
        return notes

    def feed(self, data: bytes) -> list[Chunk]:
        chunks: list[Chunk] = []
        for frame in self._scanner.feed(data):
            try:
                if frame.head == META_HEAD:
                    self._take_meta(decode_meta(frame.data))
                elif self.info is not None:  # data before meta can't be read: it is waited over
                    chunks += self._take_data(decode_data(frame.data, self._meta), len(frame.data))
            except BrokenFrameError as error:
                self._notes.append(f"{error}: it was passed over")
        return chunks

    def _take_meta(self, meta: Meta) -> None:
        self._reply = ACKNOWLEDGE
        if self.info is None:
            self._meta = meta
            self._module = _choose_module(meta, self._wanted)
            self._trigger_place = self._module.place(-1) if meta.whole else slice(0)
            self._columns = _lead_columns(self._module, has_trigger=meta.whole)
            numbers = np.arange(self._module.values)
            self._places = np.array([numbers[self._module.place(i)] for i in self._columns])
            self.info = self._device_info()
        elif meta != self._meta:
            raise SourceError(
                "the amplifier's leads or rates changed since the stream began; a stream can't "
                "change: start the replay again"
            )

    def _device_info(self) -> DeviceInfo:
        channels = [self._module.channels[i] for i in self._columns]
        leads = self._names or tuple(_lead(i, channel) for i, channel in enumerate(channels))
        if len(leads) != len(channels):
            raise SourceError(
                f"the amplifier sends {len(channels)} leads, but montage= names {len(leads)}: "
                "name them all, or leave montage= away to use the amplifier's own names"
            )
        return DeviceInfo(float(channels[0].rate), leads)

    def _take_data(self, data: Data, frame_bytes: int) -> list[Chunk]:
        if not self._meta.whole:
            self._take_triggers(data)
        values = data.values.get(self._module.serial)
        if values is None or self.info is None:
            return []
        self._note_unmeasured(data.masks[self._module.serial])
        samples = np.ascontiguousarray(values[self._places].T)
        self._frame = (frame_bytes, len(samples))
        place = self._time.place(data.start_ms, data.length_ms, len(samples))
        if place is None:
            return []
        triggers = self._line_triggers(values[self._trigger_place], len(samples))
        chunk = _trimmed(samples, triggers, place.skip, place.lost)
        if self._meta.whole:
            return [chunk]
        chunks, notes = self._late.add(chunk, place.start_ms, self.info.rate)
        self._notes += notes
        return chunks

    def _line_triggers(self, line: NDArray[np.float32], n: int) -> Triggers:
        """The trigger channel runs at its own rate (1000 Hz): its places are mapped by time."""
        return tuple((i * n // len(line), code) for i, code in self._edges.step(_codes(line)))

    def _take_triggers(self, data: Data) -> None:
        found: list[tuple[int, int]] = []
        for ms, text in data.triggers:
            code = code_of(text)
            if code is None:
                self._notes.append(unread_trigger(text))
            found.append((ms, code or 0))
        if 0 in data.values:
            line = _codes(data.values[0]).tolist()
            step_ms = max(1, data.length_ms // max(1, len(line)))
            found += [(data.start_ms + i * step_ms, code) for i, code in enumerate(line)]
        for ms, code in found:
            if code:
                self._late.trigger(self._time.unwrap(ms), code)

    def _note_unmeasured(self, mask: bytes) -> None:
        if all(mask):
            return
        for column in self._columns:
            name = self._module.channels[column].name
            if not mask[column] and name not in self._unmeasured:
                self._unmeasured.add(name)
                self._notes.append(f"the amplifier marks lead {name} as not measured")


def _codes(line: NDArray[np.float32]) -> NDArray[np.int64]:
    """A line of codes as whole numbers; what is none, or out of range, is no trigger."""
    codes = np.where(np.abs(line) <= LARGEST_CODE, line, 0)
    return np.rint(codes).astype(np.int64)


def _choose_module(meta: Meta, wanted: str | None) -> Module:
    boxes = [module for module in meta.modules if module.serial and module.channels]
    if wanted is not None:
        boxes = [box for box in boxes if wanted in (box.name, str(box.serial))]
    if len(boxes) == 1:
        return boxes[0]
    seen = ", ".join(f"{box.name or '?'} ({box.serial})" for box in meta.modules) or "none"
    raise SourceError(
        f"the amplifier forwards {len(boxes)} boxes "
        f"{'named ' + wanted if wanted else 'that measure'}, one is needed; it has "
        f"{seen}: choose one with module=NAME or module=SERIAL"
    )


def _lead_columns(module: Module, has_trigger: bool) -> list[int]:
    channels = module.channels[:-1] if has_trigger else module.channels
    if not channels or channels[0].rate <= 0 or channels[0].count <= 0:
        raise SourceError(
            f"the amplifier's box {module.name!r} measures no lead: choose another module="
        )
    # One stream has one rate; what runs at another one (accelerometers, batteries) stays out of it.
    first = (channels[0].rate, channels[0].count)
    return [i for i, c in enumerate(channels) if (c.rate, c.count) == first]


def _lead(number: int, channel: Channel) -> Lead:
    return Lead(channel.name or f"ch{number + 1}", KINDS.get(channel.type.upper(), "MISC"))


def _trimmed(samples: FloatArray, triggers: Triggers, skip: int, lost: int | None) -> Chunk:
    kept = tuple((offset - skip, code) for offset, code in triggers if offset >= skip)
    return Chunk(samples[skip:], kept, lost)
