"""A URI names a source: a file or folder, a synthetic recording, a device, another stream.

run1.edf   folder/   run1.edf?events=T1=11,T2=21&resample=250
synthetic:erp?subjects=2&seed=7
brainflow:SYNTHETIC_BOARD   neuracle://127.0.0.1:8712?channels=64   lsl:name
moabb:BNCI2014_001?subject=1
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import parse_qsl

from bci_stream.errors import SourceError
from bci_stream.wire.transport import Transport
from replay.model.options import SourceOptions
from replay.model.source import Session, Source

__all__ = ["SCHEMES", "SourceOptions", "open_source"]

UriParams = dict[str, str]
Opener = Callable[[str, str, UriParams, SourceOptions, Transport | None], Source]
"""(the whole URI, what follows the scheme, its parameters, options, this process's LSL) -> a source."""


def _synthetic(
    uri: str, rest: str, params: UriParams, options: SourceOptions, _: Transport | None
) -> Source:
    _refuse_asked(uri, options, "synthetic recordings are as their track has them")
    from replay.synthetic.registry import open_synthetic

    return open_synthetic(rest, params)


def _device(
    uri: str, rest: str, params: UriParams, options: SourceOptions, transport: Transport | None
) -> Source:
    because = "a device is played as it is, with parameters of its own"
    _refuse_asked(uri, options, because, possible=LEAD_OPTIONS)
    from replay.devices.registry import open_device

    about_leads = {name: params.pop(name) for name in LEAD_OPTIONS if name in params}
    scheme = uri.partition(":")[0].lower()
    return open_device(scheme, rest, params, transport, options.with_params(about_leads))


LEAD_OPTIONS = ("rename", "select", "missing")
"""What can be asked of a device too, beside its own parameters."""


def _refuse_asked(
    uri: str, options: SourceOptions, because: str, possible: tuple[str, ...] = ()
) -> None:
    """Options are about files; what can't be done must not be passed over in silence."""
    asked = [name for name in options.asked if name not in possible]
    if asked:
        names = ", ".join("leads (select)" if name == "select" else name for name in asked)
        raise SourceError(f"{uri}: {names} can't be asked for: {because}")


def _moabb(
    uri: str, rest: str, params: UriParams, options: SourceOptions, _: Transport | None
) -> Source:
    from replay.readers.moabb import open_moabb

    return open_moabb(uri, rest, params, options)


def _files(
    uri: str, rest: str, params: UriParams, options: SourceOptions, _: Transport | None
) -> Source:
    from replay.readers.files import open_files

    if not rest.strip():  # to Path, that would be the current folder
        raise SourceError(
            f"{uri!r} names no source: give a file, a folder or a URI; the current folder is `.`"
        )
    return open_files(uri, Path(rest), options.with_params(params))


SCHEMES: dict[str, Opener] = {
    "synthetic": _synthetic,
    "neuracle": _device,
    "brainflow": _device,
    "lsl": _device,
    "moabb": _moabb,
    "file": _files,
}


def open_source(
    uri: str, options: SourceOptions | None = None, transport: Transport | None = None
) -> Source:
    """The source that a URI names, checked as far as that takes no long reading.

    transport: what this process speaks LSL with, where it does; an `lsl:` source listens on the same one.
    """
    options = options or SourceOptions()
    if _exists(uri):  # whatever signs a file's name may hold, it is that file
        return _files(uri, uri, {}, options, transport)
    address, _, query = uri.partition("?")
    scheme, colon, rest = address.partition(":")
    if not colon or len(scheme) == 1 or "/" in scheme or "\\" in scheme:
        return _files(uri, address, _params(uri, query), options, transport)
    if scheme.lower() not in SCHEMES:
        raise SourceError(
            f"{uri!r} names no source: there is no file of that name, and {scheme!r} is none of "
            f"the schemes {', '.join(SCHEMES)}"
        )
    return SCHEMES[scheme.lower()](uri, rest, _params(uri, query), options, transport)


def _exists(uri: str) -> bool:
    try:
        return Path(uri).exists()
    except OSError:  # a URI with many parameters is longer than any file's name
        return False


def _params(uri: str, query: str) -> UriParams:
    pairs = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)
    params = dict(pairs)
    if len(params) < len(pairs):
        raise SourceError(f"{uri!r} gives a parameter twice")
    return params


class ConcatenatedSource:
    """The sessions of all sources, in order. A live device has no end, so it stands alone."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self.uri = " ".join(source.uri for source in sources)
        self.live = False
        self.device = None

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
    if len(sources) == 1:
        return sources[0]
    for source in sources:
        if source.live:
            raise SourceError(
                f"{source.uri} is a live device: it can't be played with other sources"
            )
    return ConcatenatedSource(sources)
