"""LSL streams as devices: `lsl:NAME?markers=NAME`."""

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bci_stream.clock import Clock
from bci_stream.errors import LostError, SourceError
from bci_stream.packet import FloatArray, Lead, is_trigger_name
from bci_stream.wire.transport import SampleInlet, Transport
from replay.devices.base import ConnectionLostError, Device, DeviceContext, DeviceRow
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.gaps import FoundGap, GapFinder, SampleRun
from replay.devices.lsl_streams import CHECK_S, MarkerStream, StreamSearch
from replay.devices.params import Timeouts
from replay.devices.status import StatusKeeper
from replay.devices.timing import ClockOffset, GivenClock
from replay.devices.triggers import EdgeDetector, LateTriggers, TriggerLine, read_text
from replay.model.event_map import EventMap
from replay.model.events import code_with_text
from replay.model.units import stream_microvolts

HOLD_MS = 50.0
"""How long samples wait for markers, which come on another stream."""

PULL_S = 0.01

LATEST_STAMP_S = 1e12
"""Larger than any LSL time stamp, which counts from the start of a machine or from 1970."""

NEURACLE_BOX = re.compile(r"M_\w+_EEG")
NEURACLE_MARKERS = "Neuracle"


@dataclass(frozen=True, slots=True)
class LslOptions:
    """markers: name of a marker stream. trigger: label of a channel, `auto` or `none`.

    events: from texts of markers to codes.
    """

    name: str
    markers: str | None = None
    trigger: str = "auto"
    hold: bool = True
    hold_ms: float = HOLD_MS
    events: EventMap = field(default_factory=EventMap)


class LslDevice(Device):
    """A signal stream, with its marker stream if there is one."""

    advice = "check that its program runs, that both machines are on one network, and --scope"
    silence = "the LSL stream is there, but no samples come"
    counts_samples = True
    reconnects_when_silent = False  # LSL reports a lost stream itself

    def __init__(
        self,
        options: LslOptions,
        transport: Transport,
        clock: Clock,
        status: StatusKeeper,
        timeouts: Timeouts,
    ) -> None:
        self.name = f"the LSL stream {options.name!r}"
        self._options, self._transport, self._clock = options, transport, clock
        self._status, self._timeouts = status, timeouts
        self._interrupted = threading.Event()
        self._edges = EdgeDetector(options.hold)
        self._line = TriggerLine(status.note)
        self._inlet: SampleInlet | None = None
        self._info: DeviceInfo | None = None
        self._markers: MarkerStream | None = None
        self._marker_name: str | None = None
        self._first_stamp: float | None = None

    def clock(self, rate: float) -> GivenClock:
        return GivenClock(rate)

    def describe(self) -> DeviceInfo | None:
        return self._info

    def connect(self, timeout_s: float) -> None:
        inlet = self._inlet = self._find(timeout_s)
        is_first, self._info = self._info is None, self._read_description(inlet)
        if is_first:
            self._prepare(inlet.spec.name, self._info.rate)
        if self._marker_name and self._markers is None:
            dial_s, note = self._timeouts.dial_s, self._status.note
            self._markers = MarkerStream(self._marker_name, self._transport, dial_s, note)
            self._markers.wait(self._interrupted)
        self._gaps.restart(unknown_loss=True)
        self._offset = ClockOffset(inlet.clock_offset_s, self._clock.now())

    def start(self) -> None:
        for lead in self._info.leads if self._info else ():
            if stream_microvolts(lead.unit) is None:
                self._status.note(
                    f"the unit {lead.unit!r} of {lead.name} is not a known voltage: its values are "
                    "passed on unchanged"
                )
                return

    def disconnect(self) -> None:
        if self._inlet is not None:
            self._inlet.close()
            self._inlet = None

    def interrupt(self) -> None:
        self._interrupted.set()
        if (markers := self._markers) is not None:
            markers.stop_search()

    def close(self) -> None:
        markers, self._markers = self._markers, None
        if markers is not None:
            markers.close()

    def _find(self, timeout_s: float) -> SampleInlet:
        search: StreamSearch[SampleInlet] = StreamSearch(
            self._options.name,
            self._transport,
            lambda found: self._transport.sample_inlet(found, self._timeouts.dial_s),
        )
        deadline = self._clock.now() + timeout_s
        try:
            while not self._interrupted.is_set() and self._clock.now() < deadline:
                if (inlet := search.take()) is not None:
                    return inlet
                search.wait(CHECK_S)
            raise ConnectionLostError(
                f"no LSL stream is named {search.name!r} ({search.describe_seen()})"
            )
        finally:
            search.close()

    def _read_description(self, inlet: SampleInlet) -> DeviceInfo:
        spec = inlet.spec
        if spec.rate <= 0 or not spec.leads:
            raise SourceError(
                f"the LSL stream {spec.name!r} has no regular rate or no channels: it is no signal"
            )
        self._trigger = _trigger_column(spec.leads, self._options.trigger)
        self._columns = [i for i in range(len(spec.leads)) if i != self._trigger]
        leads = [spec.leads[i] for i in self._columns]
        scales = [stream_microvolts(lead.unit) for lead in leads]
        self._scale = np.array([scale or 1.0 for scale in scales], dtype=np.float32)
        named = tuple(
            Lead(x.name, x.kind.upper(), "microvolts" if scale else x.unit, x.position)
            for x, scale in zip(leads, scales, strict=True)
        )
        return DeviceInfo(spec.rate, named)

    def _prepare(self, stream: str, rate: float) -> None:
        is_neuracle = NEURACLE_BOX.fullmatch(stream) is not None
        self._marker_name = self._options.markers or (NEURACLE_MARKERS if is_neuracle else None)
        hold_ms = self._options.hold_ms if self._marker_name else 0.0
        self._late = LateTriggers(hold_ms, self._status.note)
        self._gaps = GapFinder(rate)

    def read(self, timeout_s: float, missing: int) -> list[Chunk] | None:
        assert self._inlet is not None
        try:
            samples, stamps = self._inlet.pull(missing, min(timeout_s, PULL_S))
        except LostError as error:
            raise ConnectionLostError(str(error)) from None
        now = self._clock.now()
        if len(samples):
            self._check_stamps(stamps)
            self._status.set_state("connected")  # before the notes of the marker stream
            if self._first_stamp is None:
                self._first_stamp = float(stamps[0]) + self._offset.at(now)
        self._take_markers(now)
        if not len(samples):
            return None
        return self._released(self._gaps.step(self._sample_run(samples, stamps)), now)

    def _check_stamps(self, stamps: NDArray[np.float64]) -> None:
        """Raise SourceError for a time stamp that is no time, which a broken sender may give."""
        wrong = stamps[~(np.abs(stamps) < LATEST_STAMP_S)]
        if len(wrong):
            raise SourceError(
                f"lsl:{self._options.name} has a sample with the time stamp {wrong[0]:g} s; stamps must be "
                f"numbers below {LATEST_STAMP_S:g} s. Correct the program that sends the stream"
            )

    def flush(self) -> list[Chunk]:
        if self._inlet is None:
            return []
        released = self._released(self._gaps.flush(), self._clock.now())
        return released + self._late.flush(self._gaps.rate)

    def _take_markers(self, now: float) -> None:
        """Place the new markers; those from before the first sample are ignored."""
        if self._markers is None or self._first_stamp is None:
            return
        for text, at in self._markers.pull(now):
            if at >= self._first_stamp:
                for code in self._codes(text):
                    self._late.trigger((at + 0.5 / self._gaps.rate) * 1000, code)

    def _codes(self, text: str) -> list[int]:
        """The codes of a marker, with its text; its name ends at a tab, behind which HED may stand."""
        name, rules = text.partition("\t")[0], self._options.events
        codes = [code for code, _ in rules.codes(name)]
        if not codes and not rules.names(name):
            code = read_text(name.encode("utf-8", "replace"), self._note_text)
            codes = [code] if code else []
        return [code_with_text(code, text) for code in codes]

    def _note_text(self, note: str) -> None:
        self._status.note_once(f"{note}, or give texts a code: ?events=left=1,right=2")

    def _sample_run(self, samples: FloatArray, stamps: NDArray[np.float64]) -> SampleRun:
        none = np.zeros(len(samples), dtype=np.int64)
        codes = none if self._trigger is None else self._line.read(samples[:, self._trigger])
        values = np.ascontiguousarray(samples[:, self._columns] * self._scale, dtype=np.float32)
        return SampleRun(values, codes, stamps, none)

    def _released(self, found: Iterable[FoundGap], now: float) -> list[Chunk]:
        """Chunks without a gap inside that have waited long enough for their markers."""
        offset_s = self._offset.at(now)
        chunks: list[Chunk] = []
        for run, lost in found:
            stamp = float(run.stamps[-1]) + offset_s
            chunk = Chunk(run.samples, self._edges.step(run.codes), lost, stamp, arrival=now)
            start_ms = (float(run.stamps[0]) + offset_s) * 1000
            chunks += self._late.add(chunk, start_ms, self._gaps.rate)
        return chunks


def _trigger_column(leads: tuple[Lead, ...], label: str) -> int | None:
    if label == "none":
        return None
    if label == "auto":
        last = len(leads) - 1
        named = is_trigger_name(leads[last].name) or leads[last].kind.upper() == "STIM"
        return last if named and last else None
    names = [lead.name for lead in leads]
    if label not in names:
        raise SourceError(f"trigger={label} is no channel of the stream; it has {', '.join(names)}")
    return names.index(label)


def make_device(context: DeviceContext) -> LslDevice:
    name, params = context.address.removeprefix("//"), context.params
    if not name:
        raise SourceError("lsl: needs a stream's name or source id: lsl:NAME")
    options = LslOptions(
        name,
        params.text("markers"),
        params.text("trigger") or "auto",
        params.choice("triggers", ("edge", "each"), "edge") == "edge",
        params.number("hold_ms", HOLD_MS, 0, 10_000),
        _instant(context.events),
    )
    transport = context.transport
    if transport is None:
        from bci_stream.wire.lsl import LslTransport

        transport = LslTransport()
    return LslDevice(options, transport, context.clock, context.status, context.timeouts)


def _instant(events: EventMap) -> EventMap:
    if not events.instant:
        raise SourceError(
            "lsl: an event of a live stream has its code at its own time; a code after a delay (T1=11@2), "
            "START and END are for recordings"
        )
    return events


def device_rows() -> list[DeviceRow]:
    return [
        DeviceRow(
            "lsl:NAME",
            "sent",
            "sent",
            "nothing; markers=NAME for its markers, events= for their codes",
        )
    ]
