"""The emotion decoder: one of nine classes a second, for people that were never seen before.

Each second's features (`decoders.emotion.features`) are put in units that the person's own
seconds so far define (never those to come), a linear classifier trained across people judges
them, and a forward filter carries the belief from second to second, since a film does not change
its mood each second.
"""

import numpy as np

from bci_stream.packet import Packet, SignalInfo
from decoders.dsp.buffers import RunningScale
from decoders.dsp.filters import Array
from decoders.emotion.features import AffectFeatures, SecondCounter
from decoders.emotion.model import EmotionModel, standard_name, unpack
from decoders.model import Model
from tracks.emotion import CLASSES

NEUTRAL = 4
PRIOR_SECONDS = 10.0
"""How many seconds of the person's own the training people's mean and spread are worth."""
LIMIT_SD = 4.0


UNTRAINED = (
    "no model was given: every second is reported as neutral. Train one with `bci-decode train "
    "--track emotion RECORDING... --out FILE`, then give --model FILE"
)


class EmotionDecoder:
    """Needs a model; without one every second is neutral."""

    def __init__(self, *, model: Model | None = None, seed: int = 0) -> None:
        del seed  # nothing here is random
        self._model: EmotionModel | None = None if model is None else unpack(model)
        self.notice = UNTRAINED if model is None else ""

    def start(self, info: SignalInfo) -> None:
        self._seconds = SecondCounter(info.packet_samples)
        if self._model is None:
            return
        names = [standard_name(name) for name in info.lead_names]
        wanted = self._model.leads
        self._leads = [names.index(name) if name in names else 0 for name in wanted]
        self._present = np.array([float(name in names) for name in wanted])
        self._features = AffectFeatures(info.rate, len(wanted))
        self._scale = RunningScale(self._model.mean, self._model.sd, PRIOR_SECONDS)
        self._belief = self._even()

    def step(self, packet: Packet) -> list[int]:
        reports: list[int] = []
        for stretch in self._seconds.stretches(packet):
            if self._model is None:
                reports += [NEUTRAL] * stretch.completes
                continue
            if stretch.first:
                self._features.skip()
                self._belief = self._even()
            picked = packet.signal[stretch.begin : stretch.end][:, self._leads]
            self._features.push(picked * self._present)
            if stretch.completes:
                reports.append(self._decide(self._model))
        return reports

    def _decide(self, model: EmotionModel) -> int:
        features = self._features.take()
        self._scale.update(features)
        units = np.clip(self._scale.standard(features), -LIMIT_SD, LIMIT_SD)
        self._belief = model.carry(self._belief, model.scores(units))
        return int(np.argmax(self._belief))

    @staticmethod
    def _even() -> Array:
        return np.full(len(CLASSES), 1 / len(CLASSES))
