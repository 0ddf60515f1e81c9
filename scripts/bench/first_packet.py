"""Time and memory until the first packet of a long recording, against MNE's preload of the same file.

    python scripts/bench/first_packet.py [--hours 1.5] [--leads 32] [--rounds 9] [--folder DIR]

Makes an EDF, an EDF+, a BDF and a FIF (32 leads and TRIGGER, 1 kHz, labelled mi trials) in a folder, then
opens each in new processes, in turns: with MNE and preload=True; as `bci-replay start FILE` does, up to the
first packet of 40 ms; and as `bci-replay start FILE --track mi` does, where all triggers are read and checked
first, because the truth is sent before the first packet. EDF+ has its triggers as annotations, the others in
a channel. Prints time, CPU time (which a busy machine disturbs less) and memory (growth of the peak), with
their ratios. Imports are not counted: both need MNE.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

# Before this folder, where `decoders.py` would hide the package of that name.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.bench.ratios import report_ratio
from tracks.common.codes import BLOCK_END, BLOCK_START, TRIAL_END

RATE = 1000
TRIAL_S = 8
TRACK = "mi"
ASKED = {"time": 10, "CPU": None, "memory": 10}

_MEASURE = """
import json, sys, time
import mne
import mne.io.fiff  # which MNE imports when it opens the first FIF
import replay.readers.files, replay.readers.mne.edf, replay.readers.mne.fif
from replay.transform.masking import masked_packets
from replay.player.plan import make_plan
from replay.model.options import SourceOptions
from replay.sources import open_source
def peak():
    # Not ru_maxrss: that is inherited from the parent, whose peak hides everything smaller.
    line = next(l for l in open("/proc/self/status") if l.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024
path, how = sys.argv[1:]
before, cpu, begin = peak(), time.process_time(), time.perf_counter()
if how == "preload":
    mne.io.read_raw(path, preload=True, verbose="error")
else:
    track = None if how == "plain" else how
    plan = make_plan(open_source(path, SourceOptions(track=track)), track)
    first = next(masked_packets(plan.track, plan.sessions[0]))
took, busy, grew = time.perf_counter() - begin, time.process_time() - cpu, peak() - before
if how not in ("preload", "plain") and len(plan.truths[0]["blocks"][0]) < 100:
    sys.exit("the truth was not read")
print(json.dumps([took, busy, grew]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=1.5)
    parser.add_argument("--leads", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for path in _make(folder, int(options.hours * 3600), options.leads):
            _report(path, options.rounds)
            if options.folder is None:
                path.unlink()


# --- the recordings -------------------------------------------------------------------------------


def _make(folder: Path, seconds: int, leads: int) -> Iterator[Path]:
    stem = f"mi_{seconds}_{leads}"
    writers = {
        f"{stem}.edf": _write_edf,
        f"{stem}_plus.edf": _write_edf_plus,
        f"{stem}.bdf": _write_bdf,
        f"{stem}_raw.fif": _write_fif,
    }
    for name, write in writers.items():
        if not (folder / name).exists():
            print(f"writing {folder / name} ...", flush=True)
            write(folder / name, seconds, leads)
        yield folder / name


def _triggers(seconds: int) -> list[tuple[int, int]]:
    """(second, code): a block of trials, labelled as mi's training data are."""
    trials = range(4, seconds - TRIAL_S, TRIAL_S)
    found = [(1, BLOCK_START), (seconds - 1, BLOCK_END)]
    for number, begin in enumerate(trials):
        label = 10 * (1 + number % 2)
        found += [(begin + after_s, label + code) for code, after_s in ((1, 0), (2, 2), (3, 3))]
        found.append((begin + 4, TRIAL_END))
    return sorted(found)


def _names(leads: int) -> list[str]:
    from tracks.registry import TRACKS

    return list(TRACKS[TRACK].leads[:leads])


def _signals(seconds: int, leads: int) -> np.ndarray:
    minute = np.random.default_rng(0).integers(-200, 200, (leads, 60 * RATE)).astype(np.float32)
    return np.tile(minute, -(-seconds // 60))[:, : seconds * RATE]


def _trigger_row(seconds: int) -> np.ndarray:
    row = np.zeros((1, seconds * RATE), dtype=np.float32)
    for second, code in _triggers(seconds):
        row[0, second * RATE] = code
    return row


def _write_edf(path: Path, seconds: int, leads: int) -> None:
    _edf(path, _named(seconds, leads), [])


def _write_bdf(path: Path, seconds: int, leads: int) -> None:
    _edf(path, _named(seconds, leads), [])


def _named(seconds: int, leads: int) -> dict[str, np.ndarray]:
    rows = np.vstack([_signals(seconds, leads), _trigger_row(seconds)])
    return dict(zip([*_names(leads), "TRIGGER"], rows, strict=True))


def _write_edf_plus(path: Path, seconds: int, leads: int) -> None:
    """Triggers as annotations, and one lead more in the place of TRIGGER."""
    rows = _signals(seconds, leads + 1)
    notes = [(second, str(code)) for second, code in _triggers(seconds)]
    _edf(path, dict(zip(_names(leads + 1), rows, strict=True)), notes)


def _edf(path: Path, rows: dict[str, np.ndarray], notes: list[tuple[int, str]]) -> None:
    import edfio

    bdf = path.suffix == ".bdf"
    signal, document = (edfio.BdfSignal, edfio.Bdf) if bdf else (edfio.EdfSignal, edfio.Edf)
    bound = 2 ** (23 if bdf else 15)
    signals = [
        signal(
            row,
            RATE,
            label=name,
            physical_dimension="uV" if name != "TRIGGER" else "",
            physical_range=(-bound, bound - 1),
            digital_range=(-bound, bound - 1),
        )
        for name, row in rows.items()
    ]
    listed = [edfio.EdfAnnotation(onset, None, text) for onset, text in notes] or None
    document(signals, data_record_duration=1, annotations=listed).write(path)


def _write_fif(path: Path, seconds: int, leads: int) -> None:
    import mne

    info = mne.create_info([*_names(leads), "TRIGGER"], RATE, ["eeg"] * leads + ["stim"])
    rows = np.vstack([_signals(seconds, leads) * 1e-6, _trigger_row(seconds)]).astype(np.float64)
    mne.io.RawArray(rows, info, copy=None, verbose="error").save(path, verbose="error")


# --- the measurement ------------------------------------------------------------------------------


def _measure(path: Path, how: str) -> list[float]:
    command = [sys.executable, "-c", _MEASURE, str(path), how]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(ended.stderr)
    return list(json.loads(ended.stdout))


def _report(path: Path, rounds: int) -> None:
    path.read_bytes()  # all of them find the file in the page cache
    ways = ("preload", "plain", TRACK)
    measured = [[_measure(path, how) for how in ways] for _ in range(rounds)]
    median = np.median(measured, axis=0)
    size_mb = path.stat().st_size / 2**20
    if median[0, 2] < size_mb:
        sys.exit(f"preload of {path} grew by {median[0, 2]:.0f} MB only: the measurement is broken")
    print(f"{path.name} ({size_mb:.0f} MB), median of {rounds} (in brackets: each round's ratio)")
    for k, (name, factor, unit) in enumerate(
        (("time", 1e3, "ms"), ("CPU", 1e3, "ms"), ("memory", 1, "MB"))
    ):
        print(f"  {name:7} preload {median[0, k] * factor:8.1f} {unit}", end="")
        for way, how in enumerate(ways[1:], 1):
            each = " ".join(f"1/{one[0][k] / one[way][k]:.0f}" for one in measured)
            what = "first packet" if how == "plain" else f"with --track {how}"
            ratio = median[0, k] / median[way, k]
            print(f"   {what} {median[way, k] * factor:6.1f} {unit} 1/{ratio:.0f} ({each})", end="")
        asked = ASKED[name]
        print(f"   asked: 1/{asked}" if asked else "", flush=True)
    for k, name in ((0, "time"), (2, "memory")):
        for way, what in ((1, "first packet"), (2, f"first packet with --track {TRACK}")):
            ratios = [one[way][k] / one[0][k] for one in measured]
            measure = f"{name} to the {what}, {path.suffix[1:]}" + "+" * path.stem.endswith("_plus")
            report_ratio("first_packet", measure, "MNE preload", ratios, "at most 1/10")


if __name__ == "__main__":
    main()
