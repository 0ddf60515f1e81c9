"""Triggers that come beside their samples find them, once, and tell no code."""

import numpy as np
import pytest

from bci_stream.packet import Triggers
from replay.devices.chunk import Chunk
from replay.devices.triggers import MOST_WAITING, LateTriggers


def chunk(n: int = 10, lost: int | None = 0) -> Chunk:
    return Chunk(np.zeros((n, 2), np.float32), (), lost)


def placed(late: LateTriggers, start_ms: float, lost: int | None = 0) -> list[Triggers]:
    return [each.triggers for each in late.add(chunk(lost=lost), start_ms, 1000)]


def test_a_trigger_that_comes_again_after_its_samples_left_is_still_the_same_one():
    late = LateTriggers(0, print)
    late.trigger(3, 51)
    assert placed(late, 0) == [((3, 51),)]
    late.trigger(3, 51)
    assert placed(late, 10) == [()]


def test_what_is_remembered_is_bounded():
    late = LateTriggers(0, print)
    for ms in range(3 * MOST_WAITING):
        late.trigger(ms, 7)
    assert len(late._seen) == MOST_WAITING


def test_lateness_is_told_where_it_grows_and_without_the_code():
    notes: list[str] = []
    late = LateTriggers(0, notes.append)
    for start_ms, late_ms in ((100, 5), (110, 5), (120, 3), (130, 8)):
        late.trigger(start_ms - late_ms, 4711)
        late.add(chunk(), start_ms, 1000)
    assert [note.split(" too late")[0] for note in notes] == [
        "a trigger came 5 ms",
        "a trigger came 8 ms",
    ]
    assert "4711" not in "".join(notes)


@pytest.mark.parametrize(("ms", "expected"), [(12, [((9, 5),)]), (88, [()])])
def test_a_trigger_in_a_gap_stands_on_the_nearest_sample(ms, expected):
    late = LateTriggers(50, print)
    assert placed(late, 0) == []
    late.trigger(ms, 5)
    assert placed(late, 90, lost=None) == expected
