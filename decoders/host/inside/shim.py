"""Runs inside a submission's process, with `framework.py` and `stages.py` and no other module of ours.

Python 3.8 to 3.13, with numpy >= 1.19 or without; imports the standard library only. Connects to
the host by the socket whose number is its argument, and drives the submission's class. `launch.py`
has dropped all privileges before.
"""

from __future__ import annotations

import array
import importlib
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
from itertools import dropwhile
from time import perf_counter
from typing import Any

if __package__:  # in the host, for the pipe's constants
    from decoders.host.inside import framework, stages
else:  # in the sandbox, under names that no submission has
    import bci_framework as framework  # type: ignore[import-not-found, no-redef, unused-ignore]
    import bci_stages as stages  # type: ignore[import-not-found, no-redef, unused-ignore]

HEAD = struct.Struct("<Ic")
"""Before each message: length of the body, and kind (see `process.py`)."""

PACKET_HEAD = struct.Struct("<qIIBB6x")
"""Before a packet's samples: position, samples, channels (0 in G4's last packet), finish, due."""

SETTINGS, START, CHOOSE, PACKET, LABELLED = b"s", b"b", b"c", b"p", b"l"
ASK, REPORT, CHANNELS, CALIBRATE, DONE, ERROR = b"a", b"r", b"n", b"k", b"d", b"e"
ASKING = HEAD.pack(0, ASK)

HERE = os.path.dirname(os.path.abspath(__file__))


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
        self.pipe.send(REPORT, plain(framework.result_of(report)))

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


# --- driving the submission's class ----------------------------------------------------------


SETTERS = {
    "g1": ("setProblemInterface", "_problemInterface", framework.ProblemInterface),
    "g2": ("set_task", "task", framework.ProblemInterface),
    "g2-online": ("set_algorithm_system_manager", "algo_sys_mng", framework.ProblemInterface),
    "g3": ("set_comm_proxy", "comm_proxy", framework.ProblemInterface),
    "g4": ("set_proxy", "_proxy", framework.ProxyInterface),
    "g5": ("set_proxy", "_proxy", framework.ProxyInterface),
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
    framework.install_framework(settings["work"])
    module = importlib.import_module(settings["module"])
    named = getattr(module, settings["class"] or "", None)
    if named is not None:
        return named
    bases = (framework.AlgorithmInterface, framework.AsyncAlgorithmInterface)
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
    sys.path[:] = [path for path in sys.path if path != HERE]
    if importlib.util.find_spec("numpy") is not None:
        importlib.import_module("numpy")
    sys.argv = [settings["module"]]
    # Workers of multiprocessing import the main module again: that would be this file.
    sys.modules["__main__"] = types.ModuleType("__main__")


def their_traceback(error: BaseException, work: str) -> str:
    """The traceback without our own frames: it begins at the submission's first line."""
    part: traceback.TracebackException | None
    whole = part = traceback.TracebackException.from_exception(error)
    while part is not None:
        frames = [each for each in part.stack if not _is_hidden(each.filename)]
        theirs = list(dropwhile(lambda each: not each.filename.startswith(work), frames))
        part.stack = traceback.StackSummary.from_list(theirs or frames)
        part = part.__cause__ or part.__context__
    return "".join(whole.format())


def _is_hidden(file: str) -> bool:
    """Whether it is ours, or importlib's, which is between two of their files."""
    return file.startswith(HERE + os.sep) or "importlib" in file


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
