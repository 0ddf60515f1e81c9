"""Training of erp-bayes: what the responses of labelled people have in common, a prior for new ones."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import TruthError
from bci_stream.packet import SignalInfo
from decoders.dsp import Array
from decoders.erp.decoder import NAME, KnownResponse, mean_response
from decoders.erp.noise import LAGS, SpellerSignal, Whitening
from decoders.erp.prior import LEAST_VARIANCE, weak_prior
from decoders.erp.response import N_BUMPS, RESPONSE_S, Contrasts, TrialSums, shift, whitened
from decoders.erp.stopping import SpellerLayout
from decoders.model import Model
from replay.model.source import Session
from tracks.common.codes import TRIAL_END
from tracks.erp import CHARACTERS, FIRST_TARGET, TARGETS

RIDGE = 1.0
"""Of the least squares estimate of a response, in flashes."""
WEAK_PEOPLE = 2.0
"""How many people the covariance without other people is worth."""


@dataclass(frozen=True)
class TrainingPerson:
    """The response of one labelled person.

    known: in units of the leads' standard deviations. white (bumps, leads): in white units, its
    estimation error of covariance `error` (bumps, bumps).
    """

    known: KnownResponse
    white: Array
    error: Array
    whitening: Whitening
    step_s: float


def fit(
    recordings: Sequence[Session],
    *,
    seed: int,
    progress: Callable[[str], None],
    groups: Sequence[str] | None = None,
) -> Model:
    """Average the responses of people, and estimate how far people lie apart."""
    del seed  # deterministic
    layout = SpellerLayout.of(groups)
    people = []
    for session in recordings:
        progress(f"flashes of {session.subject}")
        people.append(person_of(session, layout))
    return pack(people, layout)


def pack(people: Sequence[TrainingPerson], layout: SpellerLayout) -> Model:
    """A model file of these people, for all their leads."""
    known = [person.known for person in people]
    leads = list(dict.fromkeys(name for each in known for name in each.leads))
    arrays = {"mean": mean_response(known, leads), "cov": covariance(people)}
    settings = {"leads": leads, "people": len(people), "groups": list(layout.groups)}
    return Model("erp", NAME, arrays, settings)


def covariance(people: Sequence[TrainingPerson]) -> Array:
    """(bumps, bumps): how far a person's white response lies from the mean of the others.

    The estimation error is subtracted; few people are drawn towards the weak prior.
    """
    total = WEAK_PEOPLE * weak_prior(1).cov
    for number, person in enumerate(people):
        others = [each.known for place, each in enumerate(people) if place != number]
        if not others:
            continue
        mean = mean_response(others, person.known.leads) * person.whitening.sd_uv
        lags = [shift(lag * person.step_s) for lag in range(LAGS + 1)]
        away = person.white - whitened(mean, person.whitening, lags)
        total += away @ away.T / away.shape[1] - person.error
    n_people = len(people) if len(people) > 1 else 0
    power, axes = np.linalg.eigh(total / (WEAK_PEOPLE + n_people))
    return np.asarray((axes * np.maximum(power, LEAST_VARIANCE)) @ axes.T)


def person_of(session: Session, layout: SpellerLayout) -> TrainingPerson:
    """The response of a labelled session. Raises TruthError if it has no labelled flash."""
    info = SignalInfo("erp", session.subject, session.rate, session.leads, packet_samples=1)
    signal = SpellerSignal(info, RESPONSE_S)
    trials = list(labelled_trials(session, signal, layout))
    return response_of(session.subject, signal, trials, layout)


def response_of(
    subject: str,
    signal: SpellerSignal,
    trials: Sequence[tuple[str, TrialSums]],
    layout: SpellerLayout,
) -> TrainingPerson:
    """The response of labelled trials: least squares, the common response estimated first."""
    n = len(signal.places)
    contrasts = Contrasts.of(layout).weights
    total, gram = np.zeros((N_BUMPS, (LAGS + 1) * n)), np.zeros((N_BUMPS, N_BUMPS))
    common = _common_response([sums for _, sums in trials], n)
    for character, sums in trials:
        weights = contrasts[layout.characters.index(character)]
        total += np.tensordot(weights, sums.signal - sums.gram.sum(axis=2) @ common, axes=1)
        gram += np.einsum("g,gkhl,h->kl", weights, sums.gram, weights, optimize=True)
    if not gram.any():
        raise TruthError(f"session {subject}: erp training needs flashes of known characters")
    gram += RIDGE * np.eye(N_BUMPS)
    whitening = signal.whitening()
    raw = np.linalg.solve(gram, total[:, :n])
    return TrainingPerson(
        KnownResponse(signal.lead_names, raw / whitening.sd_uv),
        np.asarray(np.linalg.solve(gram, total @ whitening.filters), dtype=np.float64),
        np.asarray(np.linalg.inv(gram), dtype=np.float64),
        whitening,
        signal.step_s,
    )


def _common_response(trials: Sequence[TrialSums], n_leads: int) -> Array:
    """(bumps, rows): the response to any flash."""
    gram = RIDGE * np.eye(N_BUMPS) + sum(sums.gram.sum(axis=(0, 2)) for sums in trials)
    total = np.zeros((N_BUMPS, (LAGS + 1) * n_leads))
    for sums in trials:
        total += sums.signal.sum(axis=0)
    return np.linalg.solve(gram, total)


def labelled_trials(
    session: Session, signal: SpellerSignal, layout: SpellerLayout
) -> Iterator[tuple[str, TrialSums]]:
    """(character, sums) of every trial of a labelled session."""
    running: tuple[str, TrialSums] | None = None
    in_trial = False
    block = 0
    for packet in session.packets(round(session.rate)):
        if packet.block != block:
            signal.new_block()
            block = packet.block
            in_trial = False
        done, group = 0, None
        for offset, code in packet.triggers:
            _feed(signal, packet.samples[done:offset], group, running)
            done, group = offset, None
            if code in TARGETS:
                yield from _whole(running)
                sums = TrialSums(len(layout.groups), len(signal.places))
                running, in_trial = (CHARACTERS[code - FIRST_TARGET], sums), True
            elif code == TRIAL_END:
                in_trial = False
            elif in_trial and 1 <= code <= len(layout.groups):
                group = code - 1
        _feed(signal, packet.samples[done:], group, running)
    yield from _whole(running)


def _feed(
    signal: SpellerSignal,
    x: NDArray[np.floating],
    group: int | None,
    running: tuple[str, TrialSums] | None,
) -> None:
    samples = signal.feed(x, group)
    if running is not None:
        running[1].add(samples)


def _whole(running: tuple[str, TrialSums] | None) -> Iterator[tuple[str, TrialSums]]:
    if running is not None:
        running[1].update()
        yield running
