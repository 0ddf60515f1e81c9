"""Whoever listens to a recording has a while, after its last packet, to take what came."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from bci_stream.clock import ManualClock
from bci_stream.contest.contest import Contest
from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from bci_stream.wire.memory import MemorySampleInlet, MemoryTransport
from replay.model.recording import ArrayBlock, Recording
from replay.model.source import RawPacket
from replay.player.plan import PlaybackPlan
from replay.player.player import HURRIED_S, SEE_OFF_LOOK_S, SEE_OFF_S, Pace, Player
from replay.player.realtime import FIRST_LISTENERS_S

N_SAMPLES = 99


class Breaking(Recording):
    """A recording whose disk is lost after its first packet."""

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        yield next(super().packets(packet_samples))
        raise SourceError("its disk is gone")


class Hall:
    """A player, and the moment at which its last packet left."""

    def __init__(self, folder: Path, kind: type[Recording] = Recording) -> None:
        self.clock = ManualClock()
        self.stop = threading.Event()
        self._transport = MemoryTransport(self.clock.now)
        block = ArrayBlock(np.zeros((N_SAMPLES, 1), np.float32), ())
        recording = kind("S1", 250.0, (Lead("Cz"),), [block])
        self._player = Player(
            self._transport,
            self.clock,
            Contest("c", folder),
            PlaybackPlan(None, (recording,), (None,), live=False),
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
    assert stayed_s == pytest.approx(SEE_OFF_S, abs=SEE_OFF_LOOK_S)


def test_nobody_is_waited_for_who_does_not_listen(hall: Hall) -> None:
    assert hall.stayed_s() == 0.0


def test_when_the_last_has_left_it_ends(hall: Hall) -> None:
    assert hall.stayed_s(hall.listener().close) == pytest.approx(SEE_OFF_LOOK_S)


def test_also_who_is_stopped_gives_time_for_the_last_word_but_little(hall: Hall) -> None:
    _ = hall.listener()
    assert hall.stayed_s(hall.stop.set) == pytest.approx(HURRIED_S, abs=SEE_OFF_LOOK_S)


def test_who_has_opened_the_signal_has_time_to_open_the_markers(hall: Hall) -> None:
    begun = hall.clock.now()
    listener = hall.listener()
    hall.stayed_s()
    _, stamps = listener.pull(1000, 0.0)
    assert stamps[0] - begun == pytest.approx(FIRST_LISTENERS_S + 1 / 250)


def test_a_run_that_fails_stays_until_its_reason_was_heard(tmp_path: Path) -> None:
    hall = Hall(tmp_path, Breaking)
    listener = hall.listener()
    with pytest.raises(SourceError, match="is gone"):
        hall.stayed_s()
    _, stamps = listener.pull(1000, 0.0)
    assert hall.clock.now() - stamps[-1] == pytest.approx(SEE_OFF_S, abs=SEE_OFF_LOOK_S)
