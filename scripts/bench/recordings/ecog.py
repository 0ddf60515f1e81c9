"""The ecog part of the decoders' benchmark: a recorded movement from cortical signals, causally.

Each recording (BrainVision, BIDS) has a trace of the movement. It stands for all eight joints,
so the mean over joints is its own score. The recording is cut into three parts; each is decoded
after training on the two others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import mne
import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Lead
from decoders.decoder import Decoder
from decoders.ecog.decoder import EcogDecoder
from decoders.ecog.model import unpack
from decoders.ecog.training import fit
from decoders.offline import run_offline
from replay.model.recording import ArrayBlock, Recording
from scripts.bench.recordings.files import NotThisLayoutError, read_each, rows_of_each
from scripts.bench.recordings.references import BandPowerRegression, constant_angles
from scripts.bench.table import Row, mean, row_of
from tracks.common.angles import ANGLE_RATE, JOINTS

OURS = "ecog-ridge"
PARTS = 3
TRACES = ("MOV", "ROTA", "FORCE", "ANALOG")
"""What the channel of the movement is called, in order of preference."""
BRAIN = ("ECOG", "LFP", "SEEG", "DBS")


@dataclass(frozen=True)
class Movement:
    """signal (samples, leads) in microvolts, trace (rows,) at 200 Hz."""

    name: str
    rate: float
    leads: tuple[Lead, ...]
    signal: NDArray[np.float32]
    trace: NDArray[np.float64]

    def only(self, names: Sequence[str]) -> "Movement":
        """The same with some leads."""
        places = [place for place, lead in enumerate(self.leads) if lead.name in names]
        leads = tuple(self.leads[place] for place in places)
        return replace(self, leads=leads, signal=np.ascontiguousarray(self.signal[:, places]))

    def part(self, begin: float, end: float) -> Recording:
        """From one share of its length to another."""
        rows = slice(round(begin * len(self.trace)), round(end * len(self.trace)))
        samples = slice(*(round(row * self.rate / ANGLE_RATE) for row in (rows.start, rows.stop)))
        angles = np.repeat(self.trace[rows, None], len(JOINTS), axis=1)
        block = ArrayBlock(self.signal[samples], ())
        return Recording(self.name, self.rate, self.leads, [block], angles)


def run(data_dir: Path) -> Iterator[Row]:
    """Rows of every recording below data_dir/ecog."""
    movements = read_each(sorted((data_dir / "ecog").rglob("*.vhdr")), read_movement)
    return rows_of_each(movements, lambda movement: movement.name, _rows)


def read_movement(path: Path) -> Movement:
    """A recording with a trace of movement."""
    raw = mne.io.read_raw_brainvision(path, preload=True, verbose="error")
    traces = [name for word in TRACES for name in raw.ch_names if word in name.upper()]
    brain = [name for name in raw.ch_names if name.upper().startswith(BRAIN)]
    if not traces or not brain:
        raise NotThisLayoutError("it has no trace of a movement, or no brain lead")
    rate = float(raw.info["sfreq"])
    signal = raw.get_data(picks=brain).T
    moving = [trace for trace in raw.get_data(picks=traces) if _moves_throughout(trace)]
    if not moving:
        raise NotThisLayoutError(
            f"{', '.join(traces)}: no trace moves in each of the {PARTS} parts that are left out"
        )
    moved = moving[0]
    rows = np.arange(int(len(moved) * ANGLE_RATE / rate)) / ANGLE_RATE
    trace = np.interp(rows, np.arange(len(moved)) / rate, moved)
    leads = tuple(Lead(name, "ECOG") for name in brain)
    return Movement(path.stem.removesuffix("_ieeg"), rate, leads, _microvolts(signal), trace)


def _moves_throughout(trace: NDArray[np.float64]) -> bool:
    """Whether the trace varies in each part; else a constant would be as good as any decoder."""
    parts = np.array_split(trace, PARTS)
    return bool(np.isfinite(trace).all()) and all(len(p) > 0 and np.ptp(p) > 0 for p in parts)


def _microvolts(signal: NDArray[np.float64]) -> NDArray[np.float32]:
    """In microvolts: some files declare volts and hold microvolts, which the spread shows."""
    spread = float(np.median(signal.std(axis=0)))
    return np.asarray(signal * (1e6 if spread < 1e-2 else 1.0), dtype=np.float32)


def _rows(movement: Movement) -> list[Row]:
    scores: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    for part in range(PARTS):
        left_out = (part / PARTS, (part + 1) / PARTS)
        for name, decoder, recording in _decoders(movement, left_out):
            outcome = run_offline("ecog", decoder, [recording])
            scores.setdefault(name, []).append(outcome.score)
            times.setdefault(name, []).extend(outcome.compute_s)
    return [_row(movement, name, found, times[name]) for name, found in scores.items()]


def _decoders(
    movement: Movement, left_out: tuple[float, float]
) -> Iterator[tuple[str, Decoder, Recording]]:
    """Each method, trained, and the part it is tested on. Where there are more leads than the track
    sends, the references are given those that ours chose from its training."""
    begin, end = left_out
    kept = [(a, b) for a, b in ((0.0, begin), (end, 1.0)) if b > a]
    model = fit([movement.part(a, b) for a, b in kept], seed=0, progress=lambda _: None)
    yield OURS, EcogDecoder(model=model), movement.part(begin, end)
    chosen = movement.only(unpack(model)[0][movement.name].leads)
    training, test = [chosen.part(a, b) for a, b in kept], chosen.part(begin, end)
    yield "band power regression", BandPowerRegression(training, "powers"), test
    yield "LMP regression", BandPowerRegression(training, "slow"), test
    yield "ridge, two scales, blocked CV", BandPowerRegression(training, "both"), test
    yield "constant mean", constant_angles(training), test


def _row(movement: Movement, name: str, scores: list[float], compute_s: list[float]) -> Row:
    return row_of(
        scores,
        mean,
        f"{PARTS} parts left out",
        track="ecog",
        data=movement.name,
        method=name,
        ours=name == OURS,
        measure="track score",
        n=len(movement.trace),
        compute_s=compute_s,
        note="one movement, so all joints are the same",
    )
