"""Recordings of flicker for the decoders' benchmark, as sessions of the turing track.

Two layouts below data_dir/ssvep. A folder a person: pairs of FIF files (events 1 rest, 2 13 Hz, 3
21 Hz, 4 17 Hz). An npz file a person, with `rate`, `ch_names` and `frequencies` (Hz, 0 is rest): a
stream, `data` (leads + TRIGGER, samples) with code k + 1 where frequencies[k] begins; or epochs, `X`
(trials, leads, samples) with `y` (trials,) the place in `frequencies`, which are put one after another.
"""

from dataclasses import dataclass
from pathlib import Path

import mne
import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Lead, Triggers
from replay.model.recording import ArrayBlock, Recording
from scripts.bench.recordings.files import NotThisLayoutError, read_each
from tracks.common.codes import BLOCK_START
from tracks.turing import TASK_S

IDLE = 7
BEHAVIOUR_OF_TASK = {3: 1, 4: 4, 5: 5, 6: 6, IDLE: 1}
"""The track has no behaviour that allows all of these, so the codes take one that allows the task;
for the decoder each allows all, so that it learns nothing from them."""
FLICKER_TASKS = (3, 4, 5, 6)
CODES = {8 * behaviour + task for task, behaviour in BEHAVIOUR_OF_TASK.items()}
FIF_HZ = {3: 13.0, 4: 21.0, 5: 17.0}
FIF_TASKS = {1: IDLE, 2: 3, 3: 4, 4: 5}
SHORTEST_S = 2.0
"""Of the trials of an npz file."""


@dataclass(frozen=True)
class FlickerRecording:
    """A person's session, the frequency of each task that has one, and how long a trial lasts."""

    session: Recording
    frequencies_hz: dict[int, float]
    trial_s: float

    @property
    def kind(self) -> tuple[tuple[float, ...], float]:
        """People of the same kind are compared with each other."""
        return tuple(sorted(self.frequencies_hz.values())), self.trial_s


def flicker_sets(data_dir: Path) -> list[list[FlickerRecording]]:
    """The people in data_dir/ssvep, those with the same frequencies together."""
    paths = sorted((data_dir / "ssvep").glob("*"))
    folders = [path for path in paths if path.is_dir()]
    files = [path for path in paths if path.suffix == ".npz"]
    sets: dict[tuple[tuple[float, ...], float], list[FlickerRecording]] = {}
    for person in [*read_each(folders, read_folder), *read_each(files, read_npz)]:
        sets.setdefault(person.kind, []).append(person)
    return list(sets.values())


def read_folder(folder: Path) -> FlickerRecording:
    """All FIF runs of one person, a block each."""
    blocks, kinds = [], set()
    for path in sorted(folder.glob("*_raw.fif")):
        events_path = path.with_name(path.name.replace("_raw.fif", "-eve.fif"))
        if not events_path.exists():
            continue
        raw = mne.io.read_raw_fif(path, preload=True, verbose="error").pick("eeg")
        events = mne.read_events(events_path, verbose="error")
        kinds.add((float(raw.info["sfreq"]), tuple(raw.ch_names)))
        signal = np.asarray(raw.get_data().T * 1e6, dtype=np.float32)
        places = [(int(at) - raw.first_samp, int(code)) for at, _, code in events.tolist()]
        whole_samples = TASK_S * raw.info["sfreq"]
        blocks.append(ArrayBlock(signal, _triggers(places, FIF_TASKS, len(signal), whole_samples)))
    if not blocks:
        raise NotThisLayoutError("no *_raw.fif with a *-eve.fif beside it")
    if len(kinds) > 1:
        raise NotThisLayoutError("its runs have different rates or leads")
    rate, names = kinds.pop()
    leads = tuple(Lead(name) for name in names)
    person = FlickerRecording(Recording(folder.name, rate, leads, blocks), FIF_HZ, float(TASK_S))
    if not set(FIF_HZ) <= _tasks(person.session):
        raise NotThisLayoutError(f"no whole trial ({TASK_S:g} s) of one of events 2, 3 and 4")
    return person


def read_npz(path: Path) -> FlickerRecording:
    """One person's stream or epochs. Raises NotThisLayoutError."""
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    missing = sorted({"rate", "ch_names", "frequencies"} - set(arrays))
    if missing or not ({"X", "y"} <= set(arrays) or "data" in arrays):
        wanted = ", ".join(missing) or "data, nor X and y"
        raise NotThisLayoutError(f"it has no {wanted}")
    rate = float(arrays["rate"])
    names = [str(name) for name in arrays["ch_names"]]
    hz = [float(each) for each in arrays["frequencies"]]
    flicker = [each for each in hz if each > 0]
    if not 2 <= len(set(flicker)) == len(flicker) <= len(FLICKER_TASKS):
        raise NotThisLayoutError(
            f"it has {len(flicker)} frequencies; 2 to {len(FLICKER_TASKS)} different ones are needed"
        )
    tasks = dict(zip(flicker, FLICKER_TASKS, strict=False))
    task_of = {place: tasks.get(each, IDLE) for place, each in enumerate(hz)}
    signal, places = _stream(arrays) if "data" in arrays else _joined(arrays)
    trial_s = _trial_s(places, len(signal), rate)
    leads = tuple(Lead(name) for name in names[: signal.shape[1]])
    if len(leads) < signal.shape[1]:
        raise NotThisLayoutError(f"{signal.shape[1]} leads, but {len(leads)} names")
    triggers = _triggers(places, task_of, len(signal), round(trial_s * rate))
    tail = signal[: -1 - int(TASK_S * rate) : -1]  # a trial ends with the next one or after 5 s
    block = ArrayBlock(np.concatenate([signal, tail]), triggers)
    session = Recording(path.stem, rate, leads, [block])
    return FlickerRecording(session, {task: each for each, task in tasks.items()}, trial_s)


def _stream(
    arrays: dict[str, NDArray[np.generic]],
) -> tuple[NDArray[np.float32], list[tuple[int, int]]]:
    """(samples, leads) and (sample, place in `frequencies`) of each trial."""
    data = np.asarray(arrays["data"], dtype=np.float32)
    if data.ndim != 2 or len(data) < 2 or not np.isfinite(data).all():
        raise NotThisLayoutError(f"data of shape {data.shape}, or not finite")
    codes = data[-1].astype(int)
    places = [(int(at), int(codes[at]) - 1) for at in np.flatnonzero(codes)]
    return np.ascontiguousarray(data[:-1].T), places


def _joined(
    arrays: dict[str, NDArray[np.generic]],
) -> tuple[NDArray[np.float32], list[tuple[int, int]]]:
    epochs, labels = np.asarray(arrays["X"], dtype=np.float32), np.asarray(arrays["y"], dtype=int)
    if epochs.ndim != 3 or labels.shape != epochs.shape[:1] or not np.isfinite(epochs).all():
        raise NotThisLayoutError(
            f"X of shape {epochs.shape} and y of {labels.shape}, or not finite"
        )
    n = epochs.shape[2]
    lead_in = epochs[0, :, n // 10 : 0 : -1].T  # so that the first trigger is not at the very start
    joined = epochs.transpose(0, 2, 1).reshape(-1, epochs.shape[1])
    signal = np.ascontiguousarray(np.concatenate([lead_in, joined]))
    return signal, [(len(lead_in) + k * n, int(label)) for k, label in enumerate(labels)]


def _trial_s(places: list[tuple[int, int]], n: int, rate: float) -> float:
    """The length of the shortest trial, at most the track's."""
    ends = [*(at for at, _ in places[1:]), n]
    shortest = min((end - at for (at, _), end in zip(places, ends, strict=True)), default=0)
    seconds = min(shortest / rate, float(TASK_S))
    if seconds < SHORTEST_S:
        raise NotThisLayoutError(f"a trial of {seconds:.2f} s; at least {SHORTEST_S:g} are needed")
    return seconds


def _triggers(
    places: list[tuple[int, int]], task_of: dict[int, int], n: int, whole_samples: float
) -> Triggers:
    """Of trials that last to their end before the next event and the recording's end."""
    ends = [*(at for at, _ in places[1:]), n]
    trials = [
        (at, task_of[code])
        for (at, code), end in zip(places, ends, strict=True)
        if code in task_of and end - at >= whole_samples
    ]
    return ((0, BLOCK_START), *((at, 8 * BEHAVIOUR_OF_TASK[task] + task) for at, task in trials))


def _tasks(session: Recording) -> set[int]:
    return {code % 8 for block in session.blocks for _, code in block.triggers if code in CODES}
