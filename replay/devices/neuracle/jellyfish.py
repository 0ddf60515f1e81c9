"""Neuracle's JellyFish (NeuroHub) format: meta frames describe leads, data frames have device times."""

import math
from collections.abc import Callable, Iterator
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
from replay.devices.params import apply_montage
from replay.devices.triggers import LateTriggers, TimedEdgeDetector, TriggerLine, read_text

KINDS = ("EEG", "EOG", "ECG", "EMG", "ECOG", "SEEG")


@dataclass(frozen=True, slots=True)
class JellyfishLayout:
    """Where a data frame has the leads and the trigger line.

    columns: the module's channels that are leads. places: indices of their values, (leads, n).
    line: serial of the module with the trigger line, and its values; None if there is no line.
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
        """Empty if the frame has none."""
        serial, place = self.line or (0, slice(0))
        values: FloatArray = data.values.get(serial, np.empty(0, np.float32))[place]
        return values

    def unmeasured(self, data: Data) -> list[str]:
        """The leads that the frame marks as not measured."""
        mask = data.masks[self.module.serial]
        if all(mask):
            return []
        return [self.module.channels[i].name for i in self.columns if not mask[i]]

    def leads(self) -> tuple[Lead, ...]:
        channels = [self.module.channels[i] for i in self.columns]
        return tuple(_lead(i, channel) for i, channel in enumerate(channels))


def find_layout(meta: Meta, wanted: str | None) -> JellyfishLayout:
    """wanted: name or serial of the module, needed if there are several."""
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
    """The module whose last channel is the trigger line.

    In frames for all modules it is the chosen one if that has a line, else the last one; in frames
    for each module it is the one with serial 0.
    """
    if not meta.whole:
        return next((box for box in meta.modules if not box.serial and box.channels), None)
    if _has_line(chosen):
        return chosen
    return next(box for box in reversed(meta.modules) if box.channels)


def _has_line(module: Module) -> bool:
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
    # A stream has one rate: channels with another one (accelerometers, batteries) are left out.
    first = (channels[0].rate, channels[0].count)
    return tuple(i for i, c in enumerate(channels) if (c.rate, c.count) == first)


def _lead(number: int, channel: JellyfishChannel) -> Lead:
    kind = channel.type.upper()
    return Lead(channel.name or f"ch{number + 1}", kind if kind in KINDS else "MISC")


WRAP_MS = 2**32
REPEAT_MS = 10_000
"""A frame that steps back by at most this is a repeated one; otherwise the device was restarted,"""
MOST_REPEATED_MS = 1000
"""as it was if more than this is repeated in a row."""


@dataclass(frozen=True, slots=True)
class DevicePlace:
    """start_ms: unwrapped. lost: samples missing before; None: the device was restarted.

    skip: number of leading samples that were received before.
    """

    start_ms: int
    lost: int | None
    skip: int = 0


class DeviceTime:
    """Unwraps the device's 32-bit milliseconds; a restarted device continues in the next cycle."""

    def __init__(self) -> None:
        self._next_ms: int | None = None
        self._resumed = False
        self._restarted = False
        self._repeated_ms = 0

    def restart(self) -> None:
        """A new connection: frames are not repeated over it, so a step back is a restarted device."""
        self._resumed = self._next_ms is not None

    def place(self, start_ms: int, length_ms: int, n: int) -> DevicePlace | None:
        """Place of n samples over length_ms; None if all of them were received before."""
        start, length_ms = self.unwrap(start_ms), max(1, length_ms)
        ahead = 0 if self._next_ms is None else start - self._next_ms
        skip = max(0, round(-ahead * n / length_ms))
        if skip >= n and not self._restarted:
            self._repeated_ms += length_ms
            if ahead >= -REPEAT_MS and self._repeated_ms <= MOST_REPEATED_MS:
                return None
            start, self._restarted = start + WRAP_MS, True
        lost = max(0, round(ahead * n / length_ms))
        place = (
            DevicePlace(start, None)
            if self._restarted
            else DevicePlace(start - min(0, ahead), lost, skip)
        )
        self._next_ms, self._repeated_ms, self._restarted = start + length_ms, 0, False
        return place

    def unwrap(self, ms: int) -> int:
        """The time nearest to the present one whose lower 32 bits are ms."""
        if self._next_ms is None:
            return ms
        ahead = (ms - self._next_ms) % WRAP_MS
        time_ms = self._next_ms + (ahead if ahead < WRAP_MS // 2 else ahead - WRAP_MS)
        if self._resumed and time_ms < self._next_ms:
            time_ms += WRAP_MS
            self._next_ms, self._restarted = time_ms, True
        self._resumed = False
        return time_ms


HOLD_MS = 20
"""How long samples wait for trigger frames, which may come after the data frame."""


class JellyfishParser:
    """module: name or serial of the module to use, needed if there are several."""

    counts = True

    def __init__(
        self,
        module: str | None = None,
        montage: tuple[Lead, ...] | None = None,
        hold: bool = True,
        hold_ms: int = HOLD_MS,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.info: DeviceInfo | None = None
        self._wanted, self._montage, self._note = module, montage, note
        self._hold, self._hold_ms = hold, hold_ms
        self._scanner = FrameScanner(FRAME_KINDS)
        self._time = DeviceTime()
        self._reply = b""
        self._frame = (0, 1)
        self._trigger_line = TriggerLine(note)
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

    def flush(self) -> list[Chunk]:
        return self._late.flush(self._layout.rate) if self.info is not None else []

    def feed(self, data: bytes) -> list[Chunk]:
        chunks: list[Chunk] = []
        for frame in self._scanner.feed(data):
            try:
                if frame.head == META_HEAD:
                    self._take_meta(decode_meta(frame.data))
                elif self.info is not None:  # data before meta can't be read
                    chunks += self._take_data(decode_data(frame.data, self._meta), len(frame.data))
            except BrokenFrameError as error:
                self._note(f"{error}: it was skipped")
        return chunks

    def _take_meta(self, meta: Meta) -> None:
        self._reply = ACKNOWLEDGE
        if self.info is None:
            self._meta = meta
            self._layout = find_layout(meta, self._wanted)
            # Frames for all modules bring triggers with their samples. A line with frames of its own may
            # be sent only while it is not 0: if it leaves out a sample, it was 0.
            rest_ms = math.inf if meta.whole else 1000 / self._layout.rate
            self._edges = TimedEdgeDetector(self._hold, rest_ms)
            self._late = LateTriggers(0 if meta.whole else self._hold_ms, self._note)
            leads = apply_montage(self._montage, self._layout.leads())
            self.info = DeviceInfo(self._layout.rate, leads)
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
        return self._late.add(chunk, place.start_ms, self._layout.rate)

    def _line(self, data: Data) -> list[tuple[float, int]]:
        line = self._layout.trigger_line(data)
        if not len(line):
            return []
        start_ms, step_ms = self._time.unwrap(data.start_ms), max(1, data.length_ms) / len(line)
        return self._edges.step(self._trigger_line.read(line), start_ms, step_ms)

    def _texts(self, data: Data) -> Iterator[tuple[float, int]]:
        for ms, text in data.triggers:
            if code := read_text(text, self._note):
                yield self._time.unwrap(ms), code

    def _note_unmeasured(self, data: Data) -> None:
        names = [name for name in self._layout.unmeasured(data) if name not in self._unmeasured]
        if names:
            self._unmeasured.update(names)
            leads = "lead" if len(names) == 1 else "leads"
            self._note(f"the amplifier marks {leads} {', '.join(names)} as not measured")
