"""A track is one discipline of the contest: its facts, mask, truth, referee and score."""

from tracks.registry import TRACKS
from tracks.track import Track

__all__ = ["TRACKS", "Track"]
