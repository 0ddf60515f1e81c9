"""Manual triggers: set by an operator (`bci-replay mark 7`) or a program while a device runs.

Each running device listens on a Unix socket that only its user can open. A manual trigger is placed
on the next sample of the device. A TriggerBox sends triggers to the amplifier itself.
"""

import contextlib
import json
import os
import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Protocol

from bci_stream.errors import BciError, SourceError
from tracks.common.codes import MAX_CODE

ANSWER_S = 5.0
_LONGEST_MESSAGE = 4096


class ManualTriggerError(BciError):
    """A manual trigger could not be set."""


class ManualTriggers:
    """Queue of manual triggers, from any thread to the one that reads the device.

    now: the device's clock. sink: a device that inserts triggers itself; it may raise BciError.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.sink: Callable[[int], None] | None = None
        self._now = now
        self._waiting: list[tuple[int, float]] = []
        self._lock = threading.Lock()

    def put(self, code: int) -> None:
        check_code(code)
        if self.sink is not None:
            self.sink(code)
            return
        with self._lock:
            self._waiting.append((code, self._now()))

    def take(self, until: float) -> list[tuple[int, float]]:
        """(code, time) of the triggers that were set by then; later ones stay in the queue."""
        with self._lock:
            taken = [trigger for trigger in self._waiting if trigger[1] <= until]
            self._waiting = [trigger for trigger in self._waiting if trigger[1] > until]
        return taken


def check_code(code: int) -> int:
    if not 1 <= code <= MAX_CODE:
        raise ManualTriggerError(
            f"a trigger must be a whole number from 1 to {MAX_CODE}, got {code}"
        )
    return code


def sockets_folder() -> Path:
    """Folder of the sockets of this user's running devices."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    name = "bci-stream" if base or not hasattr(os, "getuid") else f"bci-stream-{os.getuid()}"
    return Path(base or tempfile.gettempdir()) / name / "marks"


class ManualTriggerServer:
    """Receives triggers for one device from other processes of the same user, in a thread.

    If another running device has the name already, it becomes NAME-2, NAME-3, ...
    """

    def __init__(self, triggers: ManualTriggers, name: str, folder: Path | None = None) -> None:
        self._triggers = triggers
        self.path, self._socket = _bind_free(folder or sockets_folder(), name)
        self._thread = threading.Thread(
            target=self._serve, name=f"manual triggers {name}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the thread out of accept()
        self._socket.close()
        self._thread.join()
        self.path.unlink(missing_ok=True)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:
                return
            with client, contextlib.suppress(OSError):
                client.settimeout(ANSWER_S)
                client.sendall(self._answer(client.recv(_LONGEST_MESSAGE)))

    def _answer(self, message: bytes) -> bytes:
        try:
            code = json.loads(message)["code"]
            if type(code) is not int:
                raise ManualTriggerError(f"a trigger must be a whole number, got {code!r}")
            self._triggers.put(code)
        except (ValueError, KeyError, TypeError, RecursionError, BciError) as error:
            return json.dumps({"error": str(error)}).encode()
        return json.dumps({"ok": code}).encode()


def _bind_free(folder: Path, name: str) -> tuple[Path, socket.socket]:
    if not hasattr(socket, "AF_UNIX"):
        raise ManualTriggerError(
            "this system has no Unix sockets: manual triggers need a TriggerBox here"
        )
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise PermissionError(0, "the folder belongs to another user")
        path = _free_path(folder, name)
        path.unlink(missing_ok=True)  # left behind by a process that was killed
        server.bind(str(path))
        path.chmod(0o600)
        server.listen(8)
    except OSError as error:
        server.close()
        raise ManualTriggerError(
            f"can't receive manual triggers in {folder}: {error.strerror or error}"
        ) from None
    return path, server


def _free_path(folder: Path, name: str) -> Path:
    numbers = (folder / (f"{name}-{i}.sock" if i > 1 else f"{name}.sock") for i in count(1))
    return next(path for path in numbers if not _answers(path))


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def send_trigger(code: int, name: str | None = None, folder: Path | None = None) -> str:
    """Set a trigger on the running device of that name (default: the only one); returns its name."""
    check_code(code)
    path = _choose(folder or sockets_folder(), name)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(ANSWER_S)
        try:
            client.connect(str(path))
            client.sendall(json.dumps({"code": code}).encode())
            answer = json.loads(client.recv(_LONGEST_MESSAGE) or b"{}")
        except (OSError, ValueError) as error:
            raise ManualTriggerError(
                f"the replay {path.stem!r} did not take the trigger: {error}"
            ) from None
    if "ok" not in answer:
        raise ManualTriggerError(
            f"the replay {path.stem!r} did not take the trigger: {answer.get('error', 'no answer')}"
        )
    return path.stem


def _choose(folder: Path, name: str | None) -> Path:
    paths = sorted(folder.glob("*.sock"), key=lambda path: path.stem)
    running = [path for path in paths if _answers(path)]
    wanted = [path for path in running if name in (None, path.stem)]
    if len(wanted) == 1:
        return wanted[0]
    seen = ", ".join(path.stem for path in running) or "none"
    raise ManualTriggerError(
        f"one replay of a device{f' named {name!r}' if name else ''} is needed, found {len(wanted)} "
        f"(running: {seen}); start one with `bci-replay start`, or choose it with --to NAME"
    )


BAUD = 115200
DEVICE = 0x01
EMIT = 0xE1
_FRAME = struct.Struct("<BBHB")
"""Device, function, payload length, payload."""


class SerialPort(Protocol):
    def write(self, data: bytes, /) -> int | None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


def open_port(path: str) -> SerialPort:
    """Open the serial port of a TriggerBox at 115200 8N1. Raises SourceError."""
    import serial

    try:
        port: SerialPort = serial.Serial(path, BAUD, write_timeout=2.0)
    except (serial.SerialException, ValueError, OSError) as error:
        raise SourceError(
            f"can't open the TriggerBox at {path}: {error}; check the cable, the port's name "
            "(/dev/ttyUSB0, COM3) and that your user may use it (group dialout)"
        ) from None
    return port


def send_to_trigger_box(port: SerialPort, code: int) -> None:
    """Put a code on the trigger line: 01 E1 01 00 XX."""
    if not 1 <= code <= 255:
        raise SourceError(f"a TriggerBox code is one byte, from 1 to 255, got {code}")
    try:
        port.write(_FRAME.pack(DEVICE, EMIT, 1, code))
        port.flush()
    except OSError as error:  # pyserial's errors are OSErrors
        raise SourceError(f"the TriggerBox did not take the code: {error}") from None


PULSE_S = 0.005
"""How long a code stays on a parallel port: several samples of any amplifier."""


class ParallelPort(Protocol):
    def setData(self, value: int, /) -> None: ...  # noqa: N802 - pyparallel's name


def open_parallel_port(port: str) -> ParallelPort:
    """Open a parallel port by its number or device. Raises SourceError."""
    try:
        parallel = import_module("parallel")
    except ModuleNotFoundError:
        raise SourceError(
            "a parallel port needs pyparallel: `pip install pyparallel` (Linux: also `modprobe ppdev`)"
        ) from None
    try:
        opened: ParallelPort = parallel.Parallel(int(port) if port.isdigit() else port)
    except (OSError, ValueError, RuntimeError) as error:
        raise SourceError(
            f"can't open the parallel port {port}: {error}; check its name (/dev/parport0), `modprobe "
            "ppdev`, and that your user may use it (group lp)"
        ) from None
    return opened


def send_pulse(port: ParallelPort, code: int, pulse_s: float = PULSE_S) -> None:
    """Put a code on the data lines for pulse_s, then 0."""
    if not 1 <= code <= 255:
        raise SourceError(f"a parallel port has 8 data lines, for codes from 1 to 255, got {code}")
    port.setData(code)
    try:
        time.sleep(pulse_s)
    finally:
        port.setData(0)
