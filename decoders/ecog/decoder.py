"""The ecog decoder: eight joint angles, 200 rows a second, from band powers and the slow potential.

Features (`decoders.ecog.features`), ridge regression (`decoders.ecog.ridge`), Kalman filter
(`decoders.ecog.model`). Training chooses the leads of each subject, and shares weights from the
subject with most data (the teacher).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Packet, SignalInfo
from decoders.dsp import Array
from decoders.dsp.buffers import RunningScale
from decoders.dsp.leads import find_leads
from decoders.ecog.features import FEATURES_A_LEAD, EcogFeatures, feature_places
from decoders.ecog.model import SubjectModel, unpack
from decoders.ecog.ridge import plausible
from decoders.model import Model
from tracks.common.angles import JOINTS

UPDATE_EVERY_ROWS = 8
"""The scale of an unknown subject is updated at every eighth row: neighbours are alike."""
PRIOR_ROWS = 1000.0
MEMORY_ROWS = 60_000.0
"""In such rows: weight of the teacher's scale (40 s), and memory of the running scale."""


UNTRAINED = (
    "no model was given: every angle is reported as 0, from the first 24 leads. Train one with "
    "`bci-decode train --track ecog RECORDING... --out FILE`, then give --model FILE"
)


class EcogDecoder:
    """Needs a model; without one it reports zeros.

    A subject that is not in the model is decoded with the teacher's weights, and standardised by its
    own stream.
    """

    def __init__(self, *, model: Model | None = None, seed: int = 0) -> None:
        del seed  # deterministic
        self._subjects: dict[str, SubjectModel] = {}
        self._teacher = ""
        self.notice = UNTRAINED if model is None else ""
        if model is not None:
            self._subjects, self._teacher = unpack(model)

    def choose(self, info: SignalInfo, count: int) -> Sequence[int]:
        """The subject's leads, filled up with the first of the others."""
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
        self._own_scale: RunningScale | None = None
        self._rows = 0
        if self._subject is None:
            return
        scale = self._subject.ridge.scale
        self._places, self._present = self._locate(info, self._subject)
        if info.subject not in self._subjects:
            self._own_scale = RunningScale(scale.x_mean, scale.x_sd, PRIOR_ROWS, MEMORY_ROWS)

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
        """The columns of the model's features in the stream's, and which of them are present."""
        leads, present = find_leads(subject.leads, info.lead_names)
        return feature_places(leads), np.repeat(present, FEATURES_A_LEAD)

    def _angles(self, subject: SubjectModel, rows: Array) -> Array:
        """(rows, joints), standardised, before smoothing."""
        picked = rows[:, self._places]
        if self._own_scale is None:
            units = (picked - subject.ridge.scale.x_mean) / subject.ridge.scale.x_sd
        else:
            units = np.array([self._standardised(self._own_scale, row) for row in picked])
        return np.asarray((self._present * plausible(units)) @ subject.ridge.weights)

    def _standardised(self, scale: RunningScale, row: Array) -> Array:
        if self._rows % UPDATE_EVERY_ROWS == 0:
            scale.update(row)
        self._rows += 1
        return scale.standard(row)

    def _smooth(self, subject: SubjectModel, estimates: Array) -> Array:
        """(rows, joints) in degrees."""
        angles, self._state = subject.kalman.smooth(estimates, self._state)
        return subject.ridge.scale.targets(angles)
