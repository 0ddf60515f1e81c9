"""An estimator as a decoder: it gets windows of the running stream, and its scores become reports."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bci_stream.packet import Packet, SignalInfo
from decoders.adapters.estimators import load_pipeline, loads
from decoders.adapters.followers import FOLLOWERS
from decoders.adapters.online import Online, WindowPlan
from decoders.adapters.windows import DeadLeads, Recentring, SignalWindow, chosen_leads
from decoders.decoder import Decoder, DecoderError, format_exception
from decoders.dsp import Array
from decoders.dsp.leads import plain_name
from decoders.model import Model, ModelError, load_model

TORCH, PICKLE = "torch", "pickle"
"""Formats of the estimators in a model, beside "skops"."""


def pipeline_name(track: str) -> str:
    """The decoder's name in the registry, by track."""
    return f"{track}-pipeline"


class PipelineDecoder:
    """A trained estimator on a track.

    model: of `decoders.adapters.training.fit_pipeline`. online: the torch module that the model has
    weights of. trust: load pickles and types that are not known.
    """

    def __init__(
        self,
        model: Model | None = None,
        seed: int = 0,
        *,
        online: Online | None = None,
        trust: bool = False,
    ) -> None:
        del seed  # a fitted estimator is deterministic
        if model is None:
            raise ModelError(
                "a pipeline needs a model: make one with `bci-decode train --pipeline my.py:clf "
                "RECORDING... --out FILE`, then give --model FILE"
            )
        settings = model.settings.get("plan")
        if not isinstance(settings, dict) or model.track not in FOLLOWERS:
            raise model.broken("it is no model of a pipeline")
        leads = model.names("leads")
        self._use(model.track, WindowPlan.of_settings(settings), _unpack(model, online, trust))
        self._leads: tuple[str, ...] | None = leads
        self._rate: float | None = float(model.array("rate", ()))
        self._dead: DeadLeads | None = DeadLeads(model.array("spread", (len(leads),)))
        self._reference: Array | None = model.array("reference", (len(leads), len(leads)))

    @classmethod
    def of_fitted(cls, online: Online, track: str) -> "PipelineDecoder":
        """A decoder of an estimator that was fitted elsewhere, on windows like those of its plan."""
        if not is_fitted(online.estimator):
            raise DecoderError(
                f"{online.__name__} is not fitted: train it with `bci-decode train --track {track} "
                "--pipeline ... RECORDING... --out FILE`, and give --model FILE"
            )
        made = cls.__new__(cls)
        made._use(track, online.plan(track), [online.estimator])
        made._leads = made._rate = made._dead = made._reference = None
        return made

    def _use(self, track: str, plan: WindowPlan, estimators: list[Any]) -> None:
        self._track, self._plan, self._estimators = track, plan, estimators

    def choose(self, info: SignalInfo, count: int) -> Sequence[int]:
        """The leads that it was trained on, filled up with the first of the others."""
        names = [plain_name(name) for name in info.lead_names]
        chosen = [names.index(name) + 1 for name in self._leads or () if name in names][:count]
        others = [number for number in range(1, len(names) + 1) if number not in chosen]
        return sorted([*chosen, *others[: count - len(chosen)]])

    def start(self, info: SignalInfo) -> None:
        leads = self._leads or tuple(chosen_leads(info, self._plan))
        self._follower = FOLLOWERS[self._track](info, self._plan, leads)
        rate = info.rate / self._follower.signal.step
        if self._rate is not None and abs(rate - self._rate) > 0.01 * self._rate:
            raise DecoderError(
                f"{info.subject}: its windows have {rate:g} samples a second, those of the training "
                f"{self._rate:g}; play it at the training's rate (?resample=HERTZ)"
            )
        self._recentring = None
        if self._plan.recentre:
            reference = np.eye(len(leads)) if self._reference is None else self._reference
            self._recentring = Recentring(reference, known=self._reference is not None)

    def step(self, packet: Packet) -> list[object]:
        return [
            result
            for window in self._follower.step(packet)
            for result in self._follower.report(window, self._scores(window))
        ]

    def _scores(self, window: SignalWindow) -> Any:
        if window.x is None:
            return {}
        x = window.x if self._dead is None else self._dead.fill(window.x)
        if self._recentring is not None:
            x = self._recentring.apply(x)
        estimator = self._estimators[min(window.slot, len(self._estimators) - 1)]
        try:
            if self._follower.regression:
                return np.asarray(estimator.predict(x[None]))[0]
            return class_scores(estimator, x[None])
        except Exception as error:  # a user's estimator may raise anything
            raise DecoderError(
                f"the estimator fails on X {x[None].shape} (windows, leads, samples): "
                f"{format_exception(error)}"
            ) from error


def class_scores(estimator: Any, x: Array) -> dict[int, float]:
    """Log score of each class for one window: of probabilities, decision values, or the predicted class."""
    if hasattr(estimator, "predict_proba"):
        values = np.log(np.maximum(np.asarray(estimator.predict_proba(x), float)[0], 1e-12))
    elif hasattr(estimator, "decision_function"):
        values = np.atleast_1d(np.asarray(estimator.decision_function(x), float)[0])
        values = np.array([0.0, values[0]]) if len(values) == 1 else values
    else:
        return {int(np.asarray(estimator.predict(x)).ravel()[0]): 0.0}
    classes = [int(each) for each in np.asarray(estimator.classes_).tolist()]
    return dict(zip(classes, values.tolist(), strict=True))


def is_fitted(estimator: Any) -> bool:
    """Whether it was fitted, by scikit-learn's rule: attributes that end with an underscore."""
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    if not hasattr(estimator, "get_params"):
        return hasattr(estimator, "classes_")
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True


def _unpack(model: Model, online: Online | None, trust: bool) -> list[Any]:
    form = model.settings.get("format")
    if form == TORCH:
        if online is None:
            raise DecoderError(
                f"this model has the weights of {model.settings.get('estimator')}: say where the module "
                "is, too: --pipeline my.py:net"
            )
        return _with_weights(model, online)
    data = np.asarray(model.arrays.get("estimators", np.zeros(0)), dtype=np.uint8).tobytes()
    name = f"the model of {model.settings.get('estimator')}"
    found = loads(data, name, form=str(form), trust=trust)
    if not isinstance(found, list) or not found:
        raise model.broken("it has no estimators")
    return found


def _with_weights(model: Model, online: Online) -> list[Any]:
    if not hasattr(online.estimator, "with_weights"):
        raise DecoderError(f"{online.__name__} is no torch module, and the model is of one")
    slots: dict[str, dict[str, Any]] = {}
    for name, value in model.arrays.items():
        if name.startswith("torch."):
            slot, _, own = name.removeprefix("torch.").partition(".")
            slots.setdefault(slot, {})[own] = value
    return [online.estimator.with_weights(slots[slot]) for slot in sorted(slots, key=int)]


def load_pipeline_decoder(
    spec: str,
    track: str,
    model_path: Path | None,
    *,
    options: dict[str, Any] | None = None,
    trust: bool = False,
) -> Decoder:
    """The decoder of a specification (`decoders.adapters.estimators`), with a model or fitted already."""
    online = load_pipeline(spec, trust=trust).with_options(options or {})
    if model_path is None:
        return PipelineDecoder.of_fitted(online, track)
    model = load_model(model_path).wanted_by(track, pipeline_name(track))
    return PipelineDecoder(model, online=online, trust=trust)
