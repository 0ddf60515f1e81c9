"""Training of an estimator from labelled sessions.

Sessions are followed with the same code as in decoding, over the same masked packets, so a trained
estimator gets in a contest what it was trained on, and nothing that comes later.
"""

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import TruthError
from bci_stream.packet import SignalInfo
from decoders.adapters.estimators import dumps
from decoders.adapters.followers import FOLLOWERS, StreamFollower
from decoders.adapters.online import Online, WindowPlan
from decoders.adapters.pipeline import TORCH, pipeline_name
from decoders.adapters.windows import SignalWindow, chosen_leads, covariance, whitener
from decoders.decoder import DecoderError, format_exception
from decoders.dsp import Array
from decoders.dsp.leads import common_names
from decoders.model import Model
from replay.model.source import Session
from replay.transform.masking import masked_packets
from tracks.common.truth import read_truth
from tracks.registry import TRACKS


@dataclass
class _Examples:
    """Windows of all sessions. x: (leads, samples) of each; y: labels; session: where each is from."""

    x: list[Array]
    y: list[Any]
    slot: list[int]
    session: list[int]
    rates: set[float]
    slots: int = 1
    regression: bool = False


def fit_pipeline(
    online: Online,
    track: str,
    recordings: Sequence[Session],
    *,
    seed: int = 0,
    progress: Callable[[str], None] = lambda _text: None,
    trust: bool = False,
) -> Model:
    """Train copies of the estimator on labelled sessions, one for each slot of the track's windows.

    Raises TruthError without labelled windows or with one class only, DecoderError if the estimator
    fails.
    """
    plan = online.plan(track)
    infos = [_info(track, session) for session in recordings]
    leads = common_names([chosen_leads(info, plan) for info in infos])
    examples = _collect(online, track, recordings, infos, plan, leads, progress)
    count = TRACKS[track].choose_leads
    if examples.regression and count is not None and count < len(leads):
        best = best_leads(examples.x, examples.y, count)
        leads = [leads[place] for place in best]
        examples.x = [x[best] for x in examples.x]
    spread = np.sqrt(np.mean([x.var(axis=1) for x in examples.x], axis=0))
    reference = np.mean([covariance(x) for x in examples.x], axis=0)
    if plan.recentre:
        _recentre(examples)
    fitted = [_fit_slot(online, examples, slot, seed, progress) for slot in range(examples.slots)]
    form, packed = _pack(fitted, trust)
    arrays: dict[str, NDArray[np.generic]] = {
        "rate": np.array(examples.rates.pop()),
        "spread": np.asarray(spread),
        "reference": np.asarray(reference),
        **packed,
    }
    settings = {"leads": leads, "plan": plan.settings(), "format": form}
    return Model(track, pipeline_name(track), arrays, settings | {"estimator": online.__name__})


def _collect(
    online: Online,
    track: str,
    recordings: Sequence[Session],
    infos: Sequence[SignalInfo],
    plan: WindowPlan,
    leads: Sequence[str],
    progress: Callable[[str], None],
) -> _Examples:
    found = _Examples([], [], [], [], set())
    for number, (session, info) in enumerate(zip(recordings, infos, strict=True)):
        progress(f"windows of {session.subject}")
        follower = FOLLOWERS[track](info, plan, leads)
        found.slots, found.regression = follower.slots, follower.regression
        found.rates.add(info.rate / follower.signal.step)
        for window, label in _labelled(follower, track, session):
            assert window.x is not None
            found.x.append(window.x)
            found.y.append(label)
            found.slot.append(window.slot)
            found.session.append(number)
    if not found.x:
        raise TruthError(f"{online.__name__}: these recordings have no labelled window")
    if max(found.rates) > 1.01 * min(found.rates):
        rates = ", ".join(f"{rate:g}" for rate in sorted(found.rates))
        raise TruthError(
            f"{online.__name__}: after resampling the recordings have different rates ({rates} Hz); "
            "?resample=HERTZ makes them alike"
        )
    return found


def _info(track: str, session: Session) -> SignalInfo:
    samples = TRACKS[track].packet_samples_at(session.rate)
    return SignalInfo(track, session.subject, session.rate, session.leads, samples)


def _labelled(
    follower: StreamFollower, track: str, session: Session
) -> Iterator[tuple[SignalWindow, Any]]:
    blocks = session.block_triggers()
    if blocks is None:
        raise TruthError(f"session {session.subject!r} is live: training needs a recording")
    rules = TRACKS[track]
    if follower.regression:
        truth: dict[str, Any] = {"angles": () if session.angles is None else session.angles}
    else:
        truth = read_truth(rules, session.rate, blocks)
    for packet in masked_packets(rules, session):
        for window in follower.step(packet):
            label = follower.label(window, truth, rules)
            if label is not None:
                yield window, label


def _recentre(examples: _Examples) -> None:
    """Whiten each session by its own mean covariance, without labels."""
    session = np.array(examples.session)
    for number in np.unique(session):
        places = np.flatnonzero(session == number)
        matrix = whitener(np.mean([covariance(examples.x[place]) for place in places], axis=0))
        for place in places:
            examples.x[place] = matrix @ examples.x[place]


def best_leads(x: Sequence[Array], y: Sequence[Any], count: int) -> list[int]:
    """Places of the leads that follow the targets best, by their correlations; in ascending order."""
    signals = np.asarray(x)
    signals = signals - signals.mean(axis=0)
    targets = np.asarray(y) - np.mean(y, axis=0)
    targets = targets / np.maximum(targets.std(axis=0), 1e-12)
    units = signals / np.maximum(signals.std(axis=0), 1e-12)
    related = np.abs(np.einsum("nls,nj->lsj", units, targets)) / len(units)
    strength = related.max(axis=1).mean(axis=1)
    return sorted(np.argsort(strength)[::-1][:count].tolist())


def _fit_slot(
    online: Online, examples: _Examples, slot: int, seed: int, progress: Callable[[str], None]
) -> Any:
    progress(f"{online.__name__}, window {slot + 1} of {examples.slots}")
    places = [k for k, own in enumerate(examples.slot) if own == slot]
    if not places:
        raise TruthError(
            f"{online.__name__}: no trial is long enough for report {slot + 1}, "
            "which has its own copy of the estimator; give windows a fixed length (length_s), "
            "so that one serves every report"
        )
    x = np.array([examples.x[place] for place in places])
    y = np.array([examples.y[place] for place in places])
    if not examples.regression and len(set(y.tolist())) < 2:
        raise TruthError(
            f"{online.__name__}: all labels are {y[0]}; a classifier needs two classes or more"
        )
    estimator = _copied(online.estimator, seed)
    try:
        with _quiet_mne():
            fitted = estimator.fit(x, y)
    except Exception as error:  # a user's estimator may raise anything
        raise DecoderError(
            f"{online.__name__} can't be fitted to X {x.shape} (windows, leads, samples): "
            f"{format_exception(error)}"
        ) from error
    return estimator if fitted is None else fitted


def _quiet_mne() -> AbstractContextManager[object]:
    """MNE's estimators log a dozen lines at each fit."""
    mne = sys.modules.get("mne")
    return nullcontext() if mne is None else mne.use_log_level("warning")


def _copied(estimator: Any, seed: int) -> Any:
    """A copy that is not fitted; random states that are not set take the seed."""
    if not hasattr(estimator, "get_params"):
        return copy.deepcopy(estimator)
    from sklearn.base import clone

    made = clone(estimator)
    random = [
        name
        for name, value in made.get_params(deep=True).items()
        if name.split("__")[-1] == "random_state" and value is None
    ]
    return made.set_params(**dict.fromkeys(random, seed)) if random else made


def _pack(fitted: list[Any], trust: bool) -> tuple[str, dict[str, NDArray[np.generic]]]:
    """(format, arrays) of fitted estimators."""
    if hasattr(fitted[0], "weights"):
        return TORCH, {
            f"torch.{slot}.{name}": value
            for slot, estimator in enumerate(fitted)
            for name, value in estimator.weights().items()
        }
    form, data = dumps(fitted, trust=trust)
    return form, {"estimators": np.frombuffer(data, dtype=np.uint8)}
