"""GDF files, opened by MNE with three differences.

- A damaged number of channels, up to four billion, would keep MNE busy for hours: it is refused.
- The event table may have a rate of its own; MNE takes its positions as samples of the signals.
- Units are those of the header: MNE takes a unit that it does not know as volts.
"""

import os
import struct
import warnings
from copy import copy
from pathlib import Path
from typing import Any

import mne
from mne.io.edf.edf import RawGDF

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.guard import reading
from replay.readers.mne.content import content_of_file
from replay.readers.mne.raw_file import ChannelHeader, RawFile, group_by_rate

HEADER_BYTES = 256
_UNIT_TEXT_AT, _UNIT_CODE_AT, _COUNT_AT = 96, 102, 216
"""Bytes of header before these fields, for each channel."""

_UNIT_CODES = {
    0: "",
    512: "",
    544: "%",
    4256: "V",
    4274: "mV",
    4275: "uV",
    4276: "nV",
    6048: "degC",
}
"""ISO 11073 codes of units, which version 1.9 and later have."""

_COUNT_FIRST = 1.94
"""Since this version the number of events stands before their rate."""


class GdfFile(RawGDF):  # type: ignore[misc]  # MNE has no types
    """A GDF file whose events are placed by the event table's own rate."""

    def set_annotations(self, annotations: Any, *rest: Any, **options: Any) -> Any:
        assumed, stated = float(self.info["sfreq"]), _event_rate(self)
        if annotations and stated not in (0.0, assumed):
            annotations.onset *= assumed / stated
            warnings.warn(f"its events are counted at {stated:g} Hz", stacklevel=2)
        return super().set_annotations(annotations, *rest, **options)


def _event_rate(raw: Any) -> float:
    """Positions of the event table in a second; 0 where the file does not state it."""
    (extra,) = raw._raw_extras
    table = int(extra["data_offset"]) + int(extra["n_records"]) * int(extra["bytes_tot"])
    with Path(raw.filenames[0]).open("rb") as file:
        file.seek(table)
        head = file.read(8).ljust(8, b"\0")
    if extra["number"] < _COUNT_FIRST:
        return float(int.from_bytes(head[1:4], "little"))
    (rate,) = struct.unpack("<f", head[4:8])
    return float(rate) if 0 < rate < float("inf") else 0.0


def read_gdf_header(path: Path) -> ChannelHeader:
    """Units and samples per record of each channel."""
    with path.open("rb") as file:
        head = file.read(HEADER_BYTES)
        size = file.seek(0, os.SEEK_END)
        is_coded = head[4:8] >= b"1.90"
        n_channels = int.from_bytes(head[252:254] if is_coded else head[252:256], "little")
        if HEADER_BYTES * (1 + n_channels) > size:
            raise SourceError(f"{path} states {n_channels} channels, but is too short for them")
        file.seek(HEADER_BYTES + n_channels * (_UNIT_CODE_AT if is_coded else _UNIT_TEXT_AT))
        stated = file.read((2 if is_coded else 8) * n_channels)
        file.seek(HEADER_BYTES + n_channels * _COUNT_AT)
        counts = struct.unpack(f"<{n_channels}i", file.read(4 * n_channels))
    if is_coded:
        codes = struct.unpack(f"<{n_channels}H", stated)
        units = [_UNIT_CODES.get(code, f"unit {code}") for code in codes]
        factors = [{"uV": 1e-6, "mV": 1e-3}.get(unit, 1.0) for unit in units]
    else:
        texts = [stated[8 * k : 8 * (k + 1)].decode("latin-1") for k in range(n_channels)]
        units = [text.split("\0")[0].strip() for text in texts]
        factors = [1e-6 if unit.startswith("uV") else 1.0 for unit in units]
    return ChannelHeader(tuple(units), tuple(factors), counts)


def _at_rate(raw: Any, record_samples: int) -> Any:
    """The file as if all channels had so many samples in a record, which is right for those that have.

    MNE's `include` does not work for GDF, so its private description of the file is changed in a copy.
    """
    own, (extra,) = copy(raw), raw._raw_extras
    length = record_samples * int(extra["n_records"])
    own._raw_extras = [{**extra, "max_samp": record_samples, "nsamples": length}]
    own._last_samps = [int(raw.first_samp) + length - 1]
    own.info = raw.info.copy()
    span, parts = (float(number) for number in extra["record_length"])
    with own.info._unlock():
        own.info["sfreq"] = record_samples * parts / span
    return own


def read_gdf(path: Path, options: SourceOptions) -> Content:
    """Open a GDF file; only its header and events are read."""
    with reading(str(path), "GDF") as notes, mne.use_log_level("warning"):
        header = read_gdf_header(path)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Unsupported physical dimension")
            raw = GdfFile(path, verbose="warning")
        groups = group_by_rate(raw, path.name, header.counts, lambda _, count: _at_rate(raw, count))
    file = RawFile(raw, path.name, tuple(groups), header)
    return content_of_file(path, file, "GDF", options, notes)
