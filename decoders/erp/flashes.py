"""Features of the response to a flash, and a whitener for their noise.

Features are the slow activity of the leads at fixed times after the flash. The noise is the
covariance of the same vector at any time of the stream, which minutes of signal determine much
better than a few dozen flashes. In the first minutes it is shrunk towards a separable one
(times x leads).
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from bci_stream.packet import Lead, SignalInfo
from decoders.dsp import Array
from decoders.dsp.buffers import Ring
from decoders.dsp.covariance import RecursiveCovariance, mend, shrink
from decoders.dsp.filters import CausalFilter, bandpass
from decoders.dsp.leads import brain_leads, plain_name
from decoders.erp.stopping import SpellerLayout
from replay.model.source import Session
from tracks.common.codes import TRIAL_END
from tracks.erp import CHARACTERS, FIRST_TARGET, TARGETS

Tag = TypeVar("Tag")


@dataclass(frozen=True, slots=True)
class Epoch(Generic[Tag]):
    """samples (length, leads), a copy; position of its event in the stream."""

    tag: Tag
    position: int
    samples: Array


class Epochs(Generic[Tag]):
    """Cuts the `length` samples that begin at each event."""

    def __init__(self, length: int, n_leads: int) -> None:
        self.length = length
        self._ring = Ring(length, n_leads)
        self._waiting: deque[tuple[int, Tag]] = deque()

    def step(
        self, x: NDArray[np.floating], events: Sequence[tuple[int, Tag]] = ()
    ) -> list[Epoch[Tag]]:
        """x (n, leads) and its events (offset in x, tag), in order -> the epochs now complete."""
        base = self._ring.count
        stop = base + len(x)
        self._waiting.extend((base + offset, tag) for offset, tag in events)
        done: list[Epoch[Tag]] = []
        while self._waiting and self._waiting[0][0] + self.length <= stop:
            position, tag = self._waiting.popleft()
            x = self._push_until(x, position + self.length)
            done.append(Epoch(tag, position, self._ring.last(self.length).copy()))
        self._ring.push(x)
        return done

    def clear(self) -> None:
        """Drop the epochs that are not complete."""
        self._waiting.clear()

    def _push_until(self, x: NDArray[np.floating], end: int) -> NDArray[np.floating]:
        head = max(0, end - self._ring.count)
        self._ring.push(x[:head])
        return x[head:]


EVERY = 8
"""The typical amplitude is updated at every eighth sample."""
FIRST_STEP, STEP_DECAY = 0.3, 5.0
"""The tracker's relative step falls as STEP_DECAY / updates, for fast convergence."""
START_SIZE_UV = 10.0


class Limiter:
    """Clips each lead at `factor` times its typical amplitude.

    The typical amplitude is the running median of |x| over about `memory_s` seconds, tracked by steps
    up or down, so an outlier moves it no more than any other sample. Causal, and independent of how
    the stream is split. Input must be high-passed. Nothing is clipped in the first `settle_s`.
    """

    def __init__(
        self,
        n_leads: int,
        rate: float,
        factor: float = 10.0,
        memory_s: float = 20.0,
        settle_s: float = 3.0,
    ) -> None:
        self._factor = factor
        self._last_step = min(FIRST_STEP, EVERY / (memory_s * rate))
        self._settle = int(settle_s * rate) // EVERY * EVERY
        self._seen = 0
        self._size = np.full(n_leads, START_SIZE_UV)

    def step(self, x: Array) -> Array:
        """x (n, leads), finite -> a clipped copy (n, leads)."""
        pieces = []
        while len(x):
            if self._seen % EVERY == 0:
                self._track(np.abs(x[0]))
            n = EVERY - self._seen % EVERY
            pieces.append(self._clip(x[:n]))
            self._seen += len(x[:n])
            x = x[n:]
        return np.concatenate(pieces) if pieces else x

    def _track(self, amplitude: Array) -> None:
        updates = self._seen // EVERY + 1
        step = max(self._last_step, min(FIRST_STEP, STEP_DECAY / updates))
        self._size = self._size * np.where(amplitude > self._size, 1 + step, 1 / (1 + step))

    def _clip(self, x: Array) -> Array:
        if self._seen < self._settle:
            return x
        bound = self._factor * self._size
        return np.minimum(np.maximum(x, -bound), bound)


ROUNDS = 2
"""Alternating fits of the two factors; converges fast."""


@dataclass(frozen=True)
class Separable:
    """Inverse square roots of the factors of a separable covariance."""

    times: Array
    leads: Array

    @classmethod
    def of(cls, cov: Array, n_leads: int) -> "Separable":
        """The factors nearest to cov (times * leads squared), which must be positive definite."""
        n_times = len(cov) // n_leads
        blocks = cov.reshape(n_times, n_leads, n_times, n_leads)
        times = np.eye(n_times)
        for _ in range(ROUNDS):
            weights = np.linalg.inv(times)
            leads = np.einsum("aibj,ab->ij", blocks, weights, optimize=True) / n_times
            weights = np.linalg.inv(leads)
            times = np.einsum("aibj,ij->ab", blocks, weights, optimize=True) / n_leads
        return cls(_inverse_root(times), _inverse_root(leads))

    def whiten(self, columns: Array) -> Array:
        """Whiten the columns of an array (times * leads, any)."""
        n_times, n_leads = len(self.times), len(self.leads)
        by_lead = self.leads @ columns.reshape(n_times, n_leads, -1)
        whole = self.times @ by_lead.reshape(n_times, -1)
        return np.asarray(whole.reshape(columns.shape))


def whitener_of(cov: Array, n_samples: float, n_leads: int, signals: Array, floor: float) -> Array:
    """(kept, times * leads): whitens a window and projects it on the span of the columns of `signals`.

    cov: covariance of about n_samples independent windows. floor: least share of white noise added.
    """
    sound = shrink(cov, floor)
    factors = Separable.of(sound, n_leads)
    rest = factors.whiten(factors.whiten(sound).T)
    rest *= len(rest) / float(np.trace(rest))
    drawn = shrink(rest, max(_optimal_shrinkage(rest, n_samples), floor))
    root = linalg.cholesky(drawn, lower=True)
    white = linalg.solve_triangular(root, factors.whiten(signals), lower=True)
    kept, _ = linalg.qr(white, mode="economic")
    return factors.whiten(linalg.solve_triangular(root, kept, lower=True, trans="T")).T


def _optimal_shrinkage(rest: Array, n_samples: float) -> float:
    """Ledoit and Wolf's optimal shrinkage (0 to 1) of `rest` (mean variance 1), for normal samples."""
    p = len(rest)
    off = float(np.sum((rest - np.eye(p)) ** 2))
    chance = p * (p + 1) / max(n_samples, 1.0)
    return 1.0 if off <= chance else chance / off


def _inverse_root(cov: Array) -> Array:
    power, axes = np.linalg.eigh(cov)
    power = np.maximum(power, 1e-12 * power.max())
    return np.asarray((axes / np.sqrt(power)) @ axes.T)


BAND_HZ = (0.5, 11.0)
TIMES_S = np.arange(0.08, 0.701, 0.05)
"""Times of the features after the flash; the causal filter delays by about 30 ms."""
COURSE_S = 0.075
NOISE_STEP_S, NOISE_BATCH = 0.04, 25
NOISE_MEMORY_S = 300.0
SETTLE_S, START_S = 2.0, 10.0
"""Against transients of the amplifier: noise is learned from the first time on, and what was learned
before the second is replaced as soon as there is as much from after it."""
MIN_SHRINKAGE = 0.005

PREFERRED_LEADS = (
    *("CZ", "PZ", "OZ", "PO7", "PO8", "FZ", "P3", "P4", "P7", "P8"),
    *("C3", "C4", "POZ", "CP1", "CP2", "FCZ", "O1", "O2", "F3", "F4"),
)
"""Leads for P300, N200 and N170 (faces), in order of preference."""


def choose_leads(leads: Sequence[Lead], at_most: int = len(PREFERRED_LEADS)) -> list[int]:
    """Indices of the leads to use: all if few, else the preferred ones, or an even spread."""
    brain = brain_leads(leads)
    if len(brain) <= at_most:
        return brain
    known = {plain_name(leads[place].name): place for place in brain}
    named = [known[name] for name in PREFERRED_LEADS if name in known]
    if len(named) >= at_most // 2:
        return named
    return [brain[i] for i in np.linspace(0, len(brain) - 1, at_most).astype(int)]


def smooth_courses(times_s: Array, width_s: float) -> Array:
    """Orthonormal columns (times, fewer) that span sums of bumps of this width."""
    centres = np.arange(times_s[0], times_s[-1] + width_s / 2, width_s)
    bumps = np.exp(-0.5 * ((times_s[:, None] - centres) / (0.7 * width_s)) ** 2)
    basis: Array = linalg.orth(bumps)
    return basis


class FlashFeatures(Generic[Tag]):
    """Turns the signal of one subject into (tag, features), each when it is complete."""

    def __init__(self, info: SignalInfo) -> None:
        self.places = choose_leads(info.leads)
        self.lead_names = tuple(plain_name(info.leads[place].name) for place in self.places)
        self.offsets = np.round(TIMES_S * info.rate).astype(int)
        self.window = int(self.offsets[-1]) + 1
        self.n_features = len(self.offsets) * len(self.places)
        self.seen = 0
        """Samples of the session so far."""
        n = len(self.places)
        self._filter = CausalFilter(bandpass(*BAND_HZ, info.rate, order=2), n)
        self._limiter = Limiter(n, info.rate, settle_s=SETTLE_S)
        courses = smooth_courses(TIMES_S, COURSE_S)
        self._responses: Array = np.asarray(np.kron(courses, np.eye(n)), dtype=np.float64)
        self._epochs: Epochs[Tag | None] = Epochs(self.window, n)
        self._noise_step = max(1, round(NOISE_STEP_S * info.rate))
        self._settled = round(SETTLE_S * info.rate / self._noise_step) * self._noise_step
        self._rows: list[Array] = []
        self._early = self._new_noise()
        self._noise = self._new_noise()
        self._started = int(START_S * info.rate)

    def _new_noise(self) -> RecursiveCovariance:
        return RecursiveCovariance(self.n_features, NOISE_MEMORY_S / NOISE_STEP_S)

    def new_block(self) -> None:
        """Reset at a discontinuity; incomplete epochs are dropped."""
        self._filter.reset()
        self._epochs.clear()

    def feed(self, x: NDArray[np.floating], tag: Tag | None = None) -> list[tuple[Tag, Array]]:
        """Add x (n, all leads), with the flash `tag` at its first sample -> the flashes now complete."""
        y = self._limiter.step(self._filter.step(x[:, self.places]))
        events: list[tuple[int, Tag | None]] = [] if tag is None else [(0, tag)]
        events += [(offset, None) for offset in self._noise_offsets(len(y))]
        self.seen += len(y)
        return [
            flash
            for epoch in self._epochs.step(y, sorted(events, key=lambda event: event[0]))
            for flash in self._sort(epoch)
        ]

    def _noise_offsets(self, n: int) -> range:
        first = max(self._settled - self.seen, -self.seen % self._noise_step)
        return range(first, n, self._noise_step)

    def _sort(self, epoch: Epoch[Tag | None]) -> list[tuple[Tag, Array]]:
        features = epoch.samples[self.offsets].ravel()
        if epoch.tag is not None:
            return [(epoch.tag, features)]
        self._rows.append(features)
        if len(self._rows) == NOISE_BATCH or epoch.position < self._started:
            self._learn_noise(epoch.position)
        return []

    def _learn_noise(self, position: int) -> None:
        """Update the noise in batches, which is cheaper than row by row."""
        if self._rows:
            noise = self._noise if position >= self._started else self._early
            noise.update(np.array(self._rows))
            self._rows = []

    def whitener(self) -> Array:
        """(signals, features): whitens features and projects them on smooth responses."""
        self._learn_noise(self.seen)
        noise = self._noise if self._noise.weight >= self._early.weight else self._early
        n = max(noise.weight / 4, 1.0)  # neighbours in time are correlated
        cov = mend(noise.value)
        return whitener_of(cov, n, len(self.places), self._responses, MIN_SHRINKAGE)


def labelled_flashes(
    session: Session, features: FlashFeatures[int], layout: SpellerLayout
) -> Iterator[tuple[bool, Array]]:
    """(is a target, features) of every flash of a labelled session."""
    character: str | None = None
    block = 0
    for packet in session.packets(round(session.rate)):
        if packet.block != block:
            features.new_block()
            block, character = packet.block, None
        done, tag = 0, None
        for offset, code in packet.triggers:
            yield from _as_bool(features.feed(packet.samples[done:offset], tag))
            done, tag = offset, None
            if code in TARGETS:
                character = CHARACTERS[code - FIRST_TARGET]
            elif code == TRIAL_END:
                character = None
            elif character is not None and 1 <= code <= len(layout.groups):
                tag = int(character in layout.groups[code - 1])
        yield from _as_bool(features.feed(packet.samples[done:], tag))


def _as_bool(flashes: list[tuple[int, Array]]) -> Iterator[tuple[bool, Array]]:
    for tag, vector in flashes:
        yield bool(tag), vector


def features_of(session: Session) -> FlashFeatures[int]:
    """A feature extractor for a recorded session."""
    return FlashFeatures(
        SignalInfo("erp", session.subject, session.rate, session.leads, packet_samples=1)
    )
