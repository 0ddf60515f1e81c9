"""`brainflow:BOARD?serial_port=...` as a source."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

from brainflow.board_shim import BoardShim, BrainFlowInputParams
from brainflow.data_filter import DataFilter
from brainflow.exit_codes import BrainFlowError

from bci_stream.clock import Clock, RealClock
from bci_stream.errors import SourceError
from replay.devices.boards import MASTERED, Board, find_board
from replay.devices.brainflow_board import BoardFeed, FileMarks
from replay.devices.live import LiveSource
from replay.devices.params import Params, read_live_params, read_montage
from replay.devices.shim import BoardError, Rows

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


class BrainflowShim:
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

    def poll(self) -> Rows:
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
    params = Params(f"brainflow:{named.name}", given)
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
            lambda: BrainflowShim(named.name, named.number, settings),
            now,
            keeper,
            marks,
            waits,
            file_marks=file_marks,
        ),
        until,
        now.now,
    )


def _check_needs(board: Board, given: dict[str, str]) -> None:
    missing = [name for name in board.needs if not given.get(name)]
    if missing:
        example = "&".join(f"{name}=..." for name in board.needs)
        raise SourceError(
            f"{board.name} needs {', '.join(missing)}: write brainflow:{board.name}?{example}"
        )


def _like_master(board: Board, master: str | None) -> Board:
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


def _settings(params: Params, board: Board) -> BrainFlowInputParams:
    settings: Any = BrainFlowInputParams()
    for name in TEXT_PARAMS:
        setattr(settings, name, params.text(name) or "")
    for name in NUMBER_PARAMS:
        setattr(settings, name, params.whole(name, 0, 0, 65535))
    settings.master_board = board.number
    return settings


def _file_marks(path: str, board: Board) -> FileMarks:
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
