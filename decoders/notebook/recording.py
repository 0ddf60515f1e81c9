"""Recordings for notebooks: `bci_stream.open` and the object that it returns."""

from collections.abc import Iterator, Mapping
from html import escape
from os import PathLike, fspath
from typing import Any
from urllib.parse import quote

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import Packet, Triggers
from replay.model.event_map import written
from replay.model.events import text_of
from replay.model.options import SourceOptions, track_named
from replay.model.source import Session, Source
from replay.sources import open_dataset, open_raw, open_source, parse_uri
from replay.transform.masking import masked_packets

VOLTAGES = ("eeg", "ecog", "eog", "ecg", "emg", "seeg", "dbs")
"""MNE's channel types in volts."""
READ_S = 10.0
"""Seconds of a session that are read together."""


class OpenedRecording:
    """A recording that `bci_stream.open` has opened.

    Samples are read when they are needed. Use it in a `with` block, or call `close`.

    Attributes
    ----------
    uri : str
        Where it is from.
    track : str or None
        The track that its leads, rate and packets are fitted to.
    sessions : list
        One for each subject: `subject`, `rate`, `leads`, `n_samples`, `notes`, `block_triggers()`.
    """

    def __init__(self, source: Source, track: str | None) -> None:
        self._source = source
        self.uri = source.uri
        self.track = track or source.track
        self.sessions: list[Session] = list(source.sessions())
        if not self.sessions:
            raise SourceError(f"{self.uri}: there is no session in it")

    @property
    def subjects(self) -> list[str]:
        """The subject of each session."""
        return [session.subject for session in self.sessions]

    @property
    def notes(self) -> list[str]:
        """What was decided while reading and fitting, one line each."""
        return [note for session in self.sessions for note in session.notes]

    def packets(self, session: int = 0) -> Iterator[Packet]:
        """Iterate over the packets of a session, as a decoder receives them.

        With a track they are masked: no label is left in them. Without a track they have all triggers.

        Parameters
        ----------
        session : int
            Which session, counted from 0.

        Yields
        ------
        packet : Packet
            `samples` (n, leads + 1) in microvolts, TRIGGER last, and `triggers` [(offset, code), ...].
        """
        track = track_named(self.track) if self.track else None
        yield from masked_packets(track, self._session(session))

    def triggers(self, session: int = 0) -> Triggers:
        """The labelled triggers of a session: (sample in the session, code) of each, in order."""
        return tuple((sample, int(code)) for sample, code in _triggers(self._session(session))[0])

    def to_mne(self, session: int = 0) -> Any:
        """Read a session into memory as an MNE object.

        Parameters
        ----------
        session : int
            Which session, counted from 0.

        Returns
        -------
        raw : mne.io.RawArray
            In volts, with the labelled triggers as annotations and positions where they are known.
            Where two blocks join there is an `EDGE boundary`, across which MNE does not filter.
        """
        import mne

        read = self._session(session)
        kinds = [lead.kind.lower() for lead in read.leads]
        info = mne.create_info([lead.name for lead in read.leads], read.rate, kinds)
        scale = np.array([1e-6 if kind in VOLTAGES else 1.0 for kind in kinds])
        pieces = read.packets(max(1, round(READ_S * read.rate)))
        samples = np.concatenate([packet.samples for packet in pieces])
        with mne.use_log_level("error"):
            raw = mne.io.RawArray(samples.T * scale[:, None], info)
            places = {lead.name: lead.position for lead in read.leads if lead.position}
            if places:
                montage = mne.channels.make_dig_montage(places, coord_frame="head")
                raw.set_montage(montage, on_missing="ignore")
            raw.set_annotations(_annotations(read))
        return raw

    def close(self) -> None:
        """Close the files."""
        self._source.close()

    def __enter__(self) -> "OpenedRecording":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(self.sessions)

    def _session(self, number: int) -> Session:
        if not -len(self.sessions) <= number < len(self.sessions):
            raise SourceError(
                f"{self.uri} has no session {number}; it has 0 to {len(self.sessions) - 1}"
            )
        return self.sessions[number]

    def _rows(self) -> list[tuple[str, str, str, str]]:
        return [
            (
                session.subject,
                f"{len(session.leads)} leads",
                f"{session.rate:g} Hz",
                f"{(session.n_samples or 0) / session.rate:.1f} s",
            )
            for session in self.sessions
        ]

    def __repr__(self) -> str:
        what = f"<recording {self.uri}, {f'track {self.track}' if self.track else 'no track'}>"
        return "\n".join((what, *("  " + ", ".join(row) for row in self._rows())))

    def _repr_html_(self) -> str:
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._rows()
        )
        head = "<tr><th>subject</th><th>leads</th><th>rate</th><th>length</th></tr>"
        title = f"{escape(self.uri)}{f', track {escape(self.track)}' if self.track else ''}"
        return f"<p><b>{title}</b></p><table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def open_recording(
    recording: str | PathLike[str] | Any, track: str | None = None, **options: Any
) -> OpenedRecording:
    """Open a recording: a file, a folder, a URI, an MNE object or a MOABB dataset.

    Parameters
    ----------
    recording : str, path-like, mne.io.Raw or moabb dataset
        A file or folder of any format that `bci-replay inspect` reads, a URI such as
        `"synthetic:mi?subjects=2"` or `"moabb:BNCI2014_001?subject=1"`, a raw object of MNE, or a
        dataset object of MOABB.
    track : str, optional
        Fit leads, rate and packets to this track, as the wire carries them.
    **options
        The parameters of a URI by name: `events={"T1": 11}`, `select=["C3", "C4"]`, `resample=250`,
        `rename`, `subject`, ... (docs/recordings.md). For a MOABB dataset also `subjects=[1, 2]`.

    Returns
    -------
    recording : OpenedRecording

    Raises
    ------
    SourceError
        If it can't be read; the message says why and what to do.

    Examples
    --------
    >>> import bci_stream as bci
    >>> recording = bci.open("synthetic:mi", track="mi", subjects=1, blocks=1, trials=1)
    >>> recording.subjects, len(recording.sessions[0].leads)
    (['S01'], 64)
    >>> next(recording.packets()).samples.shape
    (40, 65)
    >>> recording.to_mne().info["sfreq"]
    1000.0
    """
    if isinstance(recording, str | PathLike):
        return OpenedRecording(_open_uri(fspath(recording), track, options), track)
    if hasattr(recording, "get_data") and hasattr(recording, "subject_list"):
        subjects = options.pop("subjects", None)
        return OpenedRecording(open_dataset(recording, subjects, _options(track, options)), track)
    if hasattr(recording, "get_data") and hasattr(recording, "ch_names"):
        return OpenedRecording(open_raw(recording, _options(track, options)), track)
    raise SourceError(
        f"{recording!r:.80} can't be opened: give a file, a folder, a URI, an mne.io.Raw object or a "
        "MOABB dataset"
    )


def _open_uri(uri: str, track: str | None, options: Mapping[str, Any]) -> Source:
    scheme = parse_uri(uri).scheme
    if scheme in ("", "file"):
        source = open_source(uri, _options(track, options))
    else:
        given, fitted = dict(options), SourceOptions(track=track)
        if scheme == "synthetic" and "resample" in given:  # no parameter of the recording itself
            fitted = fitted.with_params({"resample": _text(given.pop("resample"))})
        source = open_source(uri_with(uri, given), fitted)
    if source.live:
        source.close()
        raise SourceError(
            f"{uri} is a live device, which has no end: play it with bci_stream.replay({uri!r}), or "
            "record it with `bci-replay record`"
        )
    if track and source.track not in (None, track):
        raise SourceError(f"{uri}: it is for track {source.track}, not {track}")
    return source


def uri_with(uri: str, options: Mapping[str, Any]) -> str:
    """The URI with these options as parameters."""
    query = "&".join(
        f"{name}={quote(_text(value), safe=',=@*')}" for name, value in options.items()
    )
    return f"{uri}{'&' if '?' in uri else '?'}{query}" if query else uri


def _options(track: str | None, options: Mapping[str, Any]) -> SourceOptions:
    texts = {name: _text(value) for name, value in options.items()}
    return SourceOptions(track=track).with_params(texts)


def _text(value: Any) -> str:
    """An option as a URI has it: `T1=11,T2=21`, `C3,C4`, `250`."""
    if isinstance(value, Mapping):
        return ",".join(f"{written(str(name))}={_text(code)}" for name, code in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value)


def _triggers(session: Session) -> tuple[list[tuple[int, int]], list[int]]:
    """Triggers counted from the start of the session, and the first sample of each block after the first."""
    found: list[tuple[int, int]] = []
    joins: list[int] = []
    start = 0
    for n_samples, triggers in session.block_triggers() or ():
        if start:
            joins.append(start)
        found += [(start + sample, code) for sample, code in triggers]
        start += n_samples
    return found, joins


def _annotations(session: Session) -> Any:
    import mne

    triggers, joins = _triggers(session)
    marks = [(sample, text_of(code) or str(int(code))) for sample, code in triggers]
    marks = sorted([*marks, *((sample, "EDGE boundary") for sample in joins)])
    onsets = [sample / session.rate for sample, _ in marks]
    return mne.Annotations(onsets, [0.0] * len(marks), [text for _, text in marks])
