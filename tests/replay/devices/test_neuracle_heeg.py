"""The hEEG format: small frames, found again after garbage, leads and rate as they say."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.devices.neuracle.device import _merge
from replay.devices.neuracle.heeg import HeegParser, encode_frame
from replay.devices.status import StatusKeeper
from replay.devices.triggers import read_text


def frames(n: int, leads: int = 3, rate: int = 1000, codes: dict[int, str] | None = None) -> bytes:
    values = np.arange(n * leads, dtype=np.float32).reshape(n, leads)
    return b"".join(
        encode_frame(values[i : i + 1], rate, (codes or {}).get(i, "")) for i in range(n)
    )


def test_the_frame_byte_for_byte():
    frame = encode_frame(np.array([[1.0, -2.0]], dtype=np.float32), 1000, "51")
    assert frame.hex() == (
        "5aa5" "1a000000" "00000000" "00000000" "02000000" "e8030000" "01000000"
        "0000803f" "000000c0" + b"51".ljust(30, b"\0").hex() + "a55a"
    )  # fmt: skip


@settings(max_examples=50)
@given(st.lists(st.integers(0, 10**5)))
def test_any_split_gives_the_same_chunks(cuts):
    data = frames(20, codes={4: "51", 9: "Trigger-In:7"})
    bounds = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    parser = HeegParser()
    chunks = [c for a, b in pairwise(bounds) for c in parser.feed(data[a:b])]
    assert np.concatenate([c.samples for c in chunks]).ravel().tolist() == list(range(60))
    (whole,) = _merge(chunks, 0.0)
    assert whole.triggers == ((4, 51), (9, 7))


def test_channel_major_frames_of_several_samples_are_turned():
    samples = np.arange(8, dtype=np.float32).reshape(4, 2)
    (chunk,) = HeegParser().feed(encode_frame(samples, 4000, "9"))
    assert chunk.samples.tolist() == samples.tolist()
    assert chunk.triggers == ((0, 9),)


def test_leads_and_rate_come_from_the_frames():
    parser = HeegParser()
    assert parser.info is None
    parser.feed(frames(1, leads=5, rate=500))
    assert parser.info is not None
    assert (parser.info.rate, [lead.name for lead in parser.info.leads]) == (
        500.0,
        ["ch1", "ch2", "ch3", "ch4", "ch5"],
    )


def test_a_montage_must_name_every_lead():
    with pytest.raises(SourceError, match="montage= names 2 leads, but the device has 3"):
        HeegParser((Lead("C3"), Lead("C4"))).feed(frames(1))


@pytest.mark.parametrize("other", [{"leads": 4}, {"rate": 500}])
def test_an_amplifier_that_changes_is_refused(other):
    parser = HeegParser()
    parser.feed(frames(2))
    with pytest.raises(SourceError, match="start the replay again"):
        parser.feed(frames(1, **other))


def test_after_garbage_the_gap_is_of_unknown_length():
    parser = HeegParser()
    data = frames(2) + b"\x5a\xa5garbage" + frames(2)
    assert [(chunk.n, chunk.lost) for chunk in parser.feed(data)] == [(2, 0), (2, None)]
    assert parser.resyncs == 1


def test_a_new_connection_is_a_gap_and_its_half_frame_is_dropped():
    parser = HeegParser()
    parser.feed(frames(2)[:-10])
    parser.restart()
    assert [(chunk.n, chunk.lost) for chunk in parser.feed(frames(2))] == [(2, None)]
    assert [chunk.lost for chunk in parser.feed(frames(1))] == [0]


def test_triggers_of_frames_that_are_read_together_are_where_they_were_sent():
    values = np.zeros((4, 2), dtype=np.float32)
    texts = ["", "5", "5", "", "", "5", "6", "soon"]
    notes: list[str] = []
    parser = HeegParser(note=notes.append)
    (chunk,) = parser.feed(b"".join(encode_frame(values, 4000, text) for text in texts))
    assert chunk.n == 32
    assert chunk.triggers == ((4, 5), (20, 5), (24, 6))
    assert "'soon' is not a whole number" in notes[0]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"51", 51), (b"Trigger-In:51", 51), (b" 7 ", 7), (b"", 0), (b"\0\0", 0), (b"0", 0),
        (b"start", None), (b"5 1", None), (b"123456", None), (b"-5", None),
        (b"65535", 65535), (b"65536", None), (b"In:99999", None), ("٥".encode(), None),
    ],
)  # fmt: skip
def test_trigger_texts(text, code):
    notes: list[str] = []
    assert read_text(text.ljust(30, b"\0"), notes.append) == (code or 0)
    assert len(notes) == (code is None)


def test_a_text_without_a_number_is_reported_and_ignored():
    notes: list[str] = []
    parser = HeegParser(note=notes.append)
    (chunk,) = parser.feed(encode_frame(np.ones((1, 2), np.float32), 1000, "start"))
    assert chunk.triggers == ()
    (note,) = notes
    assert "'start' is not a whole number" in note


def test_a_text_in_every_frame_is_one_note():
    keeper, notes = StatusKeeper("amp"), []
    keeper.listen(lambda status: notes.append(status.detail))
    parser = HeegParser(note=keeper.note_once)
    for _ in range(20):
        parser.feed(frames(50, codes=dict.fromkeys(range(50), "NULL")))
    assert len(notes) == 1


@pytest.mark.parametrize("lost", [1, 2, 7])
def test_frames_that_are_broken_are_counted(lost):
    values = np.zeros((2, 3), dtype=np.float32)
    frame = encode_frame(values, 2000)
    broken = (frame[:-2] + b"\0\0") * lost
    chunks = HeegParser().feed(frame + broken + frame)
    assert [(chunk.n, chunk.lost) for chunk in chunks] == [(2, 0), (2, 2 * lost)]
