"""The boards that BrainFlow knows: rate, leads, and the parameters each one needs."""

from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray

from bci_stream.errors import SourceError
from bci_stream.packet import Lead


@dataclass(frozen=True, slots=True)
class CounterRule:
    """How a board counts. modulus: where it wraps. step: between packages. samples: per package."""

    modulus: int
    step: int = 1
    samples: int = 1

    @property
    def cycle_samples(self) -> int:
        """A loss of so many samples does not show in the counter."""
        return self.modulus // self.step * self.samples


class PackageCounter:
    """Finds lost samples by a board's package counter."""

    def __init__(self, rule: CounterRule) -> None:
        self._rule = rule
        self.restart()

    def restart(self) -> None:
        self._last: float | None = None

    def step(self, counts: NDArray[np.float64]) -> NDArray[np.int64]:
        """(n,): number of samples missing before each one, apart from whole cycles.

        -1 if a number comes twice: the counter stood still, or a cycle less one sample was lost.
        """
        if not len(counts):
            return np.zeros(0, dtype=np.int64)
        rule = self._rule
        before = counts[0] - rule.step if self._last is None else self._last
        self._last = float(counts[-1])
        passed = np.diff(counts, prepend=before)
        packages = np.mod(np.round(passed), rule.modulus) // rule.step
        together = (packages == 0) & (rule.samples > 1)
        return np.where(together, 0, (packages - 1) * rule.samples).astype(np.int64)


NEEDS: dict[str, tuple[str, ...]] = {
    "PLAYBACK_FILE_BOARD": ("file", "master_board"),
    "STREAMING_BOARD": ("ip_address", "ip_port", "master_board"),
    "CYTON_BOARD": ("serial_port",),
    "CYTON_DAISY_BOARD": ("serial_port",),
    "GANGLION_BOARD": ("serial_port",),
    "GANGLION_WIFI_BOARD": ("ip_port",),
    "CYTON_WIFI_BOARD": ("ip_port",),
    "CYTON_DAISY_WIFI_BOARD": ("ip_port",),
    "BRAINBIT_BLED_BOARD": ("serial_port",),
    "MUSE_S_BLED_BOARD": ("serial_port",),
    "MUSE_2_BLED_BOARD": ("serial_port",),
    "MUSE_2016_BLED_BOARD": ("serial_port",),
    "FREEEEG32_BOARD": ("serial_port",),
    "FREEEEG128_BOARD": ("serial_port",),
    "NTL_WIFI_BOARD": ("ip_port",),
    "IRONBCI_32_BOARD": ("serial_port",),
    "SHIMMER3_BOARD": ("serial_port",),
    "NEUROPAWN_KNIGHT_BOARD": ("serial_port",),
    "NEUROPAWN_KNIGHT_BOARD_IMU": ("serial_port",),
}
"""Parameters that a board needs. BrainFlow reports them only when a session is prepared."""

COUNTERS: dict[str, CounterRule] = {
    "SYNTHETIC_BOARD": CounterRule(256),
    "CYTON_BOARD": CounterRule(256),
    "CYTON_DAISY_BOARD": CounterRule(256, step=2),
    "MUSE_2_BOARD": CounterRule(65536, samples=12),
    "MUSE_S_BOARD": CounterRule(65536, samples=12),
    "MUSE_2016_BOARD": CounterRule(65536, samples=12),
}
"""Boards whose counter is known; gaps of other boards are found by their stamps."""

MASTERED = ("PLAYBACK_FILE_BOARD", "STREAMING_BOARD")
"""Boards that deliver the data of another one, their master board."""


@dataclass(frozen=True, slots=True)
class BoardFacts:
    """signal_rows, package_row, ...: rows of BrainFlow's array. resistance_rows: of ohms."""

    name: str
    number: int
    rate: int
    leads: tuple[Lead, ...]
    signal_rows: tuple[int, ...]
    package_row: int
    stamp_row: int
    marker_row: int
    resistance_rows: tuple[int, ...] = ()

    @property
    def counter(self) -> CounterRule | None:
        return COUNTERS.get(self.name)

    @property
    def needs(self) -> tuple[str, ...]:
        return NEEDS.get(self.name, ())


@cache
def board_numbers() -> dict[str, int]:
    from brainflow import board_shim, data_filter
    from brainflow.board_shim import BoardIds

    for module in (board_shim, data_filter):
        # They look for their libraries beside a module, which Python 3.11 does for packages only;
        # BrainFlow then needs pkg_resources, which setuptools no longer brings.
        module.files = _brainflow_files
    return {board.name: board.value for board in BoardIds if board.name != "NO_BOARD"}


def _brainflow_files(_: str) -> Traversable:
    """Replaces `importlib.resources.files` in BrainFlow's modules."""
    return resources.files("brainflow")


def find_board(name: str) -> BoardFacts:
    """Find a board by BrainFlow's name (in any case, with or without _BOARD) or number."""
    numbers = board_numbers()
    wanted = name.upper()
    for known, number in numbers.items():
        if wanted in (known, known.removesuffix("_BOARD"), str(number)):
            return describe_board(known, number)
    raise SourceError(
        f"BrainFlow has no board {name!r}; `bci-replay devices` lists them: {', '.join(numbers)}"
    )


def describe_board(name: str, number: int) -> BoardFacts:
    from brainflow.board_shim import BoardShim

    if name in MASTERED:
        return BoardFacts(name, number, 0, (), (), 0, 0, 0)
    facts: dict[str, Any] = BoardShim.get_board_descr(number)
    kind = next((kind for kind in ("eeg", "ecg", "emg") if facts.get(f"{kind}_channels")), None)
    rows = tuple(facts[f"{kind}_channels"]) if kind else ()
    names = facts["eeg_names"].split(",") if kind == "eeg" and "eeg_names" in facts else []
    if len(names) != len(rows):
        names = [f"ch{i + 1}" for i in range(len(rows))]
    leads = tuple(Lead(lead, (kind or "eeg").upper()) for lead in names)
    rate = int(facts["sampling_rate"])
    package, stamp, marker = (
        int(facts[f"{row}_channel"]) for row in ("package_num", "timestamp", "marker")
    )
    resistance = tuple(facts.get("resistance_channels", ()))
    if set(resistance) & set(rows):  # ANT: the same rows, in another mode of the board
        resistance = ()
    return BoardFacts(name, number, rate, leads, rows, package, stamp, marker, resistance)


def with_resistance(board: BoardFacts) -> BoardFacts:
    """The board with its resistance rows as further leads, in ohm: `Z_C3` of C3. Raises SourceError."""
    if not board.resistance_rows:
        raise SourceError(
            f"BrainFlow's {board.name} has no resistance rows: leave impedance= away, and measure the "
            "electrodes with the board's own program"
        )
    names = [lead.name for lead in board.leads]
    if len(board.resistance_rows) == len(names) + 1:
        names.append("REF")
    elif len(board.resistance_rows) != len(names):
        names = [str(number) for number in range(1, len(board.resistance_rows) + 1)]
    leads = tuple(Lead(f"Z_{name}", "MISC", "ohm") for name in names)
    rows = (*board.signal_rows, *board.resistance_rows)
    return replace(board, leads=(*board.leads, *leads), signal_rows=rows)


def ask_resistance(uri: str) -> str:
    """The URI of a source; that of a board that has resistance rows, with `impedance=yes`."""
    address, mark, query = uri.partition("?")
    scheme, _, name = address.partition(":")
    given = dict(parse_qsl(query, keep_blank_values=True))
    if scheme != "brainflow" or "impedance" in given:
        return uri
    try:
        board = find_board(name.removeprefix("//"))
        if board.name in MASTERED:
            board = find_board(given.get("master_board", ""))
    except SourceError:
        return uri  # opening it raises the same error
    return f"{uri}{'&' if mark else '?'}impedance=yes" if board.resistance_rows else uri


def all_boards() -> list[BoardFacts]:
    """All boards that measure leads, and those that play or forward the data of another one."""
    boards = [describe_board(name, number) for name, number in board_numbers().items()]
    return [board for board in boards if board.leads or board.name in MASTERED]
