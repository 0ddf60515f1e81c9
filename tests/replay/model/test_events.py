"""Triggers of a stim channel are the same however it is read."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.errors import SourceError
from replay.model.events import Mark, PlainColumn, StimEvents

rows = st.lists(st.sampled_from([0, 0, 0, 1, 2, 250]), min_size=1, max_size=80)


def stim(values, **options) -> StimEvents:
    row = np.array(values, dtype=np.float32)

    def as_triggers(marks):
        return tuple((mark.sample, int(mark.name)) for mark in marks)

    column = PlainColumn(lambda start, stop: row[start:stop])
    return StimEvents("x", len(row), column, as_triggers)


def by_the_book(values):
    """A trigger is where the channel changes to a value other than 0."""
    before = [0, *values]
    return tuple((k, v) for k, v in enumerate(values) if v and v != before[k])


@settings(deadline=None)
@given(rows)
def test_a_trigger_is_a_new_value_other_than_0(values):
    assert stim(values).all() == by_the_book(values)


@settings(deadline=None)
@given(rows, st.lists(st.integers(1, 20), min_size=1, max_size=20))
def test_any_pieces_give_the_same_triggers(values, sizes):
    events, found, start = stim(values), [], 0
    for size in [*sizes, len(values)]:
        found += events.between(start, start + size)
        start += size
    assert tuple(found) == by_the_book(values)


@pytest.mark.parametrize("value", [1.5, -3, np.nan, 0.004, 0x10000 + 7, np.inf])
def test_what_is_no_code_is_reported_with_its_sample(value):
    with pytest.raises(SourceError, match="at sample 2"):
        stim([0, 0, value]).all()


def test_marks_keep_the_number_as_the_file_has_it():
    assert stim([0, 11]).all_marks() == [Mark(1, "11")]


def test_a_long_channel_searched_by_several_threads_gives_the_same(monkeypatch):
    monkeypatch.setattr("replay.model.events.SCAN_SAMPLES", 7)
    values = np.random.default_rng(5).choice([0, 0, 1, 2], 500).tolist()
    assert stim(values).all() == by_the_book(values)
