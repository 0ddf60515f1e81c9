"""What a stage shows of a packet, to whom, and when."""

from collections.abc import Callable

import numpy as np
import pytest

from bci_stream.clock import ManualClock
from bci_stream.packet import Lead, Packet
from bci_stream.wire.memory import MemoryTransport
from replay.model.recording import ArrayBlock, Recording
from replay.player.outlets import ReplayOutlets
from replay.player.plan import PlaybackPlan
from tracks.registry import TRACKS

SAMPLES = np.arange(8, dtype=np.float32).reshape(2, 4)  # three leads and the trigger
PACKET = Packet(SAMPLES, (), 0, 0, "S1", False)


class Theatre:
    """An ecog stage, on which each team has a stream with the leads that it chose."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.transport = MemoryTransport(self.clock.now)
        leads = tuple(Lead(name, "ECOG") for name in "abc")
        session = Recording("S1", 1000, leads, [ArrayBlock(np.zeros((9, 3), np.float32), ())])
        program = PlaybackPlan(TRACKS["ecog"], (session,), (None,), live=False)
        self.stage = ReplayOutlets(self.transport, "c", "r", "run", b"k" * 32, program, 1.0)

    def let_in(self, team: str, leads: list[int]) -> Callable[[], list[list[float]]]:
        """Returns what reads the team's stream."""
        source_id = self.stage.signal_for(team, {"S1": leads})
        (found,) = (it for it in self.transport.visible("") if it.source_id == source_id)
        inlet = self.transport.sample_inlet(found, 1)
        return lambda: inlet.pull(2, 0)[0].tolist()


def test_each_team_gets_the_leads_that_it_chose() -> None:
    theatre = Theatre()
    one, other = theatre.let_in("one", [1, 2]), theatre.let_in("other", [3, 1])
    theatre.stage.show(None, PACKET, 100.0)
    assert one() == [[0, 1, 3], [4, 5, 7]]
    assert other() == [[2, 0, 3], [6, 4, 7]]


def test_a_team_that_comes_while_a_packet_waits_for_its_moment_gets_it_too() -> None:
    theatre = Theatre()
    one = theatre.let_in("one", [1, 2])
    late = []

    def wait(warm_up: Callable[[], None]) -> bool:
        late.append(theatre.let_in("late", [3, 2]))
        return True

    theatre.stage.show(None, PACKET, 100.0, wait)
    assert one() == [[0, 1, 3], [4, 5, 7]]
    assert late[0]() == [[2, 1, 3], [6, 5, 7]]


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_packet_leaves_after_its_wait_or_not_at_all(goes_on: bool) -> None:
    theatre = Theatre()
    one = theatre.let_in("one", [1, 2])

    def wait(warm_up: Callable[[], None]) -> bool:
        warm_up()
        assert one() == []
        theatre.clock.advance(5)
        return goes_on

    left_at = theatre.stage.show(None, PACKET, 100.0, wait)
    assert left_at == (theatre.clock.now() if goes_on else None)
    assert bool(one()) == goes_on
