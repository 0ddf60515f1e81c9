"""Track facts: what a track says about recordings that do not say it themselves."""

from bci_stream.errors import SourceError
from tracks.leads import EMOTION_FIRST_BATCH
from tracks.registry import TRACKS
from tracks.track import Track


def track_named(name: str) -> Track:
    """The track of that name, or a clear refusal."""
    if name not in TRACKS:
        raise SourceError(f"there is no track {name!r}; the tracks are {', '.join(TRACKS)}")
    return TRACKS[name]


def leads_of_rows(track: str, batch: int | None) -> tuple[str, ...]:
    """The leads of a track's own files, whose rows have no names: the documents' order."""
    if batch == 1:
        return EMOTION_FIRST_BATCH
    return tuple(track_named(track).leads)
