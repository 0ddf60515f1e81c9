"""How far a person's sessions lie apart: what the training's mean is worth in a new session.

A session's covariances scatter round a mean of its own, and these means round a common one. Where
they differ no more than their trials' scatter explains, a new session's mean is known beforehand as
well as all training trials tell it; where they differ much, its own first trials tell more.
"""

from collections.abc import Sequence

import numpy as np
from pyriemann.geometry.mean import mean_riemann

from decoders.covariance import Array
from decoders.spd import tangent

USUAL_TRIALS = 10.0
"""With one session nothing is known of how they differ."""
FEWEST_TRIALS = 1.0


def prior_trials(sessions: Sequence[Array]) -> float:
    """How many of a new session's trials the mean of these is worth; each (trials, n, n)."""
    counts = np.array([len(covariances) for covariances in sessions])
    if len(sessions) < 2 or counts.min() < 2:
        return USUAL_TRIALS
    centre = mean_riemann(np.array([mean_riemann(covariances) for covariances in sessions]))
    points = [tangent(covariances, centre) for covariances in sessions]
    scatter = float(np.mean([session.var(axis=0, ddof=1).sum() for session in points]))
    apart = float(np.var([session.mean(axis=0) for session in points], axis=0, ddof=1).sum())
    shift = max(apart - scatter * float(np.mean(1 / counts)), 0.0)
    # A new session's mean varies by the shift; the common mean itself is known from so many sessions
    # and trials.
    unknown = shift * (1 + 1 / len(sessions)) + scatter / float(counts.sum())
    return max(scatter / unknown, FEWEST_TRIALS)
