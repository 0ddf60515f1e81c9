"""Motor imagery without a model: the rhythm falls over the opposite side, or over the middle.

A crude fallback, for a first look at a subject who was never trained: left imagery lowers the power
over C4, right over C3, feet over Cz, each beside what that place usually showed in the session.
"""

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import SignalInfo
from decoders.band_moments import BandMoments
from decoders.covariance import Array
from decoders.lead_groups import brain_leads, plain_name

BAND_HZ = ((8.0, 30.0),)
PLACES = (
    ("C4", "C2", "C6", "FC4", "CP4"),
    ("C3", "C1", "C5", "FC3", "CP3"),
    ("CZ", "C1", "C2", "FCZ", "CPZ"),
)
"""Where classes 1, 2, 3 lower the power: a lead, and neighbours that stand in for it."""
MEMORY_TRIALS = 30


class MiGuess:
    """Decides by where the power is lowest beside its running mean."""

    def __init__(self, info: SignalInfo) -> None:
        have = {plain_name(info.leads[place].name): place for place in brain_leads(info.leads)}
        self._over = [[have[name] for name in names if name in have] for names in PLACES]
        places = sorted({place for group in self._over for place in group})
        self._moments = BandMoments(info.rate, places, BAND_HZ)
        self._over = [[places.index(place) for place in group] for group in self._over]
        self._usual: Array | None = None
        self._trials = 0

    def begin(self) -> None:
        self._moments.begin()

    def add(self, x: NDArray[np.floating]) -> None:
        self._moments.add(x)

    def look(self) -> None:
        self._moments.forget()

    def decide(self, number: int, last: bool) -> int:
        del number  # a longer window only makes it surer
        power = np.diagonal(self._moments.sums[0]) / max(self._moments.count, 1)
        log_power = np.array([self._log_power(power, group) for group in self._over])
        log_power = log_power - log_power.mean()  # how loud the trial is as a whole says nothing
        change = log_power if self._usual is None else log_power - self._usual
        if last:
            self._learn(log_power)
        return int(change.argmin()) + 1

    def _learn(self, log_power: Array) -> None:
        self._trials = min(self._trials + 1, MEMORY_TRIALS)
        usual = np.zeros(len(log_power)) if self._usual is None else self._usual
        self._usual = usual + (log_power - usual) / self._trials

    @staticmethod
    def _log_power(power: Array, group: list[int]) -> float:
        live = [power[place] for place in group if power[place] > 0]
        return float(np.log(live[0])) if live else 0.0
