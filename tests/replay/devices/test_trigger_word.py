"""The raw format's trigger word tells by itself whether it is a float or an integer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.devices.neuracle.raw import MisalignedError, TriggerWords

CODES = st.integers(1, 65535)


def as_words(values: list[int], kind: str) -> np.ndarray:
    dtype = "<f4" if kind == "float" else "<u4"
    return np.array(values, dtype=dtype).view("<u4")


@given(st.lists(st.one_of(st.just(0), CODES), min_size=1), st.sampled_from(["float", "uint"]))
def test_every_code_is_read_back_and_its_kind_is_found(values, kind):
    words = TriggerWords()
    assert words.read(as_words(values, kind), 0).tolist() == values
    assert words.kind == (kind if any(values) else None)


def test_all_65535_codes_are_told_apart():
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


def test_the_error_says_how_many_words_were_right_before():
    words = as_words([0, 3, 0, 4, 70000], "uint")
    with pytest.raises(MisalignedError, match="a uint code") as caught:
        TriggerWords().read(words, 0)
    assert caught.value.right == 4
