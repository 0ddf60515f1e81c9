"""Model files: the arrays, settings and provenance of a trained decoder.

The file is an npz without pickles: every member is a plain array; `header` is JSON text.
"""

import io
import json
import platform
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import BciError
from bci_stream.files import atomic_write

FORMAT = "bci-stream model"
VERSION = 1
MAX_BYTES = 512 * 2**20
"""Largest unpacked size, against zip bombs."""
LIBRARIES = ("numpy", "scipy", "scikit-learn", "pyriemann", "mne", "bci-stream")


class ModelError(BciError):
    """A model file that can't be used."""


@dataclass(frozen=True)
class Model:
    """A trained model.

    decoder: name in the registry. settings: JSON values. provenance, for people to read: data (URIs),
    versions of the libraries, seed, cross-validated score.
    """

    track: str
    decoder: str
    arrays: Mapping[str, NDArray[np.generic]]
    settings: Mapping[str, object] = field(default_factory=dict)
    provenance: Mapping[str, object] = field(default_factory=dict)

    def array(
        self, name: str, shape: tuple[int, ...] | None = None, *, endless: bool = False
    ) -> NDArray[np.float64]:
        """An array as float64. Raises ModelError for another shape or values that are not finite.

        endless: allow infinity.
        """
        if name not in self.arrays:
            raise ModelError(
                f"model of {self.decoder}: it has no array {name!r}, only {sorted(self.arrays)}. "
                "Train it again with this version."
            )
        value = self.arrays[name]
        if value.dtype.kind not in "fiu":
            raise self.broken(f"array {name!r} is of type {value.dtype}, not of numbers")
        if shape is not None and value.shape != shape:
            raise self.broken(f"array {name!r} is of shape {value.shape}, not {shape}")
        numbers = np.asarray(value, dtype=np.float64)
        if np.isnan(numbers).any() or not (endless or np.isfinite(numbers).all()):
            raise self.broken(f"array {name!r} has values that are not finite")
        return numbers

    def names(self, setting: str) -> tuple[str, ...]:
        """A setting that is a list of distinct names. Raises ModelError otherwise."""
        value = self.settings.get(setting)
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.broken(f"its {setting} are {value!r:.60}, not a list of names")
        if len(set(value)) < len(value):
            raise self.broken(f"its {setting} name something twice: {value!r:.60}")
        return tuple(value)

    def broken(self, what: str) -> ModelError:
        """A ModelError about this model."""
        return ModelError(f"model of {self.decoder}: {what}. Train it again with this version.")

    def wanted_by(self, track: str, decoder: str) -> "Model":
        """This model. Raises ModelError if it is for another track or decoder."""
        if (self.track, self.decoder) != (track, decoder):
            raise ModelError(
                f"this model is for the decoder {self.decoder!r} of track {self.track!r}, not for "
                f"{decoder!r} of {track!r}. Give the model that was trained for {decoder!r}."
            )
        return self


def provenance(data: list[str], seed: int, **more: object) -> dict[str, object]:
    """Data, library versions and seed of a training."""
    versions = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return {"data": data, "seed": seed, "versions": versions, **more}


def check_place(path: Path) -> None:
    """Raise ModelError if a model can't be written there; called before training."""
    if path.is_dir():
        raise ModelError(f"{path}: it is a folder; give the name of a file for the model")
    if not path.parent.is_dir():
        raise ModelError(f"{path}: there is no folder {path.parent} to write the model to")


def save_model(model: Model, path: Path) -> None:
    """Write the file atomically. Raises ModelError."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "track": model.track,
        "decoder": model.decoder,
        "settings": dict(model.settings),
        "provenance": dict(model.provenance),
    }
    text = json.dumps(header, sort_keys=True, allow_nan=False).encode()
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        allow_pickle=False,
        **{f"array.{name}": np.asarray(value) for name, value in model.arrays.items()},
        header=np.frombuffer(text, dtype=np.uint8),
    )
    try:
        atomic_write(path, lambda file: file.write(buffer.getvalue()))
    except OSError as error:
        raise ModelError(f"{path}: the model can't be written: {error.strerror}") from error


def load_model(path: Path) -> Model:
    """Read a model file. Raises ModelError."""
    try:
        members = _read_members(path)
        header = json.loads(bytes(members.pop("header").astype(np.uint8)))
        return _model_of(header, members, path)
    except ModelError:
        raise
    except OSError as error:
        raise ModelError(f"{path}: the model can't be read: {error.strerror or error}") from error
    except (
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        RuntimeError,  # zipfile: encrypted, or packed in a way that it does not know
        MemoryError,  # numpy: a header that promises more than there is
        zipfile.BadZipFile,
        struct.error,
    ) as error:
        raise ModelError(
            f"{path}: not a model file of ours, or damaged ({error}). "
            "Make one with `bci-decode train`."
        ) from error
    except zlib.error as error:
        raise ModelError(f"{path}: the model file is damaged ({error}). Train it again.") from error


def _read_members(path: Path) -> dict[str, NDArray[np.generic]]:
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
        if size > MAX_BYTES:
            raise ModelError(f"{path}: unpacks to {size} bytes; a model has at most {MAX_BYTES}")
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _model_of(header: object, members: dict[str, NDArray[np.generic]], path: Path) -> Model:
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelError(f"{path}: not a model file of ours. Make one with `bci-decode train`.")
    if header.get("version") != VERSION:
        raise ModelError(
            f"{path}: model format {header.get('version')!r}, this program reads {VERSION}. "
            "Train it again with this version."
        )
    arrays = {name.removeprefix("array."): value for name, value in members.items()}
    return Model(
        track=str(header["track"]),
        decoder=str(header["decoder"]),
        arrays=arrays,
        settings=dict(header["settings"]),
        provenance=dict(header["provenance"]),
    )
