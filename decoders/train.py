"""Training: from labelled recordings to a model file with a cross-validated score.

Each block (or person) is left out once; a model of the rest decodes it packet by packet, and the
track's own rules judge the reports.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress

from bci_stream.errors import SourceError, TruthError
from decoders.decoder import Decoder
from decoders.folds import Fold, judged_together, left_out
from decoders.model import Model, check_place, provenance, save_model
from decoders.offline import OfflineRun, run_offline, track_of
from decoders.registry import default_of, find_class, find_trainer, make
from replay.model.options import SourceOptions
from replay.model.source import Session
from replay.sources import open_source

if TYPE_CHECKING:
    from decoders.adapters.online import Online

ProgressCallback = Callable[[float, str], None]
"""(share done from 0 to 1, current step)"""


@dataclass(frozen=True)
class Figure:
    """The cross-validated score. score: of all folds together; folds: of each. note: how the folds
    were made, or why there is no score."""

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
    """The result of `train`."""

    model: Model
    path: Path
    figure: Figure


@dataclass(frozen=True)
class Recipe:
    """How a decoder is trained and made.

    fit: `fit(sessions, *, seed, progress) -> Model`. make: a decoder of a model and a seed.
    """

    fit: Callable[..., Model]
    make: Callable[[Model, int], Decoder]


def recipe_of(decoder: str | None, track: str) -> Recipe:
    """The recipe of a decoder of the registry. Raises DecoderError if it can't be trained."""
    name = decoder or default_of(track)
    decoder_class = find_class(name, track)
    return Recipe(
        find_trainer(name),
        lambda model, seed: make(decoder_class, name, {"model": model, "seed": seed}),
    )


def pipeline_recipe(online: "Online", track: str, *, trust: bool = False) -> Recipe:
    """The recipe of an estimator (`decoders.adapters`). Raises DecoderError for a track without adapters."""
    from decoders.adapters.pipeline import PipelineDecoder
    from decoders.adapters.training import fit_pipeline

    online.plan(track)
    return Recipe(
        lambda sessions, *, seed, progress: fit_pipeline(
            online, track, sessions, seed=seed, progress=progress, trust=trust
        ),
        # It was fitted in this process, so there is nothing to distrust.
        lambda model, seed: PipelineDecoder(model, seed, online=online, trust=True),
    )


def train(
    track: str,
    recordings: Sequence[str],
    out: str | Path,
    *,
    decoder: str | None = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    validate: bool = True,
    progress: ProgressCallback = lambda _share, _text: None,
) -> Trained:
    """Train the decoder, or the recipe, on recordings (URIs) and write its model to `out`."""
    recipe = recipe or recipe_of(decoder, track)
    check_place(Path(out))
    with opened_sessions(track, recordings) as sessions:
        runs: list[OfflineRun] = []
        note = "not asked for"
        if validate:
            runs, note = cross_validate(
                track, recipe, sessions, seed, lambda s, text: progress(0.8 * s, text)
            )
        figure = figure_of(track, runs, note)
        model = recipe.fit(sessions, seed=seed, progress=_stage(progress, 0.8, "all: "))
    origin = provenance(list(recordings), seed, figure=str(figure), folds=list(figure.folds))
    model = replace(model, provenance=origin)
    save_model(model, Path(out))
    progress(1.0, "done")
    return Trained(model, Path(out), figure)


def cross_validate(
    track: str,
    recipe: Recipe,
    sessions: Sequence[Session],
    seed: int = 0,
    progress: ProgressCallback = lambda _share, _text: None,
    rules: dict[str, object] | None = None,
) -> tuple[list[OfflineRun], str]:
    """A run of each part that is left out, by a model of the rest; and how the parts were made.

    rules: what a contest changes of the track's.
    """
    folds, note = left_out(track, sessions)
    runs = []
    for number, fold in enumerate(folds):
        part = _stage(progress, number / len(folds), f"without {fold.name}: ")
        try:
            runs.append(_held_out(track, recipe, fold, seed, part, rules))
        except TruthError as error:  # too little data left, or the track cannot judge it
            note = f"cross-validation failed: {error}"
    return runs, note


def _held_out(
    track: str,
    recipe: Recipe,
    fold: Fold,
    seed: int,
    part: Callable[[str], None],
    rules: dict[str, object] | None,
) -> OfflineRun:
    """The part left out, decoded by a model of the rest."""
    model = recipe.fit(fold.training, seed=seed, progress=part)
    part("judging")
    return run_offline(track, recipe.make(model, seed), fold.test, rules)


def figure_of(track: str, runs: Sequence[OfflineRun], note: str) -> Figure:
    """The score of all parts that were left out, and of each."""
    unit = track_of(track).unit
    if not runs:
        return Figure(None, unit, (), note)
    scores = tuple(judged_together([run]) for run in runs)
    return Figure(judged_together(runs), unit, scores, note)


def _stage(progress: ProgressCallback, share: float, prefix: str) -> Callable[[str], None]:
    return lambda text: progress(share, prefix + text)


@contextmanager
def opened_sessions(track: str, recordings: Sequence[str]) -> Iterator[list[Session]]:
    """The sessions of labelled recordings, fitted to the track as the wire carries them."""
    with ExitStack() as stack:
        sessions: list[Session] = []
        for uri in recordings:
            source = open_source(uri, SourceOptions(track=track))  # as the wire carries it
            stack.callback(source.close)
            if source.live:
                raise SourceError(f"{uri}: a live device has no labels to train on")
            if source.track not in (None, track):
                raise SourceError(f"{uri}: it is for track {source.track}, not {track}")
            sessions += source.sessions()
        if not sessions:
            raise SourceError(f"{', '.join(recordings)}: there is no session in it")
        yield sessions


def train_with_progress(
    track: str,
    recordings: tuple[str, ...],
    decoder: str | None,
    out: Path,
    seed: int,
    *,
    validate: bool,
    recipe: Recipe | None = None,
) -> None:
    console = Console(stderr=True)
    with Progress(console=console) as bars:
        task = bars.add_task(f"training for {track}", total=1.0)
        trained = train(
            track,
            recordings,
            out,
            decoder=decoder,
            recipe=recipe,
            seed=seed,
            validate=validate,
            progress=lambda share, text: bars.update(task, completed=share, description=text),
        )
    console.print(f"on held-out data: {trained.figure}")
    console.print(f"model: {trained.path}")
