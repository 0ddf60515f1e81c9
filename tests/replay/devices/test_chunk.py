"""Chunks can be merged without changing a sample, a trigger or a gap."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from replay.devices.chunk import Chunk
from replay.devices.neuracle.device import _merge
from replay.devices.timing import SampleTimeline

SIZES = st.lists(st.tuples(st.integers(1, 5), st.sampled_from([0, 0, 0, 7, None])), min_size=1)


def chunks_of(sizes: list[tuple[int, int | None]]) -> list[Chunk]:
    chunks, at = [], 0
    for n, lost in sizes:
        values = np.arange(at, at + n, dtype=np.float32)
        triggers = ((0, at + 1), (n - 1, at + 2))
        chunks.append(Chunk(np.column_stack([values, values]), triggers, lost))
        at += n
    return chunks


def placed(chunks: list[Chunk]) -> tuple[list[int], list[float], list[tuple[int, int]]]:
    line, numbers, values, triggers = SampleTimeline(100), [], [], []
    for chunk in chunks:
        at = line.place(chunk, 5.0)
        numbers += range(at.start, at.stop)
        values += at.samples[:, 0].tolist()
        triggers += [(at.start + offset, code) for offset, code in at.triggers]
    return numbers, values, triggers


@given(SIZES)
def test_merged_chunks_hold_the_same_samples_triggers_and_gaps(sizes):
    chunks = chunks_of(sizes)
    fewer = _merge(chunks, 5.0)
    assert placed(fewer) == placed(chunks)
    assert len(fewer) == 1 + sum(lost != 0 for _, lost in sizes[1:])


def test_what_is_held_back_is_told_by_the_last_one():
    first, second = chunks_of([(3, 0), (2, 0)])
    held = [Chunk(first.samples, newer=20), Chunk(second.samples, newer=18)]
    assert [chunk.newer for chunk in _merge(held, 5.0)] == [18]
