"""An angles file: joint angles at 200 Hz beside an ECoG recording (.npy, .npz, .mat, .csv)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from replay.readers.guard import reading

JOINTS = 8


def _table(path: Path) -> NDArray[Any]:
    return np.loadtxt(path, delimiter=",", ndmin=2)


def _npz(path: Path) -> NDArray[Any]:
    with path.open("rb") as archive, np.load(archive, allow_pickle=False) as file:
        return np.asarray(file["angles"])


def _npy(path: Path) -> NDArray[Any]:
    return np.asarray(np.load(path, allow_pickle=False))


def _mat(path: Path) -> NDArray[Any]:
    from scipy.io import loadmat

    return np.asarray(loadmat(path)["angles"])


LOADERS: dict[str, Callable[[Path], NDArray[Any]]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".mat": _mat,
    ".csv": _table,
}


def read_angles(path: Path) -> NDArray[np.float64]:
    """Rows x 8 joints."""
    if path.suffix.lower() not in LOADERS:
        raise SourceError(f"{path}: angles are read from {', '.join(LOADERS)}")
    with reading(str(path), "joint angles"):
        angles = LOADERS[path.suffix.lower()](path)
        if angles.ndim != 2 or JOINTS not in angles.shape or angles.dtype.kind not in "fiu":
            raise SourceError(f"{path} holds {angles.shape}; it must be rows x {JOINTS} joints")
    turned = angles if angles.shape[1] == JOINTS else angles.T
    return np.asarray(turned, dtype=np.float64)
