"""Motor imagery on real recordings, streamed causally, beside re-centred references.

Two ways of leaving out, for everybody: a session of the person (the person's other sessions train),
and the person (other people of the same kind train; the person shows no label at all).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from decoders.dsp import Array
from decoders.mi import training
from decoders.mi.decoder import MiDecoder
from decoders.mi.references import CspLda, Mdm, TangentSpaceLr, TangentSpaceSvm
from decoders.model import Model
from decoders.offline import OfflineRun, run_offline
from replay.model.source import Session
from scripts.bench.recordings.augmented import AugmentedSvm
from scripts.bench.recordings.files import rows_of_each
from scripts.bench.recordings.imagery import ImageryPerson, imagery_people
from scripts.bench.table import Row, mean, row_of
from tracks.common.verdicts import Verdict
from tracks.mi import CLASSES, score

OURS = "mi-riemann"
METHODS: dict[str, tuple[Any, Any]] = {
    OURS: (training.fit, MiDecoder),
    "CSP+LDA, re-centred": (CspLda.fit, CspLda),
    "MDM, re-centred": (Mdm.fit, Mdm),
    "TS+LR, re-centred": (TangentSpaceLr.fit, TangentSpaceLr),
    "TS+SVM, re-centred": (TangentSpaceSvm.fit, TangentSpaceSvm),
    "ACM+TS+SVM, re-centred": (AugmentedSvm.fit, AugmentedSvm),
}
RIGHT = "right at 2, 3, 4 s"
BINS = ((0.0, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.0))
"""Of the best class's probability, for the reliability."""


def run(data_dir: Path) -> Iterator[Row]:
    """Rows for everybody in the layouts of `imagery_people`."""
    people = imagery_people(data_dir)

    def rows_of(person: ImageryPerson) -> list[Row]:
        others = [o for o in people if o.kind == person.kind and o.name != person.name]
        found = _rows(person, "own other sessions train", _own_folds(person))
        if others:
            fold = ([s for o in others for s in o.sessions], list(person.sessions))
            found += _rows(person, "other people train", [fold])
        return found

    return rows_of_each(people, lambda person: person.name, rows_of)


Folds = list[tuple[list[Session], list[Session]]]
"""(training, test) sessions."""


def _own_folds(person: ImageryPerson) -> Folds:
    every = list(person.sessions)
    return [([*every[:k], *every[k + 1 :]], [every[k]]) for k in range(len(every))]


def _rows(person: ImageryPerson, how: str, folds: Folds) -> list[Row]:
    rows = []
    for method, (fit, decoder_class) in METHODS.items():
        outcomes: list[OfflineRun] = []
        seen: list[Array] = []
        for sessions, test in folds:
            model: Model = fit(sessions, seed=0, progress=lambda _: None)
            decoder = decoder_class(model=model, **_watching(method, seen))
            outcomes.append(run_offline("mi", decoder, test))
        rows.append(_method_row(f"{person.kind} {person.name}", how, method, outcomes))
        if method == OURS:
            classes = [CLASSES[int(c)] for c in _classes(folds)]
            rows.append(_calibration(rows[0].data, how, outcomes, seen, classes))
    return rows


def _watching(method: str, seen: list[Array]) -> dict[str, Any]:
    """Ours also shows its probabilities."""
    return {"watch": lambda _number, scores: seen.append(scores)} if method == OURS else {}


def _classes(folds: Folds) -> list[int]:
    return sorted(
        {
            code // 10
            for session in folds[0][0]
            for _, triggers in session.block_triggers() or ()
            for _, code in triggers
            if 11 <= code <= 33
        }
    )


def _method_row(data: str, how: str, method: str, outcomes: Sequence[OfflineRun]) -> Row:
    verdicts = [verdict for outcome in outcomes for verdict in outcome.run.verdicts()]
    common: dict[str, Any] = {
        "track": "mi",
        "data": data,
        "method": method,
        "ours": method == OURS,
        "compute_s": np.concatenate([outcome.compute_s for outcome in outcomes]).tolist(),
    }
    at = ", ".join(f"{p:.2f}" for p in _shares(verdicts))
    note = f"at 2, 3, 4 s: {at}; {score(verdicts):.1f} bits/min if of three classes"
    shares = [float(np.mean(verdict.right)) for verdict in verdicts]
    return row_of(shares, mean, "trials", measure=f"{RIGHT}, {how}", note=note, **common)


def _calibration(
    data: str, how: str, outcomes: Sequence[OfflineRun], seen: Sequence[Array], classes: list[str]
) -> Row:
    """Log likelihood of the class in every report, in nats above chance, and the reliability."""
    verdicts = [verdict for outcome in outcomes for verdict in outcome.run.verdicts()]
    truth = np.repeat([classes.index(str(verdict.label)) for verdict in verdicts], 3)
    logs = np.array(seen)
    gains = logs[np.arange(len(truth)), truth] + np.log(len(classes))
    best, right = np.exp(logs.max(axis=1)), logs.argmax(axis=1) == truth
    parts = []
    for low, high in BINS:
        inside = (best > low) & (best <= high)
        if inside.any():
            parts.append(f"{best[inside].mean():.2f}:{right[inside].mean():.2f}")
    return row_of(
        gains.tolist(),
        mean,
        "reports",
        track="mi",
        data=data,
        method=OURS,
        ours=True,
        measure=f"nats gained over chance, {how}",
        note=f"probability:share right {' '.join(parts)}",
    )


def _shares(verdicts: Sequence[Verdict]) -> list[float]:
    return [float(np.mean([verdict.right[k] for verdict in verdicts])) for k in range(3)]
