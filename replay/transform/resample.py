"""Causal resampling: each sample depends only on samples at or before its time.

A zero-phase filter, as in offline tools, would leak later samples, and with them labels. This filter has
minimum phase; its delay is small and noted.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import signal as dsp

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Triggers
from replay.model.events import Events, KnownEvents
from replay.model.recording import Block, Recording
from replay.model.signal import Signal

HALF_LENGTH = 10
KAISER_BETA = 6.0
PASS_BAND = 0.8
MAX_FACTOR = 4096


def ratio(name: str, rate: float, target: float) -> Fraction:
    """target / rate as the fraction that a polyphase filter needs."""
    found = Fraction(target).limit_denominator(10_000) / Fraction(rate).limit_denominator(10_000)
    if max(found.numerator, found.denominator) > MAX_FACTOR:
        raise SourceError(
            f"{name}: {rate:g} Hz can't be resampled to {target:g} Hz: their ratio {found} has no "
            f"terms up to {MAX_FACTOR}; choose another rate"
        )
    return found


def minimum_phase_filter(up: int, down: int) -> NDArray[np.float64]:
    """The low-pass of a polyphase resampler, at `up` times the old rate, with minimum phase."""
    widest = max(up, down)
    window = ("kaiser", KAISER_BETA)
    linear = dsp.firwin(2 * HALF_LENGTH * widest + 1, PASS_BAND / widest, window=window)
    taps = np.asarray(dsp.minimum_phase(linear, method="homomorphic", half=False))
    return np.asarray(taps * (up / taps.sum()), dtype=np.float64)


def describe_resampling(rate: float, target: float, reason: str, delay_s: float) -> str:
    """A note about a resampled signal. reason: why it is resampled."""
    return (
        f"resampled from {rate:g} to {target:g} Hz ({reason}) by a causal filter: "
        f"signals come {1000 * delay_s:.1f} ms later, triggers on the next sample"
    )


class ResampledSignal:
    """Another signal at up / down times its rate."""

    def __init__(self, signal: Signal, up: int, down: int) -> None:
        self._signal, self._up, self._down = signal, up, down
        self._taps = minimum_phase_filter(up, down)

    @property
    def n_samples(self) -> int:
        """The last output sample lies at or before the last input sample."""
        return (self._signal.n_samples - 1) * self._up // self._down + 1

    def delay_s(self, rate: float, frequency_hz: float = 10.0) -> float:
        """The phase delay at a frequency, in seconds."""
        _, response = dsp.freqz(self._taps, worN=[frequency_hz], fs=rate * self._up)
        return -float(np.angle(response[0])) / (2 * np.pi * frequency_hz)

    def oldest_for(self, sample: int) -> int:
        """The first input sample that an output sample depends on, or one before it."""
        oldest = (sample * self._down - len(self._taps)) // self._up
        # upfirdn counts its outputs from an input sample where both rates meet: a multiple of down.
        return oldest // self._down * self._down

    def read(self, start: int, stop: int) -> FloatArray:
        first = self.oldest_for(start)
        held = self._held(first, (stop - 1) * self._down // self._up + 1)
        outputs = dsp.upfirdn(self._taps, held, self._up, self._down, axis=0)
        skipped = start - first // self._down * self._up
        wanted = outputs[skipped : skipped + stop - start]
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(wanted, dtype=np.float32)

    def _held(self, first: int, stop: int) -> NDArray[np.float64]:
        """Input samples; before the recording its first one is held, to avoid ringing."""
        samples = self._signal.read(max(first, 0), stop).astype(np.float64)
        if first >= 0:
            return samples
        opening = samples if first == 0 else self._signal.read(0, 1).astype(np.float64)
        return np.concatenate([np.repeat(opening[:1], -first, axis=0), samples])


class ResampledEvents:
    """Triggers at the new rate: on the first sample at or after their time, never before it."""

    def __init__(self, events: Events, up: int, down: int, n_samples: int) -> None:
        self._events, self._up, self._down, self._n_samples = events, up, down, n_samples

    def between(self, start: int, stop: int) -> Triggers:
        # Input samples whose position, rounded up, is in the range; the last output sample takes the rest.
        first = (start - 1) * self._down // self._up + 1 if start > 0 else 0
        last = (stop - 1) * self._down // self._up + 1
        if stop >= self._n_samples:
            last += self._down
        return self._moved(self._events.between(first, last))

    def all(self) -> Triggers:
        return self._moved(self._events.all())

    def _moved(self, triggers: Triggers) -> Triggers:
        return tuple(
            (min(-(-sample * self._up // self._down), self._n_samples - 1), code)
            for sample, code in triggers
        )


@dataclass(frozen=True)
class ResampledBlock:
    """A block at another rate; implements `Block`."""

    signal: ResampledSignal
    triggers: Triggers

    @property
    def n_samples(self) -> int:
        return self.signal.n_samples

    def read(self, start: int, stop: int) -> FloatArray:
        return self.signal.read(start, stop)


def resample_recording(recording: Recording, rate: float) -> Recording:
    """A recording at another rate, each block by itself; raises SourceError as `ratio` does."""
    factor = ratio(recording.subject, recording.rate, rate)
    up, down = factor.numerator, factor.denominator

    def resampled(block: Block) -> ResampledBlock:
        signal = ResampledSignal(block, up, down)
        events = ResampledEvents(KnownEvents(block.triggers), up, down, signal.n_samples)
        return ResampledBlock(signal, events.all())

    return replace(recording, rate=rate, blocks=[resampled(block) for block in recording.blocks])
