"""The parts of erp-bayes: white innovations, separated responses, exact evidence."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from decoders.erp.decoder import mean_response
from decoders.erp.model import WhiteTrials
from decoders.erp.noise import LAGS, whitening_of
from decoders.erp.prior import ResponsePrior, WhitePrior, weak_prior
from decoders.erp.response import CENTRES_S, N_BUMPS, bumps, shift
from decoders.erp.stopping import SpellerLayout
from decoders.erp.training import covariance, fit, person_of


def rows_of(x: np.ndarray) -> np.ndarray:
    n = len(x)
    return np.concatenate([x[LAGS - lag : n - lag] for lag in range(LAGS + 1)], axis=1)


def autoregression(n: int) -> np.ndarray:
    """Two leads with courses of their own, mixed, and a flat one."""
    rng = np.random.default_rng(0)
    x = np.zeros((n, 3))
    for t in range(2, n):
        x[t, 0] = 0.9 * x[t - 1, 0] + rng.standard_normal()
        x[t, 1] = 1.2 * x[t - 1, 1] - 0.7 * x[t - 2, 1] + rng.standard_normal()
    x[:, 0] += 0.5 * x[:, 1]
    return 7 * x


def test_innovations_are_white_over_leads_and_time() -> None:
    rows = rows_of(autoregression(6000))
    whitening = whitening_of(rows.T @ rows / len(rows), len(rows), 3)
    white = rows @ whitening.filters
    assert np.abs(white[:, 2]).max() < 1e-6 * np.abs(white[:, :2]).max() or not white[:, 2].any()
    live = white[:, :2]
    assert live.T @ live / len(live) == pytest.approx(np.eye(2), abs=0.06)
    for lag in (1, 2, 3):
        later = live[lag:].T @ live[:-lag] / len(live)
        assert np.abs(later).max() < 0.08


def test_a_shift_moves_a_response() -> None:
    times = np.arange(0.1, 0.7, 0.01)
    weights = np.exp(-0.5 * ((CENTRES_S - 0.3) / 0.06) ** 2)
    moved = bumps(times) @ (shift(0.04) @ weights)
    wanted = bumps(times - 0.04) @ weights
    assert np.abs(moved - wanted).max() < 0.05 * np.abs(wanted).max()


def test_evidence_is_the_integral_over_the_response() -> None:
    """Of one trial with two characters, against the normal density of its signal."""
    rng = np.random.default_rng(1)
    n, leads = 60, 2
    designs = rng.standard_normal((2, n, N_BUMPS))
    signal = rng.standard_normal((n, leads))
    prior = drawn_prior(rng, leads)
    contrasts = np.eye(2)
    signals = np.stack([design.T @ signal for design in designs])
    grams = np.stack([design.T @ design for design in designs])
    trials = WhiteTrials(signals.reshape(1, 2, -1), grams.reshape(1, 2, -1), contrasts, leads)
    found = trials.last_evidence(
        prior.response(np.zeros((N_BUMPS, leads)), np.zeros((N_BUMPS,) * 2))
    )
    exact = [density(prior, design, signal) for design in designs]
    assert found[0] - found[1] == pytest.approx(exact[0] - exact[1], abs=1e-6)


def drawn_prior(rng: np.random.Generator, leads: int) -> WhitePrior:
    root, mixed = (rng.standard_normal((n, n)) / np.sqrt(n) for n in (N_BUMPS, leads))
    mean = rng.standard_normal((N_BUMPS, leads))
    return WhitePrior(mean, root + np.eye(N_BUMPS), mixed @ mixed.T + 0.3 * np.eye(leads))


def density(prior: WhitePrior, design: np.ndarray, signal: np.ndarray) -> float:
    """The log density of a signal (n, leads) that is design @ b + white noise."""
    over_time = design @ prior.root @ prior.root.T @ design.T
    cov = np.kron(over_time, prior.leads) + np.eye(signal.size)
    return float(multivariate_normal.logpdf(signal.ravel(), (design @ prior.mean).ravel(), cov))


def test_what_two_parts_of_the_data_say_in_turn_is_what_both_say_together() -> None:
    rng = np.random.default_rng(2)
    n, leads = 40, 3
    prior = drawn_prior(rng, leads)
    designs = rng.standard_normal((2, n, N_BUMPS))
    signals = rng.standard_normal((2, n, leads))
    totals = np.stack([d.T @ x for d, x in zip(designs, signals, strict=True)])
    grams = np.stack([d.T @ d for d in designs])
    first = prior.response(totals[0], grams[0])
    both = prior.response(totals.sum(axis=0), grams.sum(axis=0))
    assert both.without(totals[1], grams[1]).mean == pytest.approx(first.mean, abs=1e-8)
    exact = density(prior, np.concatenate(designs), np.concatenate(signals))
    exact -= density(prior, designs[0], signals[0])
    noise = 0.5 * np.sum(signals[1] ** 2) + 0.5 * signals[1].size * np.log(2 * np.pi)
    assert first.evidence(totals[1:], grams[1:])[0] - noise == pytest.approx(exact, abs=1e-6)


def test_the_covariance_of_the_leads_follows_a_response_of_one_course() -> None:
    """Many flashes of a response that only the first of four leads records."""
    leads = 4
    b = np.zeros((N_BUMPS, leads))
    b[:, 0] = np.sin(np.arange(N_BUMPS))
    gram = 1e4 * np.eye(N_BUMPS)
    prior = WhitePrior(np.zeros((N_BUMPS, leads)), 0.5 * np.eye(N_BUMPS), np.eye(leads))
    learned = prior.response(gram @ b, gram).leads()
    assert learned[0, 0] > 5 * learned[1, 1]
    assert np.linalg.eigvalsh(learned).min() > 0


def test_overlapping_responses_are_separated(erp_session) -> None:
    """A flash each 150 ms, a response of 200 ms: the estimate over Cz is the bump that was put in."""
    person = person_of(erp_session(text="TRAININGSET", amplitude_uv=12.0), SpellerLayout())
    uv = (person.known.mean * person.whitening.sd_uv)[:, person.known.leads.index("CZ")]
    times = np.arange(0.0, 0.75, 0.01)
    course = bumps(times) @ uv
    assert times[course.argmax()] == pytest.approx(0.38, abs=0.04)  # the causal filter delays
    assert np.abs(course[times < 0.2]).max() < 0.35 * course.max()


def test_people_alike_make_a_narrower_prior_than_none(erp_session) -> None:
    layout = SpellerLayout()
    people = [person_of(erp_session(text="TRAINING", seed=seed), layout) for seed in range(4)]
    assert np.trace(covariance(people)) < 0.7 * np.trace(weak_prior(1).cov)
    assert np.linalg.eigvalsh(covariance(people[:1])).min() > 0


def test_a_model_covers_the_leads_of_all_people_and_0_stands_for_others(erp_session) -> None:
    model = fit([erp_session(text="AB")], seed=0, progress=lambda _: None)
    assert model.decoder == "erp-bayes"
    known = person_of(erp_session(text="AB"), SpellerLayout()).known
    found = mean_response([known], ["Q1", "CZ"])
    assert not found[:, 0].any()
    assert found[:, 1] == pytest.approx(known.mean[:, known.leads.index("CZ")])


def test_a_prior_has_variants_of_latency_and_size() -> None:
    prior = ResponsePrior(np.ones((N_BUMPS, 2)), np.eye(N_BUMPS))
    assert len(prior.variants()) == 5
    assert len(weak_prior(2).variants()) == 4
    assert all(np.linalg.eigvalsh(each.cov).min() > 0 for each in prior.variants())
