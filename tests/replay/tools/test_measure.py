"""`bci-replay measure`: what it finds in streams whose faults are known."""

import json
import threading

import numpy as np
import pytest
from click.testing import CliRunner

from bci_stream.packet import Lead
from bci_stream.wire import names
from bci_stream.wire.memory import MemoryTransport
from replay.cli import main
from replay.tools.measure_timing import Received, Timing, code_edges, judge_for_erp, measure_timing

RATE, CHUNK = 250.0, 10


def received(seconds=20.0, ppm=0.0, jitter_s=0.0, drop=(), delays=None, late_s=0.002, codes=True):
    """A stream of even stamps with these faults; a trigger a second, its marker 3 ms later."""
    rng = np.random.default_rng(0)
    numbers = np.setdiff1d(np.arange(int(seconds * RATE)), drop)
    stamps = 100 + numbers / RATE / (1 + ppm / 1e6) + rng.normal(0, jitter_s, len(numbers))
    ends = np.append(np.arange(CHUNK, len(stamps), CHUNK), len(stamps))
    line = np.where(numbers % RATE == 50, 7.0 if codes else 500.0, 0.0)
    if not codes:  # a photodiode: noise, and a rise that lasts
        line = 500.0 * ((numbers - 50) % RATE < 20) + rng.normal(0, 5, len(numbers))
    edges = stamps[np.flatnonzero(numbers % RATE == 50)]
    markers = edges + 0.003 + (0 if delays is None else rng.choice(delays, len(edges)))
    return Received(RATE, stamps, ends, stamps[ends - 1] + late_s, line, markers)


def test_an_even_stream_is_good():
    timing = measure_timing(received())
    assert timing.latency.p50 == pytest.approx(2.0)
    assert (timing.lost, timing.gaps, timing.backwards) == (0, 0, 0)
    assert timing.rate == pytest.approx(RATE)
    assert timing.triggers is not None
    assert timing.triggers.matched == 20
    assert timing.triggers.delay_ms == pytest.approx(3.0)
    assert judge_for_erp(timing) == ("good", [])


@pytest.mark.parametrize("ppm", [-200, 30, 200])
def test_drift_of_the_senders_clock(ppm):
    assert measure_timing(received(ppm=ppm)).drift_ppm == pytest.approx(ppm, abs=0.5)


def test_lost_samples_are_counted_and_judged():
    timing = measure_timing(received(drop=[1001, 1002, 1003, 3001]))
    assert (timing.lost, timing.gaps) == (4, 2)
    assert judge_for_erp(timing) == ("usable", ["4 samples were lost in 2 gaps"])
    assert judge_for_erp(measure_timing(received(drop=range(1001, 1100))))[0] == "unsuitable"


def test_jitter_of_stamps():
    timing = measure_timing(received(jitter_s=0.0005))
    assert timing.jitter.sd == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize(
    ("delays", "verdict"),
    [([0, 0.0005], "good"), ([0, 0.008], "usable"), ([0, 0.05], "unsuitable")],
)
@pytest.mark.parametrize("codes", [True, False])
def test_jitter_of_triggers_decides(delays, verdict, codes):
    timing = measure_timing(received(seconds=30, delays=delays, codes=codes))
    assert judge_for_erp(timing)[0] == verdict


def test_markers_without_an_edge_are_unsuitable():
    given = received()
    line = np.where(np.arange(len(given.line)) == 50, given.line, 0)
    timing = measure_timing(Received(*(*vars(given).values(),)[:4], line, given.markers))
    assert timing.triggers is not None
    assert timing.triggers.without_edge == 19
    assert judge_for_erp(timing)[0] == "unsuitable"


def test_a_trigger_channel_without_a_marker_stream_is_not_judged():
    given = received()
    alone = Received(*(*vars(given).values(),)[:5], None)
    timing = measure_timing(alone)
    assert timing.triggers is None
    assert judge_for_erp(timing) == ("good", [])


def test_samples_that_a_program_stamped_late_are_not_lost():
    given = received(seconds=60)
    late_s = np.random.default_rng(1).exponential(0.005, len(given.chunk_ends))
    stamps = given.stamps + np.repeat(late_s, np.diff(given.chunk_ends, prepend=0))
    timing = measure_timing(Received(RATE, stamps, *(*vars(given).values(),)[2:]))
    assert timing.lost == 0


def test_a_chunk_in_pieces_is_one():
    given = received()
    ends = np.sort(np.append(given.chunk_ends, given.chunk_ends - 9))
    arrivals = np.repeat(given.arrivals, 2)
    timing = measure_timing(Received(RATE, given.stamps, ends, arrivals, given.line, given.markers))
    assert timing.latency.largest == pytest.approx(2.0)


def test_codes_that_follow_each_other_are_edges_of_their_own():
    line = np.array([0, 5, 5, 7, 0, 0, 0, 0, 0, 0, 0.0])
    np.testing.assert_array_equal(code_edges(line, np.arange(11.0)), [1, 3])


@pytest.fixture
def sent(monkeypatch):
    """A replay's streams in memory, sent in real time by a thread."""
    transport, stop = MemoryTransport(), threading.Event()
    leads = (Lead("C3"),)
    signal = transport.sample_outlet(names.signal_stream("c", "r", RATE, leads))
    codes = transport.sample_outlet(names.code_stream("c", "r"))

    def send() -> None:
        sent_n, begin = 0, transport.now()
        while not stop.wait(max(0.0, begin + sent_n / RATE - transport.now())):
            stamps = begin + (sent_n + np.arange(CHUNK)) / RATE
            rows = np.zeros((CHUNK, 2), dtype=np.float32)
            if sent_n % 50 == 0:
                rows[3, 1] = 9
            signal.push(rows, stamps.tolist())
            if rows[3, 1]:
                codes.push(np.array([[9]], dtype=np.int32), float(stamps[3]))
            sent_n += CHUNK

    thread = threading.Thread(target=send)
    thread.start()
    monkeypatch.setattr("replay.tools.lab_commands.open_wire", lambda *_: transport)
    yield transport
    stop.set()
    thread.join()


def test_the_command_reports_a_running_stream(sent, tmp_path):
    plot = tmp_path / "out" / "timing.png"
    ended = CliRunner().invoke(
        main, ["measure", "--seconds", "2", "--json", "--plot", str(plot)], catch_exceptions=False
    )
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)
    assert found.keys() >= {*Timing.__dataclass_fields__, "verdict", "reasons"}
    assert found["rate"] == pytest.approx(RATE, rel=1e-3)
    assert found["lost"] == 0
    assert found["triggers"]["matched"] >= 5
    assert abs(found["triggers"]["delay_ms"]) < 0.1
    assert plot.read_bytes()[:4] == b"\x89PNG"


def test_the_table_has_a_verdict(sent):
    ended = CliRunner().invoke(main, ["measure", "c-r-signal", "--seconds", "1"])
    assert "event-related potentials" in " ".join(ended.stdout.split())


def test_a_stream_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr("replay.tools.lab_commands.open_wire", lambda *_: MemoryTransport())
    ended = CliRunner().invoke(main, ["measure", "amp", "--wait", "0.2"])
    assert ended.exit_code == 1
    assert "no LSL stream is named 'amp'" in ended.output
    ended = CliRunner().invoke(main, ["measure", "--wait", "0.2"])
    assert "one stream of type EEG is needed, found 0" in ended.output


def test_an_unknown_channel_is_named(sent):
    ended = CliRunner().invoke(main, ["measure", "--channel", "diode", "--seconds", "1"])
    assert ended.exit_code == 1
    assert "--channel diode: the stream has C3, TRIGGER" in ended.output
