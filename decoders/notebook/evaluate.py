"""`bci_stream.evaluate`: a decoder over recordings in this process, judged by the track's rules."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from bci_stream.errors import SourceError
from decoders.adapters.estimators import load_pipeline
from decoders.adapters.online import Online, as_online
from decoders.adapters.pipeline import PipelineDecoder, is_fitted, pipeline_name
from decoders.decoder import Decoder, DecoderError
from decoders.model import load_model
from decoders.notebook.evaluation import Evaluation, offline_part
from decoders.notebook.recording import OpenedRecording, open_recording
from decoders.offline import run_offline, track_of
from decoders.registry import default_of, is_pipeline, load, make
from decoders.train import Recipe, cross_validate, pipeline_recipe, recipe_of
from replay.model.options import profile_rate
from replay.model.source import Session

CROSS_VALIDATION = "cv"


def evaluate(
    decoder: Any,
    recordings: Any,
    track: str | None = None,
    *,
    train: Any = None,
    model: str | PathLike[str] | None = None,
    seed: int = 0,
    rules: dict[str, object] | None = None,
    progress: bool = True,
    **options: Any,
) -> Evaluation:
    """Stream recordings through a decoder, packet by packet, and judge its reports.

    The decoder gets what a contest in lockstep would send it, and the score is that of
    `bci-judge run` with the same decoder and recordings, to the last digit.

    Parameters
    ----------
    decoder : str, class, object, estimator or None
        A name of `bci-decode list` or "module:Class"; a class or object with `start(info)` and
        `step(packet)`; an estimator with `fit(X, y)` and `predict(X)`, a torch module or
        `Online(estimator, ...)`, see docs/pipelines.md; or None for the track's default decoder.
    recordings : str, path-like, OpenedRecording, mne.io.Raw, moabb dataset, or a list of these
        What is played, one after the other: anything that `bci_stream.open` opens, or sessions of it.
    track : str, optional
        Which track; by default the one that the recordings name.
    train : recordings or "cv", optional
        Train the decoder on these recordings first. "cv": leave each block or person out once, train
        on the rest, and judge what was left out, as `bci-decode train` does; the default for an
        estimator that is not fitted.
    model : str or path-like, optional
        A model that `bci-decode train` wrote.
    seed : int
        Of the decoder and its training.
    rules : dict, optional
        Changes to the decided rules, as in a contest file.
    progress : bool
        Show a progress bar.
    **options
        Of the recordings, as in `bci_stream.open`.

    Returns
    -------
    evaluation : Evaluation
        `score`, `sessions`, `table()`, `plot_confusion()`, `plot_accuracy()`, `plot_trial()`.

    Raises
    ------
    BciError
        If a recording, the decoder or its model can't be used. What the decoder itself raises is
        raised as it is.

    Examples
    --------
    >>> import bci_stream as bci
    >>> result = bci.evaluate("mi-chance", "synthetic:mi?subjects=1&blocks=1&trials=4", progress=False)
    >>> result.track, len(result.verdicts), result.sessions[0]["answers"]
    ('mi', 4, 12)
    """
    with threadpool_limits(1):  # as in `bci-decode`: sums differ in the last digit with the threads
        return _evaluate(decoder, recordings, track, train, model, seed, rules, progress, options)


def _evaluate(
    decoder: Any,
    recordings: Any,
    track: str | None,
    train: Any,
    model: str | PathLike[str] | None,
    seed: int,
    rules: dict[str, object] | None,
    progress: bool,
    options: dict[str, Any],
) -> Evaluation:
    track = track or _common_track(recordings, options)
    rate = profile_rate(track_of(track).under(rules or {}))
    sessions = _sessions(recordings, track, options, rate)
    online = as_online(decoder)
    if online is None and isinstance(decoder, str) and is_pipeline(decoder):
        online = load_pipeline(decoder)
    name = _name(decoder, track) if online is None else online.__name__
    if online is not None and train is None and model is None and not is_fitted(online.estimator):
        train = CROSS_VALIDATION
    recipe = None if train is None else _recipe(decoder, online, track)
    if recipe is not None and model is not None:
        raise DecoderError(f"{name}: give train= or model=, not both")
    if recipe is not None and train == CROSS_VALIDATION:
        with progress_bar(1.0, f"{name}, parts left out", progress) as bar:
            runs, note = cross_validate(track, recipe, sessions, seed, _share(bar), rules)
        return Evaluation(name, list(map(offline_part, runs)), note)
    made = (
        _load(decoder, online, track, model, seed)
        if recipe is None
        else _trained(recipe, _sessions(train, track, {}, rate), name, seed, progress)
    )
    total = sum(session.n_samples or 0 for session in sessions)
    with progress_bar(total, f"{name} on {track}", progress) as bar:
        outcome = run_offline(track, made, sessions, rules, lambda packet: bar(packet.n))
    return Evaluation(name, [offline_part(outcome)])


def _trained(
    recipe: Recipe, sessions: Sequence[Session], name: str, seed: int, progress: bool
) -> Decoder:
    with progress_bar(1.0, f"{name}, training", progress) as bar:
        model = recipe.fit(sessions, seed=seed, progress=lambda _text: bar(0.0))
    return recipe.make(model, seed)


def _listed(recordings: Any) -> list[Any]:
    given = list(recordings) if isinstance(recordings, list | tuple) else [recordings]
    if not given:
        raise SourceError("no recording is given; name one or more")
    return given


def _sessions(
    recordings: Any, track: str, options: dict[str, Any], rate: float | None
) -> list[Session]:
    """The sessions of recordings; those that are opened here have `rate`, as a replay of a profile does."""
    return [
        session
        for given in _listed(recordings)
        for session in (
            [given] if _is_session(given) else _open(given, track, options, rate).sessions
        )
    ]


def _is_session(given: Any) -> bool:
    """Whether it is a session of a recording, `OpenedRecording.sessions` or one in memory."""
    return hasattr(given, "block_triggers") and hasattr(given, "packets")


def _open(
    given: Any, track: str | None, options: dict[str, Any], rate: float | None = None
) -> OpenedRecording:
    if not isinstance(given, OpenedRecording):
        options = options if rate is None else {"resample": rate, **options}
        return open_recording(given, track, **options)
    if options:
        raise SourceError(f"{given.uri} is open already: give {', '.join(options)} to open()")
    if track is not None and given.track != track:
        opened = f"for track {given.track}" if given.track else "without a track"
        raise SourceError(f"{given.uri} was opened {opened}: open it with track={track!r}")
    return given


def _common_track(recordings: Any, options: dict[str, Any]) -> str:
    """The track that all recordings name themselves."""
    listed = [None if _is_session(r) else _open(r, None, options) for r in _listed(recordings)]
    tracks = {None if opened is None else opened.track for opened in listed}
    named = tracks.pop() if len(tracks) == 1 else None
    if named is None:
        raise SourceError("the recordings name no track, or several: give track=")
    return named


def _name(decoder: Any, track: str) -> str:
    if decoder is None:
        return default_of(track)
    if isinstance(decoder, str | PathLike):
        return fspath(decoder)
    return str(getattr(decoder, "__name__", type(decoder).__name__))


def _recipe(decoder: Any, online: Online | None, track: str) -> Recipe:
    if online is not None:
        return pipeline_recipe(online, track)
    if decoder is None or isinstance(decoder, str):
        return recipe_of(decoder, track)
    raise DecoderError(
        f"{_name(decoder, track)} can't be trained here: give the name of a decoder that has a trainer"
    )


def _load(
    decoder: Any,
    online: Online | None,
    track: str,
    model: str | PathLike[str] | None,
    seed: int,
) -> Decoder:
    if online is not None and model is None:
        return PipelineDecoder.of_fitted(online, track)
    if online is not None:
        trained = load_model(Path(fspath(model or ""))).wanted_by(track, pipeline_name(track))
        return PipelineDecoder(trained, online=online)
    if decoder is None or isinstance(decoder, str):
        return load(decoder, track, None if model is None else Path(model), seed)
    if model is not None:
        raise DecoderError("model= is for a decoder that is given by its name")
    if inspect.isclass(decoder):
        takes_seed = "seed" in inspect.signature(decoder).parameters
        return make(decoder, decoder.__name__, {"seed": seed} if takes_seed else {})
    for method in ("start", "step"):
        if not callable(getattr(decoder, method, None)):
            raise DecoderError(
                f"{decoder!r:.80} is no decoder: it has no method {method}(); a decoder has "
                "start(info) and step(packet)"
            )
    made: Decoder = decoder
    return made


def _share(bar: Callable[[float], None]) -> Callable[[float, str], None]:
    """A callback of (share done, text) that advances a bar from 0 to 1."""
    done = 0.0

    def advance(share: float, _text: str) -> None:
        nonlocal done
        bar(share - done)
        done = share

    return advance


@contextmanager
def progress_bar(total: float, title: str, shown: bool) -> Iterator[Callable[[float], None]]:
    """A bar of tqdm, which MNE brings: widgets in a notebook, text elsewhere; removed at the end."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # without ipywidgets tqdm warns and draws text
        from tqdm.auto import tqdm

        bar = tqdm(
            total=total,
            desc=title,
            disable=not shown,
            leave=False,
            bar_format="{l_bar}{bar}| {elapsed}<{remaining}",
        )
    with bar:
        yield bar.update
