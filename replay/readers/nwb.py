"""An NWB file (Neurodata Without Borders): one ElectricalSeries, read lazily; needs the extra `nwb`.

Events are the texts of all AnnotationSeries, and the trials; see _TRIAL_NAMES for the names of these.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray, Lead
from replay.model.event_map import describe_map
from replay.model.events import KnownEvents, Mark
from replay.model.options import SourceOptions
from replay.model.signal import Content
from replay.readers.events_table import marks_of, read_events_table
from replay.readers.guard import reading

MICROVOLTS = 1e6
# Columns of the table of trials; the first that is there names them.
_TRIAL_NAMES = ("label", "trial_type", "condition", "type", "stimulus", "code")


@dataclass(frozen=True)
class NwbSignal:
    """The samples of a series. data: (samples, leads) in the file. scales, offsets: to microvolts."""

    name: str
    data: Any
    scales: Any
    offset: float

    @property
    def n_samples(self) -> int:
        return int(self.data.shape[0])

    def read(self, start: int, stop: int) -> FloatArray:
        try:
            values = np.asarray(self.data[start:stop], dtype=np.float64).reshape(stop - start, -1)
        except Exception as error:  # a parser may raise anything for a damaged file
            raise SourceError(
                f"{self.name} can't be read at samples {start} to {stop}: is it complete?"
            ) from error
        with np.errstate(over="ignore", invalid="ignore"):
            samples: FloatArray = (values * self.scales + self.offset).astype(np.float32)
        return samples


def read_nwb(path: Path, options: SourceOptions) -> Content:
    """Open an NWB file; ?variable= names its series if it has several."""
    try:
        from h5py import File
        from pynwb import NWBHDF5IO
    except ImportError as error:
        raise SourceError(
            f"{path} is an NWB file, which needs another package: `pip install bci-stream[nwb]`"
        ) from error
    with (
        reading(str(path), "NWB") as notes,
        NWBHDF5IO(str(path), "r", load_namespaces=False) as opened,
    ):
        nwb = opened.read()
        series = _series(path.name, nwb, options.variable)
        rate, first_s = _rate(path.name, series)
        # pynwb's file is closed here; h5py closes its own one when the signal is no longer used.
        data = File(series.data.file.filename, "r")[series.data.name]
        signal = NwbSignal(path.name, data, *_scales(series))
        marks = _marks(nwb, rate, first_s, options)
        leads = _leads(series, len(np.atleast_1d(data[0])))
        name = series.name
    return Content(
        name=path.name,
        form="NWB",
        rate=rate,
        leads=leads,
        signal=signal,
        events=KnownEvents(options.events.triggers(marks, rate, signal.n_samples)),
        subject=None,
        notes=(*notes, f"series {name!r} is replayed", *describe_map(options.events, marks)),
        lazy=True,
    )


def _series(name: str, nwb: Any, wanted: str | None) -> Any:
    from pynwb.ecephys import ElectricalSeries

    found = {s.name: s for s in nwb.acquisition.values() if isinstance(s, ElectricalSeries)}
    if wanted is not None and wanted not in found:
        raise SourceError(f"{name} has no electrical series {wanted!r}; it has {_listed(found)}")
    if wanted is None and len(found) != 1:
        raise SourceError(
            f"{name} must hold one electrical series, and has {len(found)}: {_listed(found)}; choose "
            "one with ?variable=NAME"
        )
    return found[wanted] if wanted else next(iter(found.values()))


def _listed(found: dict[str, Any]) -> str:
    return ", ".join(map(repr, found)) or "none"


def _rate(name: str, series: Any) -> tuple[float, float]:
    """Rate in Hz, and the time of the first sample in seconds."""
    if series.rate:
        return float(series.rate), float(series.starting_time or 0.0)
    times = np.asarray(series.timestamps[:], dtype=np.float64)
    steps = np.diff(times)
    if not len(steps) or steps.min() <= 0 or steps.max() > 1.5 * np.median(steps):
        raise SourceError(f"{name}: the time stamps of {series.name!r} do not follow a rate")
    return float(round((len(times) - 1) / (times[-1] - times[0]), 6)), float(times[0])


def _scales(series: Any) -> tuple[Any, float]:
    """Factors of the leads, and the offset, from stored numbers to microvolts."""
    each = series.channel_conversion
    conversion = float(series.conversion) * MICROVOLTS
    scales = conversion if each is None else conversion * np.asarray(each[:], dtype=np.float64)
    return scales, float(series.offset or 0.0) * MICROVOLTS


def _leads(series: Any, count: int) -> tuple[Lead, ...]:
    table = series.electrodes.to_dataframe()
    column = next((c for c in ("label", "channel_name", "group_name") if c in table.columns), None)
    names = [str(name) for name in table[column]] if column else []
    if len(set(names)) != count:
        names = [f"ch{number}" for number in range(1, count + 1)]
    return tuple(Lead(name) for name in names)


def _marks(nwb: Any, rate: float, first_s: float, options: SourceOptions) -> list[Mark]:
    from pynwb.misc import AnnotationSeries

    if options.triggers == "none":
        return []
    if options.events_file:
        return marks_of(read_events_table(options.events_file, options.events), rate, 0)
    found = [
        (float(time), str(text))
        for series in nwb.acquisition.values()
        if isinstance(series, AnnotationSeries)
        for time, text in zip(series.timestamps[:], series.data[:], strict=True)
    ]
    if nwb.trials is not None:
        table = nwb.trials.to_dataframe()
        column = next((name for name in _TRIAL_NAMES if name in table.columns), None)
        names = table[column] if column else ["trial"] * len(table)
        found += [(float(t), str(n)) for t, n in zip(table["start_time"], names, strict=True)]
    return [Mark(round((time - first_s) * rate), text) for time, text in sorted(found)]
