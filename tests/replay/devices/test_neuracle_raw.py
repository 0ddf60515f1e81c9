"""The raw format: the same samples for any split of the bytes, and nothing that is misaligned."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.packet import Lead
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.neuracle.raw import PROOF_ROWS, MisalignedError, RawParser, encode_rows


def info(channels: int) -> DeviceInfo:
    return DeviceInfo(1000.0, tuple(Lead(f"ch{i}") for i in range(channels)))


def eeg(n: int, channels: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 20, (n, channels)).astype(np.float32)


def joined(chunks: list[Chunk]) -> tuple[np.ndarray, list[tuple[int, int]]]:
    triggers, at = [], 0
    for chunk in chunks:
        triggers += [(at + offset, code) for offset, code in chunk.triggers]
        at += chunk.n
    return np.concatenate([chunk.samples for chunk in chunks]), triggers


def fed(parser: RawParser, data: bytes, cuts: list[int]) -> Iterator[Chunk]:
    bounds = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for begin, end in pairwise(bounds):
        yield from parser.feed(data[begin:end])


def feed(parser: RawParser, data: bytes, cuts: list[int]) -> list[Chunk]:
    return list(fed(parser, data, cuts))


TRIGGERS = ((3, 11), (50, 241), (90, 65535))


@settings(max_examples=60)
@given(st.lists(st.integers(0, 10**6)), st.sampled_from(["float", "uint"]), st.integers(1, 9))
def test_any_split_gives_the_same_samples_bit_for_bit(cuts, kind, channels):
    samples = eeg(100, channels)
    chunks = feed(RawParser(info(channels)), encode_rows(samples, TRIGGERS, kind), cuts)
    got, triggers = joined(chunks)
    assert got.tobytes() == samples.tobytes()
    assert tuple(triggers) == TRIGGERS


def test_segments_of_1448_bytes_corrupt_nothing():
    samples = eeg(1000, 64)
    data = encode_rows(samples, ())
    got, _ = joined(feed(RawParser(info(64)), data, list(range(0, len(data), 1448))))
    assert got.tobytes() == samples.tobytes()


def test_an_unfinished_row_is_kept_and_dropped_at_the_connections_end():
    parser, samples = RawParser(info(2)), eeg(80, 2)
    data = encode_rows(samples, ())
    assert joined(parser.feed(data[:-5]))[0].shape[0] == 79
    parser.restart()
    again = parser.feed(data)
    assert joined(again)[0].tobytes() == samples.tobytes()
    assert again[0].lost is None


def test_nothing_is_given_before_enough_rows_were_believed():
    parser, data = RawParser(info(2)), encode_rows(eeg(PROOF_ROWS, 2), ())
    assert parser.feed(data[:-1]) == []
    assert parser.feed(data[-1:])[0].n == PROOF_ROWS


@pytest.mark.parametrize("wrong", [1, 2, 63, 65, 66, 128])
@pytest.mark.parametrize("kind", ["float", "uint"])
def test_a_wrong_channel_count_is_refused_before_anything_is_given(wrong, kind):
    data = encode_rows(eeg(200, 64), ((5, 7),), kind)
    chunks: list[Chunk] = []
    with pytest.raises(MisalignedError, match="channels="):
        chunks.extend(fed(RawParser(info(wrong)), data, list(range(0, len(data), 1448))))
    assert chunks == []


@pytest.mark.parametrize("samples", [eeg(200, 8), np.full((200, 8), 1.0, np.float32)])
def test_swapped_bytes_are_refused(samples):
    swapped = np.frombuffer(encode_rows(samples, ()), "<u4").byteswap().tobytes()
    with pytest.raises(MisalignedError, match="byte order"):
        RawParser(info(8)).feed(swapped)


def test_a_lost_byte_in_mid_stream_is_noticed_and_not_given():
    data = encode_rows(eeg(400, 8), ())
    parser = RawParser(info(8))
    given = parser.feed(data[: 9 * 4 * 100])
    assert given[0].n == 100
    assert parser.feed(data[9 * 4 * 100 + 1 :]) == []
    with pytest.raises(MisalignedError):
        parser.feed(b"")


def test_flat_and_missing_leads_are_no_reason_to_refuse():
    samples = eeg(100, 8)
    samples[:, 2] = 0
    samples[:, 3] = np.nan
    samples[:, 4] = np.inf
    got, _ = joined(RawParser(info(8)).feed(encode_rows(samples, ())))
    assert got.tobytes() == samples.tobytes()


def test_a_held_trigger_is_one_over_any_split():
    samples = eeg(100, 2)
    held = tuple((i, 5) for i in range(30, 60)) + tuple((i, 6) for i in range(60, 62))
    data = encode_rows(samples, held)
    for cuts in ([], list(range(0, len(data), 12)), [45 * 12 + 5]):
        assert joined(feed(RawParser(info(2)), data, cuts))[1] == [(30, 5), (60, 6)]
    each = joined(feed(RawParser(info(2), hold=False), data, [400]))[1]
    assert len(each) == 32


@settings(max_examples=60)
@given(st.lists(st.integers(0, 10**6)), st.integers(0, 119))
def test_the_rows_before_a_wrong_word_are_given_for_any_split(cuts, wrong):
    samples = eeg(120, 2)
    data = bytearray(encode_rows(samples, ((3, 11), (50, 12))))
    data[12 * wrong + 8 : 12 * wrong + 12] = b"\xff\xff\x7f\x41"
    parser = RawParser(info(2))
    chunks: list[Chunk] = []
    with pytest.raises(MisalignedError, match=f"sample {wrong} must be 0 or"):
        chunks.extend(fed(parser, bytes(data) + b"\0", [*cuts, len(data)]))  # at the next bytes
    given = 0 if wrong < PROOF_ROWS else wrong
    assert sum(chunk.n for chunk in chunks) == given
    if given:
        got, triggers = joined(chunks)
        assert got.tobytes() == samples[:given].tobytes()
        assert triggers == [(i, code) for i, code in ((3, 11), (50, 12)) if i < given]


def test_a_new_connection_forgets_the_wrong_word():
    parser, data = RawParser(info(2)), encode_rows(eeg(80, 2), ())
    parser.feed(data + b"\xff" * 12)
    parser.restart()
    assert joined(parser.feed(data))[0].shape[0] == 80
