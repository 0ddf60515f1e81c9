"""Several sources played one after the other, as one."""

from collections.abc import Iterator, Sequence

from bci_stream.errors import SourceError
from replay.source import Session, Source


class JoinedSource:
    """The sessions of all sources, in order. A live device has no end, so it stands alone."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self.uri = " ".join(source.uri for source in sources)
        self.live = False

    @property
    def track(self) -> str | None:
        tracks = {source.track for source in self._sources}
        return tracks.pop() if len(tracks) == 1 else None

    def sessions(self) -> Iterator[Session]:
        for source in self._sources:
            yield from source.sessions()

    def close(self) -> None:
        for source in self._sources:
            source.close()


def join_sources(sources: Sequence[Source]) -> Source:
    if len(sources) == 1:
        return sources[0]
    for source in sources:
        if source.live:
            raise SourceError(
                f"{source.uri} is a live device: it can't be played with other sources"
            )
    return JoinedSource(sources)
