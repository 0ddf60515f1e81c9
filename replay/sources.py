"""Opens the source that a URI names: a file or folder, a synthetic recording, a device, another stream.

    run1.edf   folder/   run1.edf?events=T1=11,T2=21&resample=250
    synthetic:erp?subjects=2&seed=7
    brainflow:SYNTHETIC_BOARD   neuracle://127.0.0.1:8712?channels=64   lsl:name
    moabb:BNCI2014_001?subject=1

This is the only module that knows readers, synthetic recordings and devices.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from bci_stream.errors import SourceError
from bci_stream.wire.transport import Transport
from replay.model.event_map import EventMap
from replay.model.options import SourceOptions, track_named
from replay.model.source import Session, Source

GROUP = "bci_stream.sources"
"""Entry points of other packages: name = scheme, object = an `Opener`."""

LEAD_OPTIONS = ("rename", "select", "missing")
"""Reading options that a device accepts too, beside its own parameters."""

NAMED_EVENTS = ("lsl",)
"""Devices whose events have names; they accept the option `events` as well."""


@dataclass(frozen=True)
class SourceUri:
    """A URI in its parts: `scheme:address?params`; the scheme is empty for a path."""

    uri: str
    scheme: str
    address: str
    params: dict[str, str]


Opener = Callable[[SourceUri, SourceOptions, Transport | None], Source]
"""Opens a source. Transport: the LSL of this process, where it has one already."""


def open_source(
    uri: str, options: SourceOptions | None = None, transport: Transport | None = None
) -> Source:
    """Open the source that a URI names; errors that need no long reading are raised here.

    transport: the LSL of this process; an `lsl:` source reads through it.
    Raises SourceError.
    """
    parts = parse_uri(uri)
    return _opener(parts)(parts, options or SourceOptions(), transport)


def check_source(uri: str) -> None:
    """Raise SourceError for a URI that names nothing; the source is not opened.

    Only what takes no time is checked: whether the scheme is known, and the file there.
    """
    parts = parse_uri(uri)
    _opener(parts)
    if parts.scheme in ("", "file"):
        _check_file(parts)


def is_device(uri: str) -> bool:
    """Whether a URI names a live device, which is played at its own rate."""
    from replay.devices.registry import DEVICES

    return parse_uri(uri).scheme in DEVICES


def parse_uri(uri: str) -> SourceUri:
    """Split a URI. An existing file is a path whatever characters its name has."""
    if _exists(uri):
        return SourceUri(uri, "", uri, {})
    address, _, query = uri.partition("?")
    scheme, colon, rest = address.partition(":")
    pairs = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)
    params = dict(pairs)
    if len(params) < len(pairs):
        raise SourceError(f"{uri!r} gives a parameter twice")
    if not colon or len(scheme) == 1 or "/" in scheme or "\\" in scheme:
        return SourceUri(uri, "", address, params)
    return SourceUri(uri, scheme.lower(), rest, params)


def _exists(uri: str) -> bool:
    try:
        return Path(uri).exists()
    except OSError:  # a URI with many parameters is longer than a file name may be
        return False


def _opener(parts: SourceUri) -> Opener:
    if parts.scheme in SCHEMES:
        return SCHEMES[parts.scheme]
    from importlib.metadata import entry_points

    from replay.devices.registry import DEVICES

    if parts.scheme in DEVICES:
        return _open_device
    installed = entry_points(group=GROUP)
    if parts.scheme not in installed.names:
        known = [name for name in (*SCHEMES, *DEVICES, *sorted(installed.names)) if name]
        raise SourceError(
            f"{parts.uri!r} names no source: there is no file of that name, and {parts.scheme!r} is "
            f"none of the schemes {', '.join(known)}"
        )
    try:
        opener: Opener = installed[parts.scheme].load()
    except Exception as error:  # another package's code may raise anything
        raise SourceError(
            f"{parts.uri}: the scheme {parts.scheme!r} comes from the entry point "
            f"{installed[parts.scheme].value!r}, which can't be imported ({error!r}); repair or uninstall "
            "the package that brings it"
        ) from error
    return opener


# --- what comes with this package ---------------------------------------------------------------


def _open_files(parts: SourceUri, options: SourceOptions, _: Transport | None) -> Source:
    from replay.readers.files import open_files

    _check_file(parts)
    return open_files(parts.uri, Path(parts.address), options.with_params(parts.params))


def _check_file(parts: SourceUri) -> None:
    if not parts.address.strip():  # to Path, that would be the current folder
        raise SourceError(
            f"{parts.uri!r} names no source: give a file, a folder or a URI; the current folder is `.`"
        )
    if not _exists(parts.address):
        raise SourceError(f"there is no file or folder {parts.address}")


def _open_synthetic(parts: SourceUri, options: SourceOptions, _: Transport | None) -> Source:
    reason = "synthetic recordings are as their track has them"
    _refuse_options(parts.uri, options, reason, ("resample",))
    from replay.synthetic.registry import open_synthetic

    return open_synthetic(parts.address, parts.params, options.resample)


def _open_moabb(parts: SourceUri, options: SourceOptions, _: Transport | None) -> Source:
    from replay.readers.moabb import open_moabb

    return open_moabb(parts.uri, parts.address, parts.params, options)


def _open_device(parts: SourceUri, options: SourceOptions, transport: Transport | None) -> Source:
    reason = "a device is played as it is, with parameters of its own"
    accepted = (*LEAD_OPTIONS, "events") if parts.scheme in NAMED_EVENTS else LEAD_OPTIONS
    _refuse_options(parts.uri, options, reason, accepted)
    from replay.devices.registry import open_device

    params = dict(parts.params)
    options = options.with_params({key: params.pop(key) for key in accepted if key in params})
    return open_device(parts.scheme, parts.address, params, transport, options)


def _refuse_options(
    uri: str, options: SourceOptions, reason: str, accepted: tuple[str, ...] = ()
) -> None:
    """Raise SourceError for a reading option that would have no effect."""
    asked = [name for name in options.asked if name not in accepted]
    if asked:
        names = ", ".join("leads (select)" if name == "select" else name for name in asked)
        raise SourceError(f"{uri}: {names} can't be asked for: {reason}")


SCHEMES: dict[str, Opener] = {
    "": _open_files,
    "synthetic": _open_synthetic,
    "moabb": _open_moabb,
    "file": _open_files,
}
"""Schemes of recordings; those of devices are in `replay.devices.registry.DEVICES`."""


# --- objects of other libraries -----------------------------------------------------------------


def open_raw(raw: Any, options: SourceOptions) -> Source:
    """An `mne.io.Raw` object as one session."""
    from replay.readers.files import ContentSource
    from replay.readers.mne.content import content_of_raw
    from replay.readers.mne.raw_file import RawFile

    names = [Path(str(name)).name for name in getattr(raw, "filenames", ()) if name]
    name = names[0] if names else "raw"
    stated = (raw.info.get("subject_info") or {}).get("his_id")
    subject = options.subject or stated or Path(name).stem
    return ContentSource(
        name, options, [(subject, lambda: [content_of_raw(RawFile.of(raw, name), "MNE", options)])]
    )


def open_dataset(
    dataset: Any, subjects: Sequence[int] | None = None, options: SourceOptions | None = None
) -> Source:
    """A MOABB dataset object, one session a subject; subjects: as MOABB counts them, None for all.

    With a track and without event rules, events that name a class of the track are its trials.
    """
    from replay.readers import moabb

    options = options or SourceOptions()
    if options.track and options.events == EventMap():
        rules = moabb.class_events(dataset, track_named(options.track))
        options = replace(options, events=EventMap.parse(rules))
    return moabb.open_dataset(dataset, subjects, options)


# --- several sources ----------------------------------------------------------------------------


class ConcatenatedSource:
    """The sessions of several recordings, in order; implements `Source`."""

    live = False
    device = None

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self.uri = " ".join(source.uri for source in sources)

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


def concatenate_sources(sources: Sequence[Source]) -> Source:
    """One source of all; raises SourceError where a live device, which has no end, is not alone."""
    if len(sources) == 1:
        return sources[0]
    for source in sources:
        if source.live:
            raise SourceError(
                f"{source.uri} is a live device: it can't be played with other sources"
            )
    return ConcatenatedSource(sources)
