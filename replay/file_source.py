"""A file source: files or a folder of them, one session a subject, opened one after the other."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from bci_stream.errors import SourceError
from replay.file_session import FileSession, make_session
from replay.folder import Group, groups_in
from replay.options import SourceOptions
from replay.readers import check_recording, read_recording
from replay.readers.content import Content
from replay.readers.neuracle_folder import read_neuracle_folder
from replay.reopened import ReopenedSession

Loader = Callable[[], list[Content]]


class ContentSource:
    """Sessions made of contents; the first is opened at once: errors come before the start."""

    def __init__(
        self, uri: str, options: SourceOptions, subjects: Sequence[tuple[str, Loader]]
    ) -> None:
        self.uri = uri
        self._options, self._subjects = options, list(subjects)
        self._first: FileSession | None = self._open(0)
        self.track = options.track or self._first.contents[0].track

    @property
    def live(self) -> bool:
        return False

    def sessions(self) -> Iterator[FileSession | ReopenedSession]:
        for number in range(len(self._subjects)):
            first, self._first = self._first, None
            session = first if number == 0 and first else self._open(number)
            yield self._light(session, number)

    def _light(self, session: FileSession, number: int) -> FileSession | ReopenedSession:
        """Whole recordings in memory, dozens at once, would be too much: they are opened again."""
        if len(self._subjects) == 1 or all(content.lazy for content in session.contents):
            return session
        return ReopenedSession(session, partial(self._open, number))

    def close(self) -> None:
        self._first = None

    def _open(self, number: int) -> FileSession:
        subject, load = self._subjects[number]
        return make_session(subject, load(), self._options)


def open_files(uri: str, path: Path, options: SourceOptions) -> ContentSource:
    """A file, a Neuracle folder, a BIDS folder, or a folder of recordings."""
    if not path.exists():
        raise SourceError(f"there is no file or folder {path}")
    groups = _chosen(path, groups_in(path, options), options)
    for group in groups:
        for file in group.paths:
            if file.is_file():
                check_recording(file)
    return ContentSource(uri, options, [(g.subject, partial(_load, g, options)) for g in groups])


def _chosen(path: Path, groups: list[Group], options: SourceOptions) -> list[Group]:
    if options.subject is None:
        return groups
    if len(groups) == 1:
        return [Group(options.subject, groups[0].paths)]
    chosen = [group for group in groups if group.subject == options.subject]
    if not chosen:
        names = ", ".join(group.subject for group in groups[:12])
        raise SourceError(f"{path} has no subject {options.subject!r}; it has {names}")
    return chosen


def _load(group: Group, options: SourceOptions) -> list[Content]:
    return [
        read_neuracle_folder(path, options) if path.is_dir() else read_recording(path, options)
        for path in group.paths
    ]
