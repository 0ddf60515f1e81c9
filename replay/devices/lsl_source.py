"""Any LSL stream as a device: an amplifier's own outlet, another lab's, a Neuracle box's."""

import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bci_stream.clock import Clock, RealClock
from bci_stream.errors import LostError, NotFoundError, SourceError
from bci_stream.packet import FloatArray, Lead
from bci_stream.wire.transport import Found, SampleInlet, TextInlet, Transport
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.clock_offset import ClockOffset
from replay.devices.edges import Edges
from replay.devices.late_triggers import LateTriggers
from replay.devices.neuracle_heeg import code_of
from replay.devices.sample_clock import GivenClock
from replay.devices.status import StatusKeeper
from replay.devices.waits import Waits

GAP_S = 0.25
"""Samples whose stamps lie further apart than this have others missing between them."""

HOLD_MS = 50.0
"""How long samples wait for markers, which travel on a stream of their own."""

PULL_S = 0.01
SEARCH_S = 0.25
NEURACLE_BOX = re.compile(r"M_\w+_EEG")
NEURACLE_MARKERS = "Neuracle"
SCALES = {"millivolts": 1e3, "mv": 1e3, "volts": 1e6, "v": 1e6}
"""Units that are turned into microvolts; any other one is taken as microvolts already."""

TRIGGER_NAMES = {"TRIGGER", "TRIG", "STI", "STIM", "STI 014", "STATUS"}


@dataclass(frozen=True, slots=True)
class LslWish:
    """What to take. markers: a Markers stream. trigger: a channel's label, `auto` or `none`."""

    name: str
    markers: str | None = None
    trigger: str = "auto"
    hold: bool = True
    hold_ms: float = HOLD_MS


class _StoppedError(Exception):
    """close() was called while a stream was looked for."""


class LslFeed:
    def __init__(
        self,
        wish: LslWish,
        transport: Transport,
        status: StatusKeeper,
        waits: Waits,
        clock: Clock | None = None,
    ) -> None:
        self._wish, self._status, self._waits = wish, status, waits
        self._transport = transport
        self._stop = threading.Event()
        self._clock: Clock = clock or RealClock(transport.now)
        self._edges = Edges(wish.hold)
        self._info: DeviceInfo | None = None
        self._late: LateTriggers | None = None
        self._last_stamp: float | None = None

    def clock(self, rate: float) -> GivenClock:
        return GivenClock(rate)

    def close(self) -> None:
        self._stop.set()

    def open(self) -> DeviceInfo:
        for signal, _ in self._inlets(self._waits.first_s):
            return self._take_spec(signal)
        raise SourceError(f"the search for the stream {self._wish.name!r} was stopped")

    def chunks(self, missing: Callable[[], int] = lambda: 1) -> Iterator[tuple[Chunk, float]]:
        for signal, markers in self._inlets(self._waits.reconnect_s):
            self._take_spec(signal)
            try:
                yield from self._read(signal, markers, missing)
            except LostError as why:
                self._status.tell("reconnecting", str(why))

    def _inlets(self, patience_s: float) -> Iterator[tuple[SampleInlet, TextInlet | None]]:
        """The streams, each time they are there (again); nothing more once closed."""
        while not self._stop.is_set():
            try:
                signal, markers = self._open_inlets(patience_s)
            except NotFoundError:  # seen, and gone before it could be opened: look again
                self._clock.wait_until(self._clock.now() + SEARCH_S, self._stop)
                continue
            except _StoppedError:
                return
            try:
                yield signal, markers
            finally:
                signal.close()
                if markers is not None:
                    markers.close()

    def _open_inlets(self, patience_s: float) -> tuple[SampleInlet, TextInlet | None]:
        found = self._find(self._wish.name, patience_s)
        wanted = self._wish.markers
        if wanted is None and NEURACLE_BOX.fullmatch(found.name):
            wanted = NEURACLE_MARKERS if NEURACLE_MARKERS in self._seen else None
        marker_stream = self._find(wanted, patience_s) if wanted else None
        signal = self._transport.sample_inlet(found, self._waits.dial_s)
        if marker_stream is None:
            return signal, None
        return signal, self._transport.text_inlet(marker_stream, self._waits.dial_s)

    def _find(self, name: str, patience_s: float) -> Found:
        deadline = self._clock.now() + patience_s
        watch = self._transport.watch("")
        try:
            while True:
                streams = watch.found()
                self._seen = sorted({stream.name for stream in streams})
                hits = [s for s in streams if name in (s.name, s.source_id)]
                if len({hit.source_id for hit in hits}) > 1:
                    raise SourceError(
                        f"several LSL streams are named {name!r}: take one by its source id, "
                        f"one of {', '.join(sorted(hit.source_id for hit in hits))}"
                    )
                if hits:
                    return hits[0]
                if self._stop.is_set():
                    raise _StoppedError
                if self._clock.now() >= deadline:
                    raise SourceError(self._not_found(name, patience_s))
                self._clock.wait_until(self._clock.now() + SEARCH_S, self._stop)
        finally:
            watch.close()

    def _not_found(self, name: str, patience_s: float) -> str:
        seen = ", ".join(self._seen) or "none"
        return (
            f"no LSL stream is named {name!r} (looked for {patience_s:g} s; streams seen: {seen}); "
            "check that its program runs, that both machines are on one network, and --scope"
        )

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
        self._scale = np.array([SCALES.get(x.unit.lower(), 1.0) for x in leads], dtype=np.float32)
        named = tuple(Lead(x.name, x.kind.upper(), "microvolts", x.position) for x in leads)
        info = DeviceInfo(spec.rate, named)
        if self._info not in (None, info):
            raise SourceError(
                f"the LSL stream {spec.name!r} came back with other leads or another rate; a "
                "stream can't change: start the replay again"
            )
        self._info = info
        return info

    def _read(
        self, signal: SampleInlet, markers: TextInlet | None, missing: Callable[[], int]
    ) -> Iterator[tuple[Chunk, float]]:
        rate = signal.spec.rate
        if self._late is None:
            self._late = LateTriggers(self._wish.hold_ms if markers is not None else 0.0)
        heard = self._clock.now()
        offset = ClockOffset(signal.clock_offset_s, heard)
        marker_offset = ClockOffset(markers.clock_offset_s, heard) if markers else offset
        while not self._stop.is_set():
            samples, stamps = signal.pull(missing(), PULL_S)
            now = self._clock.now()
            if len(samples):
                heard = now
                self._status.tell("connected")
            self._watch(now - heard)
            self._take_markers(markers, marker_offset.at(now) + 0.5 / rate, self._late)
            for chunk, start in self._split(samples, stamps + offset.at(now), rate):
                released, notes = self._late.add(chunk, start * 1000, rate)
                for note in notes:
                    self._status.note(note)
                yield from ((each, now) for each in released)

    def _watch(self, quiet_s: float) -> None:
        if quiet_s >= self._waits.stall_s:
            self._status.tell("stalled", "the LSL stream is there, but no samples come")

    def _take_markers(self, markers: TextInlet | None, offset_s: float, late: LateTriggers) -> None:
        for text, stamp in markers.pull(0.0) if markers is not None else ():
            code = code_of(text.encode())
            if code:
                late.trigger((stamp + offset_s) * 1000, code)
            elif code is None:
                self._status.note(f"the marker {text!r} is no number and was passed over")

    def _split(
        self, samples: FloatArray, stamps: NDArray[np.float64], rate: float
    ) -> Iterator[tuple[Chunk, float]]:
        """Chunks without a gap inside, each with the time of its first sample."""
        if not len(samples):
            return
        first = stamps[0] if self._last_stamp is None else self._last_stamp
        before = np.concatenate(([first], stamps[:-1]))
        self._last_stamp = float(stamps[-1])
        jumps = stamps - before > GAP_S + 1 / rate
        bounds = [0, *(int(i) for i in np.flatnonzero(jumps) if i > 0), len(samples)]
        for begin, end in pairwise(bounds):
            piece = samples[begin:end]
            codes = np.zeros(end - begin, dtype=np.int64)
            if self._trigger is not None:
                codes = np.nan_to_num(piece[:, self._trigger]).round().astype(np.int64)
            values = np.ascontiguousarray(piece[:, self._columns] * self._scale, dtype=np.float32)
            lost = None if jumps[begin] else 0
            chunk = Chunk(values, self._edges.step(codes), lost, float(stamps[end - 1]))
            yield chunk, float(stamps[begin])


def _trigger_column(leads: tuple[Lead, ...], wish: str) -> int | None:
    if wish == "none":
        return None
    if wish == "auto":
        last = len(leads) - 1
        named = leads[last].name.upper() in TRIGGER_NAMES or leads[last].kind.upper() == "STIM"
        return last if named and last else None
    names = [lead.name for lead in leads]
    if wish not in names:
        raise SourceError(f"trigger={wish} is no channel of the stream; it has {', '.join(names)}")
    return names.index(wish)
