"""A BrainFlow board: polled, watched, its gaps found, its marks placed, found again."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bci_stream.clock import Clock
from bci_stream.errors import SourceError
from replay.devices.boards import Board
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.fitted_clock import FittedClock
from replay.devices.marks import MarkBox
from replay.devices.package_counter import PackageCounter
from replay.devices.status import StatusKeeper
from replay.devices.waits import Waits
from replay.devices.wall_clock import WallClock

POLL_S = 0.02
Rows = NDArray[np.float64]
"""(rows, n), as BrainFlow gives it."""


class BoardError(SourceError):
    """A board that can't be used just now; it is tried again."""


class Shim(Protocol):
    """The part of BrainFlow's BoardShim that is used; its errors come as BoardError."""

    def prepare(self) -> None: ...
    def start(self) -> None: ...
    def poll(self) -> Rows: ...
    def mark(self, code: int) -> None: ...
    def stop(self) -> None: ...


@dataclass(frozen=True)
class FileMarks:
    """Playback wipes the marks of its file, so they are read from it: codes, one a sample."""

    codes: NDArray[np.int64]
    proof: NDArray[np.float64]
    """The first lead of the file, to see that a row is the row it is taken for."""


class BoardFeed:
    """pause: waits so long, or until close; True where closed."""

    def __init__(
        self,
        board: Board,
        shim: Callable[[], Shim],
        clock: Clock,
        status: StatusKeeper,
        marks: MarkBox,
        waits: Waits,
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
        self._prepared: Shim | None = None
        self._played = 0
        self._counter = (
            PackageCounter(board.counter, board.rate) if board.counter is not None else None
        )

    def clock(self, rate: float) -> FittedClock:
        return FittedClock(rate)

    def open(self) -> DeviceInfo:
        """Contact the board: a wrong port should be told at once. It streams from `chunks` on."""
        self._prepared = self._prepared or self._prepare()
        return DeviceInfo(float(self._board.rate), self._board.leads)

    def close(self) -> None:
        self._stop.set()
        prepared, self._prepared = self._prepared, None
        if prepared is not None:
            prepared.stop()

    def _prepare(self) -> Shim:
        shim = self._make_shim()
        try:
            shim.prepare()
        except BoardError:
            shim.stop()
            raise
        return shim

    def chunks(self, missing: Callable[[], int] = lambda: 1) -> Iterator[tuple[Chunk, float]]:
        self._heard = self._clock.now()
        failures = 0
        patience_s = self._waits.first_s
        while not self._stop.is_set():
            before = self._heard
            try:
                yield from self._run()
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
        shim = prepared or self._prepare()
        self._played = 0
        try:
            shim.start()
            self._marks.sink = shim.mark
            yield from self._poll(shim)
        finally:
            self._marks.sink = None
            if self._counter is not None:
                self._counter.restart()
            shim.stop()

    def _poll(self, shim: Shim) -> Iterator[tuple[Chunk, float]]:
        quiet_since = self._clock.now()
        lost: int | None = 0 if self._status.samples == 0 else None
        while not self._stop.is_set():
            rows = shim.poll()
            now = self._clock.now()
            if moved := self._wall.check():
                self._status.note(f"the computer's clock was set by {moved:+.3f} s; stamps are not")
            if rows.shape[1]:
                quiet_since = self._heard = now
                self._status.tell("connected")
                for chunk in self._chunks(rows, lost):
                    yield chunk, now
                lost = 0
            elif self._file is not None and self._played >= len(self._file.codes):
                self._status.tell("ended", "the file was played to its end")
                return
            self._watch(now - quiet_since)
            self._pause(POLL_S)

    def _watch(self, quiet_s: float) -> None:
        """BrainFlow never tells that a board has gone: silence does."""
        patience_s = max(self._waits.stall_s, 5 * POLL_S)
        if quiet_s >= patience_s:
            self._status.tell("stalled", "the board gives no samples")
        if quiet_s >= self._waits.dead_s and self._file is not None:
            raise SourceError("the playback of the file stopped: it can't go on where it was")
        if quiet_s >= self._waits.dead_s:
            raise BoardError(f"no samples for {quiet_s:.1f} s; it is released and prepared again")

    def _chunks(self, rows: Rows, lost: int | None) -> Iterator[Chunk]:
        board = self._board
        stamps = rows[board.stamp_row] + self._wall.offset_s
        gaps = self._counter.step(rows[board.package_row], stamps) if self._counter else []
        codes = self._codes(rows)
        samples = np.ascontiguousarray(rows[list(board.signal_rows)].T, dtype=np.float32)
        bounds = [0, *(offset for offset, _ in gaps if offset > 0), rows.shape[1]]
        missing = dict(gaps)
        for begin, end in pairwise(bounds):
            triggers = tuple(
                (int(i), int(codes[begin + i])) for i in np.flatnonzero(codes[begin:end])
            )
            before = lost if begin == 0 and lost is None else missing.get(begin, 0)
            yield Chunk(samples[begin:end], triggers, before, float(stamps[end - 1]))

    def _codes(self, rows: Rows) -> NDArray[np.int64]:
        codes: NDArray[np.int64] = rows[self._board.marker_row].round().astype(np.int64)
        if self._file is None:
            return codes
        first, self._played = self._played, self._played + rows.shape[1]
        recorded = self._file.codes[first : self._played]
        proof = self._file.proof[first : self._played]
        n = len(recorded)
        if not np.allclose(rows[self._board.signal_rows[0], :n], proof, rtol=1e-5, atol=1e-3):
            raise SourceError(
                "the playback no longer follows its file, so its marks can't be placed: samples "
                "were lost; run fewer programs, or start again"
            )
        codes[:n] = np.where(codes[:n] == 0, recorded, codes[:n])
        return codes
