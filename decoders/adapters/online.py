"""`Online`: an estimator, and how it is used on a running stream.

Write it in a file, `my.py`, and name it on the command line:

    from pyriemann.classification import MDM
    from pyriemann.estimation import Covariances
    from sklearn.pipeline import make_pipeline
    from decoders.adapters.online import Online

    clf = Online(make_pipeline(Covariances("oas"), MDM()), band=(8, 30), recentre=True)

    bci-decode train --track mi --pipeline my.py:clf RECORDING... --out mi.npz
    bci-decode --track mi --model mi.npz --decoder mi-pipeline

An estimator alone takes the defaults of its track. It gets X (windows, leads, samples) in microvolts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol, runtime_checkable

from bci_stream.errors import RuleError
from decoders.decoder import DecoderError


@runtime_checkable
class Estimator(Protocol):
    """What scikit-learn, MOABB and MetaBCI call a classifier or regressor."""

    def fit(self, x: Any, y: Any) -> Any: ...
    def predict(self, x: Any) -> Any: ...


@dataclass(frozen=True)
class WindowPlan:
    """How windows are cut and when reports are made, for one track.

    band: of a causal filter, in Hz; empty for none. rate: at least so many Hz are left after
    resampling. start_s: where windows begin after their trigger. length_s: their length; None: they
    grow from `start_s` up to the report, and each report has an estimator of its own.
    report_s: data in s after which a report is made (turing); None: as late as the rules allow.
    sequences: after which a character is reported (erp). leads: by name; empty for all of the brain.
    recentre: whiten each window by the session's mean covariance so far (Euclidean alignment).
    """

    band: tuple[float, ...] = (8.0, 30.0)
    rate: float = 125.0
    start_s: float = 0.5
    length_s: float | None = None
    report_s: float | None = None
    sequences: int = 3
    leads: tuple[str, ...] = ()
    recentre: bool = False

    def __post_init__(self) -> None:
        if self.band and not (len(self.band) == 2 and 0 < self.band[0] < self.band[1]):
            raise RuleError(
                f"band={self.band!r}: give two rising frequencies in Hz, or () for none"
            )
        for name in ("rate", "length_s", "report_s", "sequences"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise RuleError(f"{name}={value!r}: must be above 0")
        if self.start_s < 0:
            raise RuleError(f"start_s={self.start_s!r}: a window can't begin before its trigger")

    def settings(self) -> dict[str, object]:
        """As JSON values, for a model file."""
        return {
            each.name: list(value) if isinstance(value, tuple) else value
            for each in fields(self)
            for value in [getattr(self, each.name)]
        }

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> "WindowPlan":
        """Read what `settings` wrote. Raises RuleError."""
        known = {each.name for each in fields(cls)}
        if unknown := sorted(set(settings) - known):
            raise RuleError(f"unknown settings of windows: {', '.join(unknown)}")
        values: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()
        }
        return cls(**values)


DEFAULT_PLANS = {
    "mi": WindowPlan(),
    "turing": WindowPlan(band=(4.0, 40.0), length_s=2.5, report_s=3.0),
    "erp": WindowPlan(band=(0.5, 12.0), rate=25.0, start_s=0.0, length_s=0.7),
    "emotion": WindowPlan(band=(1.0, 45.0), start_s=0.0, length_s=1.0),
    "ecog": WindowPlan(band=(0.3, 4.0), rate=25.0, start_s=0.0, length_s=0.6),
}
"""By track. A track that is not here can't be decoded by an estimator alone."""


class Online:
    """An estimator with options of its windows; what is not given is the track's default.

    Parameters
    ----------
    estimator : object
        With `fit(X, y)` and `predict(X)`; `predict_proba` or `decision_function` are used where they
        are there. X is (windows, leads, samples) in microvolts.
    **options
        Fields of `WindowPlan`: band, rate, start_s, length_s, report_s, sequences, leads, recentre.
    """

    def __init__(self, estimator: Any, **options: Any) -> None:
        if not isinstance(estimator, Estimator):
            raise DecoderError(
                f"{estimator!r:.80} is no estimator: it needs the methods fit(X, y) and predict(X)"
            )
        known = [each.name for each in fields(WindowPlan)]
        if unknown := [name for name in options if name not in known]:
            raise DecoderError(f"Online has no option {unknown[0]!r}; it has {', '.join(known)}")
        self.estimator = estimator
        self.options = options

    @property
    def __name__(self) -> str:
        steps = getattr(self.estimator, "steps", None)
        parts = [step for _, step in steps] if steps else [self.estimator]
        parts = [getattr(part, "module", part) for part in parts]  # a torch module's own name
        return " + ".join(type(part).__name__ for part in parts)

    def plan(self, track: str) -> WindowPlan:
        """The options for a track. Raises DecoderError for a track without adapters, or a bad value."""
        if track not in DEFAULT_PLANS:
            raise DecoderError(
                f"an estimator alone can't decode track {track}; tracks with adapters are "
                f"{', '.join(DEFAULT_PLANS)}"
            )
        settings = DEFAULT_PLANS[track].settings() | self.options
        try:
            return WindowPlan.of_settings(settings)
        except (RuleError, TypeError) as error:
            raise DecoderError(f"{self.__name__}: {error}") from error

    def with_options(self, options: Mapping[str, Any]) -> "Online":
        """The same estimator with some options changed."""
        return Online(self.estimator, **{**self.options, **options})

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"Online({self.__name__}{options})"


def as_online(given: Any) -> Online | None:
    """An `Online` of an estimator, or the one that is given; None for anything else."""
    if isinstance(given, Online):
        return given
    if isinstance(given, type) or callable(getattr(given, "step", None)):
        return None
    if _is_torch_module(given):
        from decoders.adapters.torch_module import TorchClassifier

        return Online(TorchClassifier(given))
    return Online(given) if isinstance(given, Estimator) else None


def _is_torch_module(given: Any) -> bool:
    """Whether it is an `nn.Module`; torch is not imported for that."""
    return any(base.__module__.startswith("torch.nn") for base in type(given).__mro__)


def parse_options(texts: tuple[str, ...]) -> dict[str, Any]:
    """Options of the command line: `band=8-30`, `recentre=true`, `leads=C3,C4`, `length_s=2`."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or name not in _READERS:
            raise DecoderError(
                f"--online {text!r}: write NAME=VALUE with one of {', '.join(_READERS)}"
            )
        try:
            found[name] = _READERS[name](value)
        except ValueError as error:
            raise DecoderError(f"--online {text!r}: {error}") from error
    return found


def _band(text: str) -> tuple[float, ...]:
    return () if text == "none" else tuple(float(edge) for edge in text.split("-"))


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("give true or false")
    return text.lower() == "true"


_READERS: dict[str, Callable[[str], Any]] = {
    "band": _band,
    "rate": float,
    "start_s": float,
    "length_s": float,
    "report_s": float,
    "sequences": int,
    "leads": lambda text: tuple(name.strip() for name in text.split(",")),
    "recentre": _truth,
}
