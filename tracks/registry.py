"""The tracks by name: the five of this package, and those that other packages bring.

Names are listed without importing a track, so a command line can offer them at once; a track is
imported when it is first looked up. Another package adds a track with an entry point of the group
`bci_stream.tracks` (docs/howto/add-a-track.md):

    [project.entry-points."bci_stream.tracks"]
    n170 = "my_package.n170:TRACK"
"""

import importlib
import logging
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tracks.errors import RuleError

if TYPE_CHECKING:
    from tracks.track import Track

logger = logging.getLogger(__name__)

GROUP = "bci_stream.tracks"

BUILT_IN = {
    "mi": "tracks.mi:TRACK",
    "turing": "tracks.turing:TRACK",
    "emotion": "tracks.emotion:TRACK",
    "ecog": "tracks.ecog:TRACK",
    "erp": "tracks.erp:TRACK",
}

DEFAULT = "erp"
"""The track of a new contest file where none is named."""


class TrackRegistry(Mapping[str, "Track"]):
    """Tracks by name, each imported when it is first looked up.

    Raises RuleError from a lookup if the entry point of that track is broken; the other tracks are
    not affected. A built-in name can't be replaced by an entry point.
    """

    def __init__(self) -> None:
        self._loaded: dict[str, Track] = {}

    @cached_property
    def _paths(self) -> dict[str, str]:
        """Name of each track -> "module:attribute"."""
        from importlib.metadata import entry_points  # slow to import, needed once

        found = {point.name: point.value for point in entry_points(group=GROUP)}
        return BUILT_IN | {name: path for name, path in found.items() if name not in BUILT_IN}

    def __getitem__(self, name: str) -> "Track":
        if name not in self._loaded:
            path = BUILT_IN.get(name) or self._paths[name]
            self._loaded[name] = _load(name, path)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in BUILT_IN or name in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


def _load(name: str, path: str) -> "Track":
    from tracks.common.words import add_templates
    from tracks.track import Track

    problem = f"track {name!r}, from the entry point {path!r} of the group {GROUP}"
    try:
        track = load_object(path)
    except Exception as error:  # another package's code may raise anything
        raise RuleError(
            f"{problem}, can't be imported: {type(error).__name__}: {error}. "
            "Repair or uninstall the package that brings it."
        ) from error
    if not isinstance(track, Track) or track.name != name:
        got = f"a Track named {track.name!r}" if isinstance(track, Track) else f"{track!r:.80}"
        raise RuleError(f"{problem}, must be a tracks.track.Track named {name!r}; got {got}")
    add_templates(track.reasons)
    return track


def load_object(path: str) -> Any:
    """The object that "module:attribute" names."""
    module, _, attribute = path.partition(":")
    return getattr(importlib.import_module(module), attribute)


TRACKS: Mapping[str, "Track"] = TrackRegistry()


def available_tracks() -> list["Track"]:
    """All tracks that can be imported; a broken entry point is logged as a warning."""
    found = []
    for name in TRACKS:
        try:
            found.append(TRACKS[name])
        except RuleError as error:
            logger.warning("%s", error)
    return found
