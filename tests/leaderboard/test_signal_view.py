"""The live signal: what is shown of it, and which streams it is read from."""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.clock import ManualClock
from bci_stream.errors import NotFoundError
from bci_stream.leaderboard.web.signal_view import (
    SHOWN_LEADS,
    SHOWN_RATE,
    SHOWN_S,
    LiveSignals,
    SignalMonitor,
    SignalView,
)
from bci_stream.packet import FloatArray, Lead
from bci_stream.wire import names
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.transport import FoundStream

LEADS = tuple(f"L{i}" for i in range(64))


@given(st.lists(st.integers(0, 90), max_size=30))
def test_the_view_is_the_same_for_any_chunking(cuts: list[int]) -> None:
    samples = np.random.default_rng(0).normal(size=(sum(cuts), 64)).astype(np.float32)
    whole, pieces = SignalMonitor(1000, LEADS), SignalMonitor(1000, LEADS)
    whole.add(samples)
    for start, n in zip(np.cumsum([0, *cuts]), cuts, strict=False):
        pieces.add(samples[start : start + n])
    assert whole.view() == pieces.view()


def test_only_the_last_seconds_of_a_few_leads_are_kept() -> None:
    monitor = SignalMonitor(1000, LEADS)
    monitor.add(np.zeros((60_000, 64), dtype=np.float32))
    view = monitor.view()
    assert len(view["leads"]) == SHOWN_LEADS
    assert len(view["columns"]) == round(SHOWN_S * SHOWN_RATE)


def test_new_columns_are_returned_once() -> None:
    monitor = SignalMonitor(250, LEADS[:3])
    monitor.add(np.ones((50, 3), dtype=np.float32))
    new = monitor.take_new()
    assert new is not None
    assert len(new["columns"]) == 10
    assert monitor.take_new() is None


def test_values_that_json_does_not_have_are_zero() -> None:
    monitor = SignalMonitor(50, ("a",))
    monitor.add(np.array([[np.nan], [np.inf]], dtype=np.float32))
    assert monitor.view()["columns"] == [[0.0], [0.0]]


class CountingTransport(MemoryTransport):
    """Counts the sample inlets that are open, and all that were ever opened.

    silent: owners whose streams are found but can't be opened.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(now)
        self.opened: list[str] = []
        self.silent: set[str] = set()

    def sample_inlet(self, found: FoundStream, timeout_s: float) -> Any:
        owner = names.owner(found.source_id)
        self.opened.append(owner)
        if owner in self.silent:
            raise NotFoundError("it does not answer")
        return super().sample_inlet(found, timeout_s)

    @property
    def open_inlets(self) -> int:
        return sum(stream.consumers for stream in self._streams.values())

    def offer(self, owner: str, track: str, rate: float = 100.0) -> Any:
        return self.sample_outlet(names.signal_stream("c", owner, rate, (Lead("Cz"),), track=track))


class ShownSignals(LiveSignals):
    def __init__(self) -> None:
        super().__init__()
        self.shown: list[tuple[str, int]] = []

    def add(self, track: str, samples: FloatArray, rate: float, leads: tuple[str, ...]) -> None:
        super().add(track, samples, rate, leads)
        self.shown.append((track, len(samples)))


def view_of(transport: CountingTransport) -> tuple[SignalView, ShownSignals]:
    signals = ShownSignals()
    return SignalView(transport, "c", signals, frozenset({"mi", "ecog"})), signals


def test_each_stream_is_opened_once_and_closed() -> None:
    transport = CountingTransport()
    outlets = {
        owner: transport.offer(owner, track)
        for owner, track in (("a", "ecog"), ("b", "ecog"), ("c", "mi"))
    }
    view, signals = view_of(transport)
    for _ in range(5):
        view.discover()
    assert len(transport.opened) == 3  # each once, to read its track
    assert transport.open_inlets == 2  # one for each track
    outlets["b"].push(np.zeros((4, 2), np.float32), 1.0)
    outlets["c"].push(np.zeros((4, 2), np.float32), 1.0)
    view.show()
    assert signals.shown == [("mi", 4)]
    outlets["a"].close()
    view.show()
    view.discover()
    outlets["b"].push(np.zeros((7, 2), np.float32), 2.0)
    view.show()
    assert signals.shown[1:] == [("ecog", 7)]
    with view:
        pass
    assert transport.open_inlets == 0


def test_a_stream_that_does_not_answer_is_tried_again_after_a_pause_that_grows() -> None:
    clock = ManualClock()
    transport = CountingTransport(clock.now)
    transport.silent.add("fake")
    transport.offer("fake", "mi")
    view, _ = view_of(transport)
    tried_at = []
    for _ in range(40):
        before = len(transport.opened)
        view.discover()
        tried_at += [clock.now()] * (len(transport.opened) - before)
        clock.advance(1.0)
    pauses = np.diff(tried_at)
    assert list(pauses) == [1.0, 2.0, 4.0, 8.0, 16.0]
    transport.offer("real", "mi")
    view.discover()
    assert transport.opened[-1] == "real"
    assert transport.open_inlets == 1


@pytest.mark.parametrize(
    ("track", "rate"), [("mi", 1e9), ("mi", 0.0), ("no such track", 100.0), ("", 100.0)]
)
def test_a_stream_that_can_not_be_a_signal_is_not_kept_open(track: str, rate: float) -> None:
    transport = CountingTransport()
    transport.offer("fake", track, rate)
    view, _ = view_of(transport)
    view.discover()
    view.discover()
    assert transport.opened == ["fake"]
    assert transport.open_inlets == 0


def test_the_threads_go_on_after_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The description of a foreign stream may hold anything."""
    monkeypatch.setattr("bci_stream.leaderboard.web.signal_view.DISCOVER_EVERY_S", 0.001)
    transport = CountingTransport()
    transport.offer("a", "mi")
    failures, opened = iter([ValueError("no UTF-8"), RuntimeError("no XML")]), threading.Event()

    def sample_inlet(found: FoundStream, timeout_s: float) -> Any:
        if (error := next(failures, None)) is not None:
            raise error
        opened.set()
        return MemoryTransport.sample_inlet(transport, found, timeout_s)

    monkeypatch.setattr(transport, "sample_inlet", sample_inlet)
    with view_of(transport)[0]:
        assert opened.wait(20)
