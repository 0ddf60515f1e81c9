"""A BrainFlow board: polled, watched, its gaps found, its marks placed, found again."""

import contextlib
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlencode

import numpy as np
from brainflow.board_shim import BoardShim, BrainFlowInputParams
from brainflow.data_filter import DataFilter
from brainflow.exit_codes import BrainFlowError
from numpy.typing import NDArray

from bci_stream.clock import Clock, RealClock
from bci_stream.errors import SourceError
from replay.devices.base import LiveSource
from replay.devices.boards import MASTERED, BoardFacts, PackageCounter, find_board
from replay.devices.chunk import Chunk, DeviceInfo, Timeouts
from replay.devices.gaps import FoundGap, GapFinder, SampleRun
from replay.devices.manual_triggers import ManualTriggers
from replay.devices.params import DeviceParams, read_live_params, read_montage
from replay.devices.status import StatusKeeper
from replay.devices.timing import FittedClock, WallClock
from replay.devices.triggers import CodeReader

BoardRows = NDArray[np.float64]
"""(rows, n), as BrainFlow gives it."""


class BoardError(SourceError):
    """A board that can't be used just now; it is tried again."""


class BoardSession(Protocol):
    """The part of BrainFlow's BoardShim that is used; its errors come as BoardError."""

    def prepare(self) -> None: ...
    def start(self) -> None: ...
    def poll(self) -> BoardRows: ...
    def mark(self, code: int) -> None: ...
    def stop(self) -> None: ...


class Preparation:
    """BrainFlow looks for a board as long as it likes (some for minutes) and can't be interrupted:
    who waits for it can leave, and a board that is found later is released again."""

    def __init__(self, shim: BoardSession) -> None:
        self._shim = shim
        self._error: BoardError | None = None
        self._lock = threading.Lock()
        self._left = False
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="prepare board", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)

    def take(self) -> BoardSession:
        """When it has ended; raises BoardError where it failed."""
        if self._error is not None:
            raise self._error
        return self._shim

    def leave(self) -> None:
        with self._lock:
            self._left = True
            found = self._ended.is_set() and self._error is None
        if found:
            self._shim.stop()

    def _run(self) -> None:
        try:
            self._shim.prepare()
        except BoardError as error:
            self._error = error
        with self._lock:
            unwanted = self._left or self._error is not None
            if not unwanted:
                self._ended.set()
        if unwanted:
            self._shim.stop()
            self._ended.set()


POLL_S = 0.02
LOOK_S = 0.05


class _StoppedError(SourceError):
    """close() was called while the board was looked for."""


@dataclass(frozen=True)
class FileMarks:
    """Playback wipes the marks of its file, so they are read from it: values, one a sample."""

    values: NDArray[np.float64]
    proof: NDArray[np.float64]
    """The first lead of the file, to see that a row is the row it is taken for."""


class BoardFeed:
    """pause: waits so long, or until close; True where closed."""

    counts = True

    def __init__(
        self,
        board: BoardFacts,
        shim: Callable[[], BoardSession],
        clock: Clock,
        status: StatusKeeper,
        marks: ManualTriggers,
        waits: Timeouts,
        wall: WallClock | None = None,
        file_marks: FileMarks | None = None,
        pause: Callable[[float], bool] | None = None,
    ) -> None:
        self._board, self._make_shim, self._clock = board, shim, clock
        self._status, self._marks, self._waits = status, marks, waits
        self._wall = wall or WallClock(clock.now)
        self._file = file_marks
        self._stop = threading.Event()
        self._pause = pause or self._stop.wait
        self._prepared: BoardSession | None = None
        self._played = 0
        self._codes = CodeReader(status.note)
        rule = board.counter
        self._counter = PackageCounter(rule) if rule else None
        self._gaps = GapFinder(board.rate, rule.cycle_samples if rule else None)

    def clock(self, rate: float) -> FittedClock:
        return FittedClock(rate)

    def open(self) -> DeviceInfo:
        """Contact the board: a wrong port should be told at once. It streams from `chunks` on."""
        self._prepared = self._prepared or self._prepare(self._waits.first_s)
        if self._stop.is_set():
            self.close()
        return DeviceInfo(float(self._board.rate), self._board.leads)

    def close(self) -> None:
        self._stop.set()
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.stop()

    def _prepare(self, patience_s: float) -> BoardSession:
        preparation = Preparation(self._make_shim())
        deadline = self._clock.now() + patience_s
        while not preparation.wait(LOOK_S):
            if self._stop.is_set():
                preparation.leave()
                raise _StoppedError(f"the search for the board {self._board.name} was stopped")
            if self._clock.now() >= deadline:
                preparation.leave()
                raise BoardError(
                    f"the board {self._board.name} did not answer within {patience_s:g} s: check "
                    "that it is on and near, or raise wait_s="
                )
        return preparation.take()

    def chunks(self, missing: Callable[[], int] = lambda: 1) -> Iterator[tuple[Chunk, float]]:
        self._heard = self._clock.now()
        failures = 0
        patience_s = self._waits.first_s
        while not self._stop.is_set():
            before = self._heard
            try:
                yield from self._run()
                return
            except _StoppedError:
                return
            except BoardError as error:
                if self._heard > before:
                    failures, patience_s = 0, self._waits.reconnect_s
                failures += 1
                if self._clock.now() - self._heard >= patience_s:
                    raise SourceError(f"{self._board.name} gave no samples: {error}") from None
                fresh = self._status.samples == 0
                self._status.tell("connecting" if fresh else "reconnecting", str(error))
                self._pause(self._waits.backoff(failures))

    def _run(self) -> Iterator[tuple[Chunk, float]]:
        """One life of the board, from prepare to release; ends when closed or played to its end."""
        prepared, self._prepared = self._prepared, None
        shim = prepared or self._prepare(self._waits.reconnect_s)
        self._played = 0
        try:
            shim.start()
            self._marks.sink = shim.mark
            yield from self._poll(shim)
        finally:
            self._marks.sink = None
            if self._counter is not None:
                self._counter.restart()
            self._gaps.restart()
            shim.stop()

    def _poll(self, shim: BoardSession) -> Iterator[tuple[Chunk, float]]:
        now = quiet_since = self._clock.now()
        self._again = self._status.samples > 0
        while not self._stop.is_set():
            rows = shim.poll()
            now = self._clock.now()
            moved = self._wall.check()
            if moved:
                self._status.note(f"the computer's clock was set by {moved:+.3f} s; stamps are not")
                yield from self._chunks(self._gaps.flush(), now)
                self._gaps.restart()
            if rows.shape[1]:
                quiet_since = self._heard = now
                self._status.tell("connected")
                # Where the clock was set, some of these were stamped before that and some after.
                find = self._gaps.untimed if moved else self._gaps.step
                yield from self._chunks(find(self._stretch(rows)), now)
            elif self._file is not None and self._played >= len(self._file.values):
                self._status.tell("ended", "the file was played to its end")
                break
            self._watch(now - quiet_since)
            self._pause(POLL_S)
        yield from self._chunks(self._gaps.flush(), now)

    def _watch(self, quiet_s: float) -> None:
        """BrainFlow never tells that a board has gone: silence does."""
        patience_s = max(self._waits.stall_s, 5 * POLL_S)
        if quiet_s >= patience_s:
            self._status.tell("stalled", "the board gives no samples")
        if quiet_s >= self._waits.dead_s and self._file is not None:
            raise SourceError("the playback of the file stopped: it can't go on where it was")
        if quiet_s >= self._waits.dead_s:
            raise BoardError(f"no samples for {quiet_s:.1f} s; it is released and prepared again")

    def _stretch(self, rows: BoardRows) -> SampleRun:
        board = self._board
        samples = np.ascontiguousarray(rows[list(board.signal_rows)].T, dtype=np.float32)
        lost = np.zeros(rows.shape[1], dtype=np.int64)
        if self._counter is not None:
            lost = self._counter.step(rows[board.package_row])
        stamps = rows[board.stamp_row] + self._wall.offset_s
        return SampleRun(samples, self._codes.read(self._mark_values(rows)), stamps, lost)

    def _chunks(self, found: Iterator[FoundGap], now: float) -> Iterator[tuple[Chunk, float]]:
        for piece, missing in found:
            lost, self._again = None if self._again else missing, False
            triggers = tuple((int(i), int(piece.codes[i])) for i in np.flatnonzero(piece.codes))
            yield Chunk(piece.samples, triggers, lost, float(piece.stamps[-1])), now

    def _mark_values(self, rows: BoardRows) -> NDArray[np.float64]:
        values: NDArray[np.float64] = rows[self._board.marker_row]
        if self._file is None:
            return values
        first, self._played = self._played, self._played + rows.shape[1]
        recorded = self._file.values[first : self._played]
        proof = self._file.proof[first : self._played]
        n = len(recorded)
        if not np.allclose(rows[self._board.signal_rows[0], :n], proof, rtol=1e-5, atol=1e-3):
            raise SourceError(
                "the playback no longer follows its file, so its marks can't be placed: samples "
                "were lost; run fewer programs, or start again"
            )
        values[:n] = np.where(values[:n] == 0, recorded, values[:n])
        return values


TEXT_PARAMS = (
    "serial_port",
    "mac_address",
    "ip_address",
    "other_info",
    "serial_number",
    "file",
    "ip_address_aux",
    "ip_address_anc",
    "file_aux",
    "file_anc",
)
NUMBER_PARAMS = ("ip_port", "ip_port_aux", "ip_port_anc", "ip_protocol", "timeout")
RING_SAMPLES = 450_000
PLAYBACK, STREAMING = MASTERED
Result = TypeVar("Result")


class BrainflowSession:
    """One BoardShim, with BrainFlow's errors turned into ours."""

    def __init__(self, name: str, number: int, given: BrainFlowInputParams) -> None:
        BoardShim.disable_board_logger()
        self._name = name
        self._shim = BoardShim(number, given)

    def prepare(self) -> None:
        self._ours(self._shim.prepare_session)

    def start(self) -> None:
        if self._name == STREAMING:  # it has been hearing since it was prepared: that is long past
            self._ours(self._shim.release_session)
            self._ours(self._shim.prepare_session)
        self._ours(lambda: self._shim.start_stream(RING_SAMPLES))

    def poll(self) -> BoardRows:
        return self._ours(self._shim.get_board_data)

    def mark(self, code: int) -> None:
        self._ours(lambda: self._shim.insert_marker(code))

    def stop(self) -> None:
        with contextlib.suppress(BrainFlowError):  # it may be gone, or never have come
            self._shim.stop_stream()
        with contextlib.suppress(BrainFlowError):
            self._shim.release_session()

    def _ours(self, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except BrainFlowError as error:
            raise BoardError(
                f"the board {self._name} can't be used ({error}): check that it is on and near, "
                "that no other program holds it, and its parameters (`bci-replay devices`)"
            ) from None


def open_brainflow(rest: str, given: dict[str, str], clock: Clock | None = None) -> LiveSource:
    uri = f"brainflow:{rest}" + (f"?{urlencode(given)}" if given else "")
    named = find_board(rest.removeprefix("//"))
    params = DeviceParams(f"brainflow:{named.name}", given)
    _check_needs(named, given)
    board = _like_master(named, params.text("master_board"))
    if not board.leads:
        raise SourceError(
            f"BrainFlow's {board.name} has no EEG, ECG or EMG leads that could be put on the wire; "
            "`bci-replay devices` lists the boards that have"
        )
    settings = _settings(params, board)
    montage = read_montage(params.text("montage"), None)
    if montage is not None and len(montage) != len(board.leads):
        raise SourceError(
            f"montage= names {len(montage)} leads, {board.name} has {len(board.leads)}"
        )
    board = replace(board, leads=montage or board.leads)
    subject, until, waits = read_live_params(params)
    if "wait_s" in given and not settings.timeout:
        settings.timeout = math.ceil(waits.first_s)
    params.done()
    file_marks = _file_marks(settings.file, board) if named.name == PLAYBACK else None
    now = clock or RealClock()
    return LiveSource(
        uri,
        subject,
        lambda keeper, marks: BoardFeed(
            board,
            lambda: BrainflowSession(named.name, named.number, settings),
            now,
            keeper,
            marks,
            waits,
            file_marks=file_marks,
        ),
        until,
        now.now,
    )


def _check_needs(board: BoardFacts, given: dict[str, str]) -> None:
    missing = [name for name in board.needs if not given.get(name)]
    if missing:
        example = "&".join(f"{name}=..." for name in board.needs)
        raise SourceError(
            f"{board.name} needs {', '.join(missing)}: write brainflow:{board.name}?{example}"
        )


def _like_master(board: BoardFacts, master: str | None) -> BoardFacts:
    if board.name not in MASTERED:
        if master is not None:
            raise SourceError(f"{board.name} is a board itself and takes no master_board=")
        return board
    like = find_board(master or "")
    if like.name in MASTERED:
        raise SourceError(
            f"master_board= of {board.name} must be the board that measured, got {like.name}: name "
            "the amplifier itself, as in master_board=CYTON"
        )
    return like


def _settings(params: DeviceParams, board: BoardFacts) -> BrainFlowInputParams:
    settings: Any = BrainFlowInputParams()
    for name in TEXT_PARAMS:
        setattr(settings, name, params.text(name) or "")
    for name in NUMBER_PARAMS:
        setattr(settings, name, params.whole(name, 0, 0, 65535))
    settings.master_board = board.number
    return settings


def _file_marks(path: str, board: BoardFacts) -> FileMarks:
    if not Path(path).is_file():
        raise SourceError(f"file={path}: there is no such file")
    try:
        rows = DataFilter.read_file(path)
    except BrainFlowError as error:
        raise SourceError(f"{path} is no file that BrainFlow wrote ({error})") from None
    if rows.shape[0] <= board.marker_row or not rows.shape[1]:
        raise SourceError(
            f"{path} has {rows.shape[0]} rows, {board.name} writes more than {board.marker_row}: "
            "is master_board= the board that recorded it?"
        )
    return FileMarks(rows[board.marker_row], rows[board.signal_rows[0]])
