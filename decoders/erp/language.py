"""A language prior: which character is likely to follow the one before, learned from a text."""

import numpy as np

from bci_stream.errors import RuleError
from decoders.dsp import Array

SPACE = "_"
SMOOTHING = 0.5
"""Added to the count of each pair, in pairs."""


class LanguagePrior:
    """Bigrams of a text over the characters of a speller; white space is `_`, others are left out.

    Raises RuleError if the text has fewer than two of these characters.
    """

    def __init__(self, text: str, characters: str) -> None:
        spaced = SPACE.join(text.upper().split())
        places = [characters.index(c) for c in spaced if c in characters]
        if len(places) < 2:
            raise RuleError(
                f"language: its text has {len(places)} of the speller's characters; it needs a "
                f"sample of what will be written, with characters of {characters}"
            )
        n = len(characters)
        pairs = np.full((n, n), SMOOTHING)
        np.add.at(pairs, (places[:-1], places[1:]), 1)
        single = np.full(n, SMOOTHING) + np.bincount(places, minlength=n)
        self._next: Array = pairs / pairs.sum(axis=1, keepdims=True)
        self.first: Array = single / single.sum()
        """Probabilities of a character of which none before is known."""

    def after(self, previous: Array) -> Array:
        """Probabilities of the next character, from those of the one before."""
        return np.asarray(previous @ self._next)
