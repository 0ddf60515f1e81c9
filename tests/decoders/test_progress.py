"""What bci-decode shows of its own run."""

import json
import logging
import re
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from playground import Recorder, erp_recording, logged_lines, play, program

from bci_stream.contest.contest import Contest
from bci_stream.packet import Lead, Packet, SignalInfo
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import Offer
from decoders import progress as module
from decoders.progress import WorkerProgress, describe_closed, shown

OFFER = Offer("cup", "r1", "erp", "realtime", 250.0, 10, ["Cz"], ["S01", "S02"], name="hall")
INFO = SignalInfo("erp", "S02", 250.0, (Lead("Cz"),), 10)


def packet(n: int) -> Packet:
    return Packet(np.zeros((n, 2), np.float32), (), 0, 0, "S02")


def test_the_line_has_subject_progress_reports_and_latency() -> None:
    at = WorkerProgress("alice")
    assert at.line() == ""
    at.joined(OFFER)
    assert at.line() == ""
    at.session(INFO)
    for took_ms in (1, 2, 3):
        at.packet(packet(250 * 30), took_ms / 1000)
    at.reports, at.behind_s = 1, 0.25
    assert at.line() == (
        "team alice: erp S02 (1 of 2), 1:30 of signal, 1 report, "
        "decoder 2.0 ms a packet (p99 3.0, worst 3.0), 0.25 s behind the stream"
    )


def test_joining_is_logged_with_the_run() -> None:
    with logged_lines("decoders") as lines:
        WorkerProgress("alice").joined(OFFER)
    assert lines == ["team alice: joined run r1 of replay hall: track erp, realtime, 2 subjects"]


def test_what_the_judge_closed_is_named() -> None:
    receipt = json.dumps({"kind": "closed", "reason": "finished", "lines": 12})
    assert describe_closed(receipt) == "the judge closed it as finished, with 12 lines in its log"
    assert describe_closed("") == "no judge has closed it"


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOG_EVERY_S", 0.001)
    monkeypatch.setattr(module, "SHOW_EVERY_S", 0.001)


class Line:
    """A progress whose line was asked for several times."""

    def __init__(self, text: str) -> None:
        self._text, self._asked, self.enough = text, 0, threading.Event()

    def line(self) -> str:
        self._asked += 1
        if self._asked > 3:
            self.enough.set()
        return self._text


@pytest.fixture
def quiet() -> Iterator[None]:
    logger = logging.getLogger("decoders")
    before = logger.level
    logger.setLevel(logging.WARNING)
    yield
    logger.setLevel(before)


def test_in_a_log_file_the_line_comes_now_and_then(often, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    at = Line("team alice: erp S01")
    with logged_lines("decoders") as lines, shown(at):  # type: ignore[arg-type]
        assert at.enough.wait(20)
    assert set(lines) == {"team alice: erp S01"}


def test_on_a_terminal_it_is_one_line_that_changes(often, monkeypatch) -> None:
    class Terminal:
        text = ""

        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            self.text += text
            return len(text)

        def flush(self) -> None:
            pass

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    at = Line("team alice: erp S01 [x]")
    with logged_lines("decoders") as lines, shown(at):  # type: ignore[arg-type]
        assert at.enough.wait(20)
    assert lines == []
    assert "team alice: erp S01 [x]" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.text)


def test_with_q_there_is_none(often, quiet, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    at = Line("x")
    with shown(at):  # type: ignore[arg-type]
        assert not at.enough.is_set()
        assert "progress" not in [thread.name for thread in threading.enumerate()]


def test_a_worker_keeps_its_progress(contest: Contest, monkeypatch) -> None:
    made: list[WorkerProgress] = []

    class Kept(WorkerProgress):
        def __init__(self, team: str) -> None:
            super().__init__(team)
            made.append(self)

    monkeypatch.setattr("decoders.worker.WorkerProgress", Kept)
    decoder = Recorder(lambda number, _: ["A"] if number == 5 else [])
    with logged_lines("decoders") as lines:
        played = play(MemoryTransport(), contest, program("erp", erp_recording()), {"a": decoder})
    assert not played.errors
    assert any(
        re.search(r"joined run \w+ of replay r: track erp, lockstep, 1 subject$", x) for x in lines
    )
    (at,) = made
    assert re.search(r"erp S01 \(1 of 1\), 0:01 of signal, 1 report, decoder [\d.]+ ms", at.line())
    assert "behind" not in at.line()  # lockstep has no stream to be behind
