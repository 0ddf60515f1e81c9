"""Spelling on real recordings: letters and sequences of speller runs, single-flash AUC of all.

Letters: without a label, as the contest asks; with other people's template as a prior; and trained on
the run's own other letters, beside xDAWN+LDA trained on the same. Once by the track's score with each
method stopping when it is sure, and once with every method answering after the same sequences.
AUC: templates and classifiers learn from the first half of the flashes and are tested on the second.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from decoders.dsp import Array
from decoders.erp.decoder import ErpDecoder
from decoders.erp.references import XdawnLda, xdawn_lda
from decoders.erp.stopping import SpellerLayout
from decoders.erp.training import features_of, fit, mean_difference, pack
from decoders.model import Model
from decoders.offline import OfflineRun, run_offline
from scripts.bench.recordings.files import read_each, rows_of_each
from scripts.bench.recordings.spellers import (
    Speller,
    flashes_of,
    letters_only,
    most_sequences,
    n_letters,
    read_speller,
)
from scripts.bench.table import Row, mean, row_of
from tracks.common.verdicts import Verdict
from tracks.erp import SEQUENCE_END, SEQUENCES, TARGETS, score

STEPS = (SEQUENCES, 10, 15)
"""After so many sequences every method must answer, where the run has them."""
MOST_FOLDS = 10

Spell = Callable[..., list[OfflineRun]]
"""Called with the decoder's settings: the runs that together spell all letters of a run."""


def run(data_dir: Path) -> Iterator[Row]:
    """Rows for every .npz below data_dir/p300."""
    spellers = list(read_each(sorted((data_dir / "p300").rglob("*.npz")), read_speller))

    def rows_of(speller: Speller) -> list[Row]:
        others = [other for other in spellers if other is not speller]
        spelt = letters(speller, others) if speller.groups is not None else []
        return spelt + flash_auc(speller)

    return rows_of_each(spellers, lambda speller: speller.name, rows_of)


def letters(speller: Speller, others: Sequence[Speller]) -> list[Row]:
    """The letters of one run, by each method."""
    methods = list(_methods(speller, others))
    rows = [_score_row(speller, name, spell) for name, spell in methods]
    for steps in STEPS:
        if steps <= most_sequences(speller):
            rows += [_steps_row(speller, name, spell, steps) for name, spell in methods]
    return rows


def _methods(speller: Speller, others: Sequence[Speller]) -> Iterator[tuple[str, Spell]]:
    def untrained(model: Model | None) -> Spell:
        return lambda **how: [
            run_offline(
                "erp",
                ErpDecoder(model=model, groups=speller.groups, **how),
                [speller.recording],
            )
        ]

    yield "erp-umm, no label", untrained(None)
    prior = _prior_of(others, speller)
    if prior is not None:
        people = prior.settings["people"]
        yield f"erp-umm, prior of {people} other recording(s)", untrained(prior)
    yield "erp-umm, trained", _trained(speller, fit, ErpDecoder)
    yield "xDAWN+LDA, trained", _trained(speller, XdawnLda.fit, XdawnLda)


def _prior_of(others: Sequence[Speller], speller: Speller) -> Model | None:
    """Other recordings' templates as a model; only those that share a lead with this one and with
    each other are of use."""
    templates = []
    for other in others:
        features = features_of(other.recording)
        if set(features.lead_names) & set(features_of(speller.recording).lead_names):
            difference = mean_difference(flashes_of(other, features), features.n_features)
            templates.append((features.lead_names, difference.reshape(len(features.offsets), -1)))
    common = set.intersection(*(set(names) for names, _ in templates)) if templates else set()
    return pack(templates, SpellerLayout.of(speller.groups)) if common else None


def _trained(speller: Speller, train: Any, decoder_class: Any) -> Spell:
    """Each letter by a decoder that was trained on the run's other letters (of a long run: on nine
    tenths); in their order, so that methods are compared letter by letter."""
    numbers = range(n_letters(speller))
    models = []
    for left_out in np.array_split(numbers, min(len(numbers), MOST_FOLDS)):
        rest = letters_only(speller, [k for k in numbers if k not in left_out])
        model = train([rest], seed=0, progress=lambda _: None, groups=speller.groups)
        models.append((letters_only(speller, left_out.tolist()), model))
    return lambda **how: [
        run_offline("erp", decoder_class(model=model, groups=speller.groups, **how), [letters])
        for letters, model in models
    ]


def _score_row(speller: Speller, method: str, spell: Spell) -> Row:
    outcomes = spell()
    verdicts = _verdicts(outcomes)
    used = [n for outcome in outcomes for n in _sequences_used(outcome)]
    right = sum(verdict.right[0] for verdict in verdicts)
    return row_of(
        verdicts,
        score,
        "letters",
        data=f"letters of {speller.name}",
        measure="bits/min (track score, at most 5 sequences)",
        note=f"{right} of {len(verdicts)} right; sequences {' '.join(map(str, used))}",
        **_common(method, outcomes),
    )


def _steps_row(speller: Speller, method: str, spell: Spell, steps: int) -> Row:
    outcomes = spell(max_sequences=steps, early=False)
    return row_of(
        [verdict.right[0] for verdict in _verdicts(outcomes)],
        mean,
        "letters",
        data=f"letters of {speller.name}",
        measure=f"letters right after {steps} sequences",
        **_common(method, outcomes),
    )


def _common(method: str, outcomes: Sequence[OfflineRun]) -> dict[str, Any]:
    return {
        "track": "erp",
        "method": method,
        "ours": method.startswith("erp-umm"),
        "compute_s": np.concatenate([outcome.compute_s for outcome in outcomes]),
    }


def _verdicts(outcomes: Iterable[OfflineRun]) -> list[Verdict]:
    return [verdict for outcome in outcomes for verdict in outcome.run.verdicts()]


def _sequences_used(outcome: OfflineRun) -> Iterator[int]:
    """Of each report: the sequences that had ended."""
    ended = 0
    for event in outcome.events:
        for _, code in event.get("triggers", ()):
            ended = 0 if code in TARGETS else ended + (code == SEQUENCE_END)
        if event["kind"] == "report":
            yield ended


def flash_auc(speller: Speller) -> list[Row]:
    """AUC of single flashes: targets against others."""
    features = features_of(speller.recording)
    flashes = list(flashes_of(speller, features))
    labels = np.array([target for target, _ in flashes])
    vectors = np.array([vector for _, vector in flashes])
    half = len(labels) // 2
    reference, _, _ = xdawn_lda(vectors[:half], labels[:half], len(features.places))
    ours = template_weights(vectors[:half], labels[:half], speller)
    return [
        _auc_row(speller, name, weights is ours, labels[half:], vectors[half:] @ weights)
        for name, weights in (("erp-umm (template)", ours), ("xDAWN+LDA", reference))
    ]


def template_weights(vectors: Array, labels: NDArray[np.bool_], speller: Speller) -> Array:
    """Our matched filter as it stands after the first half: whitened by the noise up to there."""
    features = features_of(speller.recording)
    for number, _ in enumerate(flashes_of(speller, features), start=1):
        if number == len(labels):
            break
    whitener = features.whitener()
    template = vectors[labels].mean(axis=0) - vectors[~labels].mean(axis=0)
    weights: Array = whitener.T @ (whitener @ template)
    return weights


def _auc_row(
    speller: Speller, method: str, ours: bool, labels: NDArray[np.bool_], scores: Array
) -> Row:
    return row_of(
        list(zip(labels.tolist(), scores.tolist(), strict=True)),
        _auc,
        "flashes",
        track="erp",
        data=f"flashes of {speller.name}",
        method=method,
        ours=ours,
        measure="AUC",
        note="first half trains, second half tests",
    )


def _auc(pairs: Sequence[tuple[bool, float]]) -> float:
    """The share of (target, other) pairs in the right order; no score where one kind was not drawn."""
    labels, scores = (np.array(column) for column in zip(*pairs, strict=True))
    targets, others = int(labels.sum()), int((~labels).sum())
    if not targets or not others:
        return float("nan")
    above = float(rankdata(scores)[labels].sum()) - targets * (targets + 1) / 2
    return above / (targets * others)
