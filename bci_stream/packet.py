"""Packets: the pieces of signal that a decoder receives, with their leads and triggers."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tracks.common.masks import Triggers as Triggers

FloatArray: TypeAlias = NDArray[np.float32]


def with_trigger(samples: FloatArray, triggers: Triggers) -> FloatArray:
    """(n, leads) -> (n, leads + 1): TRIGGER last; of several codes on one sample the last is kept."""
    whole = np.empty((len(samples), samples.shape[1] + 1), dtype=np.float32)
    whole[:, :-1] = samples
    whole[:, -1] = 0.0
    for offset, code in triggers:
        whole[offset, -1] = code
    return whole


def column_triggers(samples: FloatArray) -> Triggers:
    """The triggers in the TRIGGER channel of these samples: one a sample, none of code 0."""
    column = samples[:, -1]
    return tuple((offset, int(column[offset])) for offset in column.nonzero()[0].tolist())


@dataclass(frozen=True, slots=True)
class Packet:
    """Samples that arrive together, and their position in the recording.

    Attributes
    ----------
    samples : ndarray of float32, shape (n, leads + 1)
        Microvolts, C-contiguous; the last column is TRIGGER. This is the layout that LSL sends, so a packet
        crosses the wire without a copy.
    triggers : tuple of (offset, code)
        The triggers in the packet, by their place in it.
    start : int
        Position of the first sample, counted from the beginning of its block.
    block : int
        Which of the session's blocks this is, counted from 0.
    subject : str
        The session's subject.
    finish : bool
        True on the very last packet of the run.
    """

    samples: FloatArray
    triggers: Triggers = ()
    start: int = 0
    block: int = 0
    subject: str = ""
    finish: bool = False

    @property
    def data(self) -> FloatArray:
        """The samples as in the rule documents: (leads + 1, n), a view."""
        return self.samples.T

    @property
    def signal(self) -> FloatArray:
        """The leads alone, without TRIGGER: (n, leads), a view."""
        return self.samples[:, :-1]

    @property
    def n(self) -> int:
        return len(self.samples)


@dataclass(frozen=True, slots=True)
class Lead:
    """One channel of a recording.

    Attributes
    ----------
    name : str
    kind : str
        An MNE channel type in capitals (EEG, ECOG, EOG, ECG, EMG, MISC, STIM).
    unit : str
    position : tuple of float or None
        x, y, z in metres in MNE's head frame, if known.
    """

    name: str
    kind: str = "EEG"
    unit: str = "microvolts"
    position: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class SignalInfo:
    """What a decoder receives when a subject begins; nothing in it depends on a label."""

    track: str
    subject: str
    rate: float
    leads: tuple[Lead, ...]
    packet_samples: int

    @property
    def lead_names(self) -> tuple[str, ...]:
        return tuple(lead.name for lead in self.leads)


TRIGGER_NAMES = frozenset(
    ("TRIGGER", "TRIGGERS", "TRIG", "STATUS", "STIM", "STI", "STI 014", "STI014", "STI 101", "STI101",
     "DIN", "MARKER", "MARKERS")
)  # fmt: skip


def is_trigger_name(name: str) -> bool:
    """Whether a channel of this name, in capitals or not, holds trigger codes."""
    return name.strip().upper() in TRIGGER_NAMES
