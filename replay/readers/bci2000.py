"""A BCI2000 file (`.dat`): the signal in microvolts, and one of its states as triggers.

Needs the extra `bci2000`. MNE's own reader of this format leaves out the gains of the channels.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.model.event_map import describe_map
from replay.model.events import KnownEvents, Mark
from replay.model.options import SourceOptions
from replay.model.signal import ArraySignal, Content
from replay.readers.arrays.layout import marks_of_row
from replay.readers.events_table import marks_of, read_events_table
from replay.readers.guard import reading
from replay.readers.mne.any_format import READERS, read_with

BEGINS = b"BCI2000V"
STATES = ("StimulusCode", "TargetCode", "StimulusBegin")
"""States that are taken as triggers, the first that is there and is not 0 throughout."""


def read_dat(path: Path, options: SourceOptions) -> Content:
    """A `.dat` of BCI2000, or of Curry 7, which MNE reads."""
    with path.open("rb") as file:
        if not file.read(len(BEGINS)).startswith((BEGINS, b"HeaderLen")):
            return read_with(READERS[".dat"], path, options)
    return read_bci2000(path, options)


def read_bci2000(path: Path, options: SourceOptions) -> Content:
    """Read a whole file into memory; ?triggers= names the state that holds the triggers."""
    try:
        from BCI2kReader.BCI2kReader import BCI2kReader
    except ImportError as error:
        raise SourceError(
            f"{path} is a BCI2000 file, which needs another package: `pip install bci-stream[bci2000]`"
        ) from error
    with reading(str(path), "BCI2000") as notes:
        with BCI2kReader(str(path)) as file:
            samples = np.asarray(file.signals, dtype=np.float32)
            states = {name: np.asarray(row).reshape(-1) for name, row in file.states.items()}
            rate = float(file.samplingrate)
            names = _names(file.parameters, len(samples))
        marks, about = _marks(path.name, states, rate, options)
    if not samples.size:
        raise SourceError(f"{path} has no samples")
    return Content(
        name=path.name,
        form="BCI2000",
        rate=rate,
        leads=tuple(Lead(name) for name in names),
        signal=ArraySignal(samples),
        events=KnownEvents(options.events.triggers(marks, rate, samples.shape[1])),
        notes=(*notes, *about, *describe_map(options.events, marks)),
    )


def _names(parameters: Any, count: int) -> list[str]:
    names = [str(name) for name in parameters.get("ChannelNames") or ()]
    if len(set(names)) != count:
        return [f"ch{number}" for number in range(1, count + 1)]
    return names


def _marks(
    name: str, states: dict[str, NDArray[Any]], rate: float, options: SourceOptions
) -> tuple[list[Mark], tuple[str, ...]]:
    """The events, and a note about where they come from."""
    if options.triggers == "none":
        return [], ()
    if options.events_file:
        return marks_of(read_events_table(options.events_file, options.events), rate, 0), ()
    changing = [state for state, row in states.items() if row.size and row.any()]
    wanted = options.triggers or next((state for state in STATES if state in changing), None)
    if wanted is None:
        return [], (f"no triggers; ?triggers=STATE takes one of its states: {_some(changing)}",)
    if wanted not in states:
        raise SourceError(f"{name} has no state {wanted!r} for triggers; it has {_some(states)}")
    note = f"triggers are its state {wanted}; ?triggers=STATE takes another: {_some(changing)}"
    return marks_of_row(name, states[wanted]), (note,)


def _some(names: Any) -> str:
    listed = sorted(names)
    return ", ".join(listed[:20]) + (", ..." if len(listed) > 20 else "") or "none"
