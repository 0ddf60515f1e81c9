"""Features of a second of EEG: differential entropy per band, and the covariance of the leads.

The differential entropy of a normal signal is half the logarithm of its variance, plus a constant,
for each lead and band. The broad-band covariance, averaged over the last seconds, is added as its
matrix logarithm.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Packet
from decoders.dsp import Array
from decoders.dsp.covariance import mend, shrink
from decoders.dsp.filters import CausalFilter, FilterBank, bandpass
from decoders.dsp.spd import logarithm, upper_triangle
from tracks.common.codes import BLOCK_END, BLOCK_START
from tracks.common.seconds import PACKETS_A_SECOND

BANDS_HZ = ((1.0, 4.0), (4.0, 8.0), (8.0, 13.0), (13.0, 30.0), (30.0, 47.0))
BROAD_HZ = (1.0, 45.0)
LIMIT_UV = 150.0
"""Blinks and jumps are clipped, so that one does not dominate a second."""
SMALLEST_UV2 = 1e-2
COVARIANCE_MEMORY_S = 4.0
SHRINKAGE = 0.05


class AffectFeatures:
    """Push samples of the chosen leads; `take` returns the features of those since the last take."""

    def __init__(self, rate: float, n_leads: int) -> None:
        self._n_leads = n_leads
        self._broad = CausalFilter(bandpass(*BROAD_HZ, rate, order=2), n_leads)
        self._bands = FilterBank([bandpass(*band, rate, order=3) for band in BANDS_HZ], n_leads)
        self._smooth: Array | None = None
        self._clear()

    @property
    def size(self) -> int:
        return len(BANDS_HZ) * self._n_leads + self._n_leads * (self._n_leads + 1) // 2

    def push(self, x: NDArray[np.floating]) -> None:
        """Add raw samples x (n, leads)."""
        broad = np.clip(self._broad.step(x), -LIMIT_UV, LIMIT_UV)
        broad -= broad.mean(axis=1, keepdims=True)
        self._power += (self._bands.step(broad) ** 2).sum(axis=1)
        self._covariance += broad.T @ broad
        self._count += len(x)

    def take(self) -> Array:
        """(size,): the features of the samples since the last take."""
        n = max(self._count, 1)
        entropy = 0.5 * np.log(self._power / n + SMALLEST_UV2)
        now = self._covariance / n
        keep = np.exp(-1 / COVARIANCE_MEMORY_S)
        self._smooth = now if self._smooth is None else keep * self._smooth + (1 - keep) * now
        self._clear()
        return np.concatenate([entropy.ravel(), self._log_covariance(self._smooth)])

    def reset(self) -> None:
        """Drop the samples since the last take, and the average over seconds."""
        self._smooth = None
        self._clear()

    def _log_covariance(self, covariance: Array) -> Array:
        sound = shrink(mend(covariance), SHRINKAGE)
        return upper_triangle(logarithm(sound + SMALLEST_UV2 * np.eye(self._n_leads)))

    def _clear(self) -> None:
        self._power = np.zeros((len(BANDS_HZ), self._n_leads))
        self._covariance = np.zeros((self._n_leads, self._n_leads))
        self._count = 0


@dataclass(frozen=True, slots=True)
class SecondSpan:
    """Samples begin to end of a packet. first: starts a block; completes: ends a second."""

    begin: int
    end: int
    first: bool
    completes: bool


class SecondCounter:
    """Splits the packets of a stream into the seconds of the track."""

    def __init__(self, packet_samples: int) -> None:
        self._packet = packet_samples
        self._last = -1
        self._leave_block()

    def spans(self, packet: Packet) -> Iterator[SecondSpan]:
        """The packet in spans that end where the track's packets do."""
        if packet.start < self._last:
            self._leave_block()
        self._last = packet.start
        for begin, end in self._pieces(packet):
            yield self._span(packet.start + begin, begin, end)
            for at, code in packet.triggers:
                if begin <= at < end:
                    self._handle(code, packet.start + at)

    def _leave_block(self) -> None:
        self._origin: int | None = None
        self._until: int | None = None

    def _pieces(self, packet: Packet) -> Iterator[tuple[int, int]]:
        bounds = range(self._packet - packet.start % self._packet, packet.n, self._packet)
        cuts = [0, *bounds, packet.n]
        yield from ((a, b) for a, b in pairwise(cuts) if b > a)

    def _handle(self, code: int, position: int) -> None:
        end_of_packet = (position // self._packet + 1) * self._packet
        if code == BLOCK_START:
            self._origin, self._until = end_of_packet, None
        elif code == BLOCK_END:
            self._until = end_of_packet  # its packet is part of the block

    def _span(self, position: int, begin: int, end: int) -> SecondSpan:
        if self._until is not None and position >= self._until:
            self._leave_block()
        if self._origin is None or position < self._origin:
            return SecondSpan(begin, end, first=False, completes=False)
        gone = position + (end - begin) - self._origin
        over = gone % (PACKETS_A_SECOND * self._packet) == 0
        return SecondSpan(begin, end, first=position == self._origin, completes=over)
