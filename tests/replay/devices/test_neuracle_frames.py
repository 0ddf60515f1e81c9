"""Frames are found by head, length and tail together, for any split of the bytes."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from replay.devices.neuracle.frames import LONGEST_FRAME, FrameKind, FrameScanner

HEAD, TAIL = b"\x5a\xa5", b"\xa5\x5a"


def _length(header: bytes) -> int:
    return int.from_bytes(header[2:6], "little")


KIND = FrameKind(HEAD, TAIL, 6, _length)


def frame(body: bytes) -> bytes:
    return HEAD + (6 + len(body) + 2).to_bytes(4, "little") + body + TAIL


def scan(stream: bytes, cuts: list[int]) -> tuple[list[tuple[bytes, int]], int]:
    scanner = FrameScanner((KIND,))
    bounds = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    found = []
    for begin, end in pairwise(bounds):
        found += [(f.data, f.skipped) for f in scanner.feed(stream[begin:end])]
    return found, scanner.resyncs


BODY = st.binary(max_size=30)
GARBAGE = st.binary(max_size=20).map(
    lambda raw: raw.replace(b"\x5a", b"\0").replace(b"\xa5", b"\0")
)


@given(st.lists(st.tuples(GARBAGE, BODY), max_size=6), st.lists(st.integers(0, 400)))
def test_any_split_finds_the_same_frames(parts, cuts):
    stream = b"".join(garbage + frame(body) for garbage, body in parts)
    found, resyncs = scan(stream, cuts)
    assert [data for data, _ in found] == [frame(body) for _, body in parts]
    assert [skipped for _, skipped in found] == [len(garbage) for garbage, _ in parts]
    assert resyncs == sum(bool(garbage) for garbage, _ in parts)


@given(st.binary(max_size=200), st.lists(st.integers(0, 200)))
def test_any_bytes_at_all_are_survived_the_same_way_for_any_split(noise, cuts):
    assert scan(noise, cuts) == scan(noise, [])


@given(BODY, BODY, st.lists(st.integers(0, 200)))
def test_a_head_inside_a_body_is_no_frame(before, after, cuts):
    stream = frame(before + HEAD + after) + frame(b"next")
    found, resyncs = scan(stream, cuts)
    assert [data for data, _ in found] == [frame(before + HEAD + after), frame(b"next")]
    assert resyncs == 0


def test_a_wrong_tail_costs_one_frame():
    broken = frame(b"0123456789")[:-2] + b"\0\0"
    found, resyncs = scan(frame(b"a") + broken + frame(b"b"), [])
    assert [data for data, _ in found] == [frame(b"a"), frame(b"b")]
    assert (found[1][1], resyncs) == (len(broken), 1)


def test_an_absurd_length_is_not_waited_for():
    absurd = HEAD + (LONGEST_FRAME + 1).to_bytes(4, "little")
    found, _ = scan(absurd + frame(b"b"), [])
    assert [data for data, _ in found] == [frame(b"b")]


def test_what_is_kept_is_bounded_by_garbage():
    scanner = FrameScanner((KIND,))
    for _ in range(100):
        scanner.feed(bytes(1000))
    assert len(scanner._buffer) <= 1
