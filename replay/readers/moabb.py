"""A MOABB dataset: `moabb:BNCI2014_001?subject=1`, where that extra is installed."""

from typing import Any

from bci_stream.errors import SourceError
from replay.file_source import ContentSource
from replay.options import SourceOptions
from replay.readers.content import Content
from replay.readers.guard import reading


def open_moabb(
    uri: str, name: str, params: dict[str, str], options: SourceOptions
) -> ContentSource:
    """One subject's runs (downloaded by MOABB, if need be) as one session, a run a block."""
    number = params.pop("subject", "1")
    if not number.isdecimal():
        raise SourceError(f"{uri}: subject={number!r} must be a number, as MOABB counts them")
    dataset = _dataset(uri, name)
    options = options.with_params(params)
    subject = options.subject or f"{name}-{number}"
    return ContentSource(
        uri, options, [(subject, lambda: _runs(dataset, name, int(number), options))]
    )


def _dataset(uri: str, name: str) -> Any:
    try:
        import moabb.datasets
    except ImportError as error:
        raise SourceError(
            f"{uri} needs MOABB, which is not installed: `pip install bci-stream[moabb]`"
        ) from error
    found = getattr(moabb.datasets, name, None)
    if not isinstance(found, type):
        raise SourceError(f"{uri}: MOABB has no dataset {name!r}")
    return found


def _runs(dataset: Any, name: str, number: int, options: SourceOptions) -> list[Content]:
    from replay.readers.mne_file import content_of_raw

    with reading(f"moabb:{name} subject {number}", "a MOABB dataset"):
        sessions = dataset().get_data(subjects=[number])[number]
        runs = [
            (f"{name} {session} {run}", raw)
            for session, by_run in sessions.items()
            for run, raw in by_run.items()
        ]
        return [content_of_raw(raw, label, "MOABB", options) for label, raw in runs]
