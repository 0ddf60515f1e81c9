"""Layouts are data; a trial stops when that has the best expected score."""

from collections.abc import Callable

import numpy as np
import pytest

from bci_stream.errors import RuleError
from decoders.erp.stopping import (
    LETTERS,
    Inference,
    SpellerLayout,
    Stopping,
    bits,
    mean_bits,
)
from tracks.erp import CHARACTERS

ROWS = ("ABCDEF", "GHIJKL", "MNOPQR", "STUVWX", "YZ1234", "56789_")
COLUMNS = ("AGMSY5", "BHNTZ6", "CIOU17", "DJPV28", "EKQW39", "FLRX4_")


@pytest.mark.parametrize("layout", [SpellerLayout(), SpellerLayout(ROWS + COLUMNS)])
def test_every_character_has_two_groups_of_its_own(layout: SpellerLayout) -> None:
    assert layout.membership.shape == (36, 12)
    assert np.all(layout.membership.sum(axis=1) == 2)
    assert len({tuple(row) for row in layout.membership}) == 36


def test_characters_stand_in_the_tracks_order() -> None:
    assert SpellerLayout().characters == CHARACTERS
    assert SpellerLayout(("AC", "BC", "A", "B")).characters == "ABC"
    assert SpellerLayout(("XC", "X", "C1")).characters == "CX1"


def test_twins_and_other_people_are_refused() -> None:
    with pytest.raises(RuleError, match="'AB' flash in the same groups"):
        SpellerLayout(("ABC", "AB"))
    with pytest.raises(RuleError, match="it has '!'"):
        SpellerLayout(("A!", "B"))


MEMBERS = SpellerLayout().membership


def test_bits_are_the_tracks() -> None:
    assert bits(0.5, 36) == 0
    assert bits(1.0, 36) == pytest.approx(np.log2(36))
    assert bits(0.9, 36) == pytest.approx(4.188, abs=1e-3)


def test_stopping_waits_while_unsure_and_never_beyond_the_last_sequence() -> None:
    stopping = Stopping(MEMBERS, 1.8, max_sequences=5, seed=0)
    unsure, sure = np.full(36, 1 / 36), np.eye(36)[0]
    assert not stopping.stop(Inference(unsure, 2.0), sequences=1)
    assert stopping.stop(Inference(unsure, 2.0), sequences=5)
    assert stopping.stop(Inference(sure, 2.0), sequences=1)


def test_stopping_is_not_content_with_a_half_sure_character() -> None:
    """A share right of a half or less scores 0, and few letters may fall there at 0.55."""
    stopping = Stopping(MEMBERS, 1.8, max_sequences=5, seed=0)
    half = np.full(36, 0.45 / 35)
    half[0] = 0.55
    assert not any(stopping.stop(Inference(half, energy), 1) for energy in (1.5, 2.0, 4.0))


def test_the_mean_bits_of_some_letters_are_those_of_their_shares() -> None:
    assert mean_bits(1.0, 36) == pytest.approx(bits(1.0, 36))
    assert mean_bits(0.0, 36) == 0
    drawn = np.random.default_rng(0).binomial(LETTERS, 0.6, size=20000) / LETTERS
    found = np.mean([bits(float(share), 36) for share in drawn])
    assert mean_bits(0.6, 36) == pytest.approx(found, abs=0.03)


Rule = Callable[[np.ndarray, int], bool]


def session_score(energy: float, stop: Rule) -> float:
    """Bits a second of 500 simulated trials under a rule stop(probabilities, sequences)."""
    rng = np.random.default_rng(3)
    noise = rng.standard_normal((500, 5, 12))
    right, seconds = [], []
    for meant, own in zip(rng.integers(36, size=500), noise, strict=True):
        logs = np.zeros(36)
        for sequences in range(1, 6):
            logs += MEMBERS @ (energy * MEMBERS[meant] + np.sqrt(energy) * own[sequences - 1])
            posterior = np.exp(logs - logs.max())
            if stop(posterior / posterior.sum(), sequences):
                break
        right.append(logs.argmax() == meant)
        seconds.append(1.8 * sequences)
    return bits(float(np.mean(right)), 36) / float(np.mean(seconds))


@pytest.mark.parametrize("energy", [1.5, 3.0])
def test_it_scores_more_than_every_fixed_number_and_as_much_as_the_best_level(
    energy: float,
) -> None:
    rule = Stopping(MEMBERS, 1.8, max_sequences=5, seed=0)
    ours = session_score(energy, lambda p, n: rule.stop(Inference(p, energy), n))
    fixed = [session_score(energy, lambda _p, n, m=m: n >= m) for m in range(1, 6)]
    levels = [
        session_score(energy, lambda p, _n, level=level: p.max() >= level)
        for level in (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
    ]
    assert ours > 1.1 * max(fixed)
    assert ours > 0.93 * max(levels)
