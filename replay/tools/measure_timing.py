"""Timing of a stream that was received for a while: latency, jitter, drift, losses, triggers, and a verdict.

Everything here is a pure function of what was received; `replay.tools.measure` receives it.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from replay.model.stamps import Seconds, missing_samples

PIECES_SAMPLES = 0.5
"""What arrives closer together than this is one chunk."""

MATCH_S = 0.5
"""A marker and an edge of the trigger channel belong together if they are at most this far apart."""

REST_S = 0.005
"""Edges closer than this are one edge: a photodiode's signal crosses its threshold several times."""

Suitability = Literal["good", "usable", "unsuitable"]


@dataclass(frozen=True)
class Received:
    """What came in. Times are this machine's LSL clock, in seconds.

    stamps: of each sample. chunk_ends: index behind the last sample of each chunk, as received together.
    arrivals: of each chunk. line: values of the channel on which triggers are seen; empty if there is none.
    markers: stamps of the markers; None if no marker stream was received.
    """

    rate: float
    stamps: Seconds
    chunk_ends: NDArray[np.int64]
    arrivals: Seconds
    line: NDArray[np.float64]
    markers: Seconds | None


@dataclass(frozen=True)
class Spread:
    """Median, 95th and 99th percentile, largest value and standard deviation, in milliseconds."""

    p50: float
    p95: float
    p99: float
    largest: float
    sd: float

    @classmethod
    def of(cls, seconds: Seconds) -> "Spread":
        ms = seconds * 1000
        p50, p95, p99 = (float(value) for value in np.percentile(ms, (50, 95, 99)))
        return cls(p50, p95, p99, float(ms.max()), float(ms.std()))


@dataclass(frozen=True)
class TriggerTiming:
    """Markers against the edges of the trigger channel, in milliseconds; positive: the marker is later.

    delay_ms: median, which can be subtracted. sd_ms: jitter. worst_ms: largest distance from the median.
    without_edge, without_marker: what found no partner.
    """

    matched: int
    delay_ms: float
    sd_ms: float
    worst_ms: float
    without_edge: int
    without_marker: int


@dataclass(frozen=True)
class Timing:
    """The result. rate: by the stamps. drift_ppm: of the stamps against the nominal rate.

    latency: from a chunk's last stamp to its arrival. latency_drift_ms: change of the smallest latency
    a minute. jitter: distance of the stamps from an even grid between gaps.
    """

    seconds: float
    samples: int
    nominal_rate: float
    rate: float
    drift_ppm: float
    latency: Spread
    latency_drift_ms: float
    jitter: Spread
    lost: int
    gaps: int
    backwards: int
    triggers: TriggerTiming | None


def measure_timing(received: Received) -> Timing:
    """Raises ValueError for fewer than three chunks."""
    stamps, rate = received.stamps, received.rate
    if len(received.arrivals) < 3 or len(stamps) < 3:
        raise ValueError("too few samples")
    steps = np.diff(stamps)
    missing = missing_samples(stamps, rate)
    numbers = np.concatenate(([0], np.cumsum(1 + missing)))
    seconds = float(stamps[-1] - stamps[0])
    slope, height = np.polyfit(numbers, stamps - stamps[0], 1)
    residuals = stamps - stamps[0] - (slope * numbers + height)
    arrivals, latency = chunk_latency(received)
    return Timing(
        seconds=seconds,
        samples=len(stamps),
        nominal_rate=rate,
        rate=1 / float(slope),
        drift_ppm=(1 / float(slope) / rate - 1) * 1e6,
        latency=Spread.of(latency),
        latency_drift_ms=_floor_drift_ms(arrivals, latency),
        jitter=replace(Spread.of(np.abs(residuals)), sd=float(residuals.std()) * 1000),
        lost=int(missing.sum()),
        gaps=int((missing > 0).sum()),
        backwards=int((steps <= 0).sum()),
        triggers=_match_triggers(received),
    )


def chunk_latency(received: Received) -> tuple[Seconds, Seconds]:
    """Arrival of each chunk, and how long after the stamp of its last sample that was.

    A chunk that was received in pieces, less than half a sample apart, is one.
    """
    apart = np.diff(received.arrivals) * received.rate
    is_last = np.append(apart > PIECES_SAMPLES, True)
    arrivals = received.arrivals[is_last]
    return arrivals, arrivals - received.stamps[received.chunk_ends[is_last] - 1]


def _floor_drift_ms(arrivals: Seconds, latency: Seconds) -> float:
    """Slope of the smallest latency of each tenth of the time, in milliseconds a minute."""
    edges = np.linspace(arrivals[0], arrivals[-1], 11)
    tenth = np.clip(np.searchsorted(edges, arrivals, side="right") - 1, 0, 9)
    used = [k for k in range(10) if (tenth == k).any()]
    if len(used) < 2:
        return 0.0
    floor = [float(latency[tenth == k].min()) for k in used]
    middle = [(edges[k] + edges[k + 1]) / 2 for k in used]
    return float(np.polyfit(middle, floor, 1)[0]) * 60_000


def find_edges(line: NDArray[np.float64], stamps: Seconds) -> Seconds:
    """Stamps at which the line rises above the middle between its low and its high values."""
    if not len(line) or line.max() == line.min():
        return np.empty(0)
    middle = (float(line.min()) + float(line.max())) / 2
    above = line > middle
    rises = stamps[1:][above[1:] & ~above[:-1]]
    if not len(rises):
        return rises
    return rises[np.concatenate(([True], np.diff(rises) > REST_S))]


def _match_triggers(received: Received) -> TriggerTiming | None:
    if received.markers is None:
        return None
    edges, markers = code_edges(received.line, received.stamps), np.sort(received.markers)
    pairs = match_markers(edges, markers)
    first, last = received.stamps[0] + MATCH_S, received.stamps[-1] - MATCH_S

    def alone(times: Seconds, matched: Seconds) -> int:
        """How many found no partner; near the ends the partner may lie outside."""
        return int(((times > first) & (times < last) & ~np.isin(times, matched)).sum())

    without_edge, without_marker = alone(markers, pairs[:, 1]), alone(edges, pairs[:, 0])
    if not len(pairs):
        nothing = not without_edge and not without_marker
        return (
            None
            if nothing or not len(edges)
            else TriggerTiming(0, 0.0, 0.0, 0.0, without_edge, without_marker)
        )
    ms = (pairs[:, 1] - pairs[:, 0]) * 1000
    delay = float(np.median(ms))
    worst = float(np.abs(ms - delay).max())
    return TriggerTiming(len(ms), delay, float(ms.std()), worst, without_edge, without_marker)


def code_edges(line: NDArray[np.float64], stamps: Seconds) -> Seconds:
    """Edges of an analog line, or of a line of codes (whole numbers, mostly 0): each change to a code."""
    is_codes = bool(len(line)) and bool((line == np.floor(line)).all() and (line == 0).mean() > 0.5)
    if not is_codes:
        return find_edges(line, stamps)
    changed = (line[1:] != line[:-1]) & (line[1:] != 0)
    edges: Seconds = stamps[1:][changed]
    return edges


def match_markers(edges: Seconds, markers: Seconds) -> Seconds:
    """(n, 2): edge and marker that are nearest to each other, each once."""
    found: dict[float, float] = {}
    for marker in markers.tolist() if len(edges) else ():
        edge = float(edges[np.abs(edges - marker).argmin()])
        apart = abs(marker - edge)
        if apart <= MATCH_S and apart < abs(found.get(edge, np.inf) - edge):
            found[edge] = marker
    return np.array(sorted(found.items())).reshape(-1, 2)


GOOD_JITTER_MS, USABLE_JITTER_MS = 1.0, 5.0
"""Largest standard deviation of stamps or triggers: averaged potentials keep their latency and height."""
GOOD_WORST_MS, USABLE_WORST_MS = 4.0, 20.0
USABLE_LOSS = 0.001
USABLE_DRIFT_PPM = 500.0


def judge_for_erp(timing: Timing) -> tuple[Suitability, list[str]]:
    """Whether event-related potentials can be measured with this timing, and why not."""
    found: list[tuple[Suitability, str]] = []

    def check(value: float, good: float, usable: float, text: str) -> None:
        if value > good:
            found.append(("usable" if value <= usable else "unsuitable", text))

    share = timing.lost / (timing.samples + timing.lost)
    check(share, 0.0, USABLE_LOSS, f"{timing.lost} samples were lost in {timing.gaps} gaps")
    check(
        timing.jitter.sd,
        GOOD_JITTER_MS,
        USABLE_JITTER_MS,
        f"stamps of samples vary by {timing.jitter.sd:.1f} ms (sd)",
    )
    check(
        abs(timing.drift_ppm),
        USABLE_DRIFT_PPM,
        10 * USABLE_DRIFT_PPM,
        f"the rate is {timing.drift_ppm:+.0f} ppm off the nominal one",
    )
    if timing.backwards:
        found.append(("unsuitable", f"{timing.backwards} stamps do not increase"))
    if timing.triggers is not None:
        found += _judge_triggers(timing.triggers)
    order: tuple[Suitability, ...] = ("good", "usable", "unsuitable")
    worst = max((order.index(verdict) for verdict, _ in found), default=0)
    return order[worst], [text for _, text in found]


def _judge_triggers(triggers: TriggerTiming) -> list[tuple[Suitability, str]]:
    found: list[tuple[Suitability, str]] = []
    if triggers.without_edge or triggers.without_marker or not triggers.matched:
        found.append(
            (
                "unsuitable",
                f"{triggers.without_edge} markers have no edge on the trigger channel, and "
                f"{triggers.without_marker} edges no marker",
            )
        )
    if triggers.sd_ms > GOOD_JITTER_MS or triggers.worst_ms > GOOD_WORST_MS:
        is_usable = triggers.sd_ms <= USABLE_JITTER_MS and triggers.worst_ms <= USABLE_WORST_MS
        found.append(
            (
                "usable" if is_usable else "unsuitable",
                f"triggers vary by {triggers.sd_ms:.1f} ms (sd), at worst {triggers.worst_ms:.1f} ms",
            )
        )
    return found
