"""Opens synthetic recordings by URI: `synthetic:erp?subjects=2&seed=7&difficulty=0.5&set=test`.

They have their track's exact format and depend on the seed only (docs/synthetic.md). A track names
its sets by its dotted name `Track.synthetic`.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.files import atomic_write
from replay.model.recording import Recording
from replay.synthetic.source import RecordingSet, SyntheticSource, common_params, read_params
from replay.synthetic.subject import Subject
from tracks.registry import TRACKS, load_object


def recording_sets(track: str) -> Mapping[str, RecordingSet]:
    """The sets of synthetic recordings that a track has, by name."""
    sets: Mapping[str, RecordingSet] = load_object(TRACKS[track].synthetic)
    return sets


def open_synthetic(
    track: str, params: Mapping[str, str], resample: float | None = None
) -> SyntheticSource:
    """The source that `synthetic:track?params` names; `set` is `test` by default.

    resample: to this rate in Hz, by the causal filter that files are resampled with.
    """
    _check_choice("synthetic: the track", track, TRACKS)
    sets = recording_sets(track)
    name = params.get("set", "test")
    _check_choice(f"synthetic:{track}: set", name, sets)
    chosen = sets[name]
    known = {**common_params(chosen.subjects, chosen.first_subject), **chosen.params}
    given = {key: text for key, text in params.items() if key != "set"}
    numbers = read_params(f"synthetic:{track}?set={name}", known, given)
    first, count = int(numbers["first_subject"]), int(numbers["subjects"])
    people = tuple(
        Subject(track, name, number, int(numbers["seed"]), numbers["difficulty"])
        for number in range(first, first + count)
    )
    query = "&".join(f"{key}={text}" for key, text in params.items())
    uri = f"synthetic:{track}" + (f"?{query}" if query else "")

    def record(one: Subject) -> Recording:
        made = chosen.record(one, numbers)
        if resample is None or resample == made.rate:
            return made
        from replay.transform.resample import resample_recording

        return resample_recording(made, resample)

    return SyntheticSource(uri, track, name, people, record)


def _check_choice(what: str, name: str, choices: Iterable[str]) -> None:
    if name not in choices:
        raise SourceError(f"{what} must be one of {', '.join(choices)}; got {name!r}")


def write_recordings(source: SyntheticSource, out_dir: Path) -> list[Path]:
    """Write one .npz for each subject, atomically; returns their paths."""
    out_dir.mkdir(parents=True, exist_ok=True)
    return [_write(source, session, out_dir) for session in source.sessions()]


def _write(source: SyntheticSource, session: Recording, out_dir: Path) -> Path:
    path = out_dir / f"{source.track}_{source.set}_{session.subject}.npz"
    lengths = [block.n_samples for block in session.blocks]
    arrays: dict[str, Any] = {
        "data": _labelled(session, lengths),
        "rate": np.float64(session.rate),
        "leads": np.array([lead.name for lead in session.leads]),
        "kinds": np.array([lead.kind for lead in session.leads]),
        "block_starts": np.cumsum([0, *lengths[:-1]]),
        "track": np.array(source.track),
        "subject": np.array(session.subject),
        "set": np.array(source.set),
    }
    if session.angles is not None:
        arrays["angles"] = session.angles
    atomic_write(path, lambda file: np.savez(file, **arrays))
    return path


def _labelled(
    session: Recording, lengths: list[int]
) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """(leads + 1, n): the last row is TRIGGER, with the labels."""
    data = np.zeros((len(session.leads) + 1, sum(lengths)), np.float32)
    start = 0
    for block in session.blocks:
        data[:-1, start : start + block.n_samples] = block.read(0, block.n_samples).T
        for sample, code in block.triggers:
            data[-1, start + sample] = code
        start += block.n_samples
    return data
