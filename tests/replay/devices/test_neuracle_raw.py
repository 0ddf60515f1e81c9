"""Neuracle's raw format: rows and trigger words."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.packet import Lead
from replay.devices.chunk import Chunk, DeviceInfo
from replay.devices.neuracle.raw import (
    PROOF_ROWS,
    MisalignedError,
    RawParser,
    TriggerWords,
    encode_rows,
)


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


def test_nothing_is_given_before_enough_rows_were_accepted():
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


CODES = st.integers(1, 65535)


def as_words(values: list[int], kind: str) -> np.ndarray:
    dtype = "<f4" if kind == "float" else "<u4"
    return np.array(values, dtype=dtype).view("<u4")


@given(st.lists(st.one_of(st.just(0), CODES), min_size=1), st.sampled_from(["float", "uint"]))
def test_every_code_is_read_back_and_its_kind_is_found(values, kind):
    words = TriggerWords()
    assert words.read(as_words(values, kind), 0).tolist() == values
    assert words.kind == (kind if any(values) else None)


def test_all_65535_codes_are_distinguished():
    codes = list(range(1, 65536))
    for kind in ("float", "uint"):
        for first in (1, 2, 255, 256, 65535):
            words = TriggerWords()
            assert words.read(as_words([first], kind), 0)[0] == first
            assert words.kind == kind
        assert TriggerWords().read(as_words(codes, kind), 0).tolist() == codes


@given(st.floats(width=32, allow_nan=True, allow_infinity=True))
def test_a_value_of_signal_in_its_place_is_refused(value):
    is_code = np.isfinite(value) and 1 <= value <= 65535 and value == int(value)
    bits = int(np.array([value], "<f4").view("<u4")[0])
    if is_code or bits & 0x7FFFFFFF <= 0xFFFF:
        return
    with pytest.raises(MisalignedError, match=r"sample 7 .*channels="):
        TriggerWords().read(np.array([bits], "<u4"), 7)


def test_minus_zero_is_no_trigger():
    assert TriggerWords().read(as_words([-0.0], "float"), 0).tolist() == [0]


@pytest.mark.parametrize(("first", "then"), [("float", "uint"), ("uint", "float")])
def test_a_stream_does_not_change_its_kind(first, then):
    words = TriggerWords()
    words.read(as_words([5], first), 0)
    with pytest.raises(MisalignedError, match=f"a {first} code"):
        words.read(as_words([6], then), 1)


def test_a_forced_kind_refuses_the_other():
    assert TriggerWords("uint").read(as_words([9], "uint"), 0).tolist() == [9]
    with pytest.raises(MisalignedError, match="a uint code"):
        TriggerWords("uint").read(as_words([9], "float"), 0)
    with pytest.raises(MisalignedError, match="a float code"):
        TriggerWords("float").read(as_words([9], "uint"), 0)


def test_the_message_names_the_first_wrong_sample():
    words = as_words([0, 3, 0], "uint")
    words[2] = np.array([12.5], "<f4").view("<u4")[0]
    with pytest.raises(MisalignedError, match=r"sample 102 .* got 0x41480000 \(12.5 as a float\)"):
        TriggerWords().read(words, 100)


def test_the_error_has_the_number_of_correct_words():
    words = as_words([0, 3, 0, 4, 70000], "uint")
    with pytest.raises(MisalignedError, match="a uint code") as caught:
        TriggerWords().read(words, 0)
    assert caught.value.right == 4
