"""The clocks of the hosts on which judge and teams run, compared with this one, for `bci-replay status`.

Nothing is decided by them: what crosses a host is converted where it arrives.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from bci_stream.clock import OffsetTrack
from bci_stream.wire.transport import TextInlet

MEASURE_EVERY_S = 2.0
"""liblsl itself compares two clocks every 5 s."""


class HostClocks:
    """Follows the offsets, on a thread of its own: the first measurement of a stream takes time.

    readings: by the stream's owner: `offset_s`, which added to its times gives ours, and `jitter_s` and
    `drift_ppm`, which are None before they are known. Any thread may read them; they are never changed.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._tracks: dict[str, OffsetTrack] = {}
        self._asked_at = float("-inf")
        self._pool: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None
        self.readings: dict[str, dict[str, Any]] = {}

    def follow(self, inlets: Callable[[], Mapping[str, TextInlet]]) -> None:
        """Measure again where it is time to; inlets: the open streams, by the names to show."""
        now = self._now()
        is_busy = self._pending is not None and not self._pending.done()
        if now - self._asked_at < MEASURE_EVERY_S or is_busy:
            return
        self._asked_at = now
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="clocks")
        self._pending = self._pool.submit(self.measure, dict(inlets()))

    def measure(self, inlets: Mapping[str, TextInlet]) -> None:
        """Measure now; whose stream is not open any more is forgotten."""
        for name, inlet in inlets.items():
            track = self._tracks.setdefault(name, OffsetTrack())
            track.add(self._now(), inlet.clock_offset_s())
        self._tracks = {name: self._tracks[name] for name in inlets}
        self.readings = {
            name: {
                "offset_s": track.offset_s,
                "jitter_s": track.jitter_s,
                "drift_ppm": track.drift_ppm,
            }
            for name, track in self._tracks.items()
        }

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


def describe_clocks(readings: Mapping[str, Mapping[str, Any]]) -> str:
    """judge -5000.0123 s (jitter 0.08 ms, drift +11.4 ppm), team alice +0.0000 s."""
    return ", ".join(f"{name} {_reading(reading)}" for name, reading in readings.items())


def _reading(reading: Mapping[str, Any]) -> str:
    offset = f"{round(reading['offset_s'], 4) + 0.0:+.4f} s"  # never -0.0000
    if reading["jitter_s"] is None or reading["drift_ppm"] is None:
        return offset
    jitter_ms = 1000 * reading["jitter_s"]
    return f"{offset} (jitter {jitter_ms:.2f} ms, drift {reading['drift_ppm']:+.1f} ppm)"
