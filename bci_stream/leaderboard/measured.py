"""What the host measured of a submission of 2026: a file beside the run log, and columns of the leaderboard.

The figures are measured outside of the sandbox, and do not change the score. They are known after the run's
log has ended, so they stand in a file of their own: `LOG.measured.json` beside `LOG.jsonl`.
"""

import json
import math
from pathlib import Path
from typing import Final

from bci_stream.files import atomic_write

MEASURES: Final = {
    "leads": "leads",
    "calibration": "calibration (trials a class)",
    "size_mib": "package (MiB)",
    "reaction_ms": "reaction (ms)",
}
"""The figures, which are also fields of a `LeaderboardRow`, and the titles of their columns."""


def measured_file(log: Path) -> Path:
    """Where the figures of a run are."""
    name = log.name.removesuffix(".gz").removesuffix(".jsonl")
    return log.with_name(f"{name}.measured.json")


def write_measured(log: Path, figures: dict[str, float]) -> None:
    """Write the figures beside the run log; nothing where there are none."""
    if figures:
        text = json.dumps({name: figures[name] for name in MEASURES if name in figures})
        atomic_write(measured_file(log), lambda file: file.write(text.encode()))


def read_measured(log: Path) -> dict[str, float]:
    """The figures beside a run log; empty where there are none that can be read."""
    try:
        found = json.loads(measured_file(log).read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: float(found[name]) for name in MEASURES if _is_figure(found.get(name))}


def _is_figure(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0  # type: ignore[arg-type, operator]


def move_measured(log: Path, kept: Path) -> None:
    """Move the figures of a log that was moved; nothing where there are none."""
    if measured_file(log).exists():
        measured_file(log).replace(measured_file(kept))
