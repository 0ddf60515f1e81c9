"""An activity: the signal of one source in microvolts, and how strongly each lead sees it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import FloatArray


class Activity(NamedTuple):
    """row: (leads,); signal: (n,)."""

    row: NDArray[np.float64]
    signal: FloatArray


def mix(activities: Sequence[Activity]) -> FloatArray:
    """(n, leads): all sources as the leads see them, C-contiguous."""
    rows = np.stack([activity.row for activity in activities]).astype(np.float32)
    signals = np.stack([activity.signal for activity in activities])
    out: FloatArray = signals.T @ rows
    return out


def several(rows: NDArray[np.float64], signals: FloatArray) -> list[Activity]:
    """(sources, leads) and (sources, n) as activities."""
    return [Activity(row, signal) for row, signal in zip(rows, signals, strict=True)]
