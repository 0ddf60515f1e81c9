"""Any LSL stream as a device: an amplifier's own outlet, another lab's, a Neuracle box's."""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

import numpy as np
from numpy.typing import NDArray

from bci_stream.clock import Clock, RealClock
from bci_stream.errors import LostError, SourceError
from bci_stream.packet import FloatArray, Lead, is_trigger_name
from bci_stream.wire.transport import SampleInlet, Transport
from replay.devices.base import LiveSource
from replay.devices.chunk import Chunk, DeviceInfo, Timeouts
from replay.devices.gaps import FoundGap, GapFinder, SampleRun
from replay.devices.lsl_streams import MarkerStream, StreamSearch
from replay.devices.params import DeviceParams, read_live_params
from replay.devices.status import StatusKeeper
from replay.devices.timing import ClockOffset, GivenClock
from replay.devices.triggers import CodeReader, EdgeDetector, LateTriggers
from replay.model.units import stream_microvolts

HOLD_MS = 50.0
"""How long samples wait for markers, which travel on a stream of their own."""

PULL_S = 0.01
LOOK_S = 0.05
NEURACLE_BOX = re.compile(r"M_\w+_EEG")
NEURACLE_MARKERS = "Neuracle"


@dataclass(frozen=True, slots=True)
class LslOptions:
    """What to take. markers: a Markers stream. trigger: a channel's label, `auto` or `none`."""

    name: str
    markers: str | None = None
    trigger: str = "auto"
    hold: bool = True
    hold_ms: float = HOLD_MS


class LslFeed:
    counts = True

    def __init__(
        self,
        wish: LslOptions,
        transport: Transport,
        status: StatusKeeper,
        waits: Timeouts,
        clock: Clock | None = None,
    ) -> None:
        self._wish, self._status, self._waits = wish, status, waits
        self._transport = transport
        self._stop = threading.Event()
        self._clock: Clock = clock or RealClock(transport.now)
        self._edges = EdgeDetector(wish.hold)
        self._codes = CodeReader(status.note)
        self._info: DeviceInfo | None = None
        self._markers: MarkerStream | None = None
        self._since: float | None = None
        """When the first sample of all was taken."""

    def clock(self, rate: float) -> GivenClock:
        return GivenClock(rate)

    def close(self) -> None:
        self._stop.set()
        if (markers := self._markers) is not None:
            markers.stop_looking()

    def open(self) -> DeviceInfo:
        signal = self._find(self._waits.first_s)
        if signal is None:
            raise SourceError(f"the search for the stream {self._wish.name!r} was stopped")
        try:
            info = self._take_spec(signal)
        finally:
            signal.close()
        box = NEURACLE_BOX.fullmatch(signal.spec.name)
        self._wanted = self._wish.markers or (NEURACLE_MARKERS if box else None)
        self._look_for_markers()
        self._late = LateTriggers(self._wish.hold_ms if self._wanted else 0.0)
        self._gaps = GapFinder(info.rate)
        return info

    def _look_for_markers(self) -> None:
        if self._wanted and self._markers is None:
            dial_s, note = self._waits.dial_s, self._status.note
            self._markers = MarkerStream(self._wanted, self._transport, dial_s, note)
            self._markers.wait(self._stop)

    def chunks(self, missing: Callable[[], int] = lambda: 1) -> Iterator[tuple[Chunk, float]]:
        self._tell_units()
        self._look_for_markers()
        try:
            while (signal := self._find(self._waits.reconnect_s)) is not None:
                try:
                    self._take_spec(signal)
                    yield from self._read(signal, missing)
                finally:
                    signal.close()
        finally:
            markers, self._markers = self._markers, None
            if markers is not None:
                markers.close()

    def _find(self, patience_s: float) -> SampleInlet | None:
        """The stream, when it is there; None once closed."""
        search: StreamSearch[SampleInlet] = StreamSearch(
            self._wish.name,
            self._transport,
            lambda found: self._transport.sample_inlet(found, self._waits.dial_s),
        )
        deadline = self._clock.now() + patience_s
        try:
            while not self._stop.is_set():
                if (signal := search.take()) is not None:
                    return signal
                if self._clock.now() >= deadline:
                    raise SourceError(_not_found(search, patience_s))
                search.wait(LOOK_S)
            return None
        finally:
            search.close()

    def _take_spec(self, signal: SampleInlet) -> DeviceInfo:
        spec = signal.spec
        if spec.rate <= 0 or not spec.leads:
            raise SourceError(
                f"the LSL stream {spec.name!r} has no regular rate or no channels: it is no signal"
            )
        self._trigger = _trigger_column(spec.leads, self._wish.trigger)
        kept = [i for i in range(len(spec.leads)) if i != self._trigger]
        leads = [spec.leads[i] for i in kept]
        self._columns = kept
        scales = [stream_microvolts(lead.unit) for lead in leads]
        self._scale = np.array([scale or 1.0 for scale in scales], dtype=np.float32)
        named = tuple(
            Lead(x.name, x.kind.upper(), "microvolts" if scale else x.unit, x.position)
            for x, scale in zip(leads, scales, strict=True)
        )
        info = DeviceInfo(spec.rate, named)
        if self._info not in (None, info):
            raise SourceError(
                f"the LSL stream {spec.name!r} came back with other leads or another rate; a "
                "stream can't change: start the replay again"
            )
        self._info = info
        return info

    def _tell_units(self) -> None:
        for lead in self._info.leads if self._info else ():
            if stream_microvolts(lead.unit) is None:
                self._status.note(
                    f"the unit {lead.unit!r} of {lead.name} is no voltage that we know: its values "
                    "are passed on as they are"
                )
                return

    def _read(
        self, signal: SampleInlet, missing: Callable[[], int]
    ) -> Iterator[tuple[Chunk, float]]:
        now = heard = self._clock.now()
        offset = ClockOffset(signal.clock_offset_s, now)
        self._again = self._status.samples > 0
        while not self._stop.is_set():
            try:
                samples, stamps = signal.pull(missing(), PULL_S)
            except LostError as why:
                self._status.tell("reconnecting", str(why))
                break
            now = self._clock.now()
            if len(samples):
                heard = now
                self._status.tell("connected")
                self._since = self._since or float(stamps[0]) + offset.at(now)
            self._watch(now - heard)
            self._take_markers(now, signal.spec.rate)
            found = self._gaps.step(self._stretch(samples, stamps))
            yield from self._released(found, offset.at(now), now)
        yield from self._released(self._gaps.flush(), offset.at(now), now)
        self._gaps.restart()

    def _watch(self, quiet_s: float) -> None:
        if quiet_s >= self._waits.stall_s:
            self._status.tell("stalled", "the LSL stream is there, but no samples come")

    def _take_markers(self, now: float, rate: float) -> None:
        """Those that were sent before the first sample mark nothing."""
        if self._markers is None or self._since is None:
            return
        for text, at in self._markers.pull(now):
            code = self._codes.read_text(text) if at >= self._since else 0
            if code:
                self._late.trigger((at + 0.5 / rate) * 1000, code)

    def _stretch(self, samples: FloatArray, stamps: NDArray[np.float64]) -> SampleRun:
        none = np.zeros(len(samples), dtype=np.int64)
        codes = none if self._trigger is None else self._codes.read(samples[:, self._trigger])
        values = np.ascontiguousarray(samples[:, self._columns] * self._scale, dtype=np.float32)
        return SampleRun(values, codes, stamps, none)

    def _released(
        self, found: Iterator[FoundGap], offset_s: float, now: float
    ) -> Iterator[tuple[Chunk, float]]:
        """Chunks without a gap inside, when they have waited long enough for their markers."""
        rate = self._gaps.rate
        for piece, missing in found:
            lost, self._again = None if self._again else missing, False
            stamp = float(piece.stamps[-1]) + offset_s
            chunk = Chunk(piece.samples, self._edges.step(piece.codes), lost, stamp)
            start_ms = (float(piece.stamps[0]) + offset_s) * 1000
            released, notes = self._late.add(chunk, start_ms, rate)
            for note in notes:
                self._status.note(note)
            yield from ((each, now) for each in released)


def _not_found(search: StreamSearch[SampleInlet], patience_s: float) -> str:
    seen = ", ".join(search.seen) or "none"
    return (
        f"no LSL stream is named {search.name!r} (looked for {patience_s:g} s; streams seen: "
        f"{seen}); check that its program runs, that both machines are on one network, and --scope"
    )


def _trigger_column(leads: tuple[Lead, ...], wish: str) -> int | None:
    if wish == "none":
        return None
    if wish == "auto":
        last = len(leads) - 1
        named = is_trigger_name(leads[last].name) or leads[last].kind.upper() == "STIM"
        return last if named and last else None
    names = [lead.name for lead in leads]
    if wish not in names:
        raise SourceError(f"trigger={wish} is no channel of the stream; it has {', '.join(names)}")
    return names.index(wish)


def open_lsl(rest: str, given: dict[str, str], transport: Transport | None = None) -> LiveSource:
    uri = f"lsl:{rest}" + (f"?{urlencode(given)}" if given else "")
    name = rest.removeprefix("//")
    if not name:
        raise SourceError("lsl: needs a stream's name or source id: lsl:NAME")
    params = DeviceParams(f"lsl:{name}", given)
    wish = LslOptions(
        name,
        params.text("markers"),
        params.text("trigger") or "auto",
        params.choice("triggers", ("edge", "each"), "edge") == "edge",
        params.number("hold_ms", HOLD_MS, 0, 10_000),
    )
    subject, until, waits = read_live_params(params)
    params.done()
    wire = transport or _own_transport()
    return LiveSource(
        uri, subject, lambda keeper, _: LslFeed(wish, wire, keeper, waits), until, wire.now
    )


def _own_transport() -> Transport:
    from bci_stream.wire.lsl import LslTransport

    return LslTransport()
