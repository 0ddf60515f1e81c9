"""Where leads are on the head, in metres, whatever their file takes for the unit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FIFF_COORD_HEAD = 4
HEAD_RADIUS_M = 0.095

Place = tuple[float, float, float]

# (up to which largest coordinate of the middle one of its leads, what makes metres of it, what is said)
_UNITS = (
    (0.5, 1.0, None),
    (2.0, HEAD_RADIUS_M, "on a sphere of radius 1: it is made a head of 95 mm"),
    (20.0, 0.01, "metres away from the head: their places are taken as centimetres"),
    (np.inf, 0.001, "metres away from the head: their places are taken as millimetres"),
)


@dataclass(frozen=True)
class LeadPlaces:
    """metres: x, y, z of each lead, None where its file does not say."""

    metres: tuple[Place | None, ...]
    notes: tuple[str, ...] = ()


def places_of(channels: Sequence[Any]) -> LeadPlaces:
    """The places of some channels of an MNE info."""
    found = [_place(channel) for channel in channels]
    # A single lead may stand anywhere: the middle one tells of all.
    distances = [float(np.abs(place).max()) for place in found if place is not None]
    middle = float(np.median(distances)) if distances else 0.0
    metres, said = next((metres, said) for up_to, metres, said in _UNITS if middle < up_to)
    return LeadPlaces(
        tuple(None if place is None else tuple((place * metres).tolist()) for place in found),
        (f"its leads stand {said}",) if said else (),
    )


def _place(channel: Any) -> NDArray[np.float64] | None:
    """Where a channel is, as the file has it; None where it does not say."""
    place = np.asarray(channel["loc"][:3], dtype=np.float64)
    known = bool(np.isfinite(place).all() and place.any())
    return place if known and int(channel["coord_frame"]) == FIFF_COORD_HEAD else None
