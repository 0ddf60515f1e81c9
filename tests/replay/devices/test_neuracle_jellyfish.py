"""JellyFish: meta names the leads, device time numbers the samples and places the triggers."""

from contextlib import suppress
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.devices.chunk import Chunk
from replay.devices.emulator.encoders import SERIAL, JellyfishEncoder, SignalPiece
from replay.devices.neuracle.jellyfish import JellyfishParser
from replay.devices.neuracle.jellyfish_frames import (
    ACKNOWLEDGE,
    JellyfishChannel,
    Meta,
    Module,
    decode_data,
    decode_meta,
    encode_data,
    encode_meta,
)

LEADS = (Lead("C3"), Lead("Cz"), Lead("HEO", "EOG"))


def piece(number: int, n: int, triggers: tuple[tuple[int, int], ...] = ()) -> SignalPiece:
    samples = np.tile(np.arange(number, number + n, dtype=np.float32)[:, None], (1, len(LEADS)))
    return SignalPiece(samples, triggers, number)


def stream(
    encoder: JellyfishEncoder, frames: int, triggers: dict[int, tuple[tuple[int, int], ...]]
) -> list[bytes]:
    n = encoder.piece_samples
    return [encoder.encode(piece(i * n, n, triggers.get(i, ()))) for i in range(frames)]


def counted(chunks: list[Chunk]) -> list[int]:
    return [int(value) for chunk in chunks for value in chunk.samples[:, 0]]


def triggers_of(chunks: list[Chunk]) -> list[tuple[int, int]]:
    return [(int(c.samples[offset, 0]), code) for c in chunks for offset, code in c.triggers]


@pytest.mark.parametrize("whole", [True, False])
@settings(max_examples=40)
@given(cuts=st.lists(st.integers(0, 10**5)))
def test_any_split_gives_the_same_chunks(whole, cuts):
    encoder = JellyfishEncoder(1000, LEADS, whole)
    data = encoder.greeting() + b"".join(stream(encoder, 12, {2: ((1, 7), (3, 8))}))
    bounds = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    parser = JellyfishParser(hold_ms=0)
    chunks = [c for a, b in pairwise(bounds) for c in parser.feed(data[a:b])]
    n = encoder.piece_samples
    assert counted(chunks) == list(range(12 * n))
    expected = [(2 * n + 1, 7), (2 * n + 3, 8)]
    # Without holding back, a trigger frame that follows its samples lands on the next ones.
    assert triggers_of(chunks) == (expected if whole else [(3 * n, 7), (3 * n, 8)])


def test_meta_survives_its_bytes():
    meta = Meta(
        3,
        (
            Module(7, "W8", (JellyfishChannel("C3", "EEG", 1000, 5),), "Ann", "EEG"),
            Module(0, "", ()),
        ),
    )
    assert decode_meta(encode_meta(meta)) == meta


def test_the_meta_header_byte_for_byte():
    frame = encode_meta(
        Meta(1, (Module(7, "W8", (JellyfishChannel("C3", "EEG", 1000, 5),), "Ann", "EEG"),))
    )
    total = 18 + 4 + 98 + 45 + 2
    assert len(frame) == total
    assert frame[:22].hex() == "5ff5" "12000000" + total.to_bytes(4, "little").hex() + (
        "01000000" "01000000" "16000000"
    )  # fmt: skip
    assert frame[22:25] == b"Ann"
    assert frame[-2:].hex() == "f55f"


def test_the_data_frame_byte_for_byte():
    frame = encode_data(0, 2**32 + 5, 1, {7: [np.array([1.0], np.float32)]}, [(6, "51")])
    total = 30 + 4 + 4 + 1 + 4 + 4 + 30 + 2
    assert frame.hex() == (
        "5aa5" "1e000000" + total.to_bytes(4, "little").hex() + "05000000" "01000000" "01000000"
        "00000000" "01000000" "22000000" "07000000" "01" "0000803f" "06000000"
        + b"51".ljust(30, b"\0").hex() + "a55a"
    )  # fmt: skip
    meta = Meta(0, (Module(7, "", (JellyfishChannel("C3", "EEG", 1000, 1),)),))
    data = decode_data(frame, meta)
    assert (data.start_ms, data.length_ms, data.values[7].tolist()) == (5, 1, [1.0])
    assert data.triggers == ((6, b"51".ljust(30, b"\0")),)


def test_leads_come_from_meta_with_their_kinds_and_meta_is_acknowledged():
    parser = JellyfishParser()
    assert parser.feed(JellyfishEncoder(500, LEADS).greeting()) == []
    assert parser.reply() == ACKNOWLEDGE
    assert parser.reply() == b""
    assert parser.info is not None
    assert (parser.info.rate, parser.info.leads) == (500.0, LEADS)


def test_meta_that_repeats_is_acknowledged_again_and_changes_nothing():
    encoder, parser = JellyfishEncoder(1000, LEADS), JellyfishParser()
    parser.feed(encoder.greeting() * 2)
    assert parser.reply() == ACKNOWLEDGE
    assert counted(parser.feed(stream(encoder, 1, {})[0])) == list(range(40))


def test_meta_that_changes_is_refused():
    parser = JellyfishParser()
    parser.feed(JellyfishEncoder(1000, LEADS).greeting())
    parser.restart()
    with pytest.raises(SourceError, match="changed since the stream began"):
        parser.feed(JellyfishEncoder(1000, LEADS[:2]).greeting())


def test_data_before_meta_is_waited_over():
    encoder, parser = JellyfishEncoder(1000, LEADS), JellyfishParser()
    first, second = stream(encoder, 2, {})
    assert parser.feed(first + encoder.greeting()) == []
    assert counted(parser.feed(second)) == list(range(40, 80))


@pytest.mark.parametrize("first_ms", [0, 2**32 - 100, 2**32 - 40, 2**31 - 50])
def test_a_wrap_of_device_time_is_no_gap(first_ms):
    encoder, parser = JellyfishEncoder(1000, LEADS), JellyfishParser()
    encoder.first_ms = first_ms
    parser.feed(encoder.greeting())
    chunks = parser.feed(b"".join(stream(encoder, 6, {})))
    assert counted(chunks) == list(range(240))
    assert [chunk.lost for chunk in chunks] == [0] * 6


def test_gaps_are_counted_and_repeats_dropped():
    encoder, parser = JellyfishEncoder(500, LEADS), JellyfishParser()
    sent = stream(encoder, 8, {})
    chunks = parser.feed(encoder.greeting() + sent[0] + sent[1] + sent[1] + sent[0] + sent[5])
    assert [(c.lost, int(c.samples[0, 0])) for c in chunks] == [(0, 0), (0, 20), (60, 100)]


def test_a_gap_over_a_reconnect_is_exact():
    encoder, parser = JellyfishEncoder(1000, LEADS), JellyfishParser()
    sent = stream(encoder, 100, {})
    parser.feed(encoder.greeting() + sent[0] + sent[1][:50])
    parser.restart()
    (chunk,) = parser.feed(encoder.greeting() + sent[60])
    assert chunk.lost == 59 * 40


def test_after_a_restart_the_loss_is_unknown():
    encoder, parser = JellyfishEncoder(1000, LEADS), JellyfishParser()
    encoder.first_ms = 50_000
    parser.feed(encoder.greeting() + stream(encoder, 1, {})[0])
    encoder.first_ms = 0
    (chunk,) = parser.feed(stream(encoder, 1, {})[0])
    assert chunk.lost is None


def test_triggers_at_1000_hz_on_leads_at_500_hz_keep_their_time_and_each_other():
    encoder, parser = JellyfishEncoder(500, LEADS), JellyfishParser()
    parser.feed(encoder.greeting())
    line = np.zeros(40, np.float32)
    line[[10, 11, 30]] = (5, 6, 7)
    signal = list(np.tile(np.arange(20, dtype=np.float32), (3, 1)))
    (chunk,) = parser.feed(encode_data(0, 0, 40, {SERIAL: [*signal, line]}))
    assert chunk.triggers == ((5, 5), (5, 6), (15, 7))


@pytest.mark.parametrize("rate", [250, 500, 1000, 2000])
def test_module_triggers_find_their_samples_whichever_frame_comes_first(rate):
    encoder, parser = JellyfishEncoder(rate, LEADS, whole=False), JellyfishParser()
    n, back = encoder.piece_samples, max(1, rate // 1000)  # device time has whole milliseconds
    sent = stream(encoder, 30, {4: ((n - back, 51),), 9: ((0, 52),)})
    chunks = parser.feed(encoder.greeting() + b"".join(sent))
    assert triggers_of(chunks) == [(5 * n - back, 51), (9 * n, 52)]
    signal_first = len(encoder.encode(piece(9 * n, n)))
    swapped = sent[9][signal_first:] + sent[9][:signal_first]
    again = JellyfishParser()
    chunks = again.feed(encoder.greeting() + b"".join([*sent[:9], swapped, *sent[10:]]))
    assert triggers_of(chunks) == [(5 * n - back, 51), (9 * n, 52)]


def test_a_trigger_that_is_too_late_is_placed_on_the_next_sample_and_is_reported():
    notes: list[str] = []
    parser = JellyfishParser(hold_ms=10, note=notes.append)
    encoder = JellyfishEncoder(1000, LEADS, whole=False)
    sent = stream(encoder, 20, {})
    parser.feed(encoder.greeting() + b"".join(sent[:10]))
    late = encode_data(1, 12, 1, {0: [np.array([9], np.float32)]})
    chunks = parser.feed(late + b"".join(sent[10:]))
    assert triggers_of(chunks) == [(40, 9)]
    assert "a trigger came 28 ms too late" in notes[0]


def test_texts_and_channel_of_one_trigger_are_one_trigger():
    encoder, parser = JellyfishEncoder(1000, LEADS, whole=False), JellyfishParser(hold_ms=0)
    signal = {SERIAL: list(piece(0, 5).samples.T)}
    box = encode_data(1, 3, 1, {0: [np.array([51], np.float32)]})
    (chunk,) = parser.feed(encoder.greeting() + box + encode_data(1, 0, 5, signal, [(3, "51")]))
    assert chunk.triggers == ((3, 51),)


def test_held_back_samples_say_how_many_newer_ones_have_come():
    encoder, parser = JellyfishEncoder(1000, LEADS, whole=False), JellyfishParser(hold_ms=20)
    chunks = parser.feed(encoder.greeting() + b"".join(stream(encoder, 5, {})))
    assert [(counted([c]), c.newer) for c in chunks] == [([0, 1, 2, 3, 4], 20)]


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e20, -1e20])
@pytest.mark.parametrize("whole", [True, False])
def test_a_trigger_line_that_is_no_code_is_no_trigger(value, whole):
    encoder, parser = JellyfishEncoder(1000, LEADS, whole), JellyfishParser(hold_ms=0)
    n, bad = encoder.piece_samples, np.array([value], np.float32)
    signal = list(piece(0, n).samples.T)
    if whole:
        data = encode_data(0, 0, n, {SERIAL: [*signal, np.repeat(bad, n)]})
    else:
        data = encode_data(1, 0, 1, {0: [bad]}) + encode_data(1, 0, n, {SERIAL: signal})
    (chunk,) = parser.feed(encoder.greeting() + data)
    assert chunk.triggers == ()


def test_several_boxes_need_a_choice():
    channels = (JellyfishChannel("C3", "EEG", 1000, 5),)
    meta = encode_meta(Meta(1, (Module(7, "W8", channels), Module(9, "W64", channels))))
    with pytest.raises(SourceError, match=r"2 boxes that measure.*W8 \(7\), W64 \(9\).*module="):
        JellyfishParser().feed(meta)
    with pytest.raises(SourceError, match="0 boxes named W9"):
        JellyfishParser(module="W9").feed(meta)
    for wanted in ("W64", "9"):
        parser = JellyfishParser(module=wanted, hold_ms=0)
        parser.feed(meta)
        (chunk,) = parser.feed(encode_data(1, 0, 5, {9: [np.ones(5, np.float32)]}))
        assert chunk.samples.shape == (5, 1)


def test_leads_of_another_rate_stay_out():
    channels = (JellyfishChannel("C3", "EEG", 1000, 5), JellyfishChannel("ACC", "ACC", 100, 1))
    parser = JellyfishParser(hold_ms=0)
    parser.feed(encode_meta(Meta(1, (Module(7, "W8", channels),))))
    assert parser.info is not None
    assert parser.info.leads == (Lead("C3"),)


def test_a_lead_that_is_not_measured_is_reported_once():
    channels = (JellyfishChannel("C3", "EEG", 1000, 2),)
    notes: list[str] = []
    parser = JellyfishParser(hold_ms=0, note=notes.append)
    parser.feed(encode_meta(Meta(1, (Module(7, "W8", channels),))))
    frame = encode_data(1, 0, 2, {7: [np.ones(2, np.float32)]})
    at = 30 + 4 + 4
    unmeasured = frame[:at] + b"\0" + frame[at + 1 :]
    parser.feed(unmeasured)
    parser.feed(encode_data(1, 2, 2, {7: [np.ones(2, np.float32)]}))
    parser.feed(unmeasured)
    assert notes == ["the amplifier marks lead C3 as not measured"]


def test_a_frame_that_contradicts_its_meta_is_ignored_and_reported():
    notes: list[str] = []
    encoder, parser = JellyfishEncoder(1000, LEADS), JellyfishParser(note=notes.append)
    sent = stream(encoder, 3, {})
    wrong = encode_data(0, 40, 40, {SERIAL: [np.ones(40, np.float32)]})
    chunks = parser.feed(encoder.greeting() + sent[0] + wrong + sent[2])
    assert [c.lost for c in chunks] == [0, 40]
    assert "unlike in its meta frame" in notes[0]


def test_a_meta_frame_that_promises_absurd_frames_is_ignored():
    channels = tuple(JellyfishChannel(f"ch{i}", "EEG", 1000, 2**32 - 1) for i in range(64))
    notes: list[str] = []
    parser = JellyfishParser(note=notes.append)
    assert parser.feed(encode_meta(Meta(0, (Module(7, "W8", channels),)))) == []
    assert parser.info is None
    assert "values in a data frame, which do not fit" in notes[0]


@settings(max_examples=100)
@given(st.binary(max_size=300), st.integers(0, 10**6))
def test_broken_bytes_in_frames_never_raise_anything_but_our_errors(noise, where):
    encoder, parser = JellyfishEncoder(1000, LEADS, whole=False), JellyfishParser()
    data = bytearray(encoder.greeting() + b"".join(stream(encoder, 4, {1: ((0, 3),)})))
    at = where % len(data)
    data[at : at + len(noise)] = noise
    with suppress(SourceError):
        parser.feed(bytes(data))
