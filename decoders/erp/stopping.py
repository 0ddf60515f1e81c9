"""When to report a character, so that the expected score of the session is highest.

A session's score is bits(P) / T, P the share of right characters and T their mean time. Near its
optimum a trial that is right with probability p after t seconds is worth slope * p - rate * t, where
rate = bits / T and slope its derivative by P, at the P and T that this person can reach. Both come from
simulated trials whose flashes are as informative as the person's. bits is the mean over the shares that
some letters can have at this P, since a session is finite, the model uncertain, and a share of a half or
less scores 0. The trial goes on as long as its remaining sequences, simulated from the present
probabilities, are worth more than a report now.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import comb, log2

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import RuleError
from decoders.dsp import Array
from tracks.erp import CHARACTERS, GROUPS

DRAWS = 400
LEAST_ENERGY, MAX_ENERGY = 1.0, 16.0
"""Bounds of a flash's energy (d'^2); the lower one is assumed until the response is known better."""
ENERGY_STEP = 0.25
LEVELS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995)
"""Future stopping levels that are tried out; the best is taken."""
FEWEST_GROUPS = 2
LETTERS = 8
"""The share of right characters is as uncertain as that of so many letters."""
MOST_RIGHT, P_STEP = 0.995, 0.004


@dataclass(frozen=True)
class Inference:
    """probabilities of the characters; energy (d'^2) of a flash."""

    probabilities: Array
    energy: float


@dataclass(frozen=True)
class Worth:
    """What a right character and a second are worth: bits and bits per second."""

    slope: float
    rate: float

    def of(self, right: Array, seconds: Array) -> Array:
        return self.slope * right - self.rate * seconds


class Stopping:
    """The stopping rule of a layout; members (characters, groups)."""

    def __init__(self, members: Array, sequence_s: float, max_sequences: int, seed: int) -> None:
        self._members = members
        self._sequence_s = sequence_s
        self._max_sequences = max_sequences
        rng = np.random.default_rng(seed)  # the same draws each time
        self._noise = rng.standard_normal((DRAWS, max_sequences, members.shape[1]))
        self._meant = rng.random(DRAWS)
        self._worth = lru_cache(maxsize=None)(self._worth_at)

    def stop(self, found: Inference, sequences: int) -> bool:
        """Whether to report now, after `sequences` sequences."""
        probabilities = found.probabilities
        left = self._max_sequences - sequences
        if left <= 0:
            return True
        steps = round(min(max(found.energy, LEAST_ENERGY), MAX_ENERGY) / ENERGY_STEP)
        worth = self._worth(steps)
        if worth.slope == 0:  # nothing is gained before more is known
            return False
        best = self._simulate(probabilities, steps * ENERGY_STEP, left)
        outcomes = (self._outcome(best, level) for level in LEVELS)
        later = max(float(worth.of(right, seconds).mean()) for right, seconds in outcomes)
        return worth.slope * float(probabilities.max()) >= later

    def _worth_at(self, steps: int) -> Worth:
        """The worth at the best constant level, for trials that start from nothing."""
        n = len(self._members)
        best = self._simulate(np.full(n, 1 / n), steps * ENERGY_STEP, self._max_sequences)
        top = Worth(0.0, 0.0)
        for level in LEVELS:
            right, seconds = (float(values.mean()) for values in self._outcome(best, level))
            p = min(right, MOST_RIGHT)
            rate = mean_bits(p, n) / seconds
            if rate > top.rate:
                slope = (mean_bits(p + P_STEP, n) - mean_bits(p - P_STEP, n)) / (2 * P_STEP)
                top = Worth(slope, rate)
        return top

    def _outcome(self, best: Array, level: float) -> tuple[Array, Array]:
        """(draws,) of each: probability right and seconds, where trials stop at this level."""
        reached = best >= level
        reached[:, -1] = True
        used = reached.argmax(axis=1)
        return best[np.arange(len(best)), used], (used + 1) * self._sequence_s

    def _simulate(self, start: Array, energy: float, sequences: int) -> Array:
        """(draws, sequences): the best character's probability after 1, 2, ... more sequences.

        A flash's log-likelihood ratio is ~ N(+energy / 2, energy) for a target, ~ N(-energy / 2,
        energy) for any other.
        """
        last = len(start) - 1
        meant = np.minimum(np.searchsorted(np.cumsum(start), self._meant), last)
        shown = (
            energy * self._members[meant][:, None] + np.sqrt(energy) * self._noise[:, :sequences]
        )
        logs = np.cumsum(shown, axis=1) @ self._members.T + np.log(np.maximum(start, 1e-300))
        likelihood = np.exp(logs - logs.max(axis=2, keepdims=True))
        return np.asarray(likelihood.max(axis=2) / likelihood.sum(axis=2))


def bits(p: float, n: int) -> float:
    """Information in bits of a choice of n with probability p right; 0 up to 0.5, as in the rules."""
    if p <= 0.5:
        return 0.0
    wrong = (1 - p) * log2((1 - p) / (n - 1)) if p < 1 and n > 1 else 0.0
    return log2(n) + p * log2(p) + wrong


def mean_bits(p: float, n: int) -> float:
    """The mean of bits over the shares right of LETTERS letters, each right with probability p."""
    shares = (
        comb(LETTERS, k) * p**k * (1 - p) ** (LETTERS - k) * bits(k / LETTERS, n)
        for k in range(LETTERS + 1)
    )
    return sum(shares)


@dataclass(frozen=True)
class SpellerLayout:
    """groups[g]: the characters that flash at trigger g + 1."""

    groups: tuple[str, ...] = tuple(GROUPS[code] for code in sorted(GROUPS))

    def __post_init__(self) -> None:
        unknown = sorted(set("".join(self.groups)) - set(CHARACTERS))
        if unknown:
            raise RuleError(f"layout: it has {''.join(unknown)!r}; characters are {CHARACTERS}")
        if len(self.groups) < FEWEST_GROUPS:
            raise RuleError(
                f"layout: it has {len(self.groups)} groups; a speller has {FEWEST_GROUPS} or more"
            )
        rows = [tuple(row) for row in self.membership]
        twins = [c for c, row in zip(self.characters, rows, strict=True) if rows.count(row) > 1]
        if twins:
            raise RuleError(
                f"layout: {''.join(twins)!r} flash in the same groups and can't be distinguished"
            )

    @cached_property
    def characters(self) -> str:
        """The characters of all groups, in the track's order."""
        held = set("".join(self.groups))
        return "".join(c for c in CHARACTERS if c in held)

    @cached_property
    def membership(self) -> NDArray[np.float64]:
        """(characters, groups): 1 where the character flashes with the group."""
        return np.array([[float(c in g) for g in self.groups] for c in self.characters])

    @staticmethod
    def of(groups: Sequence[str] | None) -> "SpellerLayout":
        """The layout of these groups; None: the track's own."""
        return SpellerLayout() if groups is None else SpellerLayout(tuple(groups))
