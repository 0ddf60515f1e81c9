"""At the middle of the difficulty knob signals are as strong as in people who were recorded.

Recorded (shared recordings, measured in the same way): flicker at the best occipital lead 4 to 12 dB
above its neighbours in 5 people; single flashes of two spellers with 8 and 16 leads separated with an
AUC of 0.82 and 0.85.
"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import signal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import roc_auc_score

from replay.model.recording import Recording
from replay.synthetic.registry import open_synthetic
from tracks.erp import CHARACTERS, GROUPS, TARGETS
from tracks.turing import SSVEP_HZ

pytestmark = pytest.mark.slow

BACK = ("O1", "Oz", "O2", "PO3", "POz", "PO4", "PO7", "PO8")
SPELLER = ("Fz", "Cz", "P3", "Pz", "P4", "PO7", "Oz", "PO8")
BESIDE_HZ = (-2.0, -1.6, -1.2, 1.2, 1.6, 2.0)

Array = NDArray[np.float64]


def people(track: str, **params: str) -> list[Recording]:
    return list(open_synthetic(track, {"difficulty": "0.5", **params}).sessions())


def picked(one: Recording, names: tuple[str, ...]) -> Array:
    """Those that recorded anything."""
    block = one.blocks[0]
    places = [place for place, lead in enumerate(one.leads) if lead.name in names]
    data = block.read(0, block.n_samples)[:, places].astype(np.float64)
    return data[:, data.std(axis=0) > 0]


def flicker_db(one: Recording) -> float:
    """Power at the light's frequency over that beside it, at the best lead."""
    data, powers = picked(one, BACK), []
    for start, code in one.blocks[0].triggers:
        if code < 128 and code & 7 in SSVEP_HZ:
            trial = signal.detrend(data[start + 125 : start + 1240], axis=0)
            tapered = trial * np.hanning(len(trial))[:, None]
            waves_hz = SSVEP_HZ[code & 7] + np.array([0.0, *BESIDE_HZ])
            turns = np.outer(waves_hz, np.arange(len(trial)) / one.rate)
            powers.append(np.abs(np.exp(-2j * np.pi * turns) @ tapered) ** 2)
    mean = np.mean(powers, axis=0)
    return float(10 * np.log10(mean[0] / mean[1:].mean(axis=0)).max())


def test_flicker_is_as_strong_as_in_recorded_people() -> None:
    found = [flicker_db(one) for one in people("turing", subjects="6", blocks="1", rounds="5")]
    assert 5 < np.mean(found) < 10
    assert min(found) > 2
    assert max(found) < 15
    assert np.ptp(found) > 2  # people differ


def flash_auc(one: Recording) -> float:
    """The first half's flashes train a linear discriminant, the second half's are classified."""
    sos = signal.butter(2, (0.5, 11), "band", fs=one.rate, output="sos")
    data = signal.sosfilt(sos, picked(one, SPELLER), axis=0)
    starts, labels, character = [], [], ""
    for place, code in one.blocks[0].triggers:
        if code in TARGETS:
            character = CHARACTERS[code - TARGETS[0]]
        elif code in GROUPS:
            starts.append(place)
            labels.append(character in GROUPS[code])
    features = np.array([data[start + 20 : start + 170 : 12].ravel() for start in starts])
    half = len(starts) // 2
    lda = LinearDiscriminantAnalysis("lsqr", "auto").fit(features[:half], labels[:half])
    return float(roc_auc_score(labels[half:], lda.decision_function(features[half:])))


def test_single_flashes_tell_as_much_as_recorded_ones() -> None:
    found = [flash_auc(one) for one in people("erp", subjects="6", trials="12")]
    assert 0.75 < np.mean(found) < 0.9
    assert np.ptp(found) > 0.03


@pytest.mark.parametrize(("difficulty", "fewest", "most"), [("0", 1, 2), ("1", 3, 4)])
def test_some_characters_are_not_looked_at(difficulty: str, fewest: int, most: int) -> None:
    """So no decoder spells everything: those trials' flashes all evoke what no target evokes."""
    for one in people("erp", subjects="3", difficulty=difficulty):
        seen = [event.label for event in one.blocks[0].timeline.events]  # type: ignore[attr-defined]
        watched = np.array(seen).reshape(32, -1).any(axis=1)
        assert fewest <= (~watched).sum() <= most
