"""Epochs come out whole, in order, and for any split of the stream."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from decoders.erp.flashes import Epoch, Epochs


def feed(x: np.ndarray, events: list[tuple[int, str]], cuts: list[int]) -> list[Epoch[str]]:
    epochs: Epochs[str] = Epochs(length=7, n_leads=1)
    bounds = [0, *sorted(cuts), len(x)]
    done: list[Epoch[str]] = []
    for start, stop in pairwise(bounds):
        inside = [(p - start, tag) for p, tag in events if start <= p < stop]
        done += epochs.step(x[start:stop], inside)
    return done


@given(
    st.lists(st.integers(0, 59), max_size=10),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_overlapping_epochs_are_the_same_for_any_split(places: list[int], cuts: list[int]) -> None:
    x = np.arange(60.0)[:, None]
    events = [(p, f"event {p}") for p in sorted(places)]
    done = feed(x, events, cuts)
    expected = [(p, tag) for p, tag in events if p + 7 <= 60]
    assert [(e.position, e.tag) for e in done] == expected
    for epoch in done:
        assert np.array_equal(epoch.samples, x[epoch.position : epoch.position + 7])


def test_cleared_epochs_are_not_returned() -> None:
    epochs: Epochs[int] = Epochs(length=4, n_leads=1)
    assert epochs.step(np.zeros((2, 1)), [(0, 1)]) == []
    epochs.clear()
    assert epochs.step(np.zeros((9, 1))) == []
