"""The five tracks by name."""

from tracks import ecog, emotion, erp, mi, turing
from tracks.track import Track

TRACKS: dict[str, Track] = {
    "mi": mi.TRACK,
    "turing": turing.TRACK,
    "emotion": emotion.TRACK,
    "ecog": ecog.TRACK,
    "erp": erp.TRACK,
}
