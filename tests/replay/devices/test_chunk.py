"""Chunks of any size become packets of one size; a gap begins a new segment."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.devices.chunk import Packetiser, Placed
from replay.model.source import RawPacket


def placed(start: int, n: int, triggers: tuple[tuple[int, int], ...] = ()) -> Placed:
    values = np.arange(start, start + n, dtype=np.float32)
    return Placed(np.column_stack([values, -values]), triggers, start)


def cut(chunks: list[Placed], size: int) -> list[RawPacket]:
    packetiser = Packetiser(size, stamp=lambda index: index / 100)
    packets = [packet for chunk in chunks for packet in packetiser.push(chunk)]
    return packets + list(packetiser.flush(last_of_block=True))


@given(st.lists(st.integers(1, 90), min_size=1, max_size=20), st.integers(1, 50))
def test_packets_do_not_depend_on_the_chunks(sizes, size):
    total = sum(sizes)
    triggers = tuple((i, i % 7 + 1) for i in range(0, total, 11) for _ in range(2))
    starts = np.cumsum([0, *sizes[:-1]])
    chunks = [
        placed(int(s), n, tuple((i - int(s), c) for i, c in triggers if s <= i < s + n))
        for s, n in zip(starts, sizes, strict=True)
    ]
    packets, at_once = cut(chunks, size), cut([placed(0, total, triggers)], size)
    assert [(p.start, p.triggers, p.stamp) for p in packets] == [
        (p.start, p.triggers, p.stamp) for p in at_once
    ]
    assert all(
        p.samples.tobytes() == q.samples.tobytes() for p, q in zip(packets, at_once, strict=True)
    )
    assert [p.start for p in packets] == list(range(0, total, size))
    assert all(p.samples.flags.c_contiguous and p.samples.dtype == np.float32 for p in packets)


def test_a_packet_is_stamped_with_its_last_sample():
    packets = cut([placed(0, 25)], 10)
    assert [p.stamp for p in packets] == [0.09, 0.19, 0.24]
    assert [p.last_of_block for p in packets] == [False, False, True]


def test_a_gap_ends_a_packet_early_and_the_next_one_begins_after_it():
    packets = cut([placed(0, 25), placed(100, 25, ((0, 5),))], 10)
    assert [(p.start, len(p.samples)) for p in packets] == [
        (0, 10), (10, 10), (20, 5), (100, 10), (110, 10), (120, 5),
    ]  # fmt: skip
    assert packets[3].triggers == ((0, 5),)
    assert packets[3].samples[0, 0] == 100


@pytest.mark.parametrize("n", [0, 10])
def test_no_packet_is_empty(n):
    assert [len(p.samples) for p in cut([placed(0, n)] if n else [], 10)] == [10] * bool(n)


def test_what_came_before_a_gap_is_stamped_by_the_clock_of_its_own_time():
    clock = {"offset": 0.0}
    packetiser = Packetiser(10, stamp=lambda index: clock["offset"] + index / 100)
    assert list(packetiser.push(placed(0, 4))) == []
    clock["offset"] = 5.0  # as a clock does that counts anew after a gap
    (short,) = packetiser.push(placed(300, 4))
    assert (short.start, len(short.samples), short.stamp) == (0, 4, 0.03)
    (rest,) = packetiser.flush()
    assert rest.stamp == pytest.approx(8.03)
