"""The small live view of the signal."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.leaderboard.board import SHOWN_LEADS, SHOWN_RATE, SHOWN_S, Monitor

LEADS = tuple(f"L{i}" for i in range(64))


@given(st.lists(st.integers(0, 90), max_size=30))
def test_the_view_is_the_same_for_any_chunking(cuts: list[int]) -> None:
    samples = np.random.default_rng(0).normal(size=(sum(cuts), 64)).astype(np.float32)
    whole, pieces = Monitor(1000, LEADS), Monitor(1000, LEADS)
    whole.add(samples)
    for start, n in zip(np.cumsum([0, *cuts]), cuts, strict=False):
        pieces.add(samples[start : start + n])
    assert whole.whole() == pieces.whole()


def test_only_the_last_seconds_of_a_few_leads_are_kept() -> None:
    monitor = Monitor(1000, LEADS)
    monitor.add(np.zeros((60_000, 64), dtype=np.float32))
    view = monitor.whole()
    assert len(view["leads"]) == SHOWN_LEADS
    assert len(view["columns"]) == round(SHOWN_S * SHOWN_RATE)


def test_news_come_once() -> None:
    monitor = Monitor(250, LEADS[:3])
    monitor.add(np.ones((50, 3), dtype=np.float32))
    news = monitor.news()
    assert news is not None
    assert len(news["columns"]) == 10
    assert monitor.news() is None


def test_values_that_json_cannot_say_are_flat() -> None:
    monitor = Monitor(50, ("a",))
    monitor.add(np.array([[np.nan], [np.inf]], dtype=np.float32))
    assert monitor.whole()["columns"] == [[0.0], [0.0]]
