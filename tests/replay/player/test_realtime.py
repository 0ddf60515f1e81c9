"""Real time: stalls are reported, but not at every packet, and do not change the lead."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playground import logged_lines

from bci_stream.clock import ManualClock
from bci_stream.contest.contest import Contest
from bci_stream.packet import Lead
from bci_stream.wire.memory import MemoryTransport
from replay.model.recording import ArrayBlock, Recording
from replay.model.source import RawPacket
from replay.player.plan import PlaybackPlan
from replay.player.player import Pace, Player
from replay.player.realtime import (
    FIRST_LEAD_S,
    LATE_S,
    NOTE_AHEAD_S,
    StallReporter,
    adjusted_lead,
)


@pytest.mark.parametrize(
    ("late_s", "reported"),
    [
        ([0.0, LATE_S, -1.0], []),
        ([3.6, 3.56, 3.52, 0.0], [3.6]),  # it slept, and what was due follows at once
        ([0.3, 0.34, 0.5, 0.61, 1.0, 1.3, 1.4], [0.3, 0.61, 1.3]),  # it can't keep the pace
        ([0.3, 0.2, 0.3], [0.3, 0.3]),
    ],
)
def test_a_stall_is_reported_when_it_begins_and_when_it_has_doubled(late_s, reported) -> None:
    stalls = StallReporter()
    assert [each for each in late_s if stalls.is_due(each)] == reported


def test_the_lead_settles_at_the_median_and_ignores_stalls():
    costs = np.random.default_rng(1).exponential(12e-6, 4000)
    costs[::4] = 0.3
    lead_s = FIRST_LEAD_S
    leads = []
    for cost_s in costs:
        lead_s = adjusted_lead(lead_s, cost_s - lead_s)
        leads.append(lead_s)
    assert np.median(leads[1000:]) == pytest.approx(np.median(costs[costs < 0.1]), rel=0.1)


def test_a_source_that_takes_seconds_for_its_first_packet_makes_none_late(tmp_path: Path) -> None:
    clock = ManualClock()

    class SlowToBegin(Recording):
        def packets(self, packet_samples: int) -> Iterator[RawPacket]:
            clock.advance(5.0)
            yield from super().packets(packet_samples)

    recording = SlowToBegin("S1", 250.0, (Lead("Cz"),), [ArrayBlock(np.zeros((99, 1), "f4"), ())])
    player = Player(
        MemoryTransport(clock.now),
        clock,
        Contest("c", tmp_path),
        PlaybackPlan(None, (recording,), (None,), live=False),
        name="r",
        pace=Pace(lockstep=False),
        start_on="now",
        stop=threading.Event(),
    )
    with logged_lines() as log:
        player.play()
    assert player.progress.played == 99
    assert player.progress.worst_late_s == 0.0
    assert log == []


@pytest.mark.parametrize("has_reader", [True, False])
def test_a_note_that_is_read_leaves_shortly_before_its_samples(
    tmp_path: Path, has_reader: bool
) -> None:
    class WaitTimes(ManualClock):
        """Notes how long the waits for the deadlines of samples are."""

        def __init__(self) -> None:
            super().__init__()
            self.waits_s: list[float] = []

        def wait_until(self, deadline, stop=None, warm_up=None) -> bool:
            if warm_up is not None:
                self.waits_s.append(deadline - self.now())
            return super().wait_until(deadline, stop)

    clock = WaitTimes()
    transport = MemoryTransport(clock.now)
    recording = Recording("S1", 250.0, (Lead("Cz"),), [ArrayBlock(np.zeros((99, 1), "f4"), ())])
    player = Player(
        transport,
        clock,
        Contest("c", tmp_path),
        PlaybackPlan(None, (recording,), (None,), live=False),
        name="r",
        pace=Pace(lockstep=False),
        start_on="now",
        stop=threading.Event(),
    )
    if has_reader:
        (control,) = (it for it in transport.visible("") if "/control/" in it.source_id)
        transport.text_inlet(control, 1)
    player.play()
    assert len(clock.waits_s) == 10
    if has_reader:
        assert max(clock.waits_s) == pytest.approx(NOTE_AHEAD_S, abs=1e-4)
    else:
        assert np.median(clock.waits_s) == pytest.approx(0.04, abs=1e-4)
