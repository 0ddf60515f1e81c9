"""`bci-replay measure`: receives an LSL stream for a while and reports its timing."""

import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bci_stream.errors import LostError, NotFoundError, SourceError
from bci_stream.packet import Lead, is_trigger_name
from bci_stream.wire.transport import FoundStream, SampleInlet, Transport
from replay.devices.lsl_streams import MarkerStream, StreamSearch
from replay.tools.measure_timing import (
    Received,
    Timing,
    chunk_latency,
    code_edges,
    judge_for_erp,
    match_markers,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

DIAL_S = 5.0
PULL_S = 0.2
MOST_AT_ONCE = 16384
SILENT_S = 5.0
"""A stream that sends nothing for this long ends the measurement with an error."""


def find_inlet(
    name: str | None, transport: Transport, stop: threading.Event, wait_s: float
) -> tuple[SampleInlet, FoundStream]:
    """The stream of this name or source id; without one, the only stream of type EEG.

    Raises NotFoundError after wait_s, with what was seen.
    """
    found: list[FoundStream] = []

    def open_inlet(stream: FoundStream) -> SampleInlet:
        found[:] = [stream]
        return transport.sample_inlet(stream, DIAL_S)

    wanted = name or _only_signal(transport, stop, wait_s)
    search: StreamSearch[SampleInlet] = StreamSearch(wanted, transport, open_inlet)
    end = transport.now() + wait_s
    try:
        while not stop.is_set() and transport.now() < end:
            if (inlet := search.take()) is not None:
                return inlet, found[0]
            search.wait(0.05)
        raise NotFoundError(
            f"no LSL stream is named {wanted!r} after {wait_s:g} s ({search.describe_seen()}). Does it send, "
            "and in this --scope and --lsl-session?"
        )
    finally:
        search.close()


def _only_signal(transport: Transport, stop: threading.Event, wait_s: float) -> str:
    watch = transport.watch("")
    end = transport.now() + wait_s
    seen: list[FoundStream] = []
    try:
        while not stop.is_set() and transport.now() < end:
            seen = watch.found()
            if any(one.type == "EEG" for one in seen):
                stop.wait(0.5)  # others may answer a moment later
                seen = watch.found()
                break
            stop.wait(0.1)
    finally:
        watch.close()
    signals = sorted({one.name for one in seen if one.type == "EEG"})
    if len(signals) == 1:
        return signals[0]
    listed = ", ".join(signals or sorted({one.name for one in seen})) or "none"
    raise NotFoundError(
        f"one stream of type EEG is needed, found {len(signals)} (streams seen: {listed}): name the stream"
    )


def default_markers(source_id: str) -> str | None:
    """The source id of the trigger codes that a replay of ours sends with its signal."""
    return source_id.replace("/signal/", "/codes/") if source_id.startswith("bci/") else None


def line_of(leads: tuple[Lead, ...], channel: str | None) -> int | None:
    """Index of the channel on which triggers are seen: the named one, or one that is called TRIGGER."""
    names = [lead.name for lead in leads]
    if channel is not None:
        if channel not in names:
            raise SourceError(f"--channel {channel}: the stream has {', '.join(names)}")
        return names.index(channel)
    stims = [i for i, x in enumerate(leads) if is_trigger_name(x.name) or x.kind.upper() == "STIM"]
    return stims[-1] if stims else None


def receive(
    inlet: SampleInlet,
    transport: Transport,
    line: int | None,
    markers: MarkerStream | None,
    seconds: float,
    stop: threading.Event,
    progress: Callable[[float], None] = lambda _: None,
) -> Received:
    """Receive for so many seconds. Raises SourceError if the stream ends or is silent before."""
    stamps, ends, arrivals, values, marked = [], [], [], [], []
    inlet.pull(MOST_AT_ONCE, 0.0)  # what came before
    if markers is not None:
        markers.pull(transport.now())
    begin = last = transport.now()
    n = 0
    while not stop.is_set() and (now := transport.now()) - begin < seconds:
        offset_s = inlet.clock_offset_s()
        try:
            first, first_stamp = inlet.pull(1, PULL_S)
            arrival = transport.now()
            more, more_stamps = inlet.pull(MOST_AT_ONCE, 0.0)
        except LostError as error:
            raise SourceError(f"{error}; it was measured for {now - begin:.1f} s") from error
        if markers is not None:
            marked += [at for _, at in markers.pull(arrival)]
        if not len(first):
            if transport.now() - last > SILENT_S:
                raise SourceError(
                    f"the stream sends nothing for {SILENT_S:g} s: is it paused, or at its end?"
                )
            continue
        last = arrival
        for samples, own in ((first, first_stamp), (more, more_stamps)):
            stamps.append(own + offset_s)
            if line is not None:
                values.append(samples[:, line].astype(np.float64))
        n += 1 + len(more)
        ends.append(n)
        arrivals.append(arrival)
        progress(arrival - begin)
    return Received(
        inlet.spec.rate,
        np.concatenate(stamps) if stamps else np.empty(0),
        np.array(ends, dtype=np.int64),
        np.array(arrivals),
        np.concatenate(values) if values else np.empty(0),
        None if markers is None else np.array(marked),
    )


def as_json(timing: Timing) -> dict[str, Any]:
    verdict, reasons = judge_for_erp(timing)
    return {**asdict(timing), "verdict": verdict, "reasons": reasons}


VERDICTS = {
    "good": "good for event-related potentials",
    "usable": "usable for event-related potentials, with care",
    "unsuitable": "not suitable for event-related potentials",
}
NO_TRIGGERS = (
    "not measured: name a marker stream (--markers) and a channel that shows the same triggers (--channel), "
    "such as a photodiode or a loop-back of the trigger output"
)


def render(timing: Timing, name: str) -> "RenderableType":
    """The report as a table."""
    from rich.table import Table

    latency, jitter, triggers = timing.latency, timing.jitter, timing.triggers
    table = Table(title=name, title_justify="left", show_header=False)
    table.add_row("measured", f"{timing.seconds:.1f} s, {timing.samples} samples")
    table.add_row(
        "rate", f"{timing.rate:.4f} Hz ({timing.nominal_rate:g} Hz, {timing.drift_ppm:+.1f} ppm)"
    )
    table.add_row("lost", f"{timing.lost} samples in {timing.gaps} gaps")
    table.add_row(
        "latency",
        f"median {latency.p50:.2f} ms, p95 {latency.p95:.2f}, p99 {latency.p99:.2f}, most "
        f"{latency.largest:.2f}; drift {timing.latency_drift_ms:+.3f} ms a minute",
    )
    table.add_row(
        "jitter of stamps",
        f"sd {jitter.sd:.3f} ms, p99 {jitter.p99:.3f}, most {jitter.largest:.3f}",
    )
    table.add_row(
        "triggers",
        NO_TRIGGERS
        if triggers is None
        else f"{triggers.matched} markers: {triggers.delay_ms:+.2f} ms after their edge (median), sd "
        f"{triggers.sd_ms:.2f} ms, at worst {triggers.worst_ms:.2f} ms from it",
    )
    verdict, reasons = judge_for_erp(timing)
    table.add_row("verdict", "; ".join([VERDICTS[verdict], *reasons]))
    return table


def plot(received: Received, timing: Timing, path: Path) -> None:
    """Latency over time, its histogram, the stamps against an even grid, and triggers, as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    stamps, begin = received.stamps, received.arrivals[0]
    arrivals, latency = chunk_latency(received)
    latency = latency * 1000
    figure = Figure(figsize=(10, 7), layout="constrained")
    FigureCanvasAgg(figure)
    over, histogram, grid, triggers = figure.subplots(2, 2).ravel()
    over.plot(arrivals - begin, latency, ".", markersize=2)
    over.set(title="latency of each chunk", xlabel="s", ylabel="ms")
    histogram.hist(latency, bins=60)
    histogram.set(
        title=f"latency: median {timing.latency.p50:.2f} ms", xlabel="ms", ylabel="chunks"
    )
    steps = np.diff(stamps) * 1000
    grid.plot(stamps[1:] - stamps[0], steps, ".", markersize=1)
    grid.set(title="step from stamp to stamp", xlabel="s", ylabel="ms")
    markers = np.empty(0) if received.markers is None else received.markers
    pairs = match_markers(code_edges(received.line, stamps), markers)
    if not len(pairs):
        triggers.text(0.5, 0.5, "no triggers were measured", ha="center")
        triggers.set_axis_off()
    else:
        triggers.plot(pairs[:, 0] - stamps[0], (pairs[:, 1] - pairs[:, 0]) * 1000, "x")
        triggers.set(title="marker after its edge", xlabel="s", ylabel="ms")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
