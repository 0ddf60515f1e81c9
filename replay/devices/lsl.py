"""LSL streams as devices: `lsl:NAME?markers=NAME`."""

import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bci_stream.clock import Clock
from bci_stream.errors import LostError, NotFoundError, SourceError, WireError
from bci_stream.packet import FloatArray, Lead, is_trigger_name
from bci_stream.wire.transport import FoundStream, SampleInlet, TextInlet, Transport
from replay.devices.base import ConnectionLostError, Device, DeviceContext, DeviceRow
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.gaps import FoundGap, GapFinder, SampleRun
from replay.devices.params import Timeouts
from replay.devices.status import StatusKeeper
from replay.devices.timing import ClockOffset, GivenClock
from replay.devices.triggers import EdgeDetector, LateTriggers, TriggerLine, read_text
from replay.model.units import stream_microvolts

HOLD_MS = 50.0
"""How long samples wait for markers, which come on another stream."""

PULL_S = 0.01
SEARCH_S = 0.25
CHECK_S = 0.05
MARKERS_FIRST_S = 2.0
"""How long the marker stream is waited for before the signal starts without it."""

NEURACLE_BOX = re.compile(r"M_\w+_EEG")
NEURACLE_MARKERS = "Neuracle"


class OpenStream(Protocol):
    def clock_offset_s(self) -> float: ...
    def close(self) -> None: ...


Inlet = TypeVar("Inlet", bound=OpenStream)


class StreamSearch(Generic[Inlet]):
    """Searches in a thread until a stream of this name or source id is found and opened, or `close`.

    seen: names of all streams that were visible at last.
    """

    def __init__(
        self, name: str, transport: Transport, open_inlet: Callable[[FoundStream], Inlet]
    ) -> None:
        self.name = name
        self.seen: list[str] = []
        self._transport, self._open_inlet = transport, open_inlet
        self._lock = threading.Lock()
        self._closed, self._opened = threading.Event(), threading.Event()
        self._inlet: Inlet | None = None
        self._error: SourceError | None = None
        threading.Thread(target=self._run, name=f"search {name}", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        """Whether the stream was opened within the time."""
        return self._opened.wait(timeout_s)

    def take(self) -> Inlet | None:
        """The inlet, once; None while it is searched. Raises SourceError if a stream is unsuitable."""
        if self._error is not None:
            raise self._error
        with self._lock:
            inlet, self._inlet = self._inlet, None
        return inlet

    def close(self) -> None:
        """End the search, and close an inlet that was not taken. Does not wait."""
        with self._lock:
            self._closed.set()
            inlet, self._inlet = self._inlet, None
        if inlet is not None:
            inlet.close()

    def describe_seen(self) -> str:
        return f"streams seen: {', '.join(self.seen) or 'none'}"

    def _run(self) -> None:
        watch = self._transport.watch("")
        try:
            while not self._closed.is_set() and not self._search(watch.found()):
                self._closed.wait(SEARCH_S)
        finally:
            watch.close()

    def _search(self, streams: list[FoundStream]) -> bool:
        self.seen = sorted({stream.name for stream in streams})
        hits = [stream for stream in streams if self.name in (stream.name, stream.source_id)]
        ids = sorted({hit.source_id for hit in hits})
        self._error = None
        if len(ids) > 1:
            self._error = SourceError(
                f"several LSL streams are named {self.name!r}: choose one by its source id, one of "
                f"{', '.join(ids)}"
            )
        return len(ids) == 1 and self._open(hits[0])

    def _open(self, found: FoundStream) -> bool:
        try:
            inlet = self._open_inlet(found)
        except (NotFoundError, LostError):  # it ended before it could be opened: search again
            return False
        except WireError as error:
            self._error = SourceError(str(error))
            return False
        inlet.clock_offset_s()  # the first measurement takes time: not while samples come
        with self._lock:
            if not self._closed.is_set():
                self._inlet = inlet
                self._opened.set()
                return True
        inlet.close()
        return True


class MarkerStream:
    """A marker stream beside a signal. It is searched whenever it is not there; the signal goes on."""

    def __init__(
        self, name: str, transport: Transport, dial_s: float, note: Callable[[str], None]
    ) -> None:
        self._name, self._transport, self._dial_s, self._note = name, transport, dial_s, note
        self._inlet: TextInlet | None = None
        self._is_missing = False
        self._start_search()

    def wait(self, stop: threading.Event) -> None:
        """Wait a short time, so that a stream which is there already is used from the start."""
        for _ in range(round(MARKERS_FIRST_S / CHECK_S)):
            if stop.is_set() or self._search.wait(CHECK_S):
                return

    def pull(self, now: float) -> list[tuple[str, float]]:
        """The new markers, with their times in this machine's LSL clock."""
        if self._inlet is None:
            self._inlet = self._take(now)
        if self._inlet is None:
            return []
        try:
            texts = self._inlet.pull(0.0)
        except LostError:
            self._inlet.close()
            self._inlet = None
            self._report_missing(f"the marker stream {self._name!r} is gone")
            self._start_search()
            return []
        offset_s = self._offset.at(now)
        return [(text, stamp + offset_s) for text, stamp in texts]

    def stop_search(self) -> None:
        """From any thread."""
        self._search.close()

    def close(self) -> None:
        """By the thread that pulls."""
        self._search.close()
        if self._inlet is not None:
            self._inlet.close()
            self._inlet = None

    def _start_search(self) -> None:
        self._search: StreamSearch[TextInlet] = StreamSearch(
            self._name,
            self._transport,
            lambda found: self._transport.text_inlet(found, self._dial_s),
        )

    def _take(self, now: float) -> TextInlet | None:
        try:
            inlet = self._search.take()
        except SourceError as error:
            self._report_missing(str(error))
            return None
        if inlet is None:
            seen = self._search.describe_seen()
            self._report_missing(f"no marker stream {self._name!r} has been seen yet ({seen})")
            return None
        if self._is_missing:
            self._note(f"the marker stream {self._name!r} is there, and is used")
        self._is_missing = False
        self._offset = ClockOffset(inlet.clock_offset_s, now)
        return inlet

    def _report_missing(self, why: str) -> None:
        if not self._is_missing:
            self._is_missing = True
            self._note(f"{why}; the signal goes on, and markers are used when they come")


@dataclass(frozen=True, slots=True)
class LslOptions:
    """markers: name of a marker stream. trigger: label of a channel, `auto` or `none`."""

    name: str
    markers: str | None = None
    trigger: str = "auto"
    hold: bool = True
    hold_ms: float = HOLD_MS


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
            self._status.set_state("connected")  # before the notes of the marker stream
            if self._first_stamp is None:
                self._first_stamp = float(stamps[0]) + self._offset.at(now)
        self._take_markers(now)
        if not len(samples):
            return None
        return self._released(self._gaps.step(self._sample_run(samples, stamps)), now)

    def flush(self) -> list[Chunk]:
        if self._inlet is None:
            return []
        return self._released(self._gaps.flush(), self._clock.now())

    def _take_markers(self, now: float) -> None:
        """Place the new markers; those from before the first sample are ignored."""
        if self._markers is None or self._first_stamp is None:
            return
        for text, at in self._markers.pull(now):
            if at >= self._first_stamp:
                code = read_text(text.encode(), self._status.note_once)
                if code:
                    self._late.trigger((at + 0.5 / self._gaps.rate) * 1000, code)

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
    )
    transport = context.transport
    if transport is None:
        from bci_stream.wire.lsl import LslTransport

        transport = LslTransport()
    return LslDevice(options, transport, context.clock, context.status, context.timeouts)


def device_rows() -> list[DeviceRow]:
    return [DeviceRow("lsl:NAME", "sent", "sent", "nothing; markers=NAME for its markers")]
