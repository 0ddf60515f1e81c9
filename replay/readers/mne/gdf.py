"""GDF as MNE opens it, but for three things.

A damaged number of channels, up to four billion of them, would keep MNE busy for hours. Events may be
counted at a rate of their own, which MNE takes for the signals'. And what is no voltage to it becomes volts.
"""

import os
import struct
import warnings
from pathlib import Path
from typing import Any

from mne.io.edf.edf import RawGDF

from bci_stream.errors import SourceError
from replay.readers.mne.mne_signal import tell_units

CHANNEL_HEADER = 256
UNITS_AS_CODES = 1.9
"""Since this version a unit is a number (ISO 11073)."""

COUNTS_FIRST = 1.94
"""Since this version the number of events stands before their rate."""

_UNITS = {0: "", 512: "", 544: "%", 4256: "V", 4274: "mV", 4275: "uV", 4276: "nV", 6048: "degC"}


class GdfFile(RawGDF):  # type: ignore[misc]  # MNE tells no types
    """A GDF file whose events stand where their own rate says."""

    def __init__(self, path: str | Path, **options: Any) -> None:
        _check_size(Path(path))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Unsupported physical dimension")
            super().__init__(path, **options)
        tell_units(self, _read_units(Path(path), self))

    def set_annotations(self, annotations: Any, *rest: Any, **options: Any) -> Any:
        taken, stated = float(self.info["sfreq"]), _event_rate(self)
        if annotations and stated not in (0.0, taken):
            annotations.onset *= taken / stated
            warnings.warn(f"its events are counted at {stated:g} Hz", stacklevel=2)
        return super().set_annotations(annotations, *rest, **options)


def _check_size(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(CHANNEL_HEADER)
        size = file.seek(0, os.SEEK_END)
    stands = slice(252, 254) if head[4:8] >= b"1.90" else slice(252, 256)
    channels = int.from_bytes(head[stands], "little")
    if CHANNEL_HEADER * (1 + channels) > size:
        raise SourceError(f"{path} says it has {channels} channels, but is too short for them")


def _read_units(path: Path, raw: Any) -> list[str]:
    """What the header says of each channel: text, or a code."""
    (extra,) = raw._raw_extras
    count, are_codes = int(extra["nchan"]), extra["number"] >= UNITS_AS_CODES
    with path.open("rb") as file:
        file.seek(CHANNEL_HEADER + count * (16 + 80 + (6 if are_codes else 0)))
        stated = file.read(8 * count)
    if are_codes:
        codes = struct.unpack(f"<{count}H", stated[: 2 * count])
        return [_UNITS.get(code, f"unit {code}") for code in codes]
    texts = (stated[8 * k : 8 * (k + 1)].decode("latin-1") for k in range(count))
    return [text.split("\0")[0].strip() for text in texts]


def _event_rate(raw: Any) -> float:
    """How many places of the event table are a second; 0 where it does not say."""
    (extra,) = raw._raw_extras
    table = int(extra["data_offset"]) + int(extra["n_records"]) * int(extra["bytes_tot"])
    with Path(raw.filenames[0]).open("rb") as file:
        file.seek(table)
        head = file.read(8).ljust(8, b"\0")
    if extra["number"] < COUNTS_FIRST:
        return float(int.from_bytes(head[1:4], "little"))
    (rate,) = struct.unpack("<f", head[4:8])
    return float(rate) if 0 < rate < float("inf") else 0.0
