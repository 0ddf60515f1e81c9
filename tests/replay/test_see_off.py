"""Whoever listens to a recording has a while, after its last packet, to take what came."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bci_stream.clock import ManualClock
from bci_stream.contest.contest import Contest
from bci_stream.packet import Lead
from bci_stream.wire.memory import MemorySampleInlet, MemoryTransport
from replay.pace import Pace
from replay.player import SEE_OFF_LOOK_S, SEE_OFF_S, Player
from replay.program import Program
from replay.recording import ArrayBlock, Recording

N_SAMPLES = 99


class Hall:
    """A player, and the moment at which its last packet left."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.stop = threading.Event()
        self._transport = MemoryTransport(self.clock.now)
        block = ArrayBlock(np.zeros((N_SAMPLES, 1), np.float32), ())
        recording = Recording("S1", 250.0, (Lead("Cz"),), [block])
        self._player = Player(
            self._transport,
            self.clock,
            Contest("c", folder),
            Program(None, (recording,), (None,), live=False),
            name="r",
            pace=Pace(lockstep=False),
            start_on="now",
            stop=self.stop,
        )

    def listener(self) -> MemorySampleInlet:
        (signal,) = (s for s in self._transport.visible("") if s.name == "c-r-signal")
        return self._transport.sample_inlet(signal, 1.0)

    def stayed_s(self, meanwhile: Callable[[], None] = lambda: None) -> float:
        """Play; how long the player stayed after its last packet. meanwhile: done at its first look then."""
        ends: list[float] = []
        wait = self.clock.wait_until

        def wait_until(deadline: float, *others: object) -> bool:
            if self._player.progress.played == N_SAMPLES:
                if not ends:
                    meanwhile()
                ends.append(self.clock.now())
            return wait(deadline, *others)  # type: ignore[arg-type]

        self.clock.wait_until = wait_until  # type: ignore[assignment]
        self._player.play()
        return self.clock.now() - ends[0] if ends else 0.0


@pytest.fixture
def hall(tmp_path: Path) -> Hall:
    return Hall(tmp_path)


def test_who_listens_still_hears_the_stream_after_its_last_packet(hall: Hall) -> None:
    listener = hall.listener()
    heard: list[int] = []
    stayed_s = hall.stayed_s(lambda: heard.append(len(listener.pull(1000, 0.0)[0])))
    assert heard == [N_SAMPLES]
    assert stayed_s == pytest.approx(SEE_OFF_S)


def test_nobody_is_waited_for_who_does_not_listen(hall: Hall) -> None:
    assert hall.stayed_s() == 0.0


def test_when_the_last_has_left_it_ends(hall: Hall) -> None:
    assert hall.stayed_s(hall.listener().close) == pytest.approx(SEE_OFF_LOOK_S)


def test_stop_does_not_wait(hall: Hall) -> None:
    _ = hall.listener()
    assert hall.stayed_s(hall.stop.set) == 0.0
