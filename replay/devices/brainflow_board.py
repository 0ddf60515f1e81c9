"""A BrainFlow board: polled, watched, its gaps found, its marks placed, found again."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bci_stream.clock import Clock
from bci_stream.errors import SourceError
from replay.devices.boards import Board
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.code_reader import CodeReader
from replay.devices.fitted_clock import FittedClock
from replay.devices.gap_finder import Found, GapFinder
from replay.devices.marks import MarkBox
from replay.devices.package_counter import PackageCounter
from replay.devices.shim import BoardError, Preparation, Rows, Shim
from replay.devices.status import StatusKeeper
from replay.devices.stretch import Stretch
from replay.devices.waits import Waits
from replay.devices.wall_clock import WallClock

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

    def _prepare(self, patience_s: float) -> Shim:
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

    def _poll(self, shim: Shim) -> Iterator[tuple[Chunk, float]]:
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

    def _stretch(self, rows: Rows) -> Stretch:
        board = self._board
        samples = np.ascontiguousarray(rows[list(board.signal_rows)].T, dtype=np.float32)
        lost = np.zeros(rows.shape[1], dtype=np.int64)
        if self._counter is not None:
            lost = self._counter.step(rows[board.package_row])
        stamps = rows[board.stamp_row] + self._wall.offset_s
        return Stretch(samples, self._codes.read(self._mark_values(rows)), stamps, lost)

    def _chunks(self, found: Iterator[Found], now: float) -> Iterator[tuple[Chunk, float]]:
        for piece, missing in found:
            lost, self._again = None if self._again else missing, False
            triggers = tuple((int(i), int(piece.codes[i])) for i in np.flatnonzero(piece.codes))
            yield Chunk(piece.samples, triggers, lost, float(piece.stamps[-1])), now

    def _mark_values(self, rows: Rows) -> NDArray[np.float64]:
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
