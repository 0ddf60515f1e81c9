"""Recordings of motor imagery for the decoders' benchmark, in four layouts.

mi/SsssRrr.edf (EEGMMIDB), mi_two/*.npz (whole runs in the track's codes, two classes), mi_epochs/*.npz
(epochs of 4 s) and xdf/mi_*.xdf (LabRecorder). Each becomes people with sessions of the track.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Lead
from replay.model.options import SourceOptions
from replay.model.recording import ArrayBlock, Recording
from replay.model.source import Session
from replay.sources import open_source
from scripts.bench.recordings.files import NotThisLayoutError, read_each
from tracks.common.codes import BLOCK_START, TRIAL_END
from tracks.mi import IMAGERY_S

PAIRS = ((4, 6), (8, 10), (12, 14))
SEGMENT_TIMES_S = (0, 2, 3)
GAP_S = 1
"""Of zeros between epochs, as the track shows pauses."""
EPOCH_SESSIONS = 5
EPOCH_CLASSES = (1, 1, 3, 2)
"""Of left hand, right hand, feet, rest: hands, feet and rest, since there are five of each hand."""
XDF_NAMES = "P3,P4,C3,C4,CP5,CP6,O1,O2,CP1,CP2,FC1,FC2,FC5,FC6,Cz,Fpz"
XDF_EVENTS = "START=242,2.*=11+12@2+13@3+241@4,3.*=21+22@2+23@3+241@4,1.*=31+32@2+33@3+241@4,*=0"


@dataclass(frozen=True)
class ImageryPerson:
    """kind: people of one kind have the same classes and cap, and can train for each other."""

    name: str
    kind: str
    sessions: Sequence[Session]


def imagery_people(data_dir: Path) -> list[ImageryPerson]:
    """Everybody below data_dir; what can't be used is named and skipped."""
    return [
        *read_each(_prefixes(data_dir / "mi", "S???R??.edf", 4), read_mmidb),
        *read_each(_prefixes(data_dir / "mi_two", "*_*.npz", -3), read_runs),
        *read_each(sorted((data_dir / "mi_epochs").rglob("*.npz")), read_epochs),
        *read_each(_prefixes(data_dir / "xdf", "mi_*.xdf", 2), read_xdf),
    ]


def _prefixes(folder: Path, pattern: str, length: int) -> list[Path]:
    """Folder and what the names of one person's files begin with."""
    return sorted({folder / path.stem[:length] for path in folder.rglob(pattern)})


def read_mmidb(person: Path) -> ImageryPerson:
    """EEGMMIDB: runs 04 08 12 hold left and right fists, 06 10 14 both feet (both fists there are no
    class of ours). A pair of runs (04+06, ...) is one session of two blocks."""
    runs = {int(path.stem[5:]): path for path in person.parent.rglob(f"{person.name}R??.edf")}
    pairs = [pair for pair in PAIRS if set(pair) <= set(runs)]
    if len(pairs) < 2:
        missing = [f"R{n:02d}" for pair in PAIRS for n in pair if n not in runs]
        raise NotThisLayoutError(
            "one pair of runs is left out and the others train, so two of "
            f"04+06, 08+10, 12+14 are needed; there is no {', '.join(missing)}"
        )
    sessions = [_pair(person.name, [runs[number] for number in pair]) for pair in pairs]
    return ImageryPerson(person.name, "EEGMMIDB", sessions)


def _pair(subject: str, pair: Sequence[Path]) -> Recording:
    """A pair of runs as one session of two blocks, with the track's training triggers."""
    import mne

    blocks, kinds = [], []
    for path, classes in zip(pair, ({"T1": 1, "T2": 2}, {"T2": 3}), strict=True):
        raw = mne.io.read_raw_edf(path, preload=True, verbose="ERROR")
        rate = float(raw.info["sfreq"])
        samples = np.ascontiguousarray(raw.get_data().T * 1e6, dtype=np.float32)
        triggers = [(0, BLOCK_START)]
        for mark in raw.annotations:
            label = classes.get(str(mark["description"]))
            imagery = _imagery(round(float(mark["onset"]) * rate), label or 0, rate)
            if label is not None and imagery[-1][0] < len(samples):  # whole ones only
                triggers += imagery
        blocks.append(ArrayBlock(samples, tuple(triggers)))
        kinds.append((rate, raw.ch_names))
    if kinds[0] != kinds[1]:
        names = " and ".join(path.name for path in pair)
        raise NotThisLayoutError(f"{names} have different rates or leads")
    return Recording(subject, rate, tuple(Lead(name) for name in raw.ch_names), blocks)


def read_runs(person: Path) -> ImageryPerson:
    """Runs pNN_RR.npz: `data` (leads + TRIGGER in the track's codes, samples), `rate`, `ch_names`."""
    paths = sorted(person.parent.rglob(f"{person.name}_*.npz"))
    if len(paths) < 2:
        raise NotThisLayoutError("one run is left out and the others train, so two are needed")
    return ImageryPerson(person.name, person.parent.name, [_run(person.name, p) for p in paths])


def _run(subject: str, path: Path) -> Recording:
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        missing = sorted({"data", "rate", "ch_names"} - set(file.files))
        if missing:
            raise NotThisLayoutError(f"{path.name} has no {', '.join(missing)}")
        data, rate = file["data"], float(file["rate"])
        leads = tuple(Lead(str(name)) for name in file["ch_names"][:-1])
    codes = data[-1].astype(int)
    triggers = tuple((int(place), int(codes[place])) for place in np.flatnonzero(codes))
    block = ArrayBlock(np.ascontiguousarray(data[:-1].T, dtype=np.float32), triggers)
    return Recording(subject, rate, leads, [block])


def read_epochs(path: Path) -> ImageryPerson:
    """Epochs of 4 s: `X` (trials, leads, samples), `y`, `rate`, `ch_names`, `task`. Their order is not
    known; each session takes every fifth of each task, in an order drawn from a seed."""
    with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
        missing = sorted({"X", "y", "rate", "ch_names", "task"} - set(file.files))
        if missing:
            raise NotThisLayoutError(f"it has no {', '.join(missing)}")
        x, rate = file["X"], float(file["rate"])
        labels = np.array(EPOCH_CLASSES)[file["y"]]
        task = file["task"]
        leads = tuple(Lead(str(name)) for name in file["ch_names"])
    number = np.zeros(len(task), dtype=int)
    for one in np.unique(task):
        number[task == one] = np.arange((task == one).sum()) % EPOCH_SESSIONS
    sessions = []
    for part in range(EPOCH_SESSIONS):
        rows = np.random.default_rng(part).permutation(np.flatnonzero(number == part))
        block = _joined(x[rows], labels[rows], rate)
        sessions.append(Recording(path.stem, rate, leads, [block]))
    kind = f"mi_epochs, {len(np.unique(labels))} classes"
    return ImageryPerson(path.stem, kind, sessions)


def _joined(x: NDArray[np.float32], labels: NDArray[np.int64], rate: float) -> ArrayBlock:
    """Epochs (trials, leads, samples) one after the other, with zeros between."""
    gap = round(GAP_S * rate)
    step = x.shape[2] + gap
    data = np.zeros((gap + len(x) * step, x.shape[1]), dtype=np.float32)
    triggers = [(0, BLOCK_START)]
    for number, (epoch, label) in enumerate(zip(x, labels.tolist(), strict=True)):
        begin = gap + number * step
        data[begin : begin + x.shape[2]] = epoch.T
        triggers += _imagery(begin, label, rate)
    return ArrayBlock(data, tuple(triggers))


def read_xdf(person: Path) -> ImageryPerson:
    """LabRecorder's files mi_1.xdf, ... of one person; leads and marks are named here."""
    paths = sorted(person.parent.rglob(f"{person.name}_*.xdf"))
    names = ",".join(f"ch{k}={name}" for k, name in enumerate(XDF_NAMES.split(","), start=1))
    sessions = list(_opened(paths, f"?track=mi&subject=xdf&rename={names}&events={XDF_EVENTS}"))
    if len(sessions) < 2:
        raise NotThisLayoutError("one file is left out and the others train, so two are needed")
    return ImageryPerson("xdf", "xdf", sessions)


def _opened(paths: Sequence[Path], options: str) -> Iterator[Session]:
    for path in paths:
        yield from open_source(f"{path}{options}", SourceOptions(track="mi")).sessions()


def _imagery(start: int, label: int, rate: float) -> list[tuple[int, int]]:
    marks = [(start + round(s * rate), 10 * label + 1 + k) for k, s in enumerate(SEGMENT_TIMES_S)]
    return [*marks, (start + round(IMAGERY_S * rate), TRIAL_END)]
