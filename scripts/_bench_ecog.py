"""The ecog part of the decoders' benchmark: a recorded movement from cortical signals, causally.

Each recording (BrainVision, BIDS) has a trace of the movement. It stands for all eight joints,
so the mean over joints is its own score. The recording is cut into three parts; each is decoded
after training on the two others.
"""

from dataclasses import dataclass
from pathlib import Path

import mne
import numpy as np
from _bench_files import NotThisLayoutError, read_each
from _bench_row import Row, mean, row_of
from numpy.typing import NDArray

from bci_stream.packet import Lead
from decoders.decoder import Decoder
from decoders.ecog import EcogDecoder, fit
from decoders.offline import run_offline
from decoders.references_b import BandPowerRegression, ConstantAngles
from replay.recording import ArrayBlock, Recording
from tracks.angles import ANGLE_RATE, JOINTS

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

    def part(self, begin: float, end: float) -> Recording:
        """From one share of its length to another."""
        rows = slice(round(begin * len(self.trace)), round(end * len(self.trace)))
        samples = slice(*(round(row * self.rate / ANGLE_RATE) for row in (rows.start, rows.stop)))
        angles = np.repeat(self.trace[rows, None], len(JOINTS), axis=1)
        block = ArrayBlock(self.signal[samples], ())
        return Recording(self.name, self.rate, self.leads, [block], angles)


def run(data_dir: Path) -> list[Row]:
    """Rows of every recording that stands in data_dir/ecog."""
    rows: list[Row] = []
    for movement in read_each(sorted((data_dir / "ecog").glob("*.vhdr")), read_movement):
        rows += _rows(movement)
    return rows


def read_movement(path: Path) -> Movement:
    """A recording with a trace of movement."""
    raw = mne.io.read_raw_brainvision(path, preload=True, verbose="error")
    traces = [name for word in TRACES for name in raw.ch_names if word in name.upper()]
    brain = [name for name in raw.ch_names if name.upper().startswith(BRAIN)]
    if not traces or not brain:
        raise NotThisLayoutError("it has no trace of a movement, or no lead of a brain")
    rate = float(raw.info["sfreq"])
    signal = raw.get_data(picks=brain).T
    moved = raw.get_data(picks=traces[:1])[0]
    rows = np.arange(int(len(moved) * ANGLE_RATE / rate)) / ANGLE_RATE
    trace = np.interp(rows, np.arange(len(moved)) / rate, moved)
    leads = tuple(Lead(name, "ECOG") for name in brain)
    name = path.stem.split("task-")[-1].split("_")[0]
    return Movement(name, rate, leads, _microvolts(signal), trace)


def _microvolts(signal: NDArray[np.float64]) -> NDArray[np.float32]:
    """These files say volts and hold microvolts: whatever they say, tens of microvolts are
    cortical."""
    spread = float(np.median(signal.std(axis=0)))
    return np.asarray(signal * (1e6 if spread < 1e-2 else 1.0), dtype=np.float32)


def _rows(movement: Movement) -> list[Row]:
    scores: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    for part in range(PARTS):
        begin, end = part / PARTS, (part + 1) / PARTS
        kept = [(a, b) for a, b in ((0.0, begin), (end, 1.0)) if b > a]
        training = [movement.part(a, b) for a, b in kept]
        for name, decoder in _decoders(training).items():
            outcome = run_offline("ecog", decoder, [movement.part(begin, end)])
            scores.setdefault(name, []).append(outcome.score)
            times.setdefault(name, []).extend(outcome.compute_s)
    return [_row(movement, name, found, times[name]) for name, found in scores.items()]


def _decoders(training: list[Recording]) -> dict[str, Decoder]:
    model = fit(training, seed=0, progress=lambda _: None)
    return {
        "ecog-ridge": EcogDecoder(model=model),
        "band power regression": BandPowerRegression(training, slow=False),
        "LMP regression": BandPowerRegression(training, slow=True),
        "constant mean": ConstantAngles(training),
    }


def _row(movement: Movement, name: str, scores: list[float], compute_s: list[float]) -> Row:
    return row_of(
        scores,
        mean,
        f"{PARTS} parts left out",
        track="ecog",
        data=movement.name,
        method=name,
        ours=name == "ecog-ridge",
        measure="track score",
        n=len(movement.trace),
        compute_s=compute_s,
        note="one movement, so all joints are the same",
    )
