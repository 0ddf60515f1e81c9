"""A stream is what a decoder is fed, whole in memory: as the wire carries it, cut, or spoilt."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from bci_stream.packet import Packet, SignalInfo
from decoders.decoder import Decoder, reports_of
from decoders.offline import introduce, track_of, wire_packets
from replay.source import Session

DEAD_SHARE = 0.15
SAMPLES_A_ROW = 5
"""ecog reports a row for so many samples: pieces are cut at rows."""

Said = list[tuple[int, object]]
"""(number of the track's packet, result)"""


@dataclass(frozen=True)
class Stream:
    """What a decoder is fed: one session as the wire carries it."""

    info: SignalInfo
    packets: list[Packet]

    def copied(self) -> "Stream":
        packets = [replace(packet, samples=packet.samples.copy()) for packet in self.packets]
        return Stream(self.info, packets)


def stream_of(track_name: str, decoder: Decoder, session: Session) -> Stream:
    """A session as the wire carries it, with the leads that the decoder chooses."""
    track = track_of(track_name)
    info, places = introduce(track, decoder, session)
    return Stream(info, list(wire_packets(track, session, places)))


def feed(decoder: Decoder, stream: Stream) -> Said:
    """All that a decoder says to a stream."""
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
    """Noise without triggers in a packet's place."""
    samples = rng.normal(0, 50, packet.samples.shape).astype(np.float32)
    samples[:, -1] = 0
    return replace(packet, samples=samples, triggers=())


def _dead(stream: Stream, rng: np.random.Generator) -> list[int]:
    n = len(stream.info.leads)
    chosen = rng.choice(n, size=max(1, int(DEAD_SHARE * n)), replace=False)
    return [int(place) for place in chosen]


def _with_leads(stream: Stream, dead: Sequence[int], value: float) -> Stream:
    changed = []
    for packet in stream.packets:
        samples = packet.samples.copy()
        samples[:, dead] = value
        changed.append(replace(packet, samples=samples))
    return Stream(stream.info, changed)


def _flat(stream: Stream, rng: np.random.Generator) -> Stream:
    return _with_leads(stream, _dead(stream, rng), 0.0)


def _nan(stream: Stream, rng: np.random.Generator) -> Stream:
    """Some leads are never a number, all of them are not for one packet in fifty."""
    spoilt = _with_leads(stream, _dead(stream, rng), np.nan)
    for packet in spoilt.packets:
        if rng.random() < 1 / 50:
            packet.samples[:, :-1] = np.nan
    return spoilt


def _missing(stream: Stream, rng: np.random.Generator) -> Stream:
    """Some leads are not sent at all."""
    dead = set(_dead(stream, rng))
    live = [place for place in range(len(stream.info.leads)) if place not in dead]
    info = replace(stream.info, leads=tuple(stream.info.leads[place] for place in live))
    packets = [
        replace(p, samples=np.ascontiguousarray(p.samples[:, [*live, -1]])) for p in stream.packets
    ]
    return Stream(info, packets)


SPOILERS: dict[str, Callable[[Stream, np.random.Generator], Stream]] = {
    "flat leads": _flat,
    "NaN leads": _nan,
    "missing leads": _missing,
}
