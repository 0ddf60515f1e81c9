"""Blocks are cut at their 242s; found on the way or beforehand, they are the same blocks."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.model.events import KnownEvents
from replay.model.recording import block_starts, cut, split_triggers
from replay.model.signal import ArraySignal

codes = st.sampled_from([242, 243, 11, 250])
trigger_lists = st.lists(st.tuples(st.integers(0, 99), codes), max_size=12)


class Stretch(ArraySignal):
    def __init__(self, n_samples, triggers):
        super().__init__(np.arange(n_samples, dtype=np.float32)[None])
        object.__setattr__(self, "between", KnownEvents(triggers).between)


def packets_of(n_samples, triggers, packet_samples, starts=None):
    return list(cut(Stretch(n_samples, triggers), packet_samples, starts))


@settings(deadline=None)
@given(trigger_lists, st.integers(1, 30))
def test_blocks_found_on_the_way_are_those_known_beforehand(triggers, packet_samples):
    ordered = KnownEvents(triggers).all()
    packets = packets_of(100, triggers, packet_samples)
    blocks = split_triggers(100, ordered, block_starts(ordered))
    streamed = [
        (
            sum(len(p.samples) for p in packets if p.block == number),
            tuple((p.start + o, c) for p in packets if p.block == number for o, c in p.triggers),
        )
        for number in range(packets[-1].block + 1)
    ]
    assert streamed == blocks


@settings(deadline=None)
@given(trigger_lists, st.integers(1, 30))
def test_no_sample_is_lost_and_start_counts_within_its_block(triggers, packet_samples):
    packets = packets_of(100, triggers, packet_samples)
    values = np.concatenate([packet.samples[:, 0] for packet in packets])
    np.testing.assert_array_equal(values, np.arange(100))
    for before, after in pairwise(packets):
        if before.last_of_block:
            assert (after.start, after.block) == (0, before.block + 1)
        else:
            assert after.start == before.start + len(before.samples)
            assert len(before.samples) == packet_samples
    assert packets[-1].last_of_block


def test_what_stands_before_the_first_242_is_block_0s():
    packets = packets_of(100, [(0, 250), (30, 242), (60, 242)], 10)
    assert [(p.block, p.start) for p in packets if p.start == 0] == [(0, 0), (1, 0)]
    assert block_starts(((0, 250), (30, 242), (60, 242))) == (0, 60)


def test_a_242_just_behind_a_packet_ends_that_block_with_it():
    packets = packets_of(40, [(0, 242), (20, 242)], 10)
    assert [p.last_of_block for p in packets] == [False, True, False, True]
    assert packets[2].triggers == ((0, 242),)


def test_a_242_inside_a_packet_cuts_it_short():
    packets = packets_of(40, [(0, 242), (25, 242)], 10)
    assert [len(p.samples) for p in packets] == [10, 10, 5, 10, 5]


def test_declared_starts_overrule_the_242s():
    packets = packets_of(40, [(0, 242), (25, 242)], 10, starts=(0, 12))
    assert [(p.block, len(p.samples)) for p in packets] == [
        (0, 10), (0, 2), (1, 10), (1, 10), (1, 8),
    ]  # fmt: skip
