"""The player keeps its streams open for a moment after the last packet, for those who listen."""

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
from replay.player.player import (
    LISTENERS_POLL_S,
    LISTENERS_S,
    MAX_LISTENERS_S,
    STOPPED_LISTENERS_S,
    Pace,
    Player,
)
from replay.player.realtime import LISTENER_LEAD_IN_S

N_SAMPLES = 99


class FailingRecording(Recording):
    """A recording that can't be read after its first packet."""

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        yield next(super().packets(packet_samples))
        raise SourceError("its disk is gone")


class PlayedRecording:
    """A player, and how long it stays after its last packet."""

    def __init__(self, folder: Path, kind: type[Recording] = Recording, speed: float = 1.0) -> None:
        self.clock = ManualClock()
        self.stop = threading.Event()
        self._transport = MemoryTransport(self.clock.now)
        block = ArrayBlock(np.zeros((N_SAMPLES, 1), np.float32), ())
        recording = kind("S1", 250.0, (Lead("Cz"),), [block])
        self.player = Player(
            self._transport,
            self.clock,
            Contest("c", folder),
            PlaybackPlan(None, (recording,), (None,), live=False),
            name="r",
            pace=Pace(lockstep=False, speed=speed),
            start_on="now",
            stop=self.stop,
        )

    def listener(self) -> MemorySampleInlet:
        (signal,) = (s for s in self._transport.visible("") if s.name == "c-r-signal")
        return self._transport.sample_inlet(signal, 1.0)

    def stayed_s(self, meanwhile: Callable[[], None] = lambda: None) -> float:
        """Play; seconds from the last packet to the end. meanwhile: called when it first waits there."""
        ends: list[float] = []
        wait = self.clock.wait_until

        def wait_until(deadline: float, *others: object) -> bool:
            if self.player.progress.played == N_SAMPLES:
                if not ends:
                    meanwhile()
                ends.append(self.clock.now())
            return wait(deadline, *others)  # type: ignore[arg-type]

        self.clock.wait_until = wait_until  # type: ignore[assignment]
        self.player.play()
        return self.clock.now() - ends[0] if ends else 0.0


@pytest.fixture
def played(tmp_path: Path) -> PlayedRecording:
    return PlayedRecording(tmp_path)


def test_a_listener_can_still_read_after_the_last_packet(played: PlayedRecording) -> None:
    listener = played.listener()
    read: list[int] = []
    stayed_s = played.stayed_s(lambda: read.append(len(listener.pull(1000, 0.0)[0])))
    assert read == [N_SAMPLES]
    assert stayed_s == pytest.approx(LISTENERS_S, abs=LISTENERS_POLL_S)


@pytest.mark.parametrize(("speed", "stay_s"), [(4.0, 4 * LISTENERS_S), (40.0, MAX_LISTENERS_S)])
def test_a_listener_of_a_fast_replay_has_longer(
    tmp_path: Path, speed: float, stay_s: float
) -> None:
    played = PlayedRecording(tmp_path, speed=speed)
    _ = played.listener()
    assert played.stayed_s() == pytest.approx(stay_s, abs=LISTENERS_POLL_S)


def test_a_listener_of_a_late_replay_has_longer(played: PlayedRecording) -> None:
    _ = played.listener()
    played.player.progress.worst_late_s = 2.0
    assert played.stayed_s() == pytest.approx(LISTENERS_S + 2.0, abs=LISTENERS_POLL_S)


def test_without_listeners_it_ends_at_once(played: PlayedRecording) -> None:
    assert played.stayed_s() == 0.0


def test_it_ends_when_the_last_listener_has_left(played: PlayedRecording) -> None:
    assert played.stayed_s(played.listener().close) == pytest.approx(LISTENERS_POLL_S)


def test_after_a_stop_it_stays_for_a_shorter_time(played: PlayedRecording) -> None:
    _ = played.listener()
    assert played.stayed_s(played.stop.set) == pytest.approx(
        STOPPED_LISTENERS_S, abs=LISTENERS_POLL_S
    )


def test_a_listener_gets_time_to_open_the_marker_stream(played: PlayedRecording) -> None:
    begun = played.clock.now()
    listener = played.listener()
    played.stayed_s()
    _, stamps = listener.pull(1000, 0.0)
    assert stamps[0] - begun == pytest.approx(LISTENER_LEAD_IN_S + 1 / 250)


def test_a_run_that_fails_stays_too(tmp_path: Path) -> None:
    played = PlayedRecording(tmp_path, FailingRecording)
    listener = played.listener()
    with pytest.raises(SourceError, match="is gone"):
        played.stayed_s()
    _, stamps = listener.pull(1000, 0.0)
    assert played.clock.now() - stamps[-1] == pytest.approx(LISTENERS_S, abs=LISTENERS_POLL_S)
