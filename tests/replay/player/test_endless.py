"""--loop without teams: one run without end, without a gap between the rounds."""

import threading
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from bci_stream.clock import ManualClock
from bci_stream.contest.contest import Contest
from bci_stream.errors import LostError
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import PacketNote, SessionStart, read_control
from replay.player.plan import make_plan
from replay.player.player import Pace, Player
from replay.sources import open_source

RATE, N = 250, 333


class StoppingClock(ManualClock):
    """Sets the stop event after some seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._end = self.now() + seconds

    def wait_until(
        self,
        deadline: float,
        stop: threading.Event | None = None,
        warm_up: Callable[[], None] = lambda: None,
    ) -> bool:
        if deadline > self._end and stop is not None:
            stop.set()
        return super().wait_until(deadline, stop, warm_up)


def test_rounds_follow_each_other_on_the_same_streams_without_a_pause(tmp_path):
    data = np.vstack([np.arange(N, dtype=np.float64), np.zeros(N)])
    events = np.array([[0, 0, 7], [100, 0, 8]])
    np.savez(tmp_path / "x.npz", data=data, rate=RATE, leads=np.array(["C3", "C4"]), events=events)
    clock = StoppingClock(
        5.75
    )  # a second before it begins, three rounds of 1.332 s, and most of a fourth
    transport = MemoryTransport(clock.now)
    player = Player(
        transport,
        clock,
        Contest("c", tmp_path),
        make_plan(open_source(str(tmp_path / "x.npz")), None),
        name="r",
        pace=Pace(lockstep=False),
        start_on="now",
        stop=threading.Event(),
        endless=True,
    )
    streams = {found.name: found for found in transport.visible("")}
    signal = transport.sample_inlet(streams["c-r-signal"], 1)
    markers = transport.text_inlet(streams["c-r-markers"], 1)
    control = transport.text_inlet(streams["c-r-control"], 1)
    player.play()
    samples, stamps = signal.pull(5000, 0)
    assert 3 * N < len(samples) < 4 * N
    assert (samples[:, 0] == np.arange(len(samples)) % N).all()
    np.testing.assert_allclose(np.diff(stamps), 1 / RATE, atol=1e-9)
    assert [code for code, _ in markers.pull(0)] == ["7", "8"] * 4
    messages = []
    with suppress(LostError):
        while texts := control.pull(0):
            messages += [read_control(text) for text, _ in texts]
    assert sum(isinstance(message, SessionStart) for message in messages) == 4
    notes = [message for message in messages if isinstance(message, PacketNote)]
    assert [note.i for note in notes] == list(range(len(notes)))
    assert not any(note.finish for note in notes)
    assert player.progress.round == 3
    assert player.progress.played == len(samples) - 3 * N
    assert player._journal.unsent_events == 0
