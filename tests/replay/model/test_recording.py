"""Blocks are cut at their 242s; found on the way or beforehand, they are the same blocks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.errors import SourceError
from replay.model.events import KnownEvents
from replay.model.recording import PieceReader, block_starts, cut, split_triggers
from replay.model.signal import ArraySignal

codes = st.sampled_from([242, 243, 11, 250])
trigger_lists = st.lists(st.tuples(st.integers(0, 99), codes), max_size=12)


SIGNAL = ArraySignal(np.arange(200, dtype=np.float32).reshape(2, 100))


def packets_of(n_samples, triggers, packet_samples, starts=None):
    signal = ArraySignal(np.arange(n_samples, dtype=np.float32)[None])
    return list(cut(PieceReader(signal, KnownEvents(triggers), 17), packet_samples, starts))


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


def test_samples_before_the_first_242_is_block_0s():
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


# --- reading in pieces --------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 60)), max_size=20), st.integers(1, 50))
def test_reading_in_pieces_gives_the_signal_in_any_order(spans, piece):
    reader = PieceReader(SIGNAL, KnownEvents(()), piece)
    for start, length in spans:
        stop = min(start + length, 100)
        np.testing.assert_array_equal(reader.read(start, stop), SIGNAL.read(start, stop))


def test_a_packet_inside_a_piece_is_a_view_of_it():
    reader = PieceReader(SIGNAL, KnownEvents(()), 50)
    first, second = reader.read(0, 10), reader.read(10, 20)
    assert first.base is second.base
    assert first.base is not None
    assert second.flags.c_contiguous


def test_a_bad_sample_spoils_its_own_packet_only():
    class Broken(ArraySignal):
        def read(self, start, stop):
            if start <= 55 < stop:
                raise SourceError("cut off")
            return super().read(start, stop)

    reader = PieceReader(Broken(SIGNAL.data), KnownEvents(((52, 7),)), 20)
    np.testing.assert_array_equal(reader.read(45, 55), SIGNAL.read(45, 55))
    assert reader.between(45, 55) == ((52, 7),)
    with pytest.raises(SourceError, match="cut off"):
        reader.read(55, 60)
    np.testing.assert_array_equal(reader.read(60, 70), SIGNAL.read(60, 70))
