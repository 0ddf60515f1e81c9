"""Training: from labelled recordings to a model file, with a figure earned on held-out data.

The figure is the track's own score: each block (or person) is left out once, a model is trained on
the rest, and the part left out is streamed through the decoder, packet by packet, and judged.
"""

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bci_stream.errors import SourceError, TruthError
from decoders.model import Model, provenance, save_model
from decoders.offline import run_offline, track_of
from decoders.registry import DecoderError, default_of, find_class, make
from decoders.session_part import SessionPart, n_blocks
from replay.source import Session
from replay.uri import open_source

Progress = Callable[[float, str], None]
"""(share done from 0 to 1, what is being done)"""

TRAINERS: dict[str, str] = {
    "erp-umm": "decoders.erp_training:fit",
    "erp-xdawn": "decoders.erp_reference:XdawnLda.fit",
    "mi-riemann": "decoders.mi_training:fit",
    "mi-csp": "decoders.references:CspLda.fit",
    "mi-mdm": "decoders.references:Mdm.fit",
    "mi-ts": "decoders.references:TangentSpaceLr.fit",
    "turing-phase": "decoders.turing:fit",
    "emotion-de": "decoders.emotion_training:fit",
    "ecog-ridge": "decoders.ecog_training:fit",
}
"""What trains each decoder: fit(recordings, *, seed, progress) -> Model."""

ACROSS_PEOPLE = ("erp", "emotion")
"""Tracks that test on people who were not trained on: there a person is left out."""


MAX_FOLDS = 5


@dataclass(frozen=True)
class Figure:
    """score: the mean over the parts left out. note: in words, or why there is no figure."""

    score: float | None
    unit: str
    folds: tuple[float, ...]
    note: str

    def __str__(self) -> str:
        if self.score is None:
            return f"no figure: {self.note}"
        spread = f"{min(self.folds):.2f} to {max(self.folds):.2f}"
        return f"{self.score:.2f} {self.unit} ({self.note}; {spread} over {len(self.folds)} parts)"


@dataclass(frozen=True)
class Trained:
    """What `train` leaves behind."""

    model: Model
    path: Path
    figure: Figure


@dataclass(frozen=True)
class Fold:
    """train on some sessions, test on others."""

    name: str
    training: list[Session]
    test: list[Session]


def train(
    track: str,
    recordings: Sequence[str],
    out: str | Path,
    *,
    decoder: str | None = None,
    seed: int = 0,
    validate: bool = True,
    progress: Progress = lambda _share, _text: None,
) -> Trained:
    """Train the decoder on recordings (URIs) and write its model to `out`."""
    name = decoder or default_of(track)
    find_class(name, track)
    fit = trainer(name)
    with _opened(track, recordings) as sessions:
        folds, note = left_out(track, sessions) if validate else ([], "not asked for")
        steps = len(folds) + 1
        scores = []
        for number, fold in enumerate(folds):
            part = _stage(progress, number / steps, f"without {fold.name}: ")
            scores.append(_score(track, name, fit, fold, seed, part))
        figure = _figure(track, scores, note)
        model = fit(sessions, seed=seed, progress=_stage(progress, len(folds) / steps, "all: "))
    origin = provenance(list(recordings), seed, figure=str(figure), folds=scores)
    model = replace(model, provenance=origin)
    save_model(model, Path(out))
    progress(1.0, "done")
    return Trained(model, Path(out), figure)


def trainer(name: str) -> Callable[..., Model]:
    """The function that trains a decoder."""
    if name not in TRAINERS:
        raise DecoderError(
            f"decoder {name}: it can't be trained here; those that can: {', '.join(TRAINERS)}"
        )
    module_name, _, path = TRAINERS[name].partition(":")
    found: Any = importlib.import_module(module_name)
    for part in path.split("."):
        found = getattr(found, part)
    fit: Callable[..., Model] = found
    return fit


def left_out(track: str, sessions: Sequence[Session]) -> tuple[list[Fold], str]:
    """How to leave a part out each time, and in words what is left out."""
    people = sorted({session.subject for session in sessions})
    if track in ACROSS_PEOPLE and len(people) > 1:
        return [_without_person(sessions, person) for person in people], "a person left out"
    parts = [
        (place, block)
        for place, session in enumerate(sessions)
        for block in range(n_blocks(session))
    ]
    if len(parts) < 2:
        return [], "one block of one person: nothing can be left out"
    n_folds = min(len(parts), MAX_FOLDS)
    folds = [_without_blocks(sessions, parts[k::n_folds]) for k in range(n_folds)]
    return folds, "a block left out" if n_folds == len(parts) else f"1/{n_folds} of the blocks out"


def _without_person(sessions: Sequence[Session], person: str) -> Fold:
    return Fold(
        person,
        [session for session in sessions if session.subject != person],
        [session for session in sessions if session.subject == person],
    )


def _without_blocks(sessions: Sequence[Session], out: Sequence[tuple[int, int]]) -> Fold:
    """out: (place of a session, block of it)."""
    training: list[Session] = []
    test: list[Session] = []
    for place, whole in enumerate(sessions):
        tested = tuple(block for where, block in out if where == place)
        kept = tuple(block for block in range(n_blocks(whole)) if block not in tested)
        training += [SessionPart(whole, kept)] if kept else []
        test += [SessionPart(whole, tested)] if tested else []
    name = ", ".join(f"block {block} of {sessions[place].subject}" for place, block in out[:2])
    return Fold(name + (", ..." if len(out) > 2 else ""), training, test)


def _score(
    track: str,
    name: str,
    fit: Callable[..., Model],
    fold: Fold,
    seed: int,
    part: Callable[[str], None],
) -> float | None:
    """None where the recording's labels are not of the kind that the track judges."""
    model = fit(fold.training, seed=seed, progress=part)
    part("judging")
    decoder = make(find_class(name, track), name, {"model": model, "seed": seed})
    try:
        return run_offline(track, decoder, fold.test).score
    except TruthError:
        return None


def _figure(track: str, scores: Sequence[float | None], note: str) -> Figure:
    unit = track_of(track).unit
    known = [score for score in scores if score is not None]
    if scores and not known:
        note = "these recordings train a part of the task only, which the track does not score"
    if not known:
        return Figure(None, unit, (), note)
    return Figure(float(np.mean(known)), unit, tuple(known), note)


def _stage(progress: Progress, share: float, prefix: str) -> Callable[[str], None]:
    return lambda text: progress(share, prefix + text)


@contextmanager
def _opened(track: str, recordings: Sequence[str]) -> Iterator[list[Session]]:
    with ExitStack() as stack:
        sessions: list[Session] = []
        for uri in recordings:
            source = open_source(uri)
            stack.callback(source.close)
            if source.live:
                raise SourceError(f"{uri}: a live device has no labels to train on")
            if source.track not in (None, track):
                raise SourceError(f"{uri}: it is for track {source.track}, not {track}")
            sessions += source.sessions()
        if not sessions:
            raise SourceError(f"{', '.join(recordings)}: there is no session in it")
        yield sessions
