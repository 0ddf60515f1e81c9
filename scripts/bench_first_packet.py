"""How soon the first packet of a long recording leaves, beside MNE's preload of the same file.

    python scripts/bench_first_packet.py [--hours 1.5] [--leads 32] [--folder DIR]

Makes an EDF, an EDF+ and a FIF (33 channels, 1 kHz) in a folder, then opens each in fresh processes, by
turns: once with MNE and preload=True, once with `open_source(...)` up to the first 40 ms packet.
Prints time, CPU time (which a busy machine disturbs less) and memory (growth of the peak), with
their ratios. Imports are not counted: both need MNE.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

RATE = 1000
ROUNDS = 3

_MEASURE = """
import json, sys, time
import mne
from replay.uri import open_source
import replay.file_source, replay.readers.mne_file
def peak():
    # Not ru_maxrss: that is inherited from the parent, whose peak hides everything smaller.
    line = next(l for l in open("/proc/self/status") if l.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024
path, how = sys.argv[1:]
before, cpu, begin = peak(), time.process_time(), time.perf_counter()
if how == "preload":
    mne.io.read_raw(path, preload=True, verbose="error")
else:
    session = next(open_source(path).sessions())
    packets = session.packets(40)
    next(packets)
took, busy = time.perf_counter() - begin, time.process_time() - cpu
grew = peak() - before
total = None
if how == "lazy":
    begin = time.perf_counter()
    session.block_triggers()
    total = time.perf_counter() - begin
print(json.dumps([took, busy, grew, total]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=1.5)
    parser.add_argument("--leads", type=int, default=32)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for path in _make(folder, int(options.hours * 3600), options.leads):
            _report(path)


def _make(folder: Path, seconds: int, leads: int) -> list[Path]:
    stem = f"long_{seconds}_{leads}"
    writers = {
        f"{stem}.edf": _write_edf,
        f"{stem}_plus.edf": _write_edf_plus,
        f"{stem}_raw.fif": _write_fif,
    }
    for name, write in writers.items():
        if not (folder / name).exists():
            print(f"writing {folder / name} ...", flush=True)
            write(folder / name, seconds, leads)
    return [folder / name for name in writers]


def _rows(seconds: int, leads: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    minute = rng.integers(-200, 200, (leads, 60 * RATE)).astype(np.float32)
    rows = np.tile(minute, -(-seconds // 60))[:, : seconds * RATE]
    trigger = np.zeros((1, seconds * RATE), dtype=np.float32)
    trigger[0, 5000::8000] = 11
    return np.vstack([rows, trigger])


def _write_edf(path: Path, seconds: int, leads: int) -> None:
    """Triggers as a channel."""
    rows = _rows(seconds, leads)
    names = [*(f"ch{k}" for k in range(1, leads + 1)), "TRIGGER"]
    _edf(path, dict(zip(names, rows, strict=True)), [])


def _write_edf_plus(path: Path, seconds: int, leads: int) -> None:
    """EDF+: triggers as annotations, which MNE reads from end to end as it opens a file."""
    rows = _rows(seconds, leads + 1)[:-1]
    notes = [(onset, "11") for onset in range(5, seconds, 8)]
    _edf(path, {f"ch{k}": row for k, row in enumerate(rows, 1)}, notes)


def _edf(path: Path, rows: dict[str, np.ndarray], notes: list[tuple[int, str]]) -> None:
    import edfio

    signals = [
        edfio.EdfSignal(
            row,
            RATE,
            label=name,
            physical_dimension="uV" if name != "TRIGGER" else "",
            physical_range=(-32768, 32767),
            digital_range=(-32768, 32767),
        )
        for name, row in rows.items()
    ]
    listed = [edfio.EdfAnnotation(onset, None, text) for onset, text in notes]
    edfio.Edf(signals, data_record_duration=1, annotations=listed).write(path)


def _write_fif(path: Path, seconds: int, leads: int) -> None:
    import mne

    names = [*(f"ch{k}" for k in range(1, leads + 1)), "TRIGGER"]
    info = mne.create_info(names, RATE, ["eeg"] * leads + ["stim"])
    rows = _rows(seconds, leads).astype(np.float64)
    rows[:-1] *= 1e-6
    mne.io.RawArray(rows, info, copy=None, verbose="error").save(path, verbose="error")


def _measure(path: Path, how: str) -> list[float]:
    command = [sys.executable, "-c", _MEASURE, str(path), how]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return list(json.loads(ended.stdout))


def _report(path: Path) -> None:
    pairs = [(_measure(path, "preload"), _measure(path, "lazy")) for _ in range(ROUNDS)]
    preload = np.median([whole[:3] for whole, _ in pairs], axis=0)
    first = np.median([lazy[:3] for _, lazy in pairs], axis=0)
    size_mb = path.stat().st_size / 2**20
    if preload[2] < size_mb:
        sys.exit(f"preload of {path} grew by {preload[2]:.0f} MB only: the measurement is broken")
    print(f"{path.name} ({size_mb:.0f} MB), median of {ROUNDS} (in brackets: each round's ratio)")
    for k, (name, factor, unit) in enumerate(
        (("time", 1e3, "ms"), ("CPU", 1e3, "ms"), ("memory", 1, "MB"))
    ):
        rounds = " ".join(f"1/{whole[k] / lazy[k]:.0f}" for whole, lazy in pairs)
        print(
            f"  {name:7} preload {preload[k] * factor:8.1f} {unit}   first packet "
            f"{first[k] * factor:7.1f} {unit}   1/{preload[k] / first[k]:.0f} ({rounds})"
        )
    scan_s = np.median([lazy[3] for _, lazy in pairs])
    print(f"  all triggers, for the truth, afterwards: {scan_s * 1000:.1f} ms")


if __name__ == "__main__":
    main()
