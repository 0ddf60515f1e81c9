"""Training: from labelled recordings to a model file with a cross-validated score.

Each block (or person) is left out once; a model of the rest decodes it packet by packet, and the
track's own rules judge the reports.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bci_stream.errors import SourceError, TruthError
from decoders.folds import Fold, judged_together, left_out
from decoders.model import Model, check_place, provenance, save_model
from decoders.offline import OfflineRun, run_offline, track_of
from decoders.registry import default_of, find_class, find_trainer, make
from replay.model.options import SourceOptions
from replay.model.source import Session
from replay.sources import open_source

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


def train(
    track: str,
    recordings: Sequence[str],
    out: str | Path,
    *,
    decoder: str | None = None,
    seed: int = 0,
    validate: bool = True,
    progress: ProgressCallback = lambda _share, _text: None,
) -> Trained:
    """Train the decoder on recordings (URIs) and write its model to `out`."""
    name = decoder or default_of(track)
    find_class(name, track)
    fit = find_trainer(name)
    check_place(Path(out))
    with _opened(track, recordings) as sessions:
        folds, note = left_out(track, sessions) if validate else ([], "not asked for")
        steps = len(folds) + 1
        runs = []
        for number, fold in enumerate(folds):
            part = _stage(progress, number / steps, f"without {fold.name}: ")
            try:
                runs.append(_held_out(track, name, fit, fold, seed, part))
            except TruthError as error:  # too little data left, or the track cannot judge it
                note = f"cross-validation failed: {error}"
        figure = _figure(track, runs, note)
        model = fit(sessions, seed=seed, progress=_stage(progress, len(folds) / steps, "all: "))
    origin = provenance(list(recordings), seed, figure=str(figure), folds=list(figure.folds))
    model = replace(model, provenance=origin)
    save_model(model, Path(out))
    progress(1.0, "done")
    return Trained(model, Path(out), figure)


def _held_out(
    track: str,
    name: str,
    fit: Callable[..., Model],
    fold: Fold,
    seed: int,
    part: Callable[[str], None],
) -> OfflineRun:
    """The part left out, decoded by a model of the rest."""
    model = fit(fold.training, seed=seed, progress=part)
    part("judging")
    decoder = make(find_class(name, track), name, {"model": model, "seed": seed})
    return run_offline(track, decoder, fold.test)


def _figure(track: str, runs: Sequence[OfflineRun], note: str) -> Figure:
    unit = track_of(track).unit
    if not runs:
        return Figure(None, unit, (), note)
    scores = tuple(judged_together(track, [run]) for run in runs)
    return Figure(judged_together(track, runs), unit, scores, note)


def _stage(progress: ProgressCallback, share: float, prefix: str) -> Callable[[str], None]:
    return lambda text: progress(share, prefix + text)


@contextmanager
def _opened(track: str, recordings: Sequence[str]) -> Iterator[list[Session]]:
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
) -> None:
    console = Console(stderr=True)
    with Progress(console=console) as bars:
        task = bars.add_task(f"training for {track}", total=1.0)
        trained = train(
            track,
            recordings,
            out,
            decoder=decoder,
            seed=seed,
            validate=validate,
            progress=lambda share, text: bars.update(task, completed=share, description=text),
        )
    console.print(f"on held-out data: {trained.figure}")
    console.print(f"model: {trained.path}")
