"""The framework of 2026: calibrate() and run() in stages, leads by name, and calibration sets.

Loaded by `framework.py` and `shim.py`, inside the submission's process. A stage is one subject: its
calibration sets are labelled trials that the host reads from a training recording, and its packets are
those of the run. The host counts the leads and trials that it hands over. Python 3.8 to 3.13, standard
library only.
"""

from __future__ import annotations

import inspect
import json
import struct
import sys
from array import array
from dataclasses import dataclass
from typing import Any

SET_HEAD = struct.Struct("<I")
"""Before a calibration set: the length of its facts in JSON, which float32 samples follow."""
STAGE_KEYS = ("exp_name", "exp_task", "session_id")
RETURN = "return_to_calibration"
"""Set in other_information of the first packet of a new stage."""
PREDICT_S = 1.0
EEG = "eeg_1"


@dataclass
class AlgorithmCalibrationObject:
    """Labelled trials: session_data_dict is {session: {"data": trials x leads x samples, "label"}}."""

    subject_id: Any = None
    exp_name: Any = None
    exp_task: Any = None
    session_id: Any = None
    session_data_dict: Any = None
    finish_flag: Any = None
    stage_seed: Any = None


class OpenObject:
    """An object with any attributes, given by name; those of `defaults` are always there."""

    defaults: Any = ()

    def __init__(self, *values: Any, **named: Any) -> None:
        vars(self).update(dict.fromkeys(self.defaults))
        vars(self).update(zip(self.defaults, values))  # noqa: B905  Python 3.8
        vars(self).update(named)


class StageContextObject(OpenObject):
    """Which stage was calibrated."""

    defaults = ("subject_id", *STAGE_KEYS, "stage_seed")


class CalibrationStageResultObject(OpenObject):
    """What calibrate() returns: run() follows where there is a stage, or it is ready."""

    defaults = ("stage_context", "calibration_ready")


class AlgorithmCalibrationProgressObject(OpenObject):
    """How far a calibration is; taken and not used."""

    defaults = ("stage_context", "progress", "message")


def is_return_to_calibration_marker(packet: Any) -> bool:
    """Whether a packet is the first one of a new stage."""
    found = getattr(packet, "other_information", None) or {}
    return bool(found.get(RETURN))


class ContinuousDataSourceReceiver:
    """For submissions that import it and have no copy of their own."""

    is_return_to_calibration_marker = staticmethod(is_return_to_calibration_marker)


OBJECTS = {
    one.__name__: one
    for one in (
        AlgorithmCalibrationObject,
        StageContextObject,
        CalibrationStageResultObject,
        AlgorithmCalibrationProgressObject,
    )
}


class CalibrationSource:
    """The part of a source that 2026 added."""

    _feed: Any

    def set_required_channel_labels(self, labels: Any) -> None:
        self._feed.require(labels)

    async def get_calibration(self) -> AlgorithmCalibrationObject:
        """The next labelled block of this stage; after the last one an empty set."""
        facts, sets = read_set(self._feed.calibration())
        info = self._feed.info()
        stage = {key: info["stage"][key] for key in STAGE_KEYS}
        return AlgorithmCalibrationObject(
            subject_id=info["subject"],
            session_data_dict=sets,
            finish_flag=facts["finish"],
            stage_seed=info["stage"]["stage_seed"],
            **stage,
        )


def read_set(body: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The facts of a calibration set, and its session_data_dict."""
    (length,) = SET_HEAD.unpack_from(body)
    start = SET_HEAD.size + length
    facts = json.loads(body[SET_HEAD.size : start])
    if not facts["labels"]:
        return facts, {}
    trials, leads, samples = facts["shape"]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        data: Any = numpy.frombuffer(body, "f4", offset=start).reshape(facts["shape"]).astype("f8")
        label: Any = numpy.array(facts["labels"])
    else:
        values, label = array("f", body[start:]), facts["labels"]
        rows = [list(values[at : at + samples]) for at in range(0, len(values), samples)]
        data = [rows[trial * leads : (trial + 1) * leads] for trial in range(trials)]
    return facts, {facts["session"]: {"data": data, "label": label}}


class AlgorithmSettings:
    """The part of the proxy that 2026 added."""

    _feed: Any

    def get_algorithm_config(self) -> dict[str, Any]:
        return dict(self._feed.config)

    def set_algorithm_config(self, config: Any = None, **named: Any) -> None:
        self._feed.config.update(config or {}, **named)

    def set_source_required_channel_labels(self, *given: Any) -> None:
        """A dict of the sources' labels, or a source and its labels."""
        self._feed.require(given[-1])

    async def report_calibration_progress(self, *_: Any) -> None:
        return None


def names_of(labels: Any) -> list[str]:
    """The names in what a submission requires: a list, or a dict with one for each source."""
    if isinstance(labels, dict):
        labels = labels.get(EEG) or next(iter(labels.values()), None)
    return [] if labels is None else [str(label) for label in labels]


def predicted(result: Any) -> Any:
    """The label in `{"predict_label": 2}`, as JSON or as a dict; other results as they are."""
    found = result
    if isinstance(result, str) and result.lstrip().startswith("{"):
        try:
            found = json.loads(result)
        except ValueError:
            return result
    return found.get("predict_label", result) if isinstance(found, dict) else result


async def run_stages(algorithm: Any, feed: Any) -> None:
    """calibrate() and run() in turn, until the data has ended or run() returns False."""
    goes_on = True
    while goes_on and not feed.finished:
        result = await _awaited(algorithm.calibrate())
        stage = getattr(result, "stage_context", None)
        if stage is None and not getattr(result, "calibration_ready", False):
            raise RuntimeError("calibrate() gave no stage and is not ready, and there is more data")
        goes_on = bool(await _awaited(algorithm.run()))
    if hasattr(algorithm, "shutdown_runtime"):
        await _awaited(algorithm.shutdown_runtime())


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
