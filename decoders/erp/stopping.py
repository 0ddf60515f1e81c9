"""When to report a character, so that the expected score of the session is highest.

A session's score is bits(P) / T, P the share of right characters and T their mean time. The rule is a
threshold on the probability of the best character. The best threshold depends on the energy (d'^2) of
a flash: trials are simulated with it, and the threshold with the highest score is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log2

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import RuleError
from decoders.dsp import Array
from tracks.erp import CHARACTERS, GROUPS

DRAWS = 300
TYPICAL_ENERGY = 1.0
"""The energy of a flash assumed until the template is known better."""
ENERGY_STEP = 0.25
MAX_ENERGY = 16.0
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99)


NEARLY = 0.93
"""The optimum is flat, and real flashes carry less than their energy: among thresholds with nearly
the best score the highest is taken."""


class Stopping:
    """The stopping rule of a layout; members (characters, groups)."""

    def __init__(self, members: Array, sequence_s: float, max_sequences: int, seed: int) -> None:
        self._members = members
        self._sequence_s = sequence_s
        self._max_sequences = max_sequences
        self._seed = seed
        self._threshold = lru_cache(maxsize=None)(self._best_threshold)

    def stop(self, probabilities: Array, energy: float, sequences: int) -> bool:
        """Whether to report now, after `sequences` sequences."""
        if sequences >= self._max_sequences:
            return True
        return float(probabilities.max()) >= self.threshold(energy)

    def threshold(self, energy: float) -> float:
        """The best threshold for flashes of this energy."""
        bounded = min(max(energy, TYPICAL_ENERGY), MAX_ENERGY)
        return self._threshold(round(bounded / ENERGY_STEP))

    def _best_threshold(self, steps: int) -> float:
        best, right = self._simulate(steps * ENERGY_STEP)
        scores = [self._score(best, right, threshold) for threshold in THRESHOLDS]
        good = [t for t, s in zip(THRESHOLDS, scores, strict=True) if s >= NEARLY * max(scores)]
        return max(good)

    def _score(self, best: Array, right: Array, threshold: float) -> float:
        """Bits a second over the simulated trials."""
        reached = best >= threshold
        reached[:, -1] = True
        used = reached.argmax(axis=1)
        p = float(right[np.arange(len(right)), used].mean())
        return bits(p, len(self._members)) / (float(used.mean() + 1) * self._sequence_s)

    def _simulate(self, energy: float) -> tuple[Array, Array]:
        """Trials of 1, 2, ... sequences: the best character's probability, and whether it is right.

        A flash's log-likelihood ratio is ~ N(+energy / 2, energy) for a target, ~ N(-energy / 2,
        energy) for any other; both arrays (draws, sequences).
        """
        rng = np.random.default_rng(self._seed)  # the same draws each time
        meant = rng.integers(len(self._members), size=DRAWS)
        noise = rng.standard_normal((DRAWS, self._max_sequences, self._members.shape[1]))
        shown = energy * self._members[meant][:, None, :] + np.sqrt(energy) * noise
        logs = np.cumsum(shown, axis=1) @ self._members.T  # (draws, sequences, characters)
        likelihood = np.exp(logs - logs.max(axis=2, keepdims=True))
        best = likelihood.max(axis=2) / likelihood.sum(axis=2)
        return best, (logs.argmax(axis=2) == meant[:, None]).astype(np.float64)


def bits(p: float, n: int) -> float:
    """Information in bits of a choice of n with probability p right; 0 up to 0.5, as in the rules."""
    if p <= 0.5:
        return 0.0
    wrong = (1 - p) * log2((1 - p) / (n - 1)) if p < 1 and n > 1 else 0.0
    return log2(n) + p * log2(p) + wrong


@dataclass(frozen=True)
class SpellerLayout:
    """groups[g]: the characters that flash at trigger g + 1."""

    groups: tuple[str, ...] = tuple(GROUPS[code] for code in sorted(GROUPS))

    def __post_init__(self) -> None:
        unknown = sorted(set("".join(self.groups)) - set(CHARACTERS))
        if unknown:
            raise RuleError(f"layout: it has {''.join(unknown)!r}; characters are {CHARACTERS}")
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
