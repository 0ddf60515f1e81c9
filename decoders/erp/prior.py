"""What is known beforehand: of a person's response to flashes, and of the text that is written.

A prior is the mean of other people's responses where there are any; beside it, or without other people,
only the usual time of responses.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bci_stream.errors import RuleError
from decoders.dsp import Array
from decoders.erp.response import CENTRES_S, N_BUMPS, shift

LATENCIES_S = (-0.055, 0.055, 0.11)
"""Latencies that are tried beside a prior's own: trigger delays differ between set-ups."""
WEAKER = 0.5
TYPICAL_VARIANCE, PEAK_S, SPREAD_S = 0.1, 0.27, 0.1
"""Prior variance of b without other people: its mean over the bumps, and its course."""
LEAST_VARIANCE = 0.003
LEADS_WEIGHT, LEAST_SCALE = 2.0, 1e-4
"""How many bumps the prior of the leads' covariance, the identity, is worth."""
SPACE = "_"
SMOOTHING = 0.5
"""Added to the count of each pair, in pairs."""


@dataclass(frozen=True)
class ResponsePrior:
    """Prior of b: mean (bumps, leads) in units of the leads' standard deviations, and covariance
    (bumps, bumps) in white units."""

    mean: Array
    cov: Array

    def variants(self) -> list["ResponsePrior"]:
        """The same with other latencies, and a weaker one."""
        moved = [self] + [self._later(by_s) for by_s in LATENCIES_S]
        return [*moved, ResponsePrior(WEAKER * self.mean, self.cov)] if self.mean.any() else moved

    def _later(self, by_s: float) -> "ResponsePrior":
        moved = shift(by_s)
        cov = moved @ self.cov @ moved.T + LEAST_VARIANCE * np.eye(N_BUMPS)
        return ResponsePrior(moved @ self.mean, cov)


def weak_prior(n_leads: int) -> ResponsePrior:
    """The prior without other people: only the usual time of responses is known."""
    course = np.exp(-0.5 * ((CENTRES_S - PEAK_S) / SPREAD_S) ** 2) + 0.02
    return ResponsePrior(
        np.zeros((N_BUMPS, n_leads)), np.diag(TYPICAL_VARIANCE * course / course.mean())
    )


@dataclass(frozen=True)
class WhitePrior:
    """b ~ matrix normal: mean (bumps, leads) in white units, covariance of the bumps root @ root.T,
    covariance of the leads."""

    mean: Array
    root: Array
    leads: Array

    def response(self, total: Array, gram: Array) -> "Response":
        """The posterior of b from the sums of a design with the signal and with itself."""
        scales, axes = np.linalg.eigh(self.leads)
        scales = np.maximum(scales, LEAST_SCALE)
        start = np.linalg.solve(self.root, self.mean) @ axes
        return Response(
            self.root,
            axes,
            scales,
            start,
            start / scales + self.root.T @ total @ axes,
            self.root.T @ gram @ self.root,
        )


@dataclass(frozen=True)
class Response:
    """Normal posterior of b = root @ c @ axes.T; the columns of c (bumps, leads) are independent.

    A column's prior is N(start, scale * I); total is its natural mean, and 1 / scale + gram its precision.
    """

    root: Array
    axes: Array
    scales: Array
    start: Array
    total: Array
    gram: Array

    @cached_property
    def _eigen(self) -> tuple[Array, Array, Array]:
        """(bumps,) and (bumps, bumps): the gram's eigenvectors; (bumps, leads): variances along them."""
        values, vectors = np.linalg.eigh(self.gram)
        return values, vectors, 1 / (1 / self.scales + np.maximum(values, 0)[:, None])

    @cached_property
    def _centre(self) -> Array:
        """The mean of c."""
        _, vectors, variances = self._eigen
        return np.asarray(vectors @ (variances * (vectors.T @ self.total)))

    @cached_property
    def mean(self) -> Array:
        return np.asarray(self.root @ self._centre @ self.axes.T)

    @property
    def second_moment(self) -> Array:
        """(bumps, bumps): the mean of b @ b.T."""
        _, vectors, variances = self._eigen
        spread = (vectors * variances.sum(axis=1)) @ vectors.T
        return np.asarray(self.mean @ self.mean.T + self.root @ spread @ self.root.T)

    def without(self, total: Array, gram: Array) -> "Response":
        """The posterior without these sums of a part of the data."""
        return replace(
            self,
            total=self.total - self.root.T @ total @ self.axes,
            gram=self.gram - self.root.T @ gram @ self.root,
        )

    def evidence(self, totals: Array, grams: Array) -> Array:
        """(n,): log evidence of each of n further sums (bumps, leads) and (bumps, bumps), b
        integrated out."""
        values, vectors = np.linalg.eigh(self.gram + self.root.T @ grams @ self.root)
        precisions = 1 / self.scales + np.maximum(values, 0)[:, :, None]
        after = vectors.transpose(0, 2, 1) @ (self.total + self.root.T @ totals @ self.axes)
        explained = np.sum(after**2 / precisions - np.log(precisions), axis=(1, 2))
        before = np.sum(self.total * self._centre) + np.sum(np.log(self._eigen[2]))
        return np.asarray(0.5 * (explained - before))

    def divergence(self) -> float:
        """Kullback-Leibler divergence from the prior, and the penalty of the leads' covariance."""
        _, _, variances = self._eigen
        shares = variances / self.scales
        away = np.sum((self._centre - self.start) ** 2 / self.scales)
        own = 0.5 * (np.sum(shares - np.log(shares) - 1) + away)
        ratios = 1 / self.scales
        return float(own + 0.5 * LEADS_WEIGHT * np.sum(ratios - np.log(ratios) - 1))

    def leads(self) -> Array:
        """The most probable covariance of the leads, given this posterior."""
        away = self._centre - self.start
        found = away.T @ away + np.diag(self._eigen[2].sum(axis=0))
        n_bumps, n_leads = away.shape
        drawn = (found + LEADS_WEIGHT * np.eye(n_leads)) / (n_bumps + LEADS_WEIGHT)
        return np.asarray(self.axes @ drawn @ self.axes.T)


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
