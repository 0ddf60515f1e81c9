"""Windows of a running stream: causal filter, resampling, and cutting, the same in training and online.

A window depends on samples up to its end only, and not on how the stream is split into packets.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import SignalInfo
from decoders.adapters.online import WindowPlan
from decoders.decoder import DecoderError
from decoders.dsp import Array
from decoders.dsp.buffers import Ring
from decoders.dsp.filters import CausalFilter, bandpass, decimation, lowpass
from decoders.dsp.leads import brain_leads, find_leads, plain_name

DEAD_SHARE = 1e-3
"""A lead with less than this share of its spread in training is flat or missing."""
PRIOR_WINDOWS = 10.0
"""How many windows of the session the training's mean covariance weighs."""
MARGIN_S = 0.5
"""Seconds that are kept beyond the longest window."""


def chosen_leads(info: SignalInfo, plan: WindowPlan) -> list[str]:
    """The plain names of the leads that a plan uses. Raises DecoderError if one is missing."""
    names = [plain_name(name) for name in info.lead_names]
    if not plan.leads:
        return [names[place] for place in brain_leads(info.leads)]
    wanted = [plain_name(name) for name in plan.leads]
    if missing := [name for name in wanted if name not in names]:
        raise DecoderError(f"leads {', '.join(missing)} are not in the recording: {names}")
    return wanted


class CausalSignal:
    """The filtered leads of a session, and windows of them.

    leads: plain names, in the order of the model. Those that the stream lacks are zero.
    """

    def __init__(
        self, info: SignalInfo, plan: WindowPlan, leads: Sequence[str], longest: int
    ) -> None:
        names = [plain_name(name) for name in info.lead_names]
        self._places, self._present = find_leads(leads, names)
        self.step = decimation(info.rate, plan.rate)
        if plan.band:
            sos = bandpass(plan.band[0], plan.band[1], info.rate)
        else:
            sos = lowpass(min(0.4 * info.rate / self.step, 0.45 * info.rate), info.rate)
        self._filter = CausalFilter(sos, len(leads))
        self._ring = Ring(longest + round(MARGIN_S * info.rate), len(leads))

    @property
    def position(self) -> int:
        """Samples so far."""
        return self._ring.count

    def restart(self) -> None:
        """Begin the filter afresh, where the signal jumps."""
        self._filter.reset()

    def push(self, x: NDArray[np.floating]) -> None:
        """Add x (n, all leads)."""
        if len(x):
            self._ring.push(self._filter.step(x[:, self._places] * self._present))

    def window(self, end: int, length: int) -> Array:
        """The `length` samples before position `end`, resampled: (leads, samples)."""
        count = max(1, length // self.step)
        whole = self._ring.cut(end - length, length)
        return np.ascontiguousarray(whole[:: -self.step][:count][::-1].T)


@dataclass(frozen=True)
class SignalWindow:
    """A piece of signal for an estimator.

    slot: which estimator. x (leads, samples). block, trial: where it is from. tag: what the track
    knows about it (erp: the group that flashed; turing: the robots' behaviour; emotion and ecog: its
    end in the block).
    x is None at a moment when a report may be due without a new window.
    """

    slot: int
    x: Array | None
    block: int
    trial: int
    tag: int = 0


class DeadLeads:
    """Replaces flat and missing leads by noise of their spread in training, which carries no information."""

    def __init__(self, spread: Array) -> None:
        self._spread = spread

    def fill(self, x: Array) -> Array:
        dead = x.std(axis=1) < DEAD_SHARE * self._spread
        if not dead.any():
            return x
        noise = np.random.default_rng(0).standard_normal(x.shape) * self._spread[:, None]
        return np.where(dead[:, None], noise, x)


class Recentring:
    """Whitens windows by the mean covariance of the session so far, without labels.

    reference: mean covariance of the training, which weighs PRIOR_WINDOWS windows; nothing if it is
    not known.
    """

    def __init__(self, reference: Array, *, known: bool = True) -> None:
        self._mean = reference
        self._weight = PRIOR_WINDOWS if known else 0.0

    def apply(self, x: Array) -> Array:
        """Take the window into the mean, and whiten it."""
        self._weight += 1
        self._mean = self._mean + (covariance(x) - self._mean) / self._weight
        return whitener(self._mean) @ x


def covariance(x: Array) -> Array:
    """Second moments of a window (leads, samples)."""
    return np.asarray(x @ x.T / x.shape[1])


def whitener(mean: Array) -> Array:
    """mean^(-1/2), with small eigenvalues raised to a thousandth of the mean one."""
    values, vectors = np.linalg.eigh(mean)
    raised = np.maximum(values, max(1e-3 * float(values.mean()), 1e-12))
    return np.asarray(vectors @ np.diag(raised**-0.5) @ vectors.T)


def pieces_between(
    triggers: Sequence[tuple[int, int]], n: int
) -> Iterator[tuple[int, int, int | None]]:
    """(start, stop, code at stop) of the parts of a packet between its triggers; the last has no code."""
    done = 0
    for offset, code in triggers:
        yield done, offset, code
        done = offset
    yield done, n, None
