"""Outlets: what each signal stream carries, when a packet leaves, and its time stamps."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.clock import ManualClock
from bci_stream.contest.keys import Keys
from bci_stream.packet import Lead
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import PacketNote
from replay.model.recording import ArrayBlock, Recording
from replay.player.outlets import ReplayOutlets
from replay.player.plan import PlaybackPlan
from replay.transform.masking import MaskedPacket
from tracks.registry import TRACKS

RATE = 250
_keys_folder = tempfile.TemporaryDirectory(prefix="bci-keys-", ignore_cleanup_errors=True)
KEYS = Keys(Path(_keys_folder.name))
SAMPLES = np.arange(8, dtype=np.float32).reshape(2, 4)  # three leads and the trigger
PACKET = MaskedPacket(SAMPLES, (), 0, 0, "S1", False)


# --- time stamps --------------------------------------------------------------------------------


def one_lead(live: bool, transport: MemoryTransport) -> ReplayOutlets:
    block = ArrayBlock(np.zeros((10, 1), np.float32), ())
    session = Recording("S1", RATE, (Lead("Cz"),), [block])
    return ReplayOutlets(
        transport, "c", "r", "run", KEYS, PlaybackPlan(None, (session,), (None,), live), 1.0
    )


def sent(live: bool, packets: list[tuple[int, float]]) -> tuple[np.ndarray, list[float]]:
    """Stamps of all samples and of all markers, one on each packet's first sample."""
    transport = MemoryTransport()
    outlets = one_lead(live, transport)
    found = {it.name: it for it in transport.visible("")}
    signal = transport.sample_inlet(found["c-r-signal"], 1)
    markers = transport.text_inlet(found["c-r-markers"], 1)
    start = 0
    for n, stamp in packets:
        samples = np.zeros((n, 2), np.float32)
        outlets.push_packet(MaskedPacket(samples, ((0, 7),), start, 0, "S1", False), None, stamp)
        start += n
    _, stamps = signal.pull(10_000, 0)
    return stamps, [at for _, at in markers.pull(0)]


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(0.1, 2.0)), min_size=1, max_size=20))
def test_a_devices_stamps_increase_and_markers_have_those_of_their_samples(steps):
    lengths = [n for n, _ in steps]
    lasts = 100 + np.cumsum([n / RATE * share for n, share in steps])
    stamps, markers = sent(True, list(zip(lengths, lasts.tolist(), strict=True)))
    assert (np.diff(stamps) > 0).all()
    ends = np.cumsum(lengths) - 1
    np.testing.assert_allclose(stamps[ends], lasts)
    np.testing.assert_allclose(markers, stamps[ends - np.array(lengths) + 1])


def test_evenly_stamped_packets_are_evenly_stamped_samples():
    stamps, _ = sent(True, [(10, 100.0), (10, 100.04), (10, 100.08)])
    np.testing.assert_allclose(np.diff(stamps), 1 / RATE)


@pytest.mark.parametrize("live", [True, False])
def test_after_a_gap_stamps_count_back_from_the_packets_last_sample(live):
    stamps, _ = sent(live, [(10, 100.0), (10, 103.0)])
    np.testing.assert_allclose(stamps[10:], 103.0 - np.arange(9, -1, -1) / RATE)


# --- signal streams -----------------------------------------------------------------------------


class EcogReplay:
    """Outlets of the ecog track: each team has a stream with the leads that it chose."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.transport = MemoryTransport(self.clock.now)
        leads = tuple(Lead(name, "ECOG") for name in "abc")
        session = Recording("S1", 1000, leads, [ArrayBlock(np.zeros((9, 3), np.float32), ())])
        plan = PlaybackPlan(TRACKS["ecog"], (session,), (None,), live=False)
        self.outlets = ReplayOutlets(self.transport, "c", "r", "run", KEYS, plan, 1.0)

    def open_inlet(self, team: str, leads: list[int]) -> Callable[[], list[list[float]]]:
        """Returns a function that reads the team's stream."""
        source_id = self.outlets.signal_for(team, {"S1": leads})
        (found,) = (it for it in self.transport.visible("") if it.source_id == source_id)
        inlet = self.transport.sample_inlet(found, 1)
        return lambda: inlet.pull(2, 0)[0].tolist()


def test_each_team_gets_the_leads_that_it_chose() -> None:
    replay = EcogReplay()
    one, other = replay.open_inlet("one", [1, 2]), replay.open_inlet("other", [3, 1])
    replay.outlets.push_packet(PACKET, None, 100.0)
    assert one() == [[0, 1, 3], [4, 5, 7]]
    assert other() == [[2, 0, 3], [6, 4, 7]]


@pytest.mark.parametrize("send", [True, False])
def test_a_packet_is_sent_after_its_wait_or_not_at_all(send: bool) -> None:
    replay = EcogReplay()
    one = replay.open_inlet("one", [1, 2])

    def wait(warm_up: Callable[[], None]) -> bool:
        warm_up()
        assert one() == []
        replay.clock.advance(5)
        return send

    left_at = replay.outlets.push_packet(PACKET, None, 100.0, wait)
    assert left_at == (replay.clock.now() if send else None)
    assert bool(one()) == send


@pytest.mark.parametrize("stopped", [True, False])
def test_a_note_leaves_before_the_wait_and_its_packet_always_follows(stopped: bool) -> None:
    replay = EcogReplay()
    one = replay.open_inlet("one", [1, 2])
    (found,) = (it for it in replay.transport.visible("") if "/control/" in it.source_id)
    control = replay.transport.text_inlet(found, 1)

    def wait(_: Callable[[], None]) -> bool:
        ((text, stamp),) = control.pull(0)
        assert '"kind":"packet"' in text
        assert stamp == 100.0
        assert one() == []
        return not stopped

    note = PacketNote(0, 0, 0, 0, 2)
    assert replay.outlets.push_packet(PACKET, note, 100.0, wait) is not None
    assert len(one()) == 2
