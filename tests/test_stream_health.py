"""Lag, jitter, gaps and losses of a stream, from its time stamps."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.stream_health import WINDOW, LinkHealth, StreamHealth

RATE = 250.0


def stamps(first: int, last: int) -> np.ndarray:
    return np.arange(first, last) / RATE


def test_a_stream_without_a_fault() -> None:
    health = StreamHealth(RATE)
    assert health.summary(0.0)["lag_s"] is None
    for start in range(0, 1000, 10):
        chunk = stamps(start, start + 10)
        health.add(chunk, chunk[-1] + 7.02, 7.0)
    found = health.summary(chunk[-1] + 7.52)
    assert (found["samples"], found["gaps"], found["lost"]) == (1000, 0, 0)
    assert found["lag_s"] == pytest.approx(0.02)
    assert found["jitter_s"] == pytest.approx(0.0, abs=1e-6)
    assert (found["offset_s"], found["silent_s"]) == (7.0, 0.5)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=20), st.integers(1, 400))
def test_a_gap_is_found_wherever_the_chunks_are_cut(cuts: list[int], lost: int) -> None:
    sent = np.concatenate([stamps(0, 300), stamps(300 + lost, 600 + lost)])
    health = StreamHealth(RATE)
    edges = [0, *(int(edge) for edge in np.cumsum(cuts) if edge < len(sent)), len(sent)]
    for a, b in pairwise(edges):
        health.add(sent[a:b], 0.0, 0.0)
    assert (health.gaps, health.lost, health.samples) == (1, lost, 600)


def test_probes_before_the_first_packet_are_no_gaps() -> None:
    health = StreamHealth(RATE)
    for at in (1.0, 1.7, 3.1):
        health.add(np.array([at]), at, 0.0)
    health.add(stamps(1000, 1100), 5.0, 0.0)
    assert (health.gaps, health.lost) == (0, 0)


def test_the_link_of_a_replay() -> None:
    link = LinkHealth()
    assert link.summary(0.0)["link"]["lag_s"] is None
    for k in range(2 * WINDOW):
        late = 0.3 if k == 3 else 0.001
        link.add_packet(k * 0.04, k * 0.04 + late, k * 0.04 + late + (0.01 if k % 2 else 0.03))
    link.last_at = 20.0
    found = link.summary(21.5)
    assert found["silent_s"] == 1.5
    assert found["sending"]["worst_s"] == pytest.approx(0.001)  # of the last packets only
    assert found["link"]["lag_s"] == pytest.approx(0.02)
    assert found["link"]["jitter_s"] == pytest.approx(0.01)
