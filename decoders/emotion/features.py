"""Affect features of a second of EEG: entropy in bands, and how the leads vary together.

Differential entropy of a normal signal is half the logarithm of its variance (and a constant),
lead by lead and band by band. The broad-band covariance, averaged over the last seconds, adds
the leads' relations as its matrix logarithm.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Packet
from decoders.dsp.covariance import mend, shrink
from decoders.dsp.filters import Array, CausalFilter, FilterBank, bandpass
from tracks.common.codes import BLOCK_END, BLOCK_START
from tracks.common.seconds import PACKETS_A_SECOND

BANDS_HZ = ((1.0, 4.0), (4.0, 8.0), (8.0, 13.0), (13.0, 30.0), (30.0, 47.0))
BROAD_HZ = (1.0, 45.0)
LIMIT_UV = 150.0
"""Blinks and jumps are limited, so that one of them does not make a second's entropy."""
SMALLEST_UV2 = 1e-2
COVARIANCE_MEMORY_S = 4.0
SHRINKAGE = 0.05


class AffectFeatures:
    """Fed samples of the chosen leads; `take` gives the features of those since the last take."""

    def __init__(self, rate: float, n_leads: int) -> None:
        self._n_leads = n_leads
        self._broad = CausalFilter(bandpass(*BROAD_HZ, rate, order=2), n_leads)
        self._bands = FilterBank([bandpass(*band, rate, order=3) for band in BANDS_HZ], n_leads)
        self._smooth: Array | None = None
        self._rows, self._columns = np.triu_indices(n_leads)
        self._forget()

    @property
    def size(self) -> int:
        return len(BANDS_HZ) * self._n_leads + len(self._rows)

    def push(self, x: NDArray[np.floating]) -> None:
        """x (n, leads), raw."""
        broad = np.clip(self._broad.step(x), -LIMIT_UV, LIMIT_UV)
        broad -= broad.mean(axis=1, keepdims=True)
        self._power += (self._bands.step(broad) ** 2).sum(axis=1)
        self._covariance += broad.T @ broad
        self._count += len(x)

    def take(self) -> Array:
        """(size,): what came since the last take."""
        n = max(self._count, 1)
        entropy = 0.5 * np.log(self._power / n + SMALLEST_UV2)
        now = self._covariance / n
        keep = np.exp(-1 / COVARIANCE_MEMORY_S)
        self._smooth = now if self._smooth is None else keep * self._smooth + (1 - keep) * now
        self._forget()
        return np.concatenate([entropy.ravel(), self._relations(self._smooth)])

    def skip(self) -> None:
        """Forget what came since the last take, and the seconds before."""
        self._smooth = None
        self._forget()

    def _relations(self, covariance: Array) -> Array:
        sound = shrink(mend(covariance), SHRINKAGE)
        power, axes = np.linalg.eigh(sound + SMALLEST_UV2 * np.eye(self._n_leads))
        log = (axes * np.log(power)) @ axes.T
        scale = np.where(self._rows == self._columns, 1.0, np.sqrt(2.0))
        return np.asarray(log[self._rows, self._columns] * scale)

    def _forget(self) -> None:
        self._power = np.zeros((len(BANDS_HZ), self._n_leads))
        self._covariance = np.zeros((self._n_leads, self._n_leads))
        self._count = 0


@dataclass(frozen=True, slots=True)
class SecondSpan:
    """Samples begin to end of a packet. first: a block begins with it; completes: a second is
    over."""

    begin: int
    end: int
    inside: bool
    first: bool
    completes: bool


class SecondCounter:
    """Told the packets, says which of their samples belong to which second."""

    def __init__(self, packet_samples: int) -> None:
        self._packet = packet_samples
        self._last = -1
        self._leave()

    def stretches(self, packet: Packet) -> Iterator[SecondSpan]:
        """The packet in pieces that end where the track's packets do."""
        if packet.start < self._last:
            self._leave()
        self._last = packet.start
        for begin, end in self._pieces(packet):
            yield self._stretch(packet.start + begin, begin, end)
            for at, code in packet.triggers:
                if begin <= at < end:
                    self._see(code, packet.start + at)

    def _leave(self) -> None:
        self._origin: int | None = None
        self._until: int | None = None

    def _pieces(self, packet: Packet) -> Iterator[tuple[int, int]]:
        bounds = range(self._packet - packet.start % self._packet, packet.n, self._packet)
        cuts = [0, *bounds, packet.n]
        yield from ((a, b) for a, b in pairwise(cuts) if b > a)

    def _see(self, code: int, position: int) -> None:
        end_of_packet = (position // self._packet + 1) * self._packet
        if code == BLOCK_START:
            self._origin, self._until = end_of_packet, None
        elif code == BLOCK_END:
            self._until = end_of_packet  # its packet still belongs to the block

    def _stretch(self, position: int, begin: int, end: int) -> SecondSpan:
        if self._until is not None and position >= self._until:
            self._leave()
        if self._origin is None or position < self._origin:
            return SecondSpan(begin, end, inside=False, first=False, completes=False)
        gone = position + (end - begin) - self._origin
        over = gone % (PACKETS_A_SECOND * self._packet) == 0
        return SecondSpan(begin, end, inside=True, first=position == self._origin, completes=over)
