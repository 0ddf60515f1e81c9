"""Motor imagery on real recordings: EEGMMIDB as left, right, feet; each pair of runs left out once.

Runs 04 08 12 hold left and right fists, 06 10 14 both feet (both fists there are no class of ours and
are left out). A pair (04+06, ...) is one session of two blocks; the others train.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bci_stream.packet import Lead
from decoders.mi import training
from decoders.mi.decoder import MiDecoder
from decoders.mi.references import CspLda, Mdm, TangentSpaceLr
from decoders.model import Model
from decoders.offline import OfflineRun, run_offline
from replay.model.recording import ArrayBlock, Recording
from scripts.bench.recordings.files import NotThisLayoutError, read_each, rows_of_each
from scripts.bench.table import Row, row_of
from tracks.common.codes import BLOCK_START, TRIAL_END
from tracks.common.verdicts import Verdict
from tracks.mi import IMAGERY_S, score

PAIRS = ((4, 6), (8, 10), (12, 14))
METHODS: dict[str, tuple[Any, Any, bool]] = {
    "mi-riemann": (training.fit, MiDecoder, True),
    "mi-csp (CSP+LDA)": (CspLda.fit, CspLda, False),
    "mi-mdm (MDM)": (Mdm.fit, Mdm, False),
    "mi-ts (TS+LR)": (TangentSpaceLr.fit, TangentSpaceLr, False),
}
SEGMENT_TIMES_S = (0, 2, 3)


def run(data_dir: Path) -> Iterator[Row]:
    """Rows for everybody with two pairs of runs or more below data_dir/mi."""
    people = [data_dir / "mi" / subject for subject in subjects(data_dir / "mi")]
    return rows_of_each(
        read_each(people, sessions_of), lambda sessions: sessions[0].subject, rows_of_person
    )


def rows_of_person(sessions: Sequence[Recording]) -> list[Row]:
    return [_row(sessions[0].subject, method, sessions) for method in METHODS]


def subjects(folder: Path) -> list[str]:
    """Those of whom there is any run."""
    return sorted({path.name[:4] for path in folder.rglob("S???R??.edf")})


def sessions_of(person: Path) -> list[Recording]:
    """person: folder and name, with which the names of the runs' files begin."""
    runs = {int(path.stem[5:]): path for path in person.parent.rglob(f"{person.name}R??.edf")}
    pairs = [pair for pair in PAIRS if set(pair) <= set(runs)]
    if len(pairs) < 2:
        missing = [f"R{n:02d}" for pair in PAIRS for n in pair if n not in runs]
        raise NotThisLayoutError(
            "one pair of runs is left out and the others train, so two of "
            f"04+06, 08+10, 12+14 are needed; there is no {', '.join(missing)}"
        )
    return [session(person.name, [runs[number] for number in pair]) for pair in pairs]


def session(subject: str, pair: Sequence[Path]) -> Recording:
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


def _imagery(start: int, label: int, rate: float) -> list[tuple[int, int]]:
    marks = [(start + round(s * rate), 10 * label + 1 + k) for k, s in enumerate(SEGMENT_TIMES_S)]
    return [*marks, (start + round(IMAGERY_S * rate), TRIAL_END)]


def _row(subject: str, method: str, sessions: Sequence[Recording]) -> Row:
    fit, decoder_class, ours = METHODS[method]
    outcomes: list[OfflineRun] = []
    for left_out in range(len(sessions)):
        training = [s for k, s in enumerate(sessions) if k != left_out]
        model: Model = fit(training, seed=0, progress=lambda _: None)
        outcomes.append(run_offline("mi", decoder_class(model=model), [sessions[left_out]]))
    verdicts = [verdict for outcome in outcomes for verdict in outcome.run.verdicts()]
    return row_of(
        verdicts,
        score,
        "trials",
        track="mi",
        data=f"EEGMMIDB {subject}",
        method=method,
        ours=ours,
        measure="bits/min",
        compute_s=np.concatenate([outcome.compute_s for outcome in outcomes]).tolist(),
        note="right at 2, 3, 4 s: " + ", ".join(f"{p:.2f}" for p in _shares(verdicts)),
    )


def _shares(verdicts: Sequence[Verdict]) -> list[float]:
    return [float(np.mean([verdict.right[k] for verdict in verdicts])) for k in range(3)]
