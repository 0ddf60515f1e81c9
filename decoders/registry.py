"""The registry names the decoders that are shipped; one is loaded by name or as module:Class."""

import importlib
import inspect
import os
import sys
from pathlib import Path
from typing import NamedTuple

from bci_stream.errors import BciError
from decoders.decoder import Decoder, format_exception
from decoders.model import load_model


class DecoderEntry(NamedTuple):
    """One shipped decoder: the track it is for, module:Class, and one line about it."""

    track: str
    path: str
    about: str


DECODERS: dict[str, DecoderEntry] = {
    "erp-umm": DecoderEntry(
        "erp", "decoders.erp.decoder:ErpDecoder", "unsupervised, adaptive, Bayes stopping"
    ),
    "erp-xdawn": DecoderEntry(
        "erp", "decoders.erp.references:XdawnLda", "reference: xDAWN + LDA, trained"
    ),
    "erp-chance": DecoderEntry(
        "erp", "decoders.chance:ErpChance", "a random character after one sequence"
    ),
    "mi-riemann": DecoderEntry(
        "mi",
        "decoders.mi.decoder:MiDecoder",
        "filter bank, tangent space, re-centred without labels",
    ),
    "mi-csp": DecoderEntry("mi", "decoders.mi.references:CspLda", "reference: CSP + LDA, trained"),
    "mi-mdm": DecoderEntry(
        "mi", "decoders.mi.references:Mdm", "reference: minimum distance to mean, trained"
    ),
    "mi-ts": DecoderEntry(
        "mi", "decoders.mi.references:TangentSpaceLr", "reference: tangent space + LR, trained"
    ),
    "mi-chance": DecoderEntry("mi", "decoders.chance:MiChance", "three random classes a trial"),
    "turing-phase": DecoderEntry(
        "turing", "decoders.turing.decoder:TuringDecoder", "SSVEP by phase, MI, stops early"
    ),
    "turing-chance": DecoderEntry(
        "turing", "decoders.chance:TuringChance", "a random task after a second"
    ),
    "emotion-de": DecoderEntry(
        "emotion",
        "decoders.emotion.decoder:EmotionDecoder",
        "differential entropy, normalised causally",
    ),
    "emotion-chance": DecoderEntry(
        "emotion", "decoders.chance:EmotionChance", "a random class a second"
    ),
    "ecog-ridge": DecoderEntry(
        "ecog",
        "decoders.ecog.decoder:EcogDecoder",
        "band powers and LMP with lags, ridge, smoothed",
    ),
    "ecog-chance": DecoderEntry("ecog", "decoders.chance:EcogConstant", "eight constant angles"),
}

DEFAULTS: dict[str, str] = {
    "erp": "erp-umm",
    "mi": "mi-riemann",
    "turing": "turing-phase",
    "emotion": "emotion-de",
    "ecog": "ecog-ridge",
}
"""The decoder that a track uses when none is named."""


class DecoderError(BciError):
    """A decoder that can't be found, made or used."""


def names(track: str | None = None) -> list[str]:
    """The shipped decoders, of one track or of all."""
    return [name for name, entry in DECODERS.items() if track in (None, entry.track)]


def load(
    name: str | None,
    track: str,
    model_path: str | os.PathLike[str] | None = None,
    seed: int = 0,
) -> Decoder:
    """Make a decoder: `name` is one of `names(track)`, module:Class, or None for the default."""
    name = name or default_of(track)
    decoder_class = find_class(name, track)
    arguments: dict[str, object] = {}
    accepted = _keywords(decoder_class)
    if "seed" in accepted:
        arguments["seed"] = seed
    if model_path is not None:
        if "model" not in accepted:
            raise DecoderError(f"decoder {name}: it takes no model; leave the model out")
        model = load_model(Path(model_path))
        arguments["model"] = model.wanted_by(track, name) if name in DECODERS else model
    return make(decoder_class, name, arguments)


def notice_of(decoder: object) -> str:
    """What a user should know before this decoder runs (it is a fallback, say); mostly nothing."""
    return str(getattr(decoder, "notice", ""))


def default_of(track: str) -> str:
    """The name of the track's default decoder."""
    if track not in DEFAULTS:
        raise DecoderError(f"track {track!r}: there is none; there are {', '.join(DEFAULTS)}")
    return DEFAULTS[track]


def find_class(name: str, track: str | None = None) -> type:
    """The class that a name or module:Class stands for, checked against the track."""
    if name in DECODERS:
        entry = DECODERS[name]
        if track is not None and entry.track != track:
            raise DecoderError(
                f"decoder {name}: it is for track {entry.track}, not {track}. "
                f"For {track} there are: {', '.join(names(track))}"
            )
        return _import(entry.path)
    if ":" not in name:
        raise DecoderError(
            f"decoder {name!r}: not known. Give module:Class, or one of: {', '.join(names(track))}"
        )
    return _import(name)


def make(decoder_class: type, name: str, arguments: dict[str, object]) -> Decoder:
    """Call the class, and check that a decoder came of it."""
    try:
        decoder = decoder_class(**arguments)
    except BciError:
        raise
    except Exception as error:  # a contestant's code may raise anything
        raise DecoderError(
            f"decoder {name}: it can't be made: {format_exception(error)}"
        ) from error
    for method in ("start", "step"):
        if not callable(getattr(decoder, method, None)):
            raise DecoderError(
                f"decoder {name}: it has no method {method}(); a decoder has start(info) and "
                "step(packet)"
            )
    made: Decoder = decoder
    return made


def _import(path: str) -> type:
    module_name, _, class_name = path.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")  # a contestant's own module stands in the folder they are in
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
    try:
        parameters = inspect.signature(decoder_class).parameters.values()
    except ValueError:
        return set()
    kinds = {p.kind for p in parameters}
    named = {p.name for p in parameters}
    return named | {"model", "seed"} if inspect.Parameter.VAR_KEYWORD in kinds else named
