"""The live signal of each track: its streams are opened in a thread of the page's process.

Anyone on the network may offer a stream with the name of a signal. A stream that does not answer delays
the page by nothing, and the next stream by OPEN_S; it is tried again after a pause that grows.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import WireError
from bci_stream.leaderboard.web.signal_detail import SignalBuffer, SignalChoice, describe_signal
from bci_stream.packet import FloatArray
from bci_stream.stream_health import StreamHealth
from bci_stream.wire import names
from bci_stream.wire.transport import FoundStream, SampleInlet, Transport

logger = logging.getLogger(__name__)

DISCOVER_EVERY_S: Final = 0.5
PULL_EVERY_S: Final = 0.05
OPEN_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
OFFSET_EVERY_S: Final = 5.0

MOST_RATE: Final = 50_000.0
MOST_LEADS: Final = 1024
MOST_AT_ONCE: Final = 1 << 20
"""Values in one pull. A stream with a higher rate or more leads is not shown."""

SHOWN_LEADS: Final = 8
SHOWN_RATE: Final = 50.0
SHOWN_S: Final = 6.0
"""Leads, columns per second, seconds."""


class SignalMonitor:
    """The last SHOWN_S seconds of a signal, averaged to columns at about SHOWN_RATE."""

    def __init__(self, rate: float, leads: tuple[str, ...]) -> None:
        self._source = (rate, leads)
        self._samples_per_column = max(1, round(rate / SHOWN_RATE))
        self._rate = rate / self._samples_per_column
        self._picked = np.unique(np.linspace(0, len(leads) - 1, SHOWN_LEADS).round().astype(int))
        self._leads = tuple(leads[i] for i in self._picked)
        self._rest = np.empty((0, len(self._picked)), dtype=np.float32)
        self._columns: deque[list[float]] = deque(maxlen=round(SHOWN_S * self._rate))
        self._new: deque[list[float]] = deque(maxlen=self._columns.maxlen)

    def fits(self, rate: float, leads: tuple[str, ...]) -> bool:
        return self._source == (rate, leads)

    def add(self, samples: NDArray[np.float32]) -> None:
        """Add samples (n, leads); the result does not depend on how they are divided into calls."""
        samples = np.concatenate([self._rest, samples[:, self._picked]])
        n = len(samples) // self._samples_per_column
        complete = samples[: n * self._samples_per_column]
        self._rest = samples[len(complete) :]
        if n == 0:
            return
        means = complete.reshape(n, self._samples_per_column, -1).mean(axis=1)
        columns: list[list[float]] = np.nan_to_num(means, posinf=0, neginf=0).round(2).tolist()
        self._columns.extend(columns)
        self._new.extend(columns)

    def view(self) -> dict[str, Any]:
        return self._data(list(self._columns))

    def take_new(self) -> dict[str, Any] | None:
        """The columns since the last call; None if there are none."""
        columns = list(self._new)
        self._new.clear()
        return self._data(columns) if columns else None

    def _data(self, columns: list[list[float]]) -> dict[str, Any]:
        return {"rate": self._rate, "leads": self._leads, "columns": columns}


class LiveSignals:
    """The signal monitor of each track. The methods may be called from any thread."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """now: the clock of time stamps."""
        self._lock = threading.Lock()
        self._now = now
        self._monitors: dict[str, SignalMonitor] = {}
        self._health: dict[str, StreamHealth] = {}
        self._buffers: dict[str, SignalBuffer] = {}
        self.keeps_detail = False
        """Whether all leads are kept at full rate, for `detail`."""

    def use_clock(self, now: Callable[[], float]) -> None:
        self._now = now

    def add(self, track: str, samples: FloatArray, rate: float, leads: tuple[str, ...]) -> None:
        """Add samples (n, leads) in uV."""
        with self._lock:
            monitor = self._monitors.get(track)
            if monitor is None or not monitor.fits(rate, leads):
                monitor = self._monitors[track] = SignalMonitor(rate, leads)
            monitor.add(samples)
            if self.keeps_detail:
                buffer = self._buffers.get(track)
                if buffer is None or (buffer.rate, buffer.leads) != (rate, leads):
                    buffer = self._buffers[track] = SignalBuffer(rate, leads)
                buffer.add(samples)

    def detail(self, track: str, choice: SignalChoice) -> dict[str, Any] | None:
        """Chosen leads with their spectra, and the quality of all; None if the track has no signal."""
        with self._lock:
            buffer = self._buffers.get(track)
            samples = None if buffer is None else buffer.samples()
        if buffer is None or samples is None or not len(samples):
            return None
        return describe_signal(samples, buffer.rate, buffer.leads, choice)

    def take_new(self) -> dict[str, Any]:
        """The new columns of each track that has some."""
        with self._lock:
            new = {track: monitor.take_new() for track, monitor in self._monitors.items()}
        return {track: piece for track, piece in new.items() if piece is not None}

    def add_stamps(
        self, track: str, stamps: NDArray[np.float64], rate: float, now: float, offset_s: float
    ) -> None:
        """Add the time stamps of samples, pulled at `now`; offset_s: added to a stamp it gives our clock."""
        with self._lock:
            health = self._health.get(track)
            if health is None or health.rate != rate:
                health = self._health[track] = StreamHealth(rate)
            health.add(stamps, now, offset_s)

    def health(self) -> dict[str, Any]:
        """How well the signal of each track arrives here."""
        now = self._now()
        with self._lock:
            return {track: health.summary(now) for track, health in self._health.items()}

    def view(self) -> dict[str, Any]:
        with self._lock:
            return {track: monitor.view() for track, monitor in self._monitors.items()}


class SignalView:
    """Reads the signal of each track of a contest from the first of its streams.

    One thread opens streams, another one reads them. Only one stream of a track stays open (on ecog each
    team has its own); when it ends, another stream of the track takes its place.
    """

    def __init__(
        self, transport: Transport, contest: str, signals: LiveSignals, tracks: frozenset[str]
    ) -> None:
        self._transport = transport
        self._signals = signals
        self._known = tracks
        self._watch = transport.watch(names.prefix(contest, "signal"))
        self._tracks: dict[str, str] = {}  # by the stream's uid; "" if it is not shown
        self._inlets: dict[str, SampleInlet] = {}  # by the stream's uid
        self._retry_at: dict[str, tuple[float, float]] = {}  # by uid: when, and the pause after it
        self._offsets: dict[
            str, tuple[float, float]
        ] = {}  # by uid: when it was read, and its value
        signals.use_clock(transport.now)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._repeat, args=work, name="signal-view", daemon=True)
            for work in ((self.discover, DISCOVER_EVERY_S), (self.show, PULL_EVERY_S))
        ]

    def __enter__(self) -> "SignalView":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._watch.close()
        for inlet in self._inlets.values():
            inlet.close()

    def _repeat(self, work: Callable[[], None], period_s: float) -> None:
        while not self._stop.wait(period_s):
            try:
                work()
            except Exception as error:  # noqa: BLE001 - whatever the description of a foreign stream leads to
                logger.debug("a signal stream can't be read: %s", error)

    def discover(self) -> None:
        """Open the streams of tracks that are not shown yet."""
        found = self._watch.found()
        self._forget({stream.uid for stream in found})
        for stream in sorted(found, key=self._pause_of):
            if self._stop.is_set():
                return
            shown = {self._tracks[uid] for uid in list(self._inlets)}
            if stream.uid in self._inlets or self._tracks.get(stream.uid) in {*shown, ""}:
                continue
            if self._transport.now() >= self._retry_at.get(stream.uid, (0.0, 0.0))[0]:
                self._open(stream, shown)

    def _pause_of(self, stream: FoundStream) -> float:
        """Streams that answered, or were not tried yet, come first."""
        return self._retry_at.get(stream.uid, (0.0, 0.0))[1]

    def _forget(self, present: set[str]) -> None:
        for uid in (self._tracks.keys() | self._retry_at.keys()) - present - self._inlets.keys():
            self._tracks.pop(uid, None)
            self._retry_at.pop(uid, None)

    def _open(self, stream: FoundStream, shown: set[str]) -> None:
        try:
            inlet = self._transport.sample_inlet(stream, OPEN_S)
        except WireError:  # it has ended, does not answer, or is no signal
            pause_s = min(LONGEST_PAUSE_S, 2 * self._pause_of(stream) or OPEN_S)
            self._retry_at[stream.uid] = self._transport.now() + pause_s, pause_s
            return
        spec = inlet.spec
        fits = 0 < spec.rate <= MOST_RATE and 1 < len(spec.leads) <= MOST_LEADS
        track = spec.meta.get("track", "")
        self._tracks[stream.uid] = track if fits and track in self._known else ""
        if self._tracks[stream.uid] in {*shown, ""}:
            inlet.close()
        else:
            self._inlets[stream.uid] = inlet

    def show(self) -> None:
        """Hand on what has arrived; close the streams that have ended."""
        for uid, inlet in list(self._inlets.items()):
            spec = inlet.spec
            most = max(1, min(int(spec.rate), MOST_AT_ONCE // len(spec.leads)))
            try:
                samples, stamps = inlet.pull(most, 0.0)
            except WireError:
                self._inlets.pop(uid).close()
                continue
            if len(samples):
                leads = tuple(lead.name for lead in spec.leads[:-1])
                track = self._tracks[uid]
                self._signals.add(track, samples[:, :-1], spec.rate, leads)
                offset_s = self._offset_s(uid, inlet)
                self._signals.add_stamps(track, stamps, spec.rate, self._transport.now(), offset_s)

    def _offset_s(self, uid: str, inlet: SampleInlet) -> float:
        """The clock offset of a stream, read again every OFFSET_EVERY_S."""
        now = self._transport.now()
        read_at, offset_s = self._offsets.get(uid, (-OFFSET_EVERY_S, 0.0))
        if now - read_at >= OFFSET_EVERY_S:
            offset_s = inlet.clock_offset_s()
            self._offsets = {uid: at for uid, at in self._offsets.items() if uid in self._inlets}
            self._offsets[uid] = now, offset_s
        return offset_s
