"""Checks of the properties that every decoder must have, over a stream of its track.

    results name a class   some result can be read by the track's rules, those of its profile
    same for any split     splitting packets gives the same results, each by the end of the same packet
                           (packets with a trigger are not split: the rules refer to their bounds)
    input not changed      step() does not modify a packet
    deterministic          a new decoder with the same seed reports the same
    nothing before its data   reports up to a packet do not depend on later packets
    flat / NaN / missing leads   the decoder goes on, with as many reports
    bounded memory         memory grows by less than MAX_GROWTH_MB an hour

For your own decoder: `bci-decode check --track mi --decoder my_module:Mine`.
"""

import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from rich.console import Console
from rich.markup import escape

from bci_stream.packet import Packet, SignalInfo
from decoders.decoder import Decoder, format_exception, json_value, reports_of
from decoders.offline import introduce, track_of
from decoders.registry import default_of, load
from decoders.waiting import describe_awaited, describe_data, source_files, trigger_counts
from replay.model.options import SourceOptions, profile_rate
from replay.model.source import Session
from replay.sources import open_source
from replay.transform.masking import masked_packets
from tracks.track import Track

DEAD_SHARE = 0.15

TimedReports = list[tuple[int, object]]
"""(number of the track's packet, result)"""


@dataclass(frozen=True)
class DecoderStream:
    """The input of a decoder: one session as the wire carries it."""

    info: SignalInfo
    packets: list[Packet]

    def copied(self) -> "DecoderStream":
        packets = [replace(packet, samples=packet.samples.copy()) for packet in self.packets]
        return DecoderStream(self.info, packets)


def stream_of(track: Track, decoder: Decoder, session: Session) -> DecoderStream:
    """A session as the wire carries it, with the leads that the decoder chooses."""
    info, places = introduce(track, decoder, session)
    return DecoderStream(info, list(masked_packets(track, session, places)))


def feed(decoder: Decoder, stream: DecoderStream) -> TimedReports:
    """All reports of a decoder for a stream."""
    decoder.start(stream.info)
    return [
        (number, result)
        for number, packet in enumerate(stream.packets)
        for result in reports_of(decoder, packet)
    ]


def pieces(packet: Packet, rng: np.random.Generator, step: int = 1) -> list[Packet]:
    """A packet without triggers in up to three pieces, cut at multiples of `step` samples."""
    bounds = range(step, packet.n, step)
    if packet.triggers or not bounds:
        return [packet]
    cuts = sorted({0, packet.n, *rng.choice(bounds, size=2).tolist()})
    return [
        replace(
            packet,
            samples=np.ascontiguousarray(packet.samples[a:b]),
            start=packet.start + a,
            finish=packet.finish and b == packet.n,
        )
        for a, b in pairwise(cuts)
    ]


def noise_like(packet: Packet, rng: np.random.Generator) -> Packet:
    """A packet of noise without triggers, of the same size."""
    samples = rng.normal(0, 50, packet.samples.shape).astype(np.float32)
    samples[:, -1] = 0
    return replace(packet, samples=samples, triggers=())


def _dead(stream: DecoderStream, rng: np.random.Generator) -> list[int]:
    n = len(stream.info.leads)
    chosen = rng.choice(n, size=max(1, int(DEAD_SHARE * n)), replace=False)
    return [int(place) for place in chosen]


def _with_leads(stream: DecoderStream, dead: Sequence[int], value: float) -> DecoderStream:
    changed = []
    for packet in stream.packets:
        samples = packet.samples.copy()
        samples[:, dead] = value
        changed.append(replace(packet, samples=samples))
    return DecoderStream(stream.info, changed)


def _flat(stream: DecoderStream, rng: np.random.Generator) -> DecoderStream:
    return _with_leads(stream, _dead(stream, rng), 0.0)


def _nan(stream: DecoderStream, rng: np.random.Generator) -> DecoderStream:
    """NaN in some leads throughout, and in all leads in one packet of fifty."""
    spoilt = _with_leads(stream, _dead(stream, rng), np.nan)
    for packet in spoilt.packets:
        if rng.random() < 1 / 50:
            packet.samples[:, :-1] = np.nan
    return spoilt


def _missing(stream: DecoderStream, rng: np.random.Generator) -> DecoderStream:
    """Without some leads."""
    dead = set(_dead(stream, rng))
    live = [place for place in range(len(stream.info.leads)) if place not in dead]
    info = replace(stream.info, leads=tuple(stream.info.leads[place] for place in live))
    packets = [
        replace(p, samples=np.ascontiguousarray(p.samples[:, [*live, -1]])) for p in stream.packets
    ]
    return DecoderStream(info, packets)


SPOILERS: dict[str, Callable[[DecoderStream, np.random.Generator], DecoderStream]] = {
    "flat leads": _flat,
    "NaN leads": _nan,
    "missing leads": _missing,
}


Factory = Callable[[], Decoder]

SPLITS = 2
MAX_GROWTH_MB = 64.0
MEMORY_ROUNDS = 2
"""How often the session is streamed to measure the growth of memory, extrapolated to an hour."""


@dataclass(frozen=True)
class Law:
    """One property, and whether it holds; detail: what was observed."""

    name: str
    ok: bool
    detail: str


def sample_session(name: str, seed: int = 0, rules: dict[str, object] | None = None) -> Session:
    """A short synthetic session to check a decoder with; at the rate of the rules' profile."""
    track = track_of(name).under(rules or {})
    params = {**track.sample_params, "subjects": "1", "seed": str(seed)}
    uri = f"synthetic:{name}?{urlencode(params)}"
    return next(iter(open_source(uri, SourceOptions(resample=profile_rate(track))).sessions()))


def check(
    name: str,
    factory: Factory,
    session: Session,
    seed: int = 0,
    rules: dict[str, object] | None = None,
) -> Iterator[Law]:
    """Check the properties one by one; factory makes a new decoder.

    name: of the track. rules: what the contest changes of its rules, its profile among them.
    """
    track = track_of(name).under(rules or {})
    stream = stream_of(track, factory(), session)
    rng = np.random.default_rng(seed)
    given = stream.copied()
    law, reported = _runs(factory, given)
    yield law
    if not law.ok:
        return
    yield _attempt("results name a class", lambda: _unread(track, reported))
    yield (law := _attempt("input not changed", lambda: _changed(stream, given)))
    if not law.ok:
        return  # the input of the other checks would be damaged
    yield _attempt("deterministic", lambda: _compare(reported, feed(factory(), stream)))
    yield _attempt("same for any split", lambda: _splits(factory, stream, reported, rng))
    yield _attempt("nothing before its data", lambda: _prefix(factory, stream, reported, rng))
    for name, spoil in SPOILERS.items():
        yield _attempt(name, partial(_spoilt, factory, spoil(stream, rng), reported))
    yield _attempt("bounded memory", lambda: _bounded(factory, stream))


def _attempt(name: str, law: Callable[[], str]) -> Law:
    """Run a check, which returns what is wrong or an empty string."""
    try:
        wrong = law()
    except Exception as error:  # noqa: BLE001 - contestants' code may raise anything
        wrong = f"it raised {format_exception(error)}"
    return Law(name, not wrong, wrong or "held")


def _runs(factory: Factory, stream: DecoderStream) -> tuple[Law, TimedReports]:
    reported: TimedReports = []

    def run() -> str:
        reported.extend(feed(factory(), stream))
        return (
            ""
            if reported
            else "; ".join(["it never reported anything", *_silence(factory, stream)])
        )

    law = _attempt("runs and reports", run)
    return replace(law, detail=f"{len(reported)} reports") if law.ok else law, reported


def _unread(track: Track, reported: TimedReports) -> str:
    """What can't be read as a class under the contest's rules, where that is true of all results."""
    results = [json_value(result) for _, result in reported]
    if not track.classes or any(track.read(result) is not None for result in results):
        return ""
    return f"none of its {len(results)} results names a class of {track.name}, such as {results[0]!r:.60}"


def _silence(factory: Factory, stream: DecoderStream) -> list[str]:
    """What the data had, and what the decoder's source waits for."""
    info = stream.info
    events: list[dict[str, Any]] = [
        {
            "kind": "session",
            "rate": info.rate,
            "leads": info.leads,
            "packet_samples": info.packet_samples,
        },
        *({"kind": "packet", "triggers": packet.triggers} for packet in stream.packets),
    ]
    awaited = describe_awaited(source_files(factory()), trigger_counts(events))
    return [*describe_data(events), *awaited]


def _compare(expected: TimedReports, got: TimedReports) -> str:
    """The first difference between two lists, or an empty string."""
    for number, (one, other) in enumerate(zip(expected, got, strict=False)):
        if one[0] != other[0] or not same(one[1], other[1]):
            return f"report {number}: {_shown(one)}, then {_shown(other)}"
    if len(expected) != len(got):
        return f"{len(expected)} reports, then {len(got)}"
    return ""


def same(one: object, other: object) -> bool:
    """Whether two results are equal; rows of numbers (ecog) up to rounding."""
    if isinstance(one, list) and isinstance(other, list):
        a, b = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
        return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-5, atol=1e-5))
    return type(one) is type(other) and one == other


def _shown(reported: tuple[int, object]) -> str:
    text = repr(reported[1])
    return f"{text[:60]} at packet {reported[0]}"


def _changed(stream: DecoderStream, given: DecoderStream) -> str:
    for number, (one, other) in enumerate(zip(stream.packets, given.packets, strict=True)):
        if not np.array_equal(one.samples, other.samples, equal_nan=True):
            return f"packet {number} was changed"
    return ""


def _splits(
    factory: Factory, stream: DecoderStream, reported: TimedReports, rng: np.random.Generator
) -> str:
    traces = track_of(stream.info.track).traces  # pieces are cut at the rows of a report
    step = round(stream.info.rate / traces.rate) if traces else 1
    for _ in range(SPLITS):
        decoder = factory()
        decoder.start(stream.info)
        got: TimedReports = []
        for number, packet in enumerate(stream.packets):
            for piece in pieces(packet, rng, step):
                got += [(number, result) for result in reports_of(decoder, piece)]
        wrong = _compare(_joined(reported), _joined(got))
        if wrong:
            return wrong
    return ""


def _joined(reported: TimedReports) -> TimedReports:
    """Join the rows reported within one packet of the track to one report."""
    joined: TimedReports = []
    for number, result in reported:
        last = joined[-1] if joined else None
        if isinstance(result, list) and last and last[0] == number and isinstance(last[1], list):
            joined[-1] = (number, last[1] + result)
        else:
            joined.append((number, result))
    return joined


def _prefix(
    factory: Factory, stream: DecoderStream, reported: TimedReports, rng: np.random.Generator
) -> str:
    """Replace everything after a packet by noise without triggers."""
    for _ in range(SPLITS):
        keep = int(rng.integers(1, len(stream.packets)))
        later = [noise_like(packet, rng) for packet in stream.packets[keep:]]
        got = feed(factory(), DecoderStream(stream.info, stream.packets[:keep] + later))
        wrong = _compare([s for s in reported if s[0] < keep], [s for s in got if s[0] < keep])
        if wrong:
            return f"the future after packet {keep - 1} changed {wrong}"
    return ""


def _spoilt(factory: Factory, stream: DecoderStream, reported: TimedReports) -> str:
    """Other results at other times are allowed, but not fewer."""
    got = feed(factory(), stream)
    if len(got) != len(reported):
        return f"{len(reported)} reports, with these leads {len(got)}"
    if not all(_finite(result) for _, result in got):
        return "it reported a value that is not finite"
    return ""


def _finite(result: object) -> bool:
    """Whether a result is a name, or a finite number or rows of them."""
    return isinstance(result, str) or bool(np.isfinite(np.asarray(result, np.float64)).all())


def _bounded(factory: Factory, stream: DecoderStream) -> str:
    """Stream repeatedly; buffers may fill in the first round."""
    decoder = factory()
    decoder.start(stream.info)
    sizes = []
    tracemalloc.start()
    try:
        for number in range(MEMORY_ROUNDS):
            for packet in stream.packets:
                decoder.step(replace(packet, block=packet.block + number, finish=False))
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    samples = sum(packet.n for packet in stream.packets) * (MEMORY_ROUNDS - 1)
    hours = samples / stream.info.rate / 3600
    growth_mb = (sizes[-1] - sizes[0]) / 2**20 / hours
    if growth_mb > MAX_GROWTH_MB:
        return f"it grows by {growth_mb:.0f} MB an hour; at most {MAX_GROWTH_MB:.0f}"
    return ""


def check_decoder(
    track: str,
    decoder: str | None,
    model: Path | None,
    seed: int,
    factory: Factory | None = None,
    rules: dict[str, object] | None = None,
) -> bool:
    """Print a line for each property; returns whether all hold.

    factory: where no name gives it. rules: what the contest changes of the track's.
    """
    console = Console()
    console.print(f"{decoder or default_of(track)} on track {track}")
    held = True
    session = sample_session(track, seed, rules)
    make = factory or (lambda: load(decoder, track, model, seed))
    for law in check(track, make, session, seed, rules):
        held = held and law.ok
        mark = "[green]✔[/]" if law.ok else "[red]✘[/]"
        console.print(f" {mark} {law.name}: {escape(law.detail)}")
    return held
