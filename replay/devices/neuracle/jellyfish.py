"""Neuracle's JellyFish (NeuroHub) format: meta frames name leads, data frames carry device time."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.neuracle.frames import FrameScanner
from replay.devices.neuracle.jellyfish_frames import (
    ACKNOWLEDGE,
    FRAME_KINDS,
    META_HEAD,
    TRIGGER_RATE,
    BrokenFrameError,
    Data,
    JellyfishChannel,
    Meta,
    Module,
    decode_data,
    decode_meta,
)
from replay.devices.status import Notes
from replay.devices.triggers import (
    LateTriggers,
    TimedEdgeDetector,
    code_of,
    is_code,
    unread_trigger,
)
from tracks.common.codes import MAX_CODE

KINDS = {"EEG": "EEG", "EOG": "EOG", "ECG": "ECG", "EMG": "EMG", "ECOG": "ECOG", "SEEG": "SEEG"}


@dataclass(frozen=True, slots=True)
class JellyfishLayout:
    """columns: the module's channels that are leads; places: where their numbers stand.

    line: serial and place of the trigger line; None where there is none.
    """

    module: Module
    columns: tuple[int, ...]
    places: NDArray[np.int64]
    line: tuple[int, slice] | None

    @property
    def rate(self) -> float:
        return float(self.module.channels[self.columns[0]].rate)

    def samples(self, data: Data) -> FloatArray | None:
        values = data.values.get(self.module.serial)
        return None if values is None else np.ascontiguousarray(values[self.places].T)

    def trigger_line(self, data: Data) -> FloatArray:
        """Empty where the frame has none."""
        serial, place = self.line or (0, slice(0))
        values: FloatArray = data.values.get(serial, np.empty(0, np.float32))[place]
        return values

    def unmeasured(self, data: Data) -> list[str]:
        """The leads that the frame marks as not measured."""
        mask = data.masks[self.module.serial]
        if all(mask):
            return []
        return [self.module.channels[i].name for i in self.columns if not mask[i]]

    def device_info(self, names: tuple[Lead, ...] | None) -> DeviceInfo:
        """names: what the user calls the leads; None for the amplifier's own names."""
        channels = [self.module.channels[i] for i in self.columns]
        leads = names or tuple(_lead(i, channel) for i, channel in enumerate(channels))
        if len(leads) != len(channels):
            raise SourceError(
                f"the amplifier sends {len(channels)} leads, but montage= names {len(leads)}: "
                "name them all, or leave montage= away to use the amplifier's own names"
            )
        return DeviceInfo(self.rate, leads)


def find_layout(meta: Meta, wanted: str | None) -> JellyfishLayout:
    """wanted: name or serial of the box to take, needed where there are several."""
    module = _choose_module(meta, wanted)
    carrier = _line_carrier(meta, module)
    columns = _lead_columns(module, has_trigger=carrier is module)
    numbers = np.arange(module.values)
    places = np.array([numbers[module.place(i)] for i in columns])
    line = None if carrier is None else (carrier.serial, carrier.place(-1))
    return JellyfishLayout(module, columns, places, line)


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


def _line_carrier(meta: Meta, chosen: Module) -> Module | None:
    """Whose last channel is the trigger line: forwarded whole, that is the last channel of all,
    unless the chosen box has a line of its own; box by box, it is that of serial 0."""
    if not meta.whole:
        return next((box for box in meta.modules if not box.serial and box.channels), None)
    if _ends_in_a_line(chosen):
        return chosen
    return next(box for box in reversed(meta.modules) if box.channels)


def _ends_in_a_line(module: Module) -> bool:
    *others, last = module.channels
    if "trig" in f"{last.name} {last.type}".lower():
        return True
    return last.rate == TRIGGER_RATE and any(other.rate != TRIGGER_RATE for other in others)


def _lead_columns(module: Module, has_trigger: bool) -> tuple[int, ...]:
    channels = module.channels[:-1] if has_trigger else module.channels
    if not channels or channels[0].rate <= 0 or channels[0].count <= 0:
        raise SourceError(
            f"the amplifier's box {module.name!r} measures no lead: choose another module="
        )
    # One stream has one rate; what runs at another one (accelerometers, batteries) stays out of it.
    first = (channels[0].rate, channels[0].count)
    return tuple(i for i, c in enumerate(channels) if (c.rate, c.count) == first)


def _lead(number: int, channel: JellyfishChannel) -> Lead:
    return Lead(channel.name or f"ch{number + 1}", KINDS.get(channel.type.upper(), "MISC"))


WRAP_MS = 2**32
REPEAT_MS = 10_000
"""What steps back by less is sent again; by more, the device was started anew,"""
MOST_REPEATED_MS = 1000
"""as it was where more than this steps back in a row: nobody sends so much again."""


@dataclass(frozen=True, slots=True)
class DevicePlace:
    """start_ms: unwrapped. lost: samples missing before; None: the device began to count anew.

    skip: leading samples that were there already.
    """

    start_ms: int
    lost: int | None
    skip: int = 0


class DeviceTime:
    """Unwrapped time only grows: a device that counts anew is on its clock's next turn."""

    def __init__(self) -> None:
        self._next_ms: int | None = None
        self._resumed = False
        self._anew = False
        self._repeated_ms = 0

    def restart(self) -> None:
        """A new connection: nothing is sent again over it, so what steps back was counted anew."""
        self._resumed = self._next_ms is not None

    def place(self, start_ms: int, length_ms: int, n: int) -> DevicePlace | None:
        """Where n samples over length_ms belong; None where all of them were there already."""
        start, length_ms = self.unwrap(start_ms), max(1, length_ms)
        ahead = 0 if self._next_ms is None else start - self._next_ms
        skip = max(0, round(-ahead * n / length_ms))
        if skip >= n and not self._anew:
            self._repeated_ms += length_ms
            if ahead >= -REPEAT_MS and self._repeated_ms <= MOST_REPEATED_MS:
                return None
            start, self._anew = start + WRAP_MS, True
        lost = max(0, round(ahead * n / length_ms))
        place = (
            DevicePlace(start, None)
            if self._anew
            else DevicePlace(start - min(0, ahead), lost, skip)
        )
        self._next_ms, self._repeated_ms, self._anew = start + length_ms, 0, False
        return place

    def unwrap(self, ms: int) -> int:
        """The moment nearest to now that reads ms on the device's 32 bits."""
        if self._next_ms is None:
            return ms
        ahead = (ms - self._next_ms) % WRAP_MS
        moment = self._next_ms + (ahead if ahead < WRAP_MS // 2 else ahead - WRAP_MS)
        if self._resumed and moment < self._next_ms:
            moment += WRAP_MS
            self._next_ms, self._anew = moment, True
        self._resumed = False
        return moment


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
            self._edges = TimedEdgeDetector(self._hold, rest_ms)
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
                f"a trigger is a whole number from 1 to {MAX_CODE}; check that the recorder "
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
