"""Runs inside a submission's process: this file and `stages.py`, and nothing else of this package.

Python 3.8 to 3.13, with numpy >= 1.19 or without; imports the standard library only. Connects to
the host by the socket whose number is its argument, provides the framework modules that submissions
import, and drives the submission's class. `launch.py` has dropped all privileges before.
"""

from __future__ import annotations

import array
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import math
import os
import socket
import struct
import sys
import threading
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass
from itertools import dropwhile
from time import perf_counter
from typing import Any

HEAD = struct.Struct("<Ic")
"""Before each message: length of the body, and kind (see `process.py`)."""

PACKET_HEAD = struct.Struct("<qIIBB6x")
"""Before a packet's samples: position, samples, channels (0 in G4's last packet), finish, due."""

SETTINGS, START, CHOOSE, PACKET, LABELLED = b"s", b"b", b"c", b"p", b"l"
ASK, REPORT, CHANNELS, CALIBRATE, DONE, ERROR = b"a", b"r", b"n", b"k", b"d", b"e"
ASKING = HEAD.pack(0, ASK)


def _load_stages() -> Any:
    """`stages.py` beside this file, under a name that no submission uses."""
    file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stages.py")
    spec = importlib.util.spec_from_file_location("bci_stages", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bci_stages"] = module
    spec.loader.exec_module(module)
    return module


stages: Any = _load_stages()


class HostGone(SystemExit):
    """The host has closed the pipe: the run is over."""


class NoMoreData(Exception):
    """get_data() was called again after the packet with the finish flag."""


class SpinWait:
    """Polls a socket for a moment before a blocking read; used by both ends.

    Waking up on a sleeping core takes longer than everything else in a packet's way. Each poll that
    found nothing doubles the number of waits that do not poll (1, 2, 4, ...), to free the core.
    """

    SPIN_S = 100e-6
    MAX_SKIPS = 64
    PEEK = socket.MSG_PEEK | socket.MSG_DONTWAIT

    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._skips = 0
        self._next_skips = 1

    def wait(self) -> None:
        """Return when data can be read, or when it is time for a blocking read."""
        if self._skips:
            self._skips -= 1
            return
        until = perf_counter() + self.SPIN_S
        while perf_counter() < until:
            try:
                self._link.recv(1, self.PEEK)
            except BlockingIOError:
                continue
            except OSError:
                return  # the read that follows raises it
            self._next_skips = 1
            return
        self._skips = self._next_skips
        self._next_skips = min(2 * self._skips, self.MAX_SKIPS)


class ShimPipe:
    """Messages to and from the host; reports may come from any thread."""

    def __init__(self, number: int, report_bytes: int = 0) -> None:
        os.set_inheritable(number, False)
        self._socket = socket.socket(fileno=number)
        self._reader = os.fdopen(number, "rb", 1 << 16, closefd=False)  # a packet is one read
        self._lock = threading.Lock()
        self._spin = SpinWait(self._socket)
        self.report_bytes = report_bytes

    def ask(self) -> None:
        self._send(ASKING)

    def send(self, kind: bytes, value: Any = None) -> None:
        text = b"" if value is None else json.dumps(value).encode()
        if kind == REPORT and len(text) > self.report_bytes:
            text = json.dumps(f"<report of {len(text)} bytes>").encode()
        self._send(HEAD.pack(len(text), kind) + text)

    def _send(self, message: bytes) -> None:
        try:
            with self._lock:
                self._socket.sendall(message)
        except OSError:
            raise HostGone from None

    def receive(self) -> tuple[bytes, bytes]:
        self._spin.wait()
        length, kind = HEAD.unpack(self._exactly(HEAD.size))
        return kind, self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        try:
            got = self._reader.read(count)
        except OSError:
            raise HostGone from None
        if len(got) < count:
            raise HostGone
        return got


# --- results, as JSON can carry them ---------------------------------------------------------


def plain(value: Any) -> Any:
    """Convert to numbers, strings and lists; anything else to a string that no track accepts."""
    try:
        return _plain(value)
    except Exception as error:  # noqa: BLE001  their objects may raise anything
        return f"<{type(value).__name__}: can't be read: {type(error).__name__}>"


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int) and abs(value) < 2**53:
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    convert = getattr(value, "tolist", None)  # a numpy scalar or array, a tensor
    if callable(convert):
        return _plain(convert())
    return f"<{type(value).__name__}: {repr(value)[:200]}>"


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


# --- the packets -----------------------------------------------------------------------------


class PacketFeed:
    """The packets of the run, requested one by one."""

    def __init__(self, pipe: ShimPipe, settings: dict[str, Any]) -> None:
        self.pipe = pipe
        self.settings = settings
        self.finished = False
        self.choose: Callable[..., Any] | None = None
        self.config: dict[str, Any] = {"predict_timeout_seconds": stages.PREDICT_S}
        self.stage_of_packet: Any = None
        self._info: dict[str, Any] | None = None
        self._required: list[str] | None = None
        self._announced = settings.get("interface") != "g5"

    def next(self) -> tuple[Any, int | None, bool]:
        """The next packet (leads in rows, TRIGGER last), its position, and whether a result is due."""
        if self.finished:
            raise NoMoreData(
                "no more data: the last packet had its finish flag set; end run() then"
            )
        if not self._announced:
            self._announce()
        self.pipe.ask()
        while True:
            kind, body = self.pipe.receive()
            if kind == PACKET:
                position, n, channels, finish, due = PACKET_HEAD.unpack_from(body)
                self.finished = bool(finish)
                if not channels:
                    return None, None, False
                return rows_of(body, n, channels), position, bool(due)
            self._handle(kind, body)

    def report(self, report: Any) -> None:
        self.pipe.send(REPORT, plain(result_of(report)))

    def require(self, labels: Any) -> None:
        """2026: the leads that are to be handed over; named before any data."""
        if self._announced:
            raise RuntimeError("leads are chosen before the first packet or calibration set")
        self._required = stages.names_of(labels)

    def _announce(self) -> None:
        self._announced = True
        self.info()  # the host knows the subject's leads by now
        self.pipe.send(CHANNELS, self._required or [])

    def labels(self) -> list[str]:
        """The names of the leads that are handed over."""
        return list(self._required or self.info()["labels"])

    def calibration(self) -> bytes:
        """2026: the next calibration set of the current subject."""
        if not self._announced:
            self._announce()
        self.pipe.send(CALIBRATE)
        while True:
            kind, body = self.pipe.receive()
            if kind == LABELLED:
                return body
            self._handle(kind, body)

    def info(self) -> dict[str, Any]:
        """Facts about the current subject."""
        while self._info is None:
            self._handle(*self.pipe.receive())
        return self._info

    def _handle(self, kind: bytes, body: bytes) -> None:
        if kind == START:
            self._info = json.loads(body)
        elif kind == CHOOSE and self.choose is not None:
            self.pipe.send(CHANNELS, plain(self.choose(**json.loads(body))))


def rows_of(packet: bytes, n: int, channels: int) -> Any:
    """The samples after the packet's head as (channels, n) float64; lists without numpy."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        samples = numpy.ndarray((n, channels), "f4", packet, PACKET_HEAD.size)
        return samples.T.astype("f8", order="C")
    values = array.array("f", packet[PACKET_HEAD.size :])
    return [list(values[channel::channels]) for channel in range(channels)]


# --- the framework modules, with the names of the contests' own ------------------------------


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


class SourceInterface(stages.CalibrationSource):  # type: ignore[misc]
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


class ProxyInterface(stages.AlgorithmSettings):  # type: ignore[misc]
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


# --- driving the submission's class ----------------------------------------------------------


SETTERS = {
    "g1": ("setProblemInterface", "_problemInterface", ProblemInterface),
    "g2": ("set_task", "task", ProblemInterface),
    "g2-online": ("set_algorithm_system_manager", "algo_sys_mng", ProblemInterface),
    "g3": ("set_comm_proxy", "comm_proxy", ProblemInterface),
    "g4": ("set_proxy", "_proxy", ProxyInterface),
    "g5": ("set_proxy", "_proxy", ProxyInterface),
}


def drive_run(algorithm: Any, feed: PacketFeed) -> None:
    """G1 to G4: the submission pulls its packets inside run()."""
    set_proxy(algorithm, feed)
    running = algorithm.run()
    if inspect.isawaitable(running):
        import asyncio

        asyncio.run(_until_done(running))


def drive_stages(algorithm: Any, feed: PacketFeed) -> None:
    """2026: leads by name, then calibrate() and run() in turn."""
    import asyncio

    if hasattr(algorithm, "get_required_channel_labels"):
        feed.require(algorithm.get_required_channel_labels())
    set_proxy(algorithm, feed)
    asyncio.run(stages.run_stages(algorithm, feed))


def set_proxy(algorithm: Any, feed: PacketFeed) -> None:
    """Give the submission the object that it gets its data from and reports to."""
    setter, attribute, proxy_class = SETTERS[feed.settings["interface"]]
    proxy = proxy_class(feed)
    if hasattr(algorithm, setter):
        getattr(algorithm, setter)(proxy)
    else:
        setattr(algorithm, attribute, proxy)


async def _until_done(running: Any) -> None:
    await running


def drive_fed(algorithm: Any, feed: PacketFeed) -> None:
    """emotion and ecog: pass each packet in, and call for a result where one is due."""
    feed.choose = lambda subject, count: algorithm.choose_channels(subject, count)
    while not feed.finished:
        data, _, due = feed.next()
        algorithm.get_data(data)
        if due:
            feed.report(algorithm.algorithm())


DRIVERS = {"my_algorithm": drive_fed, "ecog": drive_fed, "g5": drive_stages}


def load_class(settings: dict[str, Any]) -> Any:
    """The submission's class: the named one, else the only subclass of the framework's base."""
    sys.path.insert(0, settings["work"])
    sys.path += [os.path.join(settings["work"], folder) for folder in settings["folders"]]
    install_framework(settings["work"])
    module = importlib.import_module(settings["module"])
    named = getattr(module, settings["class"] or "", None)
    if named is not None:
        return named
    bases = (AlgorithmInterface, AsyncAlgorithmInterface)
    found = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, bases) and one.__module__ == module.__name__
    ]
    if len(found) != 1:
        names = ", ".join(sorted(one.__name__ for one in found)) or "none"
        raise ImportError(
            f"{settings['module']} must hold class {settings['class']}, or exactly one class on "
            f"AlgorithmInterface; found {names}"
        )
    return found[0]


# --- containment and start -------------------------------------------------------------------


def prepare_paths(settings: dict[str, Any]) -> None:
    """Copy the submission to a writable folder, and change to it."""
    import shutil

    shutil.copytree(settings["package"], settings["work"], symlinks=True, dirs_exist_ok=True)
    os.chdir(settings["work"])
    os.environ["BCI_FRAMEWORK_ROOT"] = settings["work"]  # for its child processes
    sys.path[:] = [path for path in sys.path if path != os.path.dirname(os.path.abspath(__file__))]
    if importlib.util.find_spec("numpy") is not None:
        importlib.import_module("numpy")
    sys.argv = [settings["module"]]
    # Workers of multiprocessing import the main module again: that would be this file.
    sys.modules["__main__"] = types.ModuleType("__main__")


def their_traceback(error: BaseException, work: str) -> str:
    """The traceback without this file's frames: it begins at the submission's first line."""
    part: traceback.TracebackException | None
    whole = part = traceback.TracebackException.from_exception(error)
    while part is not None:
        hidden = (__file__, "importlib")  # between two of their files
        frames = [each for each in part.stack if not any(name in each.filename for name in hidden)]
        theirs = list(dropwhile(lambda each: not each.filename.startswith(work), frames))
        part.stack = traceback.StackSummary.from_list(theirs or frames)
        part = part.__cause__ or part.__context__
    return "".join(whole.format())


def main() -> None:
    pipe = ShimPipe(int(sys.argv[1]))
    settings = json.loads(pipe.receive()[1])
    pipe.report_bytes = settings["report_bytes"]
    feed = PacketFeed(pipe, settings)
    try:
        prepare_paths(settings)
        algorithm = load_class(settings)()
        DRIVERS.get(settings["interface"], drive_run)(algorithm, feed)
    except HostGone:
        return
    except BaseException as error:  # noqa: BLE001  process boundary: reported to the host
        if not (isinstance(error, SystemExit) and feed.finished):
            text = their_traceback(error, settings["work"])
            sys.stderr.write(text)
            pipe.send(ERROR, text.strip().splitlines()[-1][:500])
            raise SystemExit(1) from None
    pipe.send(DONE)


if __name__ == "__main__":
    main()
