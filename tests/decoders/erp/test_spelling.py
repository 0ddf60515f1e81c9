"""Spelling finds what was meant without a label, and knows how sure it is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoders.erp.spelling import MAX_TRIALS, READINGS, FlashEvidence, Spelling, Template
from decoders.erp.stopping import Inference, SpellerLayout

LAYOUT = SpellerLayout()
D = 20


def spell(
    spelling: Spelling,
    meant: int,
    template: np.ndarray,
    rng: np.random.Generator,
    sequences: int = 5,
) -> Inference:
    spelling.begin()
    for _ in range(sequences):
        for group in rng.permutation(12):
            is_target = LAYOUT.membership[meant, group]
            spelling.add(int(group), rng.standard_normal(D) + is_target * template)
    return spelling.infer(np.eye(D))


def test_it_learns_to_spell_from_unlabelled_trials() -> None:
    rng = np.random.default_rng(0)
    template = rng.standard_normal(D)
    template *= np.sqrt(2.5) / np.linalg.norm(template)
    spelling = Spelling(LAYOUT, D)
    meant = rng.integers(36, size=16)
    found = [spell(spelling, int(m), template, rng) for m in meant]
    right = [int(f.probabilities.argmax()) == m for f, m in zip(found, meant, strict=True)]
    assert np.mean(right[4:]) >= 0.9
    assert found[-1].energy == pytest.approx(2.5, abs=1.2)
    assert found[-1].probabilities.sum() == pytest.approx(1)


def test_nothing_is_found_where_nothing_is() -> None:
    rng = np.random.default_rng(1)
    spelling = Spelling(LAYOUT, D)
    found = [spell(spelling, 0, np.zeros(D), rng) for _ in range(6)]
    assert np.mean([f.probabilities.max() for f in found]) < 0.5
    assert found[-1].energy < 1.0


def test_a_prior_spells_the_first_character_better() -> None:
    template = np.full(D, 0.35)
    results: dict[bool, list[bool]] = {True: [], False: []}
    for trained in results:
        rng = np.random.default_rng(2)
        for _ in range(20):
            spelling = Spelling(LAYOUT, D, template if trained else None)
            meant = int(rng.integers(36))
            found = spell(spelling, meant, template, rng, sequences=3)
            results[trained].append(int(found.probabilities.argmax()) == meant)
    assert np.mean(results[True]) > np.mean(results[False]) + 0.2


def test_a_misleading_prior_is_given_up() -> None:
    """Others' template may have nothing to do with this person, or be in other units."""
    rng = np.random.default_rng(4)
    template, wrong = np.zeros(D), np.zeros(D)
    template[:3] = np.sqrt(1.5)
    wrong[10:] = 50.0
    right: dict[bool, list[bool]] = {}
    for misled in (True, False):
        spelling = Spelling(LAYOUT, D, wrong if misled else None, 3.0)
        meant = rng.integers(36, size=10)
        found = [spell(spelling, int(m), template, rng) for m in meant]
        right[misled] = [
            int(f.probabilities.argmax()) == m for f, m in zip(found, meant, strict=True)
        ]
    assert np.mean(right[True][2:]) >= np.mean(right[False][2:]) - 0.2
    assert np.mean(right[True][2:]) >= 0.7


def test_memory_is_bounded() -> None:
    rng = np.random.default_rng(3)
    spelling = Spelling(LAYOUT, D)
    for _ in range(MAX_TRIALS + 5):
        spell(spelling, 3, np.ones(D), rng, sequences=1)
    assert len(spelling._past) == MAX_TRIALS
    assert len(spelling._readings) == READINGS
    assert all(len(r.posteriors) == MAX_TRIALS for r in spelling._readings)


def test_a_trial_without_flashes_shows_nothing() -> None:
    spelling = Spelling(LAYOUT, D)
    spelling.begin()
    assert np.allclose(spelling.infer(np.eye(D)).probabilities, 1 / 36)


@settings(max_examples=25)
@given(st.integers(0, 1000), st.floats(0.2, 50))
def test_evidence_is_the_integral_over_the_template(seed: int, precision: float) -> None:
    """The closed form agrees with the likelihood ratio of the flashes, the template integrated out."""
    rng = np.random.default_rng(seed)
    members = np.array([[1.0, 0, 0], [0, 1, 0]])
    flashes = rng.standard_normal((3, 2))
    template = Template(precision * rng.standard_normal(2), precision)
    got = FlashEvidence(flashes, np.ones(3), members, np.eye(2)).logs(template)
    expected = [_exact(flashes, row, template) for row in members]
    assert got[0] - got[1] == pytest.approx(expected[0] - expected[1], abs=1e-6)


def _exact(flashes: np.ndarray, row: np.ndarray, template: Template) -> float:
    """log p(flashes | row), the common response unknown (flat), the template normal: per feature."""
    n = len(row)
    centre = np.eye(n) - np.full((n, n), 1 / n)
    basis = np.linalg.svd(centre)[0][:, : n - 1]  # what a common response can't change
    seen, shape = basis.T @ flashes, basis.T @ row
    cov = np.eye(n - 1) + np.outer(shape, shape) / template.precision
    rest = seen - np.outer(shape, template.mean)
    log_det = flashes.shape[1] * np.linalg.slogdet(cov)[1]
    return float(-0.5 * (np.sum(rest * np.linalg.solve(cov, rest)) + log_det))
