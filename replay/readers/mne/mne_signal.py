"""An MNE signal: some channels of a raw object of MNE, read lazily as float32 microvolts."""

import threading
from collections.abc import Sequence
from typing import Any

import mne
import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import FloatArray

MICROVOLTS_A_VOLT = 1e6
FIFF_UNIT_VOLT = 107
_OF_A_VOLT = {"v": 1.0, "mv": 1e3, "µv": 1e6, "μv": 1e6, "uv": 1e6, "nv": 1e9}
_OF_A_VOLT |= {
    "\x83\xeav": 1e6,
    "âµv": 1e6,
    "î¼v": 1e6,
}  # a mu byte by byte: Japanese, and both of UTF-8
_UNSAID = "n/a"


def tell_units(raw: Any, units: Sequence[str]) -> None:
    """Tell MNE what an EDF's, BDF's or GDF's header says: it takes what it does not know for volts.

    units: of each channel of the file. A stim channel stays as it is.
    """
    (extra,) = raw._raw_extras
    stated = [units[channel] or _UNSAID for channel in extra["sel"]]
    raw._orig_units = dict(zip(raw.ch_names, stated, strict=True))
    for channel, kind in enumerate(raw.get_channel_types()):
        if kind != "stim":
            extra["units"][channel] = 1 / _of_a_volt(stated[channel])


def _of_a_volt(unit: str) -> float:
    """How many of that unit are a volt; 1 for what is no voltage, and so is never made one."""
    return _OF_A_VOLT.get(unit.lower(), 1.0)


def scale_of(raw: Any, channel: int) -> float:
    """What a channel's values are multiplied by to give microvolts; 1 for what is no voltage."""
    info = raw.info["chs"][channel]
    stated = _stated_unit(raw, channel) or "v"
    in_volts = int(info["unit"]) == FIFF_UNIT_VOLT and stated.lower() in _OF_A_VOLT
    return MICROVOLTS_A_VOLT if in_volts else 1.0


def code_scale(raw: Any, channel: int) -> float:
    """What brings back the number that stands in the file, which is what a trigger code is.

    MNE leaves a stim channel alone, and turns any other that says a unit of voltage into volts.
    """
    if raw.get_channel_types(picks=[channel])[0] == "stim":
        return 1.0
    return _of_a_volt(_stated_unit(raw, channel))


def other_unit(raw: Any, channel: int) -> str | None:
    """The unit that the file gives, where it is no voltage: degC, %, l/min."""
    stated = _stated_unit(raw, channel)
    is_other = stated not in ("", _UNSAID) and stated.lower() not in _OF_A_VOLT
    return stated if is_other else None


def _stated_unit(raw: Any, channel: int) -> str:
    """The unit that the file itself gives; empty for formats that give none."""
    units = getattr(raw, "_orig_units", None) or {}
    return str(units.get(raw.ch_names[channel], ""))


class MneSignal:
    """Channels of a raw object, each with the factor that makes microvolts of what MNE gives."""

    def __init__(
        self, name: str, raw: Any, channels: Sequence[int], scales: Sequence[float]
    ) -> None:
        self._name, self._raw = name, raw
        self._channels, self._scales = list(channels), np.array(scales, dtype=np.float64)
        # A raw object seeks in its file: two threads must not read at once.
        self._lock = threading.Lock()

    @property
    def n_samples(self) -> int:
        return int(self._raw.n_times)

    def read(self, start: int, stop: int) -> FloatArray:
        values = self._values(start, stop)
        samples = np.empty((values.shape[1], values.shape[0]), dtype=np.float32)
        # In double precision, then rounded once: bit-exact float32(microvolts).
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # infinite is refused in `replay.transform.fit`
            np.multiply(values.T, self._scales, out=samples, casting="unsafe")
        return samples

    def _values(self, start: int, stop: int) -> NDArray[np.float64]:
        try:
            with self._lock, mne.use_log_level("error"):
                values: NDArray[np.float64] = self._raw[self._channels, start:stop][0]
        except Exception as error:  # as in `guard`: any error of a parser is the file's
            raise SourceError(
                f"{self._name} can't be read at samples {start} to {stop}: {error}. Did the file change, or "
                "become shorter, since it was opened?"
            ) from error
        if values.shape[1] != stop - start:
            raise SourceError(f"{self._name} ends at sample {start + values.shape[1]} of {stop}")
        return values
