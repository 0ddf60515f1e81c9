"""A MOABB dataset, `moabb:BNCI2014_001?subject=1`; needs the extra `moabb`."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from bci_stream.errors import SourceError
from replay.model.event_map import written
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.files import ContentSource
from replay.readers.guard import first_line, reading
from tracks.track import Track


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


def open_dataset(
    dataset: Any, subjects: Sequence[int] | None, options: SourceOptions
) -> ContentSource:
    """A MOABB dataset object: one session a subject. subjects: as MOABB counts them; None for all."""
    name = type(dataset).__name__
    numbers = [int(n) for n in (dataset.subject_list if subjects is None else subjects)]
    if not numbers:
        raise SourceError(f"moabb:{name}: no subject is asked for; give one or more")
    loaders = [
        (f"{name}-{number}", partial(_runs, lambda: dataset, name, number, options))
        for number in numbers
    ]
    return ContentSource(f"moabb:{name}", options, loaders)


def class_events(dataset: Any, track: Track) -> str:
    """Rules from the dataset's events to the track's codes, by the classes that their names contain.

    `left_hand` becomes mi's left. Raises SourceError where the track has no such codes, or no event
    names a class.
    """
    name = type(dataset).__name__
    if track.trial_events is None:
        raise SourceError(
            f"moabb:{name}: track {track.name} can't be read from the classes of a dataset; state what "
            "its events mean with events="
        )
    begins_s = float(dataset.interval[0])
    rules = []
    for event, code in dataset.event_id.items():
        words = str(event).lower().replace("_", " ").split()
        label = next((n for n, called in track.classes.items() if called in words), None)
        codes = "0" if label is None else track.trial_events(label, begins_s)
        rules += [f"{written(str(event))}={codes}", f"{code}={codes}"]
    if all(rule.endswith("=0") for rule in rules):
        raise SourceError(
            f"moabb:{name}: its events ({', '.join(map(str, dataset.event_id))}) name no class of "
            f"{track.name} ({', '.join(track.classes.values())}); state what they mean with events="
        )
    return ",".join(rules)


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
    from replay.readers.mne.content import content_of_raw
    from replay.readers.mne.raw_file import RawFile

    with reading(f"moabb:{name} subject {number}", "a MOABB dataset"):
        made = dataset()
        _check_subject(name, made, number)
        sessions = _fetched(name, made, number)
        runs = [
            (f"{name} {session} {run}", raw)
            for session, by_run in sessions.items()
            for run, raw in by_run.items()
        ]
        return [content_of_raw(RawFile.of(raw, label), "MOABB", options) for label, raw in runs]


def _check_subject(name: str, made: Any, number: int) -> None:
    known = list(made.subject_list)
    if number in known:
        return
    in_a_row = len(known) > 1 and known == list(range(known[0], known[-1] + 1))
    held = f"{known[0]} to {known[-1]}" if in_a_row else ", ".join(map(str, known))
    raise SourceError(f"moabb:{name} has no subject {number}: it has {held or 'none'}")


def _fetched(name: str, made: Any, number: int) -> Any:
    """The subject's runs by session; MOABB downloads them if they are not on the disk."""
    try:
        return made.get_data(subjects=[number])[number]
    except Exception as error:  # errors of a network, a server, a disk: each library has its own
        raise SourceError(
            f"moabb:{name} subject {number} could not be fetched: {first_line(error)}. MOABB downloads "
            "data that are not on the disk: is there a network, and room on the disk?"
        ) from error
