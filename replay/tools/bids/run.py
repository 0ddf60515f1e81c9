"""A recorded XDF file as a run of a BIDS dataset, written by MNE-BIDS: signal, events, results."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.runlog import read_log
from replay.model.events import text_of
from replay.model.source import Session
from replay.model.stamps import missing_samples
from replay.model.units import VOLTAGES
from replay.sources import open_source
from replay.tools.bids.places import find_line_hz, write_places
from replay.tools.xdf_file import read_stamps
from tracks.common.verdicts import Verdict
from tracks.run import Run

_LABEL = re.compile(r"[A-Za-z0-9]+")
READ_SAMPLES = 4096
INTRACRANIAL = ("ECOG", "SEEG", "DBS")
KINDS = ("EEG", "EOG", "ECG", "EMG", "ECOG", "SEEG", "DBS")
"""Kinds of leads that MNE knows by the same name; others are `misc`."""


@dataclass(frozen=True)
class BidsName:
    """Where a run stands in a BIDS dataset."""

    root: Path
    subject: str
    task: str
    session: str | None = None
    run: int | None = None

    def check(self, overwrite: bool) -> None:
        """Raise SourceError for a label that BIDS does not allow, or if the run exists."""
        for key in ("subject", "task", "session"):
            label = getattr(self, key)
            if label is not None and not _LABEL.fullmatch(label):
                raise SourceError(
                    f"--{key} {label!r}: a label in BIDS has letters and digits only, such as 01 or mi"
                )
        import_mne_bids()
        made = sorted(self._folder(self.root).glob(f"*/{self.stem}_*eeg.vhdr"))
        if made and not overwrite:
            raise SourceError(f"{made[0]} exists already: give another --run, or use --overwrite")

    @property
    def stem(self) -> str:
        parts = [f"sub-{self.subject}", self.session and f"ses-{self.session}", f"task-{self.task}"]
        parts.append(f"run-{self.run:02d}" if self.run else None)
        return "_".join(str(part) for part in parts if part)

    def _folder(self, root: Path) -> Path:
        own = root / f"sub-{self.subject}"
        return own / f"ses-{self.session}" if self.session else own

    @property
    def xdf_path(self) -> Path:
        """Where the XDF file stands in the dataset."""
        return self._folder(self.root / "sourcedata") / f"{self.stem}.xdf"


def import_mne_bids() -> Any:
    try:
        import mne_bids
        import pybv  # noqa: F401 - MNE-BIDS writes BrainVision with it
    except ModuleNotFoundError as error:
        raise SourceError(
            f"--bids needs {error.name}: `pip install bci-stream[bids]` brings it along"
        ) from error
    return mne_bids


@dataclass(frozen=True)
class EventRow:
    """A line of events.tsv. sample: in the recording. code: n/a for a result."""

    sample: int
    name: str
    code: int | None = None
    result: str = ""
    label: str = ""
    answer: str = ""
    hed: str = ""


def write_bids_run(
    xdf: Path,
    name: BidsName,
    run_log: Path | None,
    overwrite: bool,
    line_hz: float | None = None,
) -> list[str]:
    """Write the run; returns lines about it. line_hz: of the power line; None to find it in the signal.

    Raises SourceError.
    """
    mne_bids = import_mne_bids()
    sessions = list(open_source(str(xdf)).sessions())
    session = sessions[0]
    raw, triggers, edges = _read(session)
    events = [_event_row(at, code) for at, code in triggers]
    results = trial_results(run_log, triggers) if run_log else []
    raw.info["line_freq"] = line_hz or find_line_hz(
        raw.get_data(picks=_voltages(session)).T * 1e6, session.rate
    )
    is_inside = all(lead.kind in INTRACRANIAL for lead in session.leads if lead.kind in KINDS)
    path = mne_bids.BIDSPath(
        subject=name.subject,
        session=name.session,
        task=name.task,
        run=f"{name.run:02d}" if name.run else None,
        datatype="ieeg" if is_inside else "eeg",
        root=name.root,
    )
    mne_bids.write_raw_bids(
        raw, path, format="BrainVision", allow_preload=True, overwrite=overwrite, verbose="error"
    )
    edges = sorted({*edges, *_gaps(xdf, session.rate, raw.n_times)})
    borders = [EventRow(at, "boundary") for at in edges]
    written = Path(path.fpath)
    # MNE-BIDS takes the maker of the file's format for the amplifier's.
    _set_in_json(written.with_suffix(".json"), Manufacturer="n/a")
    _write_events(
        written, sorted([*events, *results, *borders], key=lambda row: row.sample), session.rate
    )
    if any(row.hed for row in events):
        _state_hed_version(name.root / "dataset_description.json")
    if xdf.absolute() != name.xdf_path.absolute():
        name.xdf_path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(xdf, name.xdf_path)
    lines = [
        f"{written}: {raw.n_times} samples of {len(session.leads)} leads, {len(events)} events"
        + (f", {len(results)} results of trials" if run_log else "")
    ]
    stem = f"sub-{name.subject}" + (f"_ses-{name.session}" if name.session else "")
    power = raw.info["line_freq"]
    notes = [
        write_places(written.parent, stem, session.leads, path.datatype),
        f"PowerLineFrequency {power:g} Hz{'' if line_hz else ', as found in the signal'}"
        if power
        else "PowerLineFrequency is not known: no hum of 50 or 60 Hz was found; state it with --line-hz",
        *session.notes,
    ]
    return lines + [f"  {note}" for note in notes]


def _voltages(session: Session) -> list[int]:
    return [i for i, lead in enumerate(session.leads) if lead.kind in VOLTAGES]


def _event_row(at: int, code: int) -> EventRow:
    """A marker's text ends at a tab, behind which HED may stand."""
    name, _, hed = text_of(code).partition("\t")
    return EventRow(at, name or str(int(code)), int(code), hed=hed)


def _read(session: Session) -> tuple[Any, list[tuple[int, int]], list[int]]:
    """The recording for MNE, its triggers, and the samples at which a block begins after a gap."""
    import mne

    pieces, triggers, edges, n, block = [], [], [], 0, 0
    for packet in session.packets(READ_SAMPLES):
        if packet.block != block:
            block = packet.block
            edges.append(n)
        triggers += [(n + at, code) for at, code in packet.triggers]
        pieces.append(packet.samples)
        n += len(packet.samples)
    if not n:
        raise SourceError(
            f"{session.subject}: the recording has no sample, so there is no run to write"
        )
    data = np.concatenate(pieces).T.astype(np.float64)
    kinds = [lead.kind.lower() if lead.kind in KINDS else "misc" for lead in session.leads]
    is_voltage = [lead.kind in VOLTAGES for lead in session.leads]
    data[is_voltage] *= 1e-6
    info = mne.create_info([lead.name for lead in session.leads], session.rate, kinds)
    return mne.io.RawArray(data, info, verbose="error"), triggers, edges


def _gaps(xdf: Path, rate: float, n_samples: int) -> list[int]:
    """The samples before which others are missing; also where that is too short for a block to begin."""
    own = [
        missing_samples(stamps, rate)
        for stream, stamps in read_stamps(xdf)
        if stream.rate == rate and len(stamps) == n_samples
    ]
    return [] if len(own) != 1 else (np.flatnonzero(own[0]) + 1).tolist()


# --- results of trials --------------------------------------------------------------------------


def trial_results(log: Path, triggers: Sequence[tuple[int, int]]) -> list[EventRow]:
    """The verdicts of a run log, each at the sample after which it was given.

    The log counts samples from its own beginning; its triggers and those of the recording show the shift.
    Raises SourceError if they are not the same.
    """
    run, n = Run(), 0
    given: dict[tuple[int, int, int], tuple[int, Verdict]] = {}
    logged: list[tuple[int, int]] = []
    for _, event in read_log(log):
        if event.get("kind") == "packet":
            logged += [(n + int(at), int(code)) for at, code in event.get("triggers", ())]
            n += int(event["n"])
        for verdict in run.feed(event):
            key = (verdict.session, verdict.block, verdict.trial)
            at = given[key][0] if key in given else n
            given[key] = (at, verdict)
    shift = _shift(log, logged, triggers)
    return [_result_row(at + shift, verdict) for at, verdict in given.values()]


def _shift(
    log: Path, logged: Sequence[tuple[int, int]], triggers: Sequence[tuple[int, int]]
) -> int:
    """Sample in the recording minus sample in the log, on which most triggers agree."""
    by_code: dict[int, list[int]] = {}
    for at, code in triggers:
        by_code.setdefault(int(code), []).append(at)
    shifts = Counter(at - own for own, code in logged for at in by_code.get(code, ()))
    shift, agree = shifts.most_common(1)[0] if shifts else (0, 0)
    if 2 * agree < min(len(logged), len(triggers)) or not agree:
        raise SourceError(
            f"{log} is not the log of this recording: {agree} of its {len(logged)} triggers are in it; "
            "record the signal stream of the run that the judge followed"
        )
    return shift


def _result_row(at: int, verdict: Verdict) -> EventRow:
    result = "void" if verdict.void else "not scored" if not verdict.scored else ""
    if not result and verdict.right:
        right = verdict.right
        result = "right" if all(right) else "partly right" if any(right) else "wrong"
    elif not result:
        result = "wrong" if verdict.share is None else f"{verdict.share:.4g}"
    answers = [str(one.class_name or one.result) for one in verdict.answers if one.when is not None]
    label = "" if verdict.label is None else str(verdict.label)
    return EventRow(max(0, at), "result", None, result, label, ",".join(answers))


# --- events.tsv ---------------------------------------------------------------------------------

COLUMNS: dict[str, str] = {
    "onset": "",
    "duration": "",
    "sample": "Number of the sample, counted from 0.",
    "trial_type": "Name of the event; `result`: of a trial; `boundary`: samples are missing before it.",
    "value": "Code of the trigger.",
    "trial_result": "How the judge scored it: right, partly right, wrong, void, not scored, or its share.",
    "trial_label": "The class that was asked for.",
    "trial_answer": "The class that the decoder reported.",
    "HED": "",
}


def _write_events(recording: Path, rows: Sequence[EventRow], rate: float) -> None:
    stem = re.sub(r"_(eeg|ieeg)$", "", recording.stem)
    table = recording.with_name(f"{stem}_events.tsv")
    lines = []
    for row in rows:
        code = "n/a" if row.code is None else str(row.code)
        values = (f"{row.sample / rate:.6f}", "0", str(row.sample), row.name, code,
                  row.result, row.label, row.answer, row.hed)  # fmt: skip
        lines.append([_cell(value) for value in values])
    columns = list(COLUMNS)
    used = [i for i, _ in enumerate(columns) if i < 5 or any(line[i] != "n/a" for line in lines)]
    text = "\n".join("\t".join(line[i] for i in used) for line in [columns, *lines])
    table.write_text(text + "\n", encoding="utf-8")
    described = {columns[i]: {"Description": COLUMNS[columns[i]]} for i in used}
    for given in ("onset", "duration", "HED"):  # their meaning is given by the standard
        described.pop(given, None)
    table.with_suffix(".json").write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")


HED_VERSION = "8.3.0"


def _state_hed_version(description: Path) -> None:
    """A dataset with HED names the version of its schema; one that is named already is kept."""
    if "HEDVersion" not in json.loads(description.read_text(encoding="utf-8")):
        _set_in_json(description, HEDVersion=HED_VERSION)


def _set_in_json(path: Path, **values: str) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**found, **values}, indent=4) + "\n", encoding="utf-8")


def _cell(value: str) -> str:
    return " ".join(value.split()) or "n/a"
