"""Spelling on recordings of people left out: letters, single flashes, calibration.

Every method is either without a label, or trained on the other people of the same kind. Letters are
judged by the track's score with each method stopping when it decides to, and beside it with a fixed
number of sequences, chosen on the other people. Flashes are scored by what was learned before their
trial. Real recordings are those in $BCI_DATA/p300; synthetic people are generated.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

from decoders.dsp import Array
from decoders.erp.decoder import BayesDecoder
from decoders.erp.references import XdawnLda
from decoders.erp.stopping import Inference, SpellerLayout, bits
from decoders.erp.training import pack, person_of
from decoders.erp.umm import UmmDecoder
from decoders.erp.umm import fit as fit_umm
from decoders.model import Model
from decoders.offline import OfflineRun, run_offline
from scripts.bench.recordings.files import read_each, rows_of_each
from scripts.bench.recordings.references import LDA_KINDS, NO_TOEPLITZ, lda_model
from scripts.bench.recordings.spellers import (
    Speller,
    flash_sums,
    flashes_of,
    labels_of,
    read_speller,
    synthetic_spellers,
)
from scripts.bench.table import Row, mean, row_of
from tracks.erp import CHARACTERS, SEQUENCES, score

OURS = "erp-bayes"
PRIOR = ", prior of others"
SHARED_LEADS = 0.5
"""Others are of the same kind if they have this share of a person's leads."""
SEQUENCE_S = 1.8
BINS = ((0.0, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 1.0))
"""Of the best character's probability, for the reliability."""


@dataclass
class Watched:
    """One decoder on one person: (trials, sequences, characters) probabilities without early stops,
    and the weights of flashes at the first decision of each trial."""

    probabilities: list[list[Array]] = field(default_factory=list)
    weights: list[tuple[Array, Array]] = field(default_factory=list)


class WatchedBayes(BayesDecoder):
    """erp-bayes that records what it infers, and never stops early."""

    def __init__(self, **options: Any) -> None:
        super().__init__(early=False, **options)
        self.watched = Watched()

    def _begin_trial(self) -> None:
        super()._begin_trial()
        self.watched.probabilities.append([])

    def _infer(self) -> Inference:
        found = super()._infer()
        own = self.watched.probabilities[-1]
        if not own and self._spelling is not None:
            self.watched.weights.append(self._spelling.flash_weights())
        if len(own) < self._sequences:
            own.append(found.probabilities)
        return found


def run(data_dir: Path) -> Iterator[Row]:
    """Rows for every .npz below data_dir/p300, and for synthetic people."""
    real = list(read_each(sorted((data_dir / "p300").rglob("*.npz")), read_speller))
    if "Toeplitz" not in LDA_KINDS:
        print(f"  {NO_TOEPLITZ}", file=sys.stderr, flush=True)
    spellers = real + synthetic_spellers()
    unaided = {speller.name: watch(speller, None) for speller in spellers}

    def rows_of(speller: Speller) -> list[Row]:
        others = [other for other in spellers if alike(speller, other)]
        return person_rows(speller, others, unaided)

    return rows_of_each(spellers, lambda speller: speller.name, rows_of)


def alike(speller: Speller, other: Speller) -> bool:
    """Whether the other is another person of the same kind of recording."""
    own = {lead.name for lead in speller.recording.leads}
    theirs = {lead.name for lead in other.recording.leads}
    same = speller.synthetic == other.synthetic and speller.groups == other.groups
    return other is not speller and same and len(own & theirs) >= SHARED_LEADS * len(own)


def person_rows(
    speller: Speller, others: Sequence[Speller], unaided: Mapping[str, Watched]
) -> list[Row]:
    """All rows of one person, left out of every training.

    unaided: erp-bayes without a label, of each person by name.
    """
    fixed = [_right(other, unaided[other.name]) for other in others]
    layout = SpellerLayout(speller.groups)
    rows = []
    prior = pack([person_of(o.recording, layout) for o in others], layout) if others else None
    for name, model in _with_prior(OURS, prior):
        rows.append(_score_row(speller, name, BayesDecoder(model=model, groups=layout.groups)))
        watched = unaided[speller.name] if model is None else watch(speller, model)
        rows += [flash_row(speller, name, watched), *_calibration(speller, name, watched)]
        if others:
            rows.append(_fixed_row(speller, name, model, fixed))
    umm = _umm_model(others, layout) if others else None
    for name, model in _with_prior("erp-umm", umm):
        row = _score_row(speller, name, UmmDecoder(model=model, groups=layout.groups))
        rows.append(replace(row, beside=name.replace("erp-umm", OURS)))
    for kind in LDA_KINDS if others else ():
        model = lda_model(others, kind)
        name = f"{kind} LDA{PRIOR}"
        own = _score_row(speller, name, XdawnLda(model=model, groups=layout.groups))
        rows += [replace(row, beside=OURS + PRIOR) for row in (own, _lda_row(speller, name, model))]
    return rows


def _with_prior(name: str, model: Model | None) -> Iterator[tuple[str, Model | None]]:
    yield f"{name}, no label", None
    if model is not None:
        yield f"{name}{PRIOR}", model


def _umm_model(others: Sequence[Speller], layout: SpellerLayout) -> Model:
    recordings = [other.recording for other in others]
    return fit_umm(recordings, seed=0, progress=lambda _: None, groups=layout.groups)


def _score_row(speller: Speller, method: str, decoder: Any) -> Row:
    outcome: OfflineRun = run_offline("erp", decoder, [speller.recording])
    verdicts = outcome.run.verdicts()
    right = sum(verdict.right[0] for verdict in verdicts)
    used = mean([float(v.answers[0].when or 0) for v in verdicts if v.answers])
    return row_of(
        verdicts,
        score,
        "letters",
        measure="bits/min (track score)",
        note=f"{right} of {len(verdicts)} right after {used:.1f} sequences",
        compute_s=outcome.compute_s,
        **_common(speller, method),
    )


def watch(speller: Speller, model: Model | None) -> Watched:
    decoder = WatchedBayes(model=model, groups=speller.groups)
    run_offline("erp", decoder, [speller.recording])
    return decoder.watched


def _fixed_row(speller: Speller, method: str, model: Model | None, others: Sequence[Array]) -> Row:
    """A fixed number of sequences: the one with the best score over the other people.

    others: of each (trials, sequences), whether erp-bayes was right without a label.
    """
    chosen = 1 + int(np.argmax(np.mean([_fixed_scores(right) for right in others], axis=0)))
    decoder = BayesDecoder(model=model, groups=speller.groups, max_sequences=chosen, early=False)
    row = _score_row(speller, f"{method}, fixed number", decoder)
    return replace(row, ours=False, beside=method)


def _right(speller: Speller, watched: Watched) -> Array:
    """(trials, sequences): whether the best character is right."""
    truth = labels_of(speller)
    found = [
        [float(own[min(m, len(own) - 1)].argmax() == label) for m in range(SEQUENCES)]
        for own, label in zip(watched.probabilities, truth, strict=True)
    ]
    return np.array(found)


def _fixed_scores(right: Array) -> Array:
    shares = right.mean(axis=0)
    return np.array(
        [60 * bits(p, len(CHARACTERS)) / (SEQUENCE_S * (m + 1)) for m, p in enumerate(shares)]
    )


def _calibration(speller: Speller, method: str, watched: Watched) -> list[Row]:
    """Negative log likelihood of the letter after each sequence, in nats below chance."""
    gains, bests, rights = [], [], []
    for own, label in zip(watched.probabilities, labels_of(speller), strict=True):
        for found in own:
            gains.append(float(np.log(found[label]) + np.log(len(found))))
            bests.append(float(found.max()))
            rights.append(bool(found.argmax() == label))
    best, right = np.array(bests), np.array(rights)
    parts = []
    for low, high in BINS:
        inside = (best > low) & (best <= high)
        if inside.any():
            parts.append(f"{best[inside].mean():.2f}:{right[inside].mean():.2f}")
    return [
        row_of(
            gains,
            mean,
            "decisions",
            measure="nats gained over chance (3.58)",
            note=f"probability:share right {' '.join(parts)}",
            **_common(speller, method),
        )
    ]


def flash_row(speller: Speller, method: str, watched: Watched) -> Row:
    """AUC of single flashes by the response that was learned before their trial."""
    pairs = []
    for (labels, sums), (weights, common) in zip(flash_sums(speller), watched.weights, strict=True):
        overlaps = sums.gram.sum(axis=2)
        scores = np.tensordot(sums.signal, weights, axes=2) - np.tensordot(overlaps, common, axes=2)
        pairs += list(zip(labels, scores.tolist(), strict=True))
    return _auc_row(speller, method, pairs)


def _lda_row(speller: Speller, method: str, model: Model) -> Row:
    weights = dict(zip(model.arrays["leads"], model.array("template").T, strict=True))
    pairs = []
    for is_target, vector, leads in flashes_of(speller):
        by_lead = vector.reshape(-1, len(leads)).T
        total = sum(
            float(weights[n] @ x) for n, x in zip(leads, by_lead, strict=True) if n in weights
        )
        pairs.append((is_target, total))
    return _auc_row(speller, method, pairs)


def _auc_row(speller: Speller, method: str, pairs: Sequence[tuple[bool, float]]) -> Row:
    return row_of(pairs, auc, "flashes", measure="AUC of flashes", **_common(speller, method))


def _common(speller: Speller, method: str) -> dict[str, Any]:
    ours = method.startswith(OURS)
    return {"track": "erp", "data": speller.name, "method": method, "ours": ours}


def auc(pairs: Sequence[tuple[bool, float]]) -> float:
    """The share of (target, other) pairs in the right order; no score where one kind was not drawn."""
    labels, scores = (np.array(column) for column in zip(*pairs, strict=True))
    targets, others = int(labels.sum()), int((~labels).sum())
    if not targets or not others:
        return float("nan")
    above = float(rankdata(scores)[labels].sum()) - targets * (targets + 1) / 2
    return above / (targets * others)
