"""The framework modules that submissions import, with the names of the contests' own.

Loaded by `shim.py` in the submission's process, and by `framework_site.py` in further interpreters that
it starts. Python 3.8 to 3.13, with numpy >= 1.19 or without; imports the standard library only.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if __package__:  # in the host, which reads what a submission's process is sent
    from decoders.host.inside import stages
else:  # in the sandbox, under a name that no submission has
    import bci_stages as stages  # type: ignore[import-not-found, no-redef, unused-ignore]

if TYPE_CHECKING:
    from decoders.host.inside.shim import PacketFeed


# --- what the modules hold --------------------------------------------------------------------


@dataclass
class DataModel:
    """A packet, under both spellings (G1 camelCase, G2 and G3 snake_case)."""

    data: Any = None
    start_pos: Any = None
    subject_id: Any = None
    finish_flag: bool = False

    def __post_init__(self) -> None:
        self.startPosition = self.start_pos
        self.personID = self.subject_id
        self.finishedFlag = self.finish_flag


@dataclass
class ReportModel:
    """A result to report, under both spellings."""

    result: Any = None
    resultType: Any = None  # noqa: N815


class ProblemInterface:
    """Where a G1 to G3 submission gets its data and reports its results."""

    def __init__(self, feed: PacketFeed) -> None:
        self._feed = feed

    def get_data(self) -> DataModel:
        data, position, _ = self._feed.next()
        return DataModel(data, position, self._feed.info()["number"], self._feed.finished)

    def report(self, report_model: Any) -> None:
        self._feed.report(report_model)

    getData = get_data  # noqa: N815


class AlgorithmInterface:
    """The base class of G1, G2, G2 online and G3; each generation uses one of the attributes."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._problemInterface: Any = None
        self.task: Any = None
        self.algo_sys_mng: Any = None
        self.comm_proxy: Any = None

    def setProblemInterface(self, proxy: Any) -> None:  # noqa: N802
        self._problemInterface = proxy

    def set_task(self, proxy: Any) -> None:
        self.task = proxy

    def set_algorithm_system_manager(self, proxy: Any) -> None:
        self.algo_sys_mng = proxy

    def set_comm_proxy(self, proxy: Any) -> None:
        self.comm_proxy = proxy


@dataclass
class AlgorithmContinuousDataObject:
    """A packet of G4."""

    start_position: Any = None
    data: Any = None
    subject_id: Any = None
    finish_flag: Any = None
    other_information: Any = None


@dataclass
class AlgorithmDeviceObject:
    """The device of G4; channel_number does not count TRIGGER."""

    data_type: Any = None
    channel_number: Any = None
    sample_rate: Any = None
    channel_label: Any = None
    other_information: Any = None

    def __post_init__(self) -> None:
        self.other_config_map = self.other_information


@dataclass
class AlgorithmResultObject:
    """A result of G4."""

    result: Any = None


class SourceInterface(stages.CalibrationSource):
    """The source of packets of G4 and of 2026."""

    def __init__(self, feed: PacketFeed, label: str) -> None:
        self._feed = feed
        self._label = label

    def get_source_label(self) -> str:
        return self._label

    async def get_device(self) -> AlgorithmDeviceObject:
        info, labels = self._feed.info(), self._feed.labels()
        return AlgorithmDeviceObject(info["data_type"], len(labels), info["rate"], labels, {})

    async def get_data(self) -> AlgorithmContinuousDataObject:
        import asyncio

        # Run their other tasks first: what those report belongs before this packet.
        await asyncio.sleep(0)
        data, position, _ = self._feed.next()
        info = self._feed.info()
        stage, before = info["stage"], self._feed.stage_of_packet
        self._feed.stage_of_packet = stage
        about = {key: stage[key] for key in stages.STAGE_KEYS}
        about[stages.RETURN] = before is not None and stage != before
        return AlgorithmContinuousDataObject(
            position, data, info["subject"], self._feed.finished, about
        )


class ProxyInterface(stages.AlgorithmSettings):
    """The object in self._proxy of a submission of G4 or of 2026."""

    def __init__(self, feed: PacketFeed) -> None:
        self._feed = feed

    def get_source(self, source_label: str = "eeg_1") -> SourceInterface:
        return SourceInterface(self._feed, source_label)

    def get_challenge_config(self) -> dict[str, Any]:
        return dict(self._feed.settings["challenge"])

    def report(self, algorithm_result_object: Any) -> Any:
        result = stages.predicted(result_of(algorithm_result_object))
        self._feed.report(result)  # at once, in case `await` is forgotten
        return _nothing()


async def _nothing() -> None:
    return None


class AsyncAlgorithmInterface:
    """The base class of G4."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._proxy: Any = None
        self._end_flag = False

    def set_proxy(self, proxy: Any) -> None:
        self._proxy = proxy

    def set_end_flag(self, flag: bool) -> None:
        self._end_flag = flag


def result_of(report: Any) -> Any:
    """The value of a report object, under either spelling; a raw value is returned as it is."""
    if isinstance(report, (ReportModel, AlgorithmResultObject)):
        held = vars(report)
        return held.get("result") if held.get("resultType") is None else held["resultType"]
    for name in ("result", "resultType"):
        value = getattr(report, name, None)
        if value is not None and not callable(value):
            return value
    return report


# --- the modules, and how they are found -----------------------------------------------------


BEFORE_2023: dict[str, dict[str, Any]] = {
    "Interface.AlgorithmInterface": {"AlgorithmInterface": AlgorithmInterface},
    "Interface.ProblemInterface": {"ProblemInterface": ProblemInterface},
    "Interface.TaskInterface": {"TaskInterface": ProblemInterface},
    "Interface.Model.DataModel": {"DataModel": DataModel},
    "Interface.Model.ReportModel": {"ReportModel": ReportModel},
}
FRAMEWORK: dict[str, dict[str, Any]] = {
    **{"Algorithm." + name: what for name, what in BEFORE_2023.items()},
    **{"AlgorithmImplement." + name: what for name, what in BEFORE_2023.items()},
    **{"AlgorithmSystem.AlgorithmImplement." + name: what for name, what in BEFORE_2023.items()},
    "Algorithm.AlgorithmInterface": {"AlgorithmInterface": AlgorithmInterface},
    "Algorithm.method.interface.AlgorithmInterface": {
        "AlgorithmInterface": AsyncAlgorithmInterface
    },
    "Algorithm.method.interface.ProxyInterface": {"ProxyInterface": ProxyInterface},
    "Algorithm.method.interface.SourceInterface": {"SourceInterface": SourceInterface},
    "Algorithm.method.interface.SourceReceiverReaderInterface": {
        "SourceReceiverReaderInterface": SourceInterface
    },
    "Algorithm.method.model.AlgorithmObject": {
        "AlgorithmContinuousDataObject": AlgorithmContinuousDataObject,
        "AlgorithmDataObject": AlgorithmContinuousDataObject,
        "AlgorithmDeviceObject": AlgorithmDeviceObject,
        "AlgorithmResultObject": AlgorithmResultObject,
        **stages.OBJECTS,
    },
}
RECEIVER = "Algorithm.service.SourceReceiver"
FALLBACK: dict[str, dict[str, Any]] = {
    RECEIVER: {"ContinuousDataSourceReceiver": stages.ContinuousDataSourceReceiver},
    RECEIVER + ".ContinuousDataSourceReceiver": {
        "ContinuousDataSourceReceiver": stages.ContinuousDataSourceReceiver,
        "is_return_to_calibration_marker": stages.is_return_to_calibration_marker,
    },
}
"""Modules of 2026 for submissions that have no copies of their own."""
FALLBACK_PACKAGES = ("Algorithm.service", RECEIVER)
FRAMEWORK_PACKAGES = {name.rsplit(".", depth)[0] for name in FRAMEWORK for depth in (1, 2, 3, 4)}
SHARED_PACKAGES = {"Algorithm", "Algorithm.method", "AlgorithmImplement", "AlgorithmSystem"}
SHARED_PACKAGES.add("AlgorithmSystem.AlgorithmImplement")

for _module, _names in reversed(FRAMEWORK.items()):
    for _name, _class in _names.items():
        # Objects of these classes can be pickled: a child process finds them by these names.
        _class.__module__, _class.__qualname__, _class.__name__ = _module, _name, _name


class FrameworkFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the framework modules of this file, even if the submission has copies of them.

    The packages around them are shared: everything else in them is the submission's. Where it has no
    such folder, a file of its own by that name is preferred (last_resort).
    """

    def __init__(self, root: str, last_resort: bool) -> None:
        self._root = root
        self._last_resort = last_resort

    def find_spec(self, name: str, *_: Any) -> Any:
        if name in FRAMEWORK:
            return importlib.machinery.ModuleSpec(name, self)
        if self._last_resort and (name in FALLBACK or name in FALLBACK_PACKAGES):
            return importlib.machinery.ModuleSpec(name, self, is_package=name in FALLBACK_PACKAGES)
        folder = os.path.join(self._root, *name.split("."))
        if name not in FRAMEWORK_PACKAGES or (name in SHARED_PACKAGES and self._is_theirs(folder)):
            return None
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = [folder]
        return spec

    def _is_theirs(self, folder: str) -> bool:
        if self._last_resort:
            return False
        own = (os.path.join(folder, "__init__" + suffix) for suffix in (".py", ".pyc"))
        return not os.path.isdir(folder) or any(map(os.path.exists, own))

    def create_module(self, _: Any) -> Any:
        return None

    def exec_module(self, module: Any) -> None:
        name = module.__name__
        vars(module).update(FRAMEWORK.get(name, FALLBACK.get(name, {})))


def install_framework(root: str) -> None:
    """Make the framework importable, with the submission's own files below `root`."""
    if root not in sys.path:
        sys.path.append(root)
    sys.meta_path.insert(0, FrameworkFinder(root, last_resort=False))
    sys.meta_path.append(FrameworkFinder(root, last_resort=True))
    importlib.invalidate_caches()
