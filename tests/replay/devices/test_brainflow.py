"""BrainFlow boards: the real synthetic, playback and streaming ones, and a fake one."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.clock import ManualClock, RealClock
from bci_stream.errors import SourceError
from replay.devices.base import DeviceFeed
from replay.devices.boards import (
    COUNTERS,
    NEEDS,
    BoardFacts,
    CounterRule,
    PackageCounter,
    ask_resistance,
    board_numbers,
    find_board,
    with_resistance,
)
from replay.devices.brainflow import BoardDevice, BoardError, BrainflowSession
from replay.devices.gaps import FoundGap, GapFinder, SampleRun
from replay.devices.live import LiveSession, LiveSource
from replay.devices.manual_triggers import ManualTriggers, send_trigger
from replay.devices.params import Timeouts
from replay.devices.registry import open_device
from replay.devices.status import StatusKeeper
from replay.devices.timing import WallClock
from replay.model.source import RawPacket, Session
from replay.sources import open_source
from replay.tools.look.live import LiveView

BOARD = find_board("SYNTHETIC")
GANGLION = find_board("GANGLION")
RATE = BOARD.rate
TIMEOUTS = Timeouts()


class FakeBoard:
    """A board in virtual time: each poll brings what was measured since the last one."""

    def __init__(self, clock: ManualClock, lives: int = 1, board: BoardFacts = BOARD) -> None:
        self.clock, self.lives, self.board = clock, lives, board
        self.clock_set = (float("inf"), 0.0)
        self.hiccup = (0.0, 0.0)
        """From when to when nothing comes; then all of it, stamped with the moment it came."""
        self.sent = 0
        self.dead_from_s = float("inf")
        self.drop: set[int] = set()
        self.running = False
        self.triggers: list[int] = []
        self.prepared = 0
        self.on_poll: Callable[[], None] = lambda: None

    def prepare(self) -> None:
        self.prepared += 1
        if self.prepared > self.lives:
            raise BoardError("BOARD_NOT_READY_ERROR:7")

    def start(self) -> None:
        self.running = True
        self.began = self.clock.now()
        self.sent = 0

    def poll(self) -> np.ndarray:
        self.on_poll()
        elapsed_s = min(self.clock.now() - self.began, self.dead_from_s)
        begin, end = self.hiccup
        if begin <= elapsed_s < end:
            elapsed_s = begin
        board = self.board
        n = round(elapsed_s * board.rate) - self.sent
        index = np.arange(self.sent, self.sent + n)
        index = index[[i not in self.drop for i in index]] if n else index
        self.sent += n
        rows = np.zeros((32, len(index)))
        rows[board.package_row] = index % 256
        taken = index / board.rate
        came = np.where((taken >= begin) & (taken < end), end, taken)
        rows[board.stamp_row] = [self.wall(at) for at in (self.began + came).tolist()]
        rows[list(board.signal_rows)] = index
        if len(index) and self.triggers:
            rows[board.marker_row, 0] = self.triggers.pop(0)
        return rows

    def wall(self, now: float) -> float:
        moment, step_s = self.clock_set
        return now + 1e9 + (step_s if now >= moment else 0.0)

    def insert_trigger(self, code: int) -> None:
        self.triggers.append(code)

    def stop(self) -> None:
        self.running = False


class BoardRun:
    def __init__(
        self, session: FakeBoard, clock: ManualClock, seconds: float, timeouts: Timeouts = TIMEOUTS
    ) -> None:
        self.keeper = StatusKeeper("fake")
        self.states: list[str] = []
        self.details: list[str] = []
        self.keeper.listen(lambda status: self.states.append(status.state))
        self.keeper.listen(lambda status: self.details.append(status.detail))
        self.manual_triggers = ManualTriggers()
        end = clock.now() + seconds

        def close_at_end() -> None:
            if clock.now() >= end:
                self.feed.close()

        session.on_poll = close_at_end
        wall = WallClock(clock.now, lambda: session.wall(clock.now()))
        device = BoardDevice(
            session.board,
            lambda: session,
            clock,
            self.keeper,
            self.manual_triggers,
            wall,
            sleep=clock.advance,
        )
        self.feed = DeviceFeed(device, clock, self.keeper, timeouts, pause=clock.advance)
        self.session = LiveSession(
            "S1", self.feed.open(), self.feed, self.keeper, self.manual_triggers
        )

    def packets(self) -> list[RawPacket]:
        return list(self.session.packets(10))


def board_run(
    seconds: float, lives: int = 1, timeouts: Timeouts = TIMEOUTS, board: BoardFacts = BOARD
) -> tuple[BoardRun, FakeBoard]:
    clock = ManualClock()
    session = FakeBoard(clock, lives, board)
    return BoardRun(session, clock, seconds, timeouts), session


def test_polled_samples_follow_each_other_with_their_time():
    run, session = board_run(4)
    packets = run.packets()
    values = np.concatenate([packet.samples[:, 0] for packet in packets])
    assert values.tolist() == list(range(len(values)))
    assert len(values) > 900
    assert packets[50].stamp == pytest.approx(1000 + 509 / RATE, abs=1e-4)
    assert not session.running


def test_gaps_are_found_by_the_package_counter():
    run, session = board_run(8)
    session.drop = {*range(100, 130), *range(700, 1300)}
    packets = run.packets()
    assert all(packet.samples[0, 0] == packet.start for packet in packets)
    status = run.keeper.now
    assert (status.samples_lost, status.gaps, status.lost_exact) == (630, 2, True)


@pytest.mark.parametrize("board", [BOARD, GANGLION])
def test_a_hiccup_without_loss_is_no_gap(board):
    """A USB or Bluetooth link that holds a second's samples up, and then brings all of them."""
    run, session = board_run(8, board=board)
    session.hiccup = (3.0, 4.1)
    packets = run.packets()
    assert all(packet.samples[0, 0] == packet.start for packet in packets)
    assert (run.keeper.now.samples_lost, run.keeper.now.gaps) == (0, 0)
    last = packets[-2]
    taken = 1000 + (last.start + 9) / board.rate
    assert last.stamp == pytest.approx(taken, abs=0.01)


def test_a_board_that_does_not_count_shows_its_gaps_by_its_stamps():
    run, session = board_run(8, board=GANGLION)
    session.drop = {*range(500, 540), *range(900, 1300)}
    packets = run.packets()
    assert all(packet.samples[0, 0] == packet.start for packet in packets)
    status = run.keeper.now
    assert (status.samples_lost, status.gaps, status.lost_exact) == (440, 2, False)


@pytest.mark.parametrize("board", [BOARD, GANGLION])
@pytest.mark.parametrize("step_s", [5.0, -5.0])
def test_a_clock_that_is_set_makes_no_gap(board, step_s):
    """Of one poll, some samples were stamped before it and some after."""
    run, session = board_run(8, board=board)
    session.clock_set = (1004.01, step_s)
    assert all(packet.samples[0, 0] == packet.start for packet in run.packets())
    assert (run.keeper.now.samples_lost, run.keeper.now.gaps) == (0, 0)
    assert any("the computer's clock was set" in text for text in run.details)


def test_a_trigger_that_is_no_code_is_ignored_and_reported():
    run, session = board_run(2)
    session.triggers += [70_000, 9]
    seen = [code for packet in run.packets() for _, code in packet.triggers]
    assert seen == [9]
    assert any("70000 is not a whole number from 1 to 65535" in text for text in run.details)


class Unfindable(FakeBoard):
    """BrainFlow looks for it, for as long as it likes."""

    def __init__(self) -> None:
        super().__init__(ManualClock())
        self.looking, self.found, self.released = (threading.Event() for _ in range(3))

    def prepare(self) -> None:
        self.looking.set()
        self.found.wait(60)

    def stop(self) -> None:
        self.released.set()


def search(session: Unfindable, timeouts: Timeouts) -> DeviceFeed:
    keeper = StatusKeeper("fake")
    device = BoardDevice(BOARD, lambda: session, RealClock(), keeper, ManualTriggers())
    return DeviceFeed(device, RealClock(), keeper, timeouts)


def test_closing_ends_the_search_for_a_board_at_once_and_releases_it_when_it_is_found():
    session = Unfindable()
    feed = search(session, Timeouts(first_s=60))
    began = time.monotonic()
    threading.Timer(0.0, lambda: (session.looking.wait(60), feed.close())).start()
    with pytest.raises(SourceError, match="the search for the board SYNTHETIC_BOARD was stopped"):
        feed.open()
    assert time.monotonic() - began < 10  # of the 60 s that it may take
    assert not session.released.is_set()
    session.found.set()
    assert session.released.wait(20)


def test_the_search_for_a_board_ends_in_its_time():
    session = Unfindable()
    with pytest.raises(SourceError, match=r"did not answer within 0.2 s.*wait_s="):
        search(session, Timeouts(first_s=0.2)).open()
    session.found.set()


def test_a_board_that_falls_silent_is_released_and_prepared_again():
    run, session = board_run(9, lives=3)
    session.dead_from_s = 2.0
    packets = run.packets()
    assert run.states[:4] == ["connected", "stalled", "reconnecting", "connected"]
    assert run.keeper.now.reconnects == 1
    starts = [packet.start for packet in packets]
    assert starts == sorted(starts)
    assert run.keeper.now.samples_lost == pytest.approx(5 * RATE, abs=50)
    assert not run.keeper.now.lost_exact


def test_a_board_that_does_not_come_back_is_given_up():
    run, session = board_run(60, lives=1, timeouts=Timeouts(reconnect_s=8))
    session.dead_from_s = 2.0
    with pytest.raises(SourceError, match="the board SYNTHETIC_BOARD for 8 s: BOARD_NOT_READY"):
        run.packets()
    assert not session.running


def test_a_board_that_is_not_there_is_reported_at_once():
    clock = ManualClock()
    with pytest.raises(SourceError, match="BOARD_NOT_READY"):
        BoardRun(FakeBoard(clock, lives=0), clock, 1)


def test_manual_triggers_go_to_the_board_and_come_back_on_a_sample():
    run, _ = board_run(2)
    seen = []
    for packet in run.session.packets(10):
        if packet.start == 100:
            run.manual_triggers.put(77)
        seen += [(packet.start + offset, code) for offset, code in packet.triggers]
    assert [code for _, code in seen] == [77]
    assert 110 <= seen[0][0] <= 125


# --- the real library -------------------------------------------------------------------------


def opened(uri_rest: str, **params: str) -> LiveSource:
    source = open_device("brainflow", uri_rest, params)
    assert isinstance(source, LiveSource)
    return source


def take(
    source: LiveSource, n: int, each: Callable[[RawPacket], None] = lambda _: None
) -> list[RawPacket]:
    (session,) = source.sessions()
    return read(source, session, n, each)


def read(
    source: LiveSource,
    session: Session,
    n: int,
    each: Callable[[RawPacket], None] = lambda _: None,
) -> list[RawPacket]:
    packets: list[RawPacket] = []
    for packet in session.packets(10):
        each(packet)
        packets.append(packet)
        if len(packets) == n:
            source.close()
    return packets


def test_the_synthetic_board_end_to_end_with_a_manual_trigger():
    source = opened("SYNTHETIC_BOARD", subject="S7")
    (session,) = source.sessions()
    assert session.subject == "S7"
    assert [lead.name for lead in session.leads][:4] == ["Fz", "C3", "Cz", "C4"]
    assert session.rate == 250
    sent = threading.Event()

    def mark_once(packet: RawPacket) -> None:
        if packet.start >= 100 and not sent.is_set():
            sent.set()
            assert send_trigger(123) == "brainflow"

    packets = take(source, 60, mark_once)
    codes = [(p.start + i, code) for p in packets for i, code in p.triggers]
    assert [code for _, code in codes] == [123]
    assert codes[0][0] > 100
    assert source.status.samples_lost == 0
    starts = [packet.start for packet in packets]
    assert starts == list(range(0, 10 * len(packets), 10))
    stamps = np.array([packet.stamp for packet in packets])
    assert (np.diff(stamps) > 0).all()
    # The board's own DC offsets: channel i rides on 10 * (i + 1) microvolts.
    mean = np.concatenate([p.samples for p in packets]).mean(axis=0)
    assert abs(mean[0] - 10) < 10
    assert abs(mean[15] - 160) < 60


def record(path: str, seconds: float) -> np.ndarray:
    """A file as BrainFlow writes it, made from the synthetic board's own data, with marks in it."""
    from brainflow.data_filter import DataFilter

    n = int(seconds * RATE)
    rows = np.zeros((32, n))
    rows[BOARD.package_row] = np.arange(n) % 256
    rows[BOARD.signal_rows[0]] = np.arange(n)
    rows[list(BOARD.signal_rows[1:])] = np.random.default_rng(0).normal(0, 20, (15, n))
    rows[BOARD.stamp_row] = 1.7e9 + np.arange(n) / RATE
    rows[BOARD.marker_row, [30, 31, 200]] = (7, 8, 9)
    DataFilter.write_file(rows, path, "w")
    return rows


def test_a_playback_file_keeps_its_triggers_and_ends_with_its_file(tmp_path):
    path = str(tmp_path / "recorded.csv")
    rows = record(path, 1.2)
    source = opened("PLAYBACK_FILE_BOARD", file=path, master_board="SYNTHETIC_BOARD")
    (session,) = source.sessions()
    packets = list(session.packets(10))
    assert np.concatenate([p.samples[:, 0] for p in packets]).tolist() == list(range(rows.shape[1]))
    assert [(p.start + i, c) for p in packets for i, c in p.triggers] == [
        (30, 7),
        (31, 8),
        (200, 9),
    ]
    assert source.status.detail in ("closed", "the file was played to its end")


def multicast_works() -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        group = socket.inet_aton("225.1.1.7") + socket.inet_aton("0.0.0.0")
        try:
            probe.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
        except OSError:
            return False
    return True


@pytest.mark.skipif(not multicast_works(), reason="no multicast on this machine")
def test_a_streaming_board_receives_another_ones_samples():
    from brainflow.board_shim import BoardShim, BrainFlowInputParams

    BoardShim.disable_board_logger()
    master = BoardShim(BOARD.number, BrainFlowInputParams())
    master.prepare_session()
    try:
        master.add_streamer("streaming_board://225.1.1.7:6679")
        master.start_stream()
        source = opened(
            "STREAMING_BOARD", ip_address="225.1.1.7", ip_port="6679", master_board="SYNTHETIC"
        )
        (session,) = source.sessions()
        before = master.get_board_data_count()
        while master.get_board_data_count() < before + 500:  # somebody is waited for
            threading.Event().wait(0.02)
        packets = read(source, session, 20)
        sent = master.get_board_data()
    finally:
        master.stop_stream()
        master.release_session()
    assert source.status.samples_lost == 0
    values = np.concatenate([p.samples[:, 3] for p in packets])
    theirs = sent[BOARD.signal_rows[3]].astype(np.float32)
    at = next(i for i in range(len(theirs)) if theirs[i] == values[0])
    assert at >= before + 400, "the run began with samples of long ago"
    n = min(len(values), len(theirs) - at)
    assert n > 100
    assert values[:n].tolist() == theirs[at : at + n].tolist()


@pytest.mark.parametrize(
    ("rest", "params", "message"),
    [
        ("NO_SUCH", {}, "BrainFlow has no board 'NO_SUCH'"),
        (
            "CYTON_BOARD",
            {},
            r"CYTON_BOARD needs serial_port: write brainflow:CYTON_BOARD\?serial_port=",
        ),
        ("PLAYBACK_FILE_BOARD", {"file": "x"}, "needs master_board"),
        ("SYNTHETIC", {"speed": "2"}, "has no parameter speed; it takes"),
        ("SYNTHETIC", {"master_board": "CYTON"}, "takes no master_board"),
        ("SYNTHETIC", {"ip_port": "x"}, "ip_port= must be a whole number"),
        ("SYNTHETIC", {"montage": "C3,C4"}, "names 2 leads, but the device has 16"),
        ("PLAYBACK_FILE_BOARD", {"file": "/none", "master_board": "-1"}, "there is no such file"),
        (
            "PLAYBACK_FILE_BOARD",
            {"file": "x", "master_board": "STREAMING"},
            "must be the board that measured, got STREAMING_BOARD",
        ),
        (
            "PLAYBACK_FILE_BOARD",
            {"file": "x", "master_board": "PLAYBACK_FILE"},
            "must be the board that measured, got PLAYBACK_FILE_BOARD",
        ),
        ("EMOTIBIT_BOARD", {}, "EMOTIBIT_BOARD has no EEG, ECG or EMG leads"),
    ],
)
def test_wrong_parameters_are_reported(rest, params, message):
    with pytest.raises(SourceError, match=message):
        open_device("brainflow", rest, params)


@pytest.mark.parametrize("name", [name for name, needs in NEEDS.items() if "serial_port" in needs])
def test_a_board_listed_with_a_port_needs_it(name):
    """BrainFlow itself says so, at once."""
    from brainflow.board_shim import BrainFlowInputParams

    with pytest.raises(BoardError, match="INVALID_ARGUMENTS"):
        BrainflowSession(name, board_numbers()[name], BrainFlowInputParams()).prepare()


def test_the_wait_is_passed_on_to_brainflow(monkeypatch):
    given = []
    monkeypatch.setattr(
        "replay.devices.brainflow.BrainflowSession",
        lambda name, number, settings: given.append(settings.timeout) or FakeBoard(ManualClock()),
    )
    for params in ({"wait_s": "2.5"}, {"wait_s": "9", "timeout": "4"}, {}):
        next(opened("MUSE_2", **params).sessions())
    assert given == [3, 4, 0]


def test_a_serial_port_that_is_not_there_is_reported():
    source = opened("CYTON_BOARD", serial_port="/dev/no-such-port")
    with pytest.raises(SourceError, match=r"the board CYTON_BOARD can't be used.*no other program"):
        next(source.sessions())


def test_a_playback_file_of_another_board_is_reported(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("1\t2\t3\n4\t5\t6\n")
    with pytest.raises(SourceError, match="is master_board= the board that recorded it"):
        opened("PLAYBACK_FILE_BOARD", file=str(path), master_board="SYNTHETIC")


COUNTER_RATE = 250.0
RULES = [CounterRule(256), CounterRule(256, step=2), CounterRule(65536, samples=12)]


def board(rule: CounterRule, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Counter and stamp of n samples in a row."""
    index = np.arange(n)
    return (index // rule.samples * rule.step % rule.modulus).astype(float), index / COUNTER_RATE


def gaps(rule: CounterRule, kept: np.ndarray, n: int, cuts: list[int]) -> list[tuple[int, int]]:
    counts, stamps = board(rule, n)
    counts, stamps = counts[kept], stamps[kept]
    counter, finder = PackageCounter(rule), GapFinder(COUNTER_RATE, rule.cycle_samples)
    bounds = sorted({0, len(kept), *(cut % (len(kept) + 1) for cut in cuts)})
    pieces: list[FoundGap] = []
    for a, b in pairwise(bounds):
        none = np.zeros(b - a, dtype=np.int64)
        index = np.arange(a, b, dtype=np.float32)[:, None]
        pieces += finder.step(SampleRun(index, none, stamps[a:b], counter.step(counts[a:b])))
    pieces += finder.flush()
    return [(int(piece.samples[0, 0]), lost) for piece, lost in pieces if lost]


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=50)
@given(st.integers(0, 80), st.integers(0, 2000), st.lists(st.integers(0, 4000)))
def test_any_gap_of_whole_packages_is_found_for_any_poll(rule, at, length, cuts):
    at, length = at * rule.samples, length // rule.samples * rule.samples
    n = at + length + 100 * rule.samples
    kept = np.concatenate([np.arange(at), np.arange(at + length, n)])
    expected = [(at, length)] if length and at else []
    assert gaps(rule, kept, n, cuts) == expected


def test_a_new_life_of_the_board_is_no_gap():
    counter = PackageCounter(CounterRule(256))
    counter.step(np.array([5.0, 6.0]))
    counter.restart()
    assert counter.step(np.array([100.0, 101.0])).tolist() == [0, 0]


def test_a_number_that_comes_twice_is_one_less_than_none():
    assert PackageCounter(CounterRule(256)).step(np.array([5.0, 5.0, 6.0])).tolist() == [0, -1, 0]


def test_the_boards_of_the_facts_have_their_rules():
    assert COUNTERS["SYNTHETIC_BOARD"] == COUNTERS["CYTON_BOARD"] == CounterRule(256)
    assert COUNTERS["CYTON_DAISY_BOARD"] == CounterRule(256, step=2)
    assert COUNTERS["MUSE_2_BOARD"].modulus == 65536


def test_resistance_rows_are_leads_in_ohm_where_they_are_asked_for() -> None:
    ganglion, ant = find_board("GANGLION"), find_board("ANT_NEURO_EE_211")
    asked = with_resistance(ganglion)
    assert [(lead.name, lead.unit) for lead in asked.leads[4:]] == [
        *((f"Z_ch{n}", "ohm") for n in range(1, 5)),
        ("Z_REF", "ohm"),
    ]
    assert asked.signal_rows == (1, 2, 3, 4, 8, 9, 10, 11, 12)
    with pytest.raises(SourceError, match="no resistance rows: leave impedance= away"):
        with_resistance(ant)  # its resistance comes in the rows of the signal
    assert ask_resistance("brainflow:GANGLION?timeout=3") == (
        "brainflow:GANGLION?timeout=3&impedance=yes"
    )
    for uri in (
        "brainflow:SYNTHETIC?impedance=no",
        "brainflow:CYTON",
        "brainflow:nothing",
        "a.edf",
    ):
        assert ask_resistance(uri) == uri


def test_the_synthetic_board_shows_its_resistance() -> None:
    source = open_source(ask_resistance("brainflow:SYNTHETIC"))
    with closing(source):
        session = next(iter(source.sessions()))
        view = LiveView(session)
        for packet in session.packets(10):
            view.add(packet)
            break
    assert view.describe()["impedance"] == ["Z_1", "Z_2"]
    assert all(value > 0 for value in view.frame()["kiloohm"])
    assert len(view.leads) == 16
