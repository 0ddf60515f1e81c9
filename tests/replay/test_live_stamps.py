"""A live device's stamps never run backwards on the wire, however its clock is corrected."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.packet import Lead, Packet
from bci_stream.wire.memory import MemoryTransport
from replay.model.recording import ArrayBlock, Recording
from replay.player.outlets import ReplayOutlets
from replay.player.plan import PlaybackPlan

RATE = 250


def staged(live: bool, transport: MemoryTransport) -> ReplayOutlets:
    block = ArrayBlock(np.zeros((10, 1), np.float32), ())
    session = Recording("S1", RATE, (Lead("Cz"),), [block])
    return ReplayOutlets(
        transport, "c", "r", "run", b"k" * 32, PlaybackPlan(None, (session,), (None,), live), 1.0
    )


def sent(live: bool, packets: list[tuple[int, float]]) -> tuple[np.ndarray, list[float]]:
    """Stamps of all samples and of all markers, one on each packet's first sample."""
    transport = MemoryTransport()
    stage = staged(live, transport)
    found = {it.name: it for it in transport.visible("")}
    signal = transport.sample_inlet(found["c-r-signal"], 1)
    markers = transport.text_inlet(found["c-r-markers"], 1)
    start = 0
    for n, stamp in packets:
        samples = np.zeros((n, 2), np.float32)
        stage.show(None, Packet(samples, ((0, 7),), start, 0, "S1", False), stamp)
        start += n
    _, stamps = signal.pull(10_000, 0)
    return stamps, [at for _, at in markers.pull(0)]


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(0.1, 2.0)), min_size=1, max_size=20))
def test_no_stamp_runs_backwards_and_markers_stand_on_their_samples(steps):
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
def test_after_a_gap_samples_stand_together(live):
    stamps, _ = sent(live, [(10, 100.0), (10, 103.0)])
    np.testing.assert_allclose(stamps[10:], 103.0 - np.arange(9, -1, -1) / RATE)
