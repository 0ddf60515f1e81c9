"""The ecog decoder: eight joint angles, 200 rows a second, from band powers and the slow potential.

Features (`decoders.ecog.features`) go through ridge regression (`decoders.ecog.ridge`) and a Kalman
filter (`decoders.ecog.model`). `fit` chooses each subject's leads and lets those with little data
learn from the one with most.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Packet, SignalInfo
from decoders.dsp.buffers import RunningScale
from decoders.dsp.filters import Array
from decoders.ecog.features import FEATURES_A_LEAD, EcogFeatures, feature_places
from decoders.ecog.model import SubjectModel, unpack
from decoders.ecog.ridge import plausible
from decoders.model import Model
from tracks.common.angles import JOINTS

STRANGER_EVERY_ROWS = 8
"""A stranger's units learn from every eighth row: neighbours say the same."""
STRANGER_ROWS = 1000.0
STRANGER_MEMORY_ROWS = 60_000.0
"""Of those rows: how many the teacher's units are worth (40 s), and how many are remembered."""


UNTRAINED = (
    "no model was given: every angle is reported as 0, from the first 24 leads. Train one with "
    "`bci-decode train --track ecog RECORDING... --out FILE`, then give --model FILE"
)


class EcogDecoder:
    """Needs a model: without one it can know no angle, and reports zeros.

    A subject that the model does not know is decoded with the teacher's weights, in units that the
    subject's own stream defines.
    """

    def __init__(self, *, model: Model | None = None, seed: int = 0) -> None:
        del seed  # nothing here is random
        self._subjects: dict[str, SubjectModel] = {}
        self._teacher = ""
        self.notice = UNTRAINED if model is None else ""
        if model is not None:
            self._subjects, self._teacher = unpack(model)

    def choose(self, info: SignalInfo, count: int) -> Sequence[int]:
        """The subject's leads; where fewer are known, the first of the others fill up."""
        known = self._of(info.subject)
        wanted = () if known is None else known.leads
        names = list(info.lead_names)
        chosen = [names.index(name) + 1 for name in wanted if name in names][:count]
        others = [number for number in range(1, len(names) + 1) if number not in chosen]
        return sorted([*chosen, *others[: count - len(chosen)]])

    def start(self, info: SignalInfo) -> None:
        self._subject = self._of(info.subject)
        self._features = EcogFeatures(info.rate, len(info.leads))
        self._state: Array | None = None
        self._own_units: RunningScale | None = None
        self._rows = 0
        if self._subject is None:
            return
        scale = self._subject.ridge.scale
        self._places, self._present = self._locate(info, self._subject)
        if info.subject not in self._subjects:
            self._own_units = RunningScale(
                scale.x_mean, scale.x_sd, STRANGER_ROWS, STRANGER_MEMORY_ROWS
            )

    def step(self, packet: Packet) -> list[list[list[float]]]:
        rows = self._features.step(packet.signal)
        if not len(rows):
            return []
        if self._subject is None:
            return [np.zeros((len(rows), len(JOINTS))).tolist()]
        return [self._smooth(self._subject, self._angles(self._subject, rows)).tolist()]

    def _of(self, subject: str) -> SubjectModel | None:
        return self._subjects.get(subject, self._subjects.get(self._teacher))

    @staticmethod
    def _locate(
        info: SignalInfo, subject: SubjectModel
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where the model's features lie in the stream's, and which of them are there at all."""
        names = list(info.lead_names)
        leads = [names.index(name) if name in names else 0 for name in subject.leads]
        present = np.repeat([name in names for name in subject.leads], FEATURES_A_LEAD)
        return feature_places(leads), present

    def _angles(self, subject: SubjectModel, rows: Array) -> Array:
        """(rows, joints) in standard units, before smoothing."""
        picked = rows[:, self._places]
        if self._own_units is None:
            units = (picked - subject.ridge.scale.x_mean) / subject.ridge.scale.x_sd
        else:
            units = np.array([self._in_own_units(self._own_units, row) for row in picked])
        return np.asarray((self._present * plausible(units)) @ subject.ridge.weights)

    def _in_own_units(self, scale: RunningScale, row: Array) -> Array:
        if self._rows % STRANGER_EVERY_ROWS == 0:
            scale.update(row)
        self._rows += 1
        return scale.standard(row)

    def _smooth(self, subject: SubjectModel, seen: Array) -> Array:
        """(rows, joints) in degrees."""
        angles = np.empty_like(seen)
        for i, row in enumerate(seen):
            if self._state is None:
                self._state = subject.kalman.start(row)
            self._state = subject.kalman.step(self._state, row)
            angles[i] = self._state[:, 0]
        return subject.ridge.scale.targets(angles)
