"""Small made-up sessions with a known answer: quick to stream, and hard enough to need a decoder."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from bci_stream.packet import Lead
from decoders.model import Model
from replay.model.recording import ArrayBlock, Recording
from tracks.erp import CHARACTERS, FIRST_TARGET, GROUPS

ErpMaker = Callable[..., Recording]
MiMaker = Callable[..., Recording]

ERP_LEADS = ("Fz", "Cz", "Pz", "Oz", "PO7", "PO8")
MI_LEADS = ("FC3", "FC4", "C3", "Cz", "C4", "CP3", "CP4", "O1")


def make_erp(
    text: str = "BCI",
    seed: int = 0,
    amplitude_uv: float = 12.0,
    sequences: int = 5,
    groups: Sequence[str] | None = None,
    subject: str = "S1",
    rate: int = 125,
) -> Recording:
    """A speller with the track's timing; targets evoke a bump over Cz and Pz."""
    rng = np.random.default_rng(seed)
    groups = groups or [GROUPS[code] for code in sorted(GROUPS)]
    place, triggers, targets = 12 * rate, [(0, 242)], []
    for character in text:
        triggers.append((place, FIRST_TARGET + CHARACTERS.index(character)))
        place += rate
        for _ in range(sequences):
            for group in rng.permutation(len(groups)):
                triggers.append((place, int(group) + 1))
                if character in groups[group]:
                    targets.append(place)
                place += round(0.15 * rate)
            triggers.append((place, 200))
            place += round(0.85 * rate)
        triggers.append((place, 241))
        place += rate // 2
    x = _noise(rng, place + rate, len(ERP_LEADS))
    times = np.arange(int(0.7 * rate)) / rate
    bump = amplitude_uv * np.exp(-0.5 * ((times - 0.35) / 0.06) ** 2)
    for target in targets:
        x[target : target + len(times)] += np.outer(bump, (0.3, 1.0, 0.9, 0.2, -0.2, -0.2))
    leads = tuple(Lead(name) for name in ERP_LEADS)
    return Recording(
        subject, float(rate), leads, [ArrayBlock(x.astype(np.float32), tuple(triggers))]
    )


def make_mi(
    blocks: int = 2,
    trials: int = 12,
    seed: int = 0,
    depth: float = 0.75,
    subject: str = "S1",
    rate: int = 125,
    gain: float = 1.0,
) -> Recording:
    """Imagery lowers a 11 Hz rhythm: over C4 for left, C3 for right, Cz for feet."""
    rng = np.random.default_rng(seed)
    made = []
    over = {1: 4, 2: 2, 3: 3}
    for _ in range(blocks):
        labels = rng.permutation([1 + k % 3 for k in range(trials)])
        n = rate + trials * 8 * rate
        x = gain * _noise(rng, n, len(MI_LEADS))
        rhythm = _rhythm(rng, n, 3, rate)
        triggers = [(0, 242)]
        for number, label in enumerate(labels):
            start = rate + number * 8 * rate + 2 * rate + int(rng.integers(5))
            triggers += [
                (start + s * rate, 10 * int(label) + 1 + k) for k, s in enumerate((0, 2, 3))
            ]
            triggers.append((start + 4 * rate, 241))
            rhythm[start : start + 4 * rate, over[int(label)] - 2] *= 1 - depth
        x[:, 2:5] += gain * 12 * rhythm
        made.append(ArrayBlock(x.astype(np.float32), tuple(triggers)))
    return Recording(subject, float(rate), tuple(Lead(name) for name in MI_LEADS), made)


def _noise(rng: np.random.Generator, n: int, n_leads: int) -> np.ndarray:
    white = rng.normal(0, 5, (n, n_leads))
    return white + 0.6 * np.roll(white, 1, axis=0) + rng.normal(0, 3, (n, 1)) + 300.0


def _rhythm(rng: np.random.Generator, n: int, n_leads: int, rate: int) -> np.ndarray:
    phase = 2 * np.pi * 11 * np.arange(n)[:, None] / rate
    return np.sin(phase + np.cumsum(rng.normal(0, 0.15, (n, n_leads)), axis=0))


@pytest.fixture(scope="session")
def erp_session() -> ErpMaker:
    return make_erp


@pytest.fixture(scope="session")
def mi_session() -> MiMaker:
    return make_mi


def spoilt(model: Model) -> Iterator[tuple[str, Model]]:
    """A model file's content with one thing wrong, in every way: (what, model)."""
    for name, value in model.arrays.items():
        kept = {other: array for other, array in model.arrays.items() if other != name}
        numbers = value.astype(np.float64)
        wrongs = {
            "missing": None,
            "flat": np.append(numbers.ravel(), 0.0),
            "empty": numbers[:0],
            "no number": np.full_like(numbers, np.nan),
            "text": value.astype(str),
            "complex": value + 1j,
        }
        for what, wrong in wrongs.items():
            arrays = kept if wrong is None else {**kept, name: wrong}
            yield f"array {name} {what}", replace(model, arrays=arrays)
    for name in model.settings:
        left = {other: value for other, value in model.settings.items() if other != name}
        yield f"setting {name} missing", replace(model, settings=left)
        for wrong in (None, 3, "C3", [], [3], [None], ["X", "X"], {"a": 1}, [["C3"]]):
            yield f"setting {name} = {wrong!r}", replace(model, settings={**left, name: wrong})


@pytest.fixture(scope="session")
def spoilt_models() -> Callable[[Model], Iterator[tuple[str, Model]]]:
    return spoilt
