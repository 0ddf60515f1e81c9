"""Spelling on real recordings: letters and sequences of 6x6 runs, single-flash AUC of both kinds.

6x6: without a label, as the contest asks, and trained on the run's other letters beside xDAWN+LDA that
was trained on the same. AUC: templates and classifiers learn from the first half of the flashes and are
tested on the second; features and their noise come from the same causal stream.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _bench_row import Row
from _bench_stats import bootstrap
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from bci_stream.packet import Lead
from decoders.covariance import Array
from decoders.erp import ErpDecoder
from decoders.erp_reference import XdawnLda, xdawn_lda
from decoders.erp_training import features_of, fit, labelled_flashes
from decoders.flashes import FlashFeatures
from decoders.layout import Layout
from decoders.offline import OfflineRun, run_offline
from replay.recording import ArrayBlock, Recording
from tracks.erp import SEQUENCE_END, SEQUENCES, TARGETS, score


@dataclass(frozen=True)
class Speller:
    """A labelled recording and its groups (None: its triggers are 1 non-target, 2 target)."""

    name: str
    recording: Recording
    groups: tuple[str, ...] | None


def run(data_dir: Path) -> list[Row]:
    """Rows for every .npz in data_dir/p300."""
    rows: list[Row] = []
    for path in sorted((data_dir / "p300").glob("*.npz")):
        speller = read(path)
        if speller.groups is not None:
            for most in sorted({SEQUENCES, _most_sequences(speller)}):
                rows += letters(speller, most)
        rows += flash_auc(speller)
    return rows


def read(path: Path) -> Speller:
    """data (leads + trigger, samples), rate, ch_names; groups where it is a speller."""
    with np.load(path) as file:
        data, rate = file["data"], float(file["rate"])
        names = [str(name) for name in file["ch_names"][:-1]]
        groups = tuple(str(g) for g in file["groups"]) if "groups" in file.files else None
    codes = data[-1].astype(int)
    triggers = tuple((int(place), int(codes[place])) for place in np.flatnonzero(codes))
    block = ArrayBlock(np.ascontiguousarray(data[:-1].T, dtype=np.float32), triggers)
    leads = tuple(Lead(name) for name in names)
    return Speller(path.stem, Recording(path.stem, rate, leads, [block]), groups)


def letters(speller: Speller, most: int) -> list[Row]:
    """Letters right, and the sequences that each took, of at most so many."""
    ours = ErpDecoder(groups=speller.groups, max_sequences=most)
    untrained = [run_offline("erp", ours, [speller.recording])]
    return [
        _letters_row(speller, most, "erp-umm, no label", True, untrained),
        _letters_row(
            speller, most, "erp-umm, trained", True, _trained(speller, most, fit, ErpDecoder)
        ),
        _letters_row(
            speller,
            most,
            "xDAWN+LDA, trained",
            False,
            _trained(speller, most, XdawnLda.fit, XdawnLda),
        ),
    ]


def _trained(speller: Speller, most: int, train: Any, decoder_class: Any) -> list[OfflineRun]:
    """Each letter by a decoder that was trained on the run's other letters."""
    outcomes = []
    numbers = range(_n_letters(speller))
    for left_out in numbers:
        others = _letters_only(speller, [k for k in numbers if k != left_out])
        model = train([others], seed=0, progress=lambda _: None, groups=speller.groups)
        decoder = decoder_class(model=model, groups=speller.groups, max_sequences=most)
        outcomes.append(run_offline("erp", decoder, [_letters_only(speller, [left_out])]))
    return outcomes


def _most_sequences(speller: Speller) -> int:
    codes = [code for _, code in speller.recording.blocks[0].triggers]
    return max(1, codes.count(SEQUENCE_END) // max(1, _n_letters(speller)))


def _sequences_used(outcome: OfflineRun) -> Iterator[int]:
    """Of each report: the sequences that had ended."""
    ended = 0
    for event in outcome.events:
        for _, code in event.get("triggers", ()):
            ended = 0 if code in TARGETS else ended + (code == SEQUENCE_END)
        if event["kind"] == "report":
            yield ended


def _n_letters(speller: Speller) -> int:
    return sum(code in TARGETS for _, code in speller.recording.blocks[0].triggers)


def _letters_only(speller: Speller, kept_letters: Sequence[int]) -> Recording:
    """The same signal with the triggers of some letters only."""
    number = -1
    kept = []
    for place, code in speller.recording.blocks[0].triggers:
        number += code in TARGETS
        if number < 0 or number in kept_letters:
            kept.append((place, code))
    block = ArrayBlock(
        speller.recording.blocks[0].read(0, speller.recording.blocks[0].n_samples), tuple(kept)
    )
    return Recording(
        speller.recording.subject, speller.recording.rate, speller.recording.leads, [block]
    )


def _letters_row(
    speller: Speller, most: int, method: str, ours: bool, outcomes: Sequence[OfflineRun]
) -> Row:
    right = [v.right[0] for outcome in outcomes for v in outcome.run.verdicts()]
    used = [n for outcome in outcomes for n in _sequences_used(outcome)]
    compute_ms = 1e3 * np.concatenate([outcome.compute_s for outcome in outcomes])
    low, high = bootstrap(right, _share)
    return Row(
        track="erp",
        data=f"6x6 {speller.name}, at most {most} sequences",
        method=method,
        ours=ours,
        measure="letters right",
        score=_share(right),
        low=low,
        high=high,
        spread="95 % bootstrap over letters",
        n=len(right),
        mean_ms=float(compute_ms.mean()),
        worst_ms=float(compute_ms.max()),
        note=f"sequences {' '.join(map(str, used))}, mean {np.mean(used):.1f}; "
        f"{score([v for o in outcomes for v in o.run.verdicts()]):.1f} bits/min by the track",
    )


def _share(right: Sequence[bool]) -> float:
    return float(np.mean(right))


def flash_auc(speller: Speller) -> list[Row]:
    """How well single flashes are told apart."""
    features = features_of(speller.recording)
    told = list(_flashes(speller, features))
    labels = np.array([target for target, _ in told])
    vectors = np.array([vector for _, vector in told])
    half = len(labels) // 2
    n_leads = len(features.places)
    reference, _, _ = xdawn_lda(vectors[:half], labels[:half], n_leads)
    ours = template_weights(vectors[:half], labels[:half], speller)
    return [
        _auc_row(speller, name, weights is ours, labels[half:], vectors[half:] @ weights)
        for name, weights in (("erp-umm (template)", ours), ("xDAWN+LDA", reference))
    ]


def template_weights(vectors: Array, labels: NDArray[np.bool_], speller: Speller) -> Array:
    """Our matched filter as it stands after the first half: whitened by the noise up to there."""
    features = features_of(speller.recording)
    for number, _ in enumerate(_flashes(speller, features), start=1):
        if number == len(labels):
            break
    whitener = features.whitener()
    template = vectors[labels].mean(axis=0) - vectors[~labels].mean(axis=0)
    weights: Array = whitener.T @ (whitener @ template)
    return weights


def _flashes(speller: Speller, features: FlashFeatures[int]) -> "Sequence[tuple[bool, Array]]":
    if speller.groups is not None:
        return list(labelled_flashes(speller.recording, features, Layout(speller.groups)))
    return _marked_flashes(speller.recording, features)


def _marked_flashes(
    recording: Recording, features: FlashFeatures[int]
) -> "Sequence[tuple[bool, Array]]":
    """Triggers 1 non-target, 2 target."""
    found: list[tuple[bool, Array]] = []
    for packet in recording.packets(round(recording.rate)):
        done, tag = 0, None
        for offset, code in packet.triggers:
            found += [(bool(t), v) for t, v in features.feed(packet.samples[done:offset], tag)]
            done, tag = offset, code - 1 if code in (1, 2) else None
        found += [(bool(t), v) for t, v in features.feed(packet.samples[done:], tag)]
    return found


def _auc_row(
    speller: Speller, method: str, ours: bool, labels: NDArray[np.bool_], scores: Array
) -> Row:
    pairs = list(zip(labels.tolist(), scores.tolist(), strict=True))
    low, high = bootstrap(pairs, _auc)
    return Row(
        track="erp",
        data=f"flashes of {speller.name}",
        method=method,
        ours=ours,
        measure="AUC",
        score=_auc(pairs),
        low=low,
        high=high,
        spread="95 % bootstrap over flashes",
        n=len(pairs),
        note="first half trains, second half tests",
    )


def _auc(pairs: Sequence[tuple[bool, float]]) -> float:
    labels, scores = zip(*pairs, strict=True)
    return float(roc_auc_score(labels, scores))
