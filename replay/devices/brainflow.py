"""BrainFlow boards: `brainflow:CYTON?serial_port=/dev/ttyUSB0`."""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from brainflow.board_shim import BoardShim, BrainFlowInputParams
from brainflow.data_filter import DataFilter
from brainflow.exit_codes import BrainFlowError
from numpy.typing import NDArray

from bci_stream.clock import Clock
from bci_stream.errors import SourceError
from replay.devices.base import (
    ConnectionLostError,
    Device,
    DeviceContext,
    DeviceRow,
    EndOfDataError,
)
from replay.devices.boards import (
    MASTERED,
    BoardFacts,
    PackageCounter,
    all_boards,
    find_board,
    with_resistance,
)
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.gaps import FoundGap, GapFinder, SampleRun
from replay.devices.manual_triggers import ManualTriggers
from replay.devices.params import DeviceParams, apply_montage, read_montage
from replay.devices.status import StatusKeeper
from replay.devices.timing import WallClock
from replay.devices.triggers import TriggerLine

BoardRows = NDArray[np.float64]
"""(rows, n), as BrainFlow returns it."""

POLL_S = 0.02
CHECK_S = 0.05
RING_SAMPLES = 450_000


MOST_IN_A_ROW = 1e12
"""Beyond any package number, and any time in seconds."""


class BoardError(SourceError):
    """BrainFlow could not use the board."""


class BoardSession(Protocol):
    """The part of BrainFlow's BoardShim that is used; all but `stop` may raise BoardError."""

    def prepare(self) -> None: ...
    def start(self) -> None: ...
    def poll(self) -> BoardRows: ...
    def insert_trigger(self, code: int) -> None: ...
    def stop(self) -> None: ...


class Preparation:
    """Prepares a board in a thread: BrainFlow may search for minutes and can't be interrupted.

    The caller can abandon it; a board that is found later is released again.
    """

    def __init__(self, session: BoardSession) -> None:
        self._session = session
        self._error: BoardError | None = None
        self._lock = threading.Lock()
        self._abandoned = False
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="prepare board", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)

    def result(self) -> BoardSession:
        """The prepared session, after `wait` returned True. Raises BoardError."""
        if self._error is not None:
            raise self._error
        return self._session

    def abandon(self) -> None:
        with self._lock:
            self._abandoned = True
            is_prepared = self._ended.is_set() and self._error is None
        if is_prepared:
            self._session.stop()

    def _run(self) -> None:
        try:
            self._session.prepare()
        except BoardError as error:
            self._error = error
        with self._lock:
            unused = self._abandoned or self._error is not None
            if not unused:
                self._ended.set()
        if unused:
            self._session.stop()
            self._ended.set()


@dataclass(frozen=True)
class FileTriggers:
    """Triggers of a played file, one value a sample: BrainFlow drops them while it plays.

    first_lead: the file's first lead, to check that playback and file are at the same sample.
    """

    values: NDArray[np.float64]
    first_lead: NDArray[np.float64]


class BoardDevice(Device):
    """A board, polled every 20 ms. session: makes a BrainFlow session."""

    advice = "check that it is on and near, and that no other program uses it"
    silence = "the board sends no samples"
    counts_samples = True
    stays_connected = True

    def __init__(
        self,
        board: BoardFacts,
        session: Callable[[], BoardSession],
        clock: Clock,
        status: StatusKeeper,
        manual_triggers: ManualTriggers,
        wall: WallClock | None = None,
        file: FileTriggers | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = f"the board {board.name}"
        self._board, self._make_session, self._clock = board, session, clock
        self._status, self._manual_triggers = status, manual_triggers
        self._wall = wall or WallClock(clock.now)
        self._info = DeviceInfo(float(board.rate), board.leads)
        self._file, self._played = file, 0
        self._sleep = sleep
        self._interrupted = threading.Event()
        self._session: BoardSession | None = None
        self._found = self._streaming = False
        self._line = TriggerLine(status.note)
        rule = board.counter
        self._counter = PackageCounter(rule) if rule else None
        self._gaps = GapFinder(board.rate, rule.cycle_samples if rule else None)

    def describe(self) -> DeviceInfo:
        return self._info

    def connect(self, timeout_s: float) -> None:
        """Prepare the board. The first failure is final: a wrong port should be reported at once."""
        if self._file is not None and self._played:
            raise SourceError("the playback of the file stopped, and can't be resumed there")
        self._gaps.restart(unknown_loss=True)
        if self._counter is not None:
            self._counter.restart()
        try:
            self._session = self._prepare(timeout_s)
        except BoardError as error:
            if not self._found:
                raise
            raise ConnectionLostError(str(error)) from None
        self._found = True

    def _prepare(self, timeout_s: float) -> BoardSession:
        preparation = Preparation(self._make_session())
        deadline = self._clock.now() + timeout_s
        while not preparation.wait(CHECK_S):
            if self._interrupted.is_set():
                preparation.abandon()
                raise ConnectionLostError("stopped")
            if self._clock.now() >= deadline:
                preparation.abandon()
                raise BoardError(
                    f"{self.name} did not answer within {timeout_s:.1f} s: check that it is on and "
                    "near, or raise wait_s="
                )
        return preparation.result()

    def disconnect(self) -> None:
        self._manual_triggers.sink = None
        session, self._session, self._streaming = self._session, None, False
        if session is not None:
            session.stop()

    def interrupt(self) -> None:
        self._interrupted.set()

    def read(self, timeout_s: float, missing: int) -> list[Chunk] | None:
        assert self._session is not None
        try:
            if not self._streaming:
                self._session.start()
                self._streaming = True
                self._manual_triggers.sink = self._session.insert_trigger
            self._sleep(min(timeout_s, POLL_S))
            rows = self._session.poll()
        except BoardError as error:
            raise ConnectionLostError(str(error)) from None
        chunks: list[Chunk] = []
        moved_s = self._wall.check()
        if moved_s:
            self._status.note(f"the computer's clock was set by {moved_s:+.3f} s; stamps are not")
            chunks = self.flush()
            self._gaps.restart()
        if not rows.shape[1]:
            if self._file is not None and self._played >= len(self._file.values):
                raise EndOfDataError("the file was played to its end")
            return chunks or None
        # If the clock was set, some samples of this poll were stamped before that, some after.
        find = self._gaps.step_untimed if moved_s else self._gaps.step
        return chunks + _chunks(find(self._sample_run(rows)))

    def flush(self) -> list[Chunk]:
        return _chunks(self._gaps.flush())

    def _sample_run(self, rows: BoardRows) -> SampleRun:
        board = self._board
        with np.errstate(over="ignore"):  # a value beyond float32 becomes infinite
            samples = np.ascontiguousarray(rows[list(board.signal_rows)].T, dtype=np.float32)
        lost = np.zeros(rows.shape[1], dtype=np.int64)
        if self._counter is not None:
            lost = self._counter.step(self._row(rows, board.package_row, "package number"))
        stamps = self._row(rows, board.stamp_row, "time stamp") + self._wall.offset_s
        return SampleRun(samples, self._line.read(self._trigger_values(rows)), stamps, lost)

    def _row(self, rows: BoardRows, number: int, meaning: str) -> NDArray[np.float64]:
        """A row that places the samples. Raises SourceError for a value that no board sends."""
        values: NDArray[np.float64] = rows[number]
        if not (np.abs(values) <= MOST_IN_A_ROW).all():
            raise SourceError(
                f"{self.name} sends a {meaning} of {values[~(np.abs(values) <= MOST_IN_A_ROW)][0]:g}, "
                "so its samples can't be placed: update its firmware, or BrainFlow"
            )
        return values

    def _trigger_values(self, rows: BoardRows) -> NDArray[np.float64]:
        values: NDArray[np.float64] = rows[self._board.marker_row]
        if self._file is None:
            return values
        first, self._played = self._played, self._played + rows.shape[1]
        recorded = self._file.values[first : self._played]
        lead = self._file.first_lead[first : self._played]
        n = len(recorded)
        if not np.allclose(rows[self._board.signal_rows[0], :n], lead, rtol=1e-5, atol=1e-3):
            raise SourceError(
                "the playback no longer follows its file, so its triggers can't be placed: samples "
                "were lost; run fewer programs, or start again"
            )
        values[:n] = np.where(values[:n] == 0, recorded, values[:n])
        return values


def _chunks(found: Iterable[FoundGap]) -> list[Chunk]:
    return [Chunk(run.samples, run.triggers, lost, float(run.stamps[-1])) for run, lost in found]


TEXT_PARAMS = (
    "serial_port", "mac_address", "ip_address", "other_info", "serial_number", "file",
    "ip_address_aux", "ip_address_anc", "file_aux", "file_anc",
)  # fmt: skip
NUMBER_PARAMS = ("ip_port", "ip_port_aux", "ip_port_anc", "ip_protocol", "timeout")
PLAYBACK, STREAMING = MASTERED
Result = TypeVar("Result")


class BrainflowSession:
    """Implements `BoardSession` with one BoardShim."""

    def __init__(self, name: str, number: int, given: BrainFlowInputParams) -> None:
        BoardShim.disable_board_logger()
        self._name = name
        self._shim = BoardShim(number, given)

    def prepare(self) -> None:
        self._call(self._shim.prepare_session)

    def start(self) -> None:
        if self._name == STREAMING:  # it has received since it was prepared: drop those samples
            self._call(self._shim.release_session)
            self._call(self._shim.prepare_session)
        self._call(lambda: self._shim.start_stream(RING_SAMPLES))

    def poll(self) -> BoardRows:
        return self._call(self._shim.get_board_data)

    def insert_trigger(self, code: int) -> None:
        self._call(lambda: self._shim.insert_marker(code))

    def stop(self) -> None:
        with contextlib.suppress(BrainFlowError):  # it may not be streaming, or be gone
            self._shim.stop_stream()
        with contextlib.suppress(BrainFlowError):
            self._shim.release_session()

    def _call(self, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except BrainFlowError as error:
            raise BoardError(
                f"the board {self._name} can't be used ({error}): check that it is on and near, "
                "that no other program uses it, and its parameters (`bci-replay devices`)"
            ) from None


def make_device(context: DeviceContext) -> BoardDevice:
    named, params = find_board(context.address.removeprefix("//")), context.params
    _check_needs(named, params)
    board = _measuring_board(named, params.text("master_board"))
    if not board.leads:
        raise SourceError(
            f"BrainFlow's {board.name} has no EEG, ECG or EMG leads that could be put on the wire; "
            "`bci-replay devices` lists the boards that have"
        )
    settings = _settings(params)
    settings.master_board = board.number
    if params.was_given("wait_s") and not settings.timeout:
        settings.timeout = math.ceil(context.timeouts.first_s)
    board = replace(board, leads=apply_montage(read_montage(params.text("montage")), board.leads))
    if params.choice("impedance", ("yes", "no"), "no") == "yes":
        board = with_resistance(board)
    return BoardDevice(
        board,
        lambda: BrainflowSession(named.name, named.number, settings),
        context.clock,
        context.status,
        context.manual_triggers,
        file=_read_triggers(settings.file, board) if named.name == PLAYBACK else None,
    )


def device_rows() -> list[DeviceRow]:
    return [_board_row(board) for board in all_boards()]


def _board_row(board: BoardFacts) -> DeviceRow:
    uri, needs = f"brainflow:{board.name}", ", ".join(board.needs) or "nothing"
    if board.name in MASTERED:
        return DeviceRow(uri, "master's", "master's", needs)
    names = tuple(lead.name for lead in board.leads)
    return DeviceRow(uri, board.rate, len(names), needs, names)


def _check_needs(board: BoardFacts, params: DeviceParams) -> None:
    missing = [name for name in board.needs if not params.was_given(name)]
    if missing:
        example = "&".join(f"{name}=..." for name in board.needs)
        raise SourceError(
            f"{board.name} needs {', '.join(missing)}: write brainflow:{board.name}?{example}"
        )


def _measuring_board(board: BoardFacts, master: str | None) -> BoardFacts:
    """The board whose leads and rate the data have: for playback and streaming, master_board=."""
    if board.name not in MASTERED:
        if master is not None:
            raise SourceError(f"{board.name} is a board itself and takes no master_board=")
        return board
    measuring = find_board(master or "")
    if measuring.name in MASTERED:
        raise SourceError(
            f"master_board= of {board.name} must be the board that measured, got {measuring.name}: "
            "name the amplifier itself, as in master_board=CYTON"
        )
    return measuring


def _settings(params: DeviceParams) -> BrainFlowInputParams:
    settings: Any = BrainFlowInputParams()
    for name in TEXT_PARAMS:
        setattr(settings, name, params.text(name) or "")
    for name in NUMBER_PARAMS:
        setattr(settings, name, params.whole(name, 0, 0, 65535))
    return settings


def _read_triggers(path: str, board: BoardFacts) -> FileTriggers:
    if not Path(path).is_file():
        raise SourceError(f"file={path}: there is no such file")
    try:
        rows = DataFilter.read_file(path)
    except BrainFlowError as error:
        raise SourceError(f"{path} is not a file that BrainFlow wrote ({error})") from None
    if rows.shape[0] <= board.marker_row or not rows.shape[1]:
        raise SourceError(
            f"{path} has {rows.shape[0]} rows, {board.name} writes more than {board.marker_row}: "
            "is master_board= the board that recorded it?"
        )
    return FileTriggers(rows[board.marker_row], rows[board.signal_rows[0]])
