"""The decoders by name: the shipped ones, those of installed packages, and any module:Class.

A shipped decoder is one line in DECODERS. Another package adds its own with the entry point group
`bci_stream.decoders`: the name of the entry point is the decoder's name, its object a `DecoderEntry`.
"""

import importlib
import inspect
import logging
import os
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from bci_stream.cli import PACKAGES
from bci_stream.errors import BciError
from decoders.decoder import Decoder, DecoderError, format_exception
from decoders.model import Model, load_model
from tracks.registry import TRACKS

logger = logging.getLogger(__name__)

GROUP = "bci_stream.decoders"


class DecoderEntry(NamedTuple):
    """One decoder of the registry.

    path, trainer: "module:name", imported when used. trainer: a function
    `fit(recordings, *, seed, progress) -> Model`, or None where there is nothing to train.
    """

    track: str
    path: str
    about: str
    trainer: str | None = None


_ERP, _MI = "decoders.erp", "decoders.mi"

DECODERS: dict[str, DecoderEntry] = {
    "erp-bayes": DecoderEntry(
        "erp",
        f"{_ERP}.decoder:BayesDecoder",
        "variational Bayes without labels, stops by expected score",
        f"{_ERP}.training:fit",
    ),
    "erp-umm": DecoderEntry(
        "erp",
        f"{_ERP}.umm:UmmDecoder",
        "mean-difference maximisation; a patent application is on file",
        f"{_ERP}.umm:fit",
    ),
    "erp-xdawn": DecoderEntry(
        "erp",
        f"{_ERP}.references:XdawnLda",
        "reference: xDAWN + LDA, trained",
        f"{_ERP}.references:XdawnLda.fit",
    ),
    "erp-chance": DecoderEntry(
        "erp", "decoders.chance:ErpChance", "a random character after one sequence"
    ),
    "mi-riemann": DecoderEntry(
        "mi",
        f"{_MI}.decoder:MiDecoder",
        "filter bank, tangent space, re-centred without labels",
        f"{_MI}.training:fit",
    ),
    "mi-csp": DecoderEntry(
        "mi",
        f"{_MI}.references:CspLda",
        "reference: CSP + LDA, trained",
        f"{_MI}.references:CspLda.fit",
    ),
    "mi-mdm": DecoderEntry(
        "mi",
        f"{_MI}.references:Mdm",
        "reference: minimum distance to mean, trained",
        f"{_MI}.references:Mdm.fit",
    ),
    "mi-ts": DecoderEntry(
        "mi",
        f"{_MI}.references:TangentSpaceLr",
        "reference: tangent space + LR, trained",
        f"{_MI}.references:TangentSpaceLr.fit",
    ),
    "mi-svm": DecoderEntry(
        "mi",
        f"{_MI}.references:TangentSpaceSvm",
        "reference: tangent space + SVM, trained",
        f"{_MI}.references:TangentSpaceSvm.fit",
    ),
    "mi-chance": DecoderEntry("mi", "decoders.chance:MiChance", "three random classes a trial"),
    "turing-phase": DecoderEntry(
        "turing",
        "decoders.turing.decoder:TuringDecoder",
        "SSVEP by phase, MI, stops early",
        "decoders.turing.decoder:fit",
    ),
    "turing-chance": DecoderEntry(
        "turing", "decoders.chance:TuringChance", "a random task after a second"
    ),
    "emotion-de": DecoderEntry(
        "emotion",
        "decoders.emotion.decoder:EmotionDecoder",
        "differential entropy, normalised causally",
        "decoders.emotion.training:fit",
    ),
    "emotion-chance": DecoderEntry(
        "emotion", "decoders.chance:EmotionChance", "a random class a second"
    ),
    "ecog-ridge": DecoderEntry(
        "ecog",
        "decoders.ecog.decoder:EcogDecoder",
        "band powers and LMP with lags, ridge, smoothed",
        "decoders.ecog.training:fit",
    ),
    "ecog-chance": DecoderEntry("ecog", "decoders.chance:EcogConstant", "eight constant angles"),
    **{
        f"{track}-pipeline": DecoderEntry(
            track,
            "decoders.adapters.pipeline:PipelineDecoder",
            "your own estimator, trained by `train --pipeline`",
        )
        for track in ("mi", "turing", "emotion", "ecog", "erp")
    },
}

PIPELINE_FILES = (".py", ".skops", ".yml", ".yaml", ".pkl", ".pickle", ".joblib")
"""A decoder that is named by such a file is an estimator (`decoders.adapters.estimators`)."""


def entries() -> dict[str, DecoderEntry]:
    """All decoders by name, shipped and installed; a broken entry point is logged and left out."""
    found = dict(DECODERS)
    for point in metadata.entry_points(group=GROUP):
        try:
            found.setdefault(point.name, _load_entry(point))
        except DecoderError as error:
            logger.warning("%s", error)
    return found


def entry_of(name: str) -> DecoderEntry | None:
    """The entry of one name, or None. Raises DecoderError if it is a broken entry point."""
    if name in DECODERS:
        return DECODERS[name]
    installed = metadata.entry_points(group=GROUP, name=name)
    return next(map(_load_entry, installed), None)


def _load_entry(point: metadata.EntryPoint) -> DecoderEntry:
    problem = f"decoder {point.name}, from the entry point {point.value!r} of the group {GROUP}"
    try:
        entry = point.load()
    except Exception as error:  # another package's code may raise anything
        raise DecoderError(
            f"{problem}, can't be imported: {format_exception(error)}. "
            "Repair or uninstall the package that brings it."
        ) from error
    if not isinstance(entry, DecoderEntry):
        raise DecoderError(f"{problem}, must be a DecoderEntry; got {entry!r:.80}")
    return entry


def names(track: str | None = None) -> list[str]:
    """The names of the decoders, of one track or of all."""
    return [name for name, entry in entries().items() if track in (None, entry.track)]


def default_of(track: str) -> str:
    """The name of the track's default decoder."""
    if track not in TRACKS:
        raise DecoderError(f"unknown track {track!r}; choose one of {', '.join(TRACKS)}")
    return TRACKS[track].default_decoder


def load(
    name: str | None,
    track: str,
    model_path: str | os.PathLike[str] | None = None,
    seed: int = 0,
) -> Decoder:
    """Make a decoder: `name` is one of `names(track)`, module:Class, or None for the default."""
    name = name or default_of(track)
    if is_pipeline(name):
        from decoders.adapters.pipeline import load_pipeline_decoder

        return load_pipeline_decoder(name, track, None if model_path is None else Path(model_path))
    decoder_class = find_class(name, track)
    arguments: dict[str, object] = {}
    accepted = _keywords(decoder_class)
    if "seed" in accepted:
        arguments["seed"] = seed
    if model_path is not None:
        if "model" not in accepted:
            raise DecoderError(f"decoder {name} takes no model; leave --model out")
        model = load_model(Path(model_path))
        arguments["model"] = model if ":" in name else model.wanted_by(track, name)
    return make(decoder_class, name, arguments)


def is_pipeline(name: str) -> bool:
    """Whether a name is that of an estimator in a file: my.py:clf, my.skops, my.yml."""
    file = name.rpartition(":")[0] or name
    return file.lower().endswith(PIPELINE_FILES)


def find_class(name: str, track: str | None = None) -> type:
    """The class of a name or module:Class. Raises DecoderError if it is for another track."""
    if ":" in name:
        _search_working_directory()
        return _import_class(name)
    entry = entry_of(name)
    if entry is None:
        raise DecoderError(
            f"unknown decoder {name!r}; give module:Class, or one of: {', '.join(names(track))}"
        )
    if track not in (None, entry.track):
        raise DecoderError(
            f"decoder {name} is for track {entry.track}, not {track}; "
            f"for {track} there are: {', '.join(names(track))}"
        )
    return _import_class(entry.path)


def find_trainer(name: str) -> Callable[..., Model]:
    """The function fit(recordings, *, seed, progress) -> Model that trains a decoder."""
    entry = None if ":" in name else entry_of(name)
    if entry is None or entry.trainer is None:
        trainable = [each for each, entry in entries().items() if entry.trainer is not None]
        raise DecoderError(f"decoder {name} can't be trained; choose one of {', '.join(trainable)}")
    module_name, _, attributes = entry.trainer.partition(":")
    found: Any = importlib.import_module(module_name)
    for attribute in attributes.split("."):
        found = getattr(found, attribute)
    fit: Callable[..., Model] = found
    return fit


def make(decoder_class: type, name: str, arguments: dict[str, object]) -> Decoder:
    """Construct the decoder. Raises DecoderError if that fails or a method is missing."""
    try:
        decoder = decoder_class(**arguments)
    except BciError:
        raise
    except Exception as error:  # a contestant's code may raise anything
        raise DecoderError(f"decoder {name} can't be made: {format_exception(error)}") from error
    for method in ("start", "step"):
        if not callable(getattr(decoder, method, None)):
            raise DecoderError(
                f"decoder {name} has no method {method}(); a decoder has start(info) and "
                "step(packet)"
            )
    made: Decoder = decoder
    return made


def _search_working_directory() -> None:
    """Let modules be imported from the working directory, where a contestant's module lies.

    Our own packages are imported first: a replay.py there must not be taken for one of them.
    """
    for package in PACKAGES:
        importlib.import_module(package)
    if "" not in sys.path:
        sys.path.insert(0, "")


def _import_class(path: str) -> type:
    module_name, _, class_name = path.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), class_name, None)
    except Exception as error:  # a contestant's module may raise anything
        raise DecoderError(
            f"decoder {path}: its module can't be imported: {format_exception(error)}"
        ) from error
    if not inspect.isclass(found):
        raise DecoderError(f"decoder {path}: {module_name} has no class {class_name!r}")
    return found


def _keywords(decoder_class: type) -> set[str]:
    """The keywords that a constructor declares; both of ours where it takes any."""
    try:
        parameters = inspect.signature(decoder_class).parameters.values()
    except ValueError:
        return set()
    declared = {parameter.name for parameter in parameters}
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters)
    return declared | {"model", "seed"} if takes_any else declared
