"""What a BIDS run states about its surroundings: positions of electrodes, and the power line's frequency."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from bci_stream.packet import FloatArray, Lead
from bci_stream.signal_quality import spectrum

CAPTRAK: Final = "CapTrak"
DESCRIPTION: Final = (
    "Positions as the LSL stream stated them: metres from the centre of the head, x to the right, y to the "
    "nose, z up. The stream has no landmarks."
)
LINES_HZ: Final = (50, 60)
LEAST_RATIO: Final = 4.0
"""A power line: so many times the power density beside it, in half of the leads."""
HUM_S: Final = 30.0
"""The spectrum is that of so much of the beginning."""


def write_places(folder: Path, stem: str, leads: Sequence[Lead], kind: str) -> str:
    """Write electrodes.tsv and coordsystem.json for leads with positions; returns a line about it.

    folder: of the run. stem: subject and session, as `sub-01_ses-a`. kind: `eeg` or `ieeg`. Positions that
    were written before, with an earlier run, are kept.
    """
    placed = [lead for lead in leads if lead.position is not None]
    if not placed:
        return "no lead has a position, so there is no electrodes.tsv"
    prefix, space = ("iEEG", "Other") if kind == "ieeg" else ("EEG", CAPTRAK)
    stem = f"{stem}_space-{space}"
    columns = ["name", "x", "y", "z", *(["size"] if kind == "ieeg" else [])]
    rows = [columns]
    for lead in placed:
        assert lead.position is not None
        rows.append([lead.name, *(f"{axis:.6g}" for axis in lead.position), "n/a"][: len(columns)])
    text = "\n".join("\t".join(row) for row in rows) + "\n"
    table = folder / f"{stem}_electrodes.tsv"
    if table.exists() and table.read_text(encoding="utf-8") != text:
        return f"{table.name} of an earlier run has other positions, and is kept"
    table.write_text(text, encoding="utf-8")
    system = {
        f"{prefix}CoordinateSystem": space,
        f"{prefix}CoordinateUnits": "m",
        f"{prefix}CoordinateSystemDescription": DESCRIPTION,
    }
    described = json.dumps(system, indent=4) + "\n"
    (folder / f"{stem}_coordsystem.json").write_text(described, encoding="utf-8")
    return f"{table.name}: positions of {len(placed)} of {len(leads)} leads"


def find_line_hz(samples: FloatArray, rate: float) -> int | None:
    """The power line's frequency, 50 or 60 Hz, as far as it is seen in a signal (n, leads); else None."""
    block = np.nan_to_num(samples[: round(HUM_S * rate)])
    if rate / 2 <= max(LINES_HZ) + 6 or len(block) < 4 * rate:
        return None
    frequencies, density = spectrum(block, rate)

    def ratio(line_hz: int) -> float:
        distance = np.abs(frequencies - line_hz)
        beside = np.median(density[(distance > 2) & (distance < 6)], axis=0)
        return float(np.median(density[distance <= 0.5].max(axis=0) / np.maximum(beside, 1e-12)))

    best = max(LINES_HZ, key=ratio)
    return best if ratio(best) >= LEAST_RATIO else None
