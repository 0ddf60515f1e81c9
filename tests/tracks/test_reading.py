"""How a result is read: common rules, and those of each track."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracks import emotion, erp, mi, turing
from tracks.common.numbers import read_int, read_number

NUMBERS = [
    (1, 1),
    (2.0, 2),
    (-3, -3),
    (np.int8(2), 2),
    (np.uint64(7), 7),
    (np.float32(3.0), 3),
    ("1", 1),
    ("+1", 1),
    ("-2", -2),
    (" 1.0 ", 1),
    ("\t3\r\n", 3),
    ("\v2\f", 2),
    ("1.", 1),
    ("1e0", 1),
    ("1E0", 1),
    ("10e-1", 1),
    ("0.2e+1", 2),
    ("0003", 3),
    ("2.000", 2),
    (10**30, 10**30),
]
UNREADABLE = [
    True,
    False,
    np.True_,
    None,
    math.nan,
    math.inf,
    -math.inf,
    1.5,
    np.float64(1.5),
    np.float64("nan"),
    "",
    " ",
    "one",
    "1.5",
    ".1e1",
    "1 0",
    "1_0",
    "0x1",
    "1e",
    "e1",
    "--1",
    "+ 1",
    "1e400",
    "nan",
    "inf",
    "Infinity",
    "١",
    "１",
    "²",
    "\u00a01",
    "\u30001",
    "1\x00",
    [1],
    (1,),
    {"a": 1},
    b"1",
    1 + 0j,
    np.array(1),
    np.array([1]),
    pytest.param(object(), id="object"),
]


@pytest.mark.parametrize(("result", "number"), NUMBERS, ids=repr)
def test_number_is_read(result, number):
    assert read_number(result) == number


@pytest.mark.parametrize("result", UNREADABLE, ids=repr)
def test_anything_else_cannot_be_read(result):
    assert read_number(result) is None


def test_a_number_too_long_for_python_cannot_be_read():
    assert read_number("9" * 5000) is None


@given(
    st.integers(-(10**9), 10**9), st.text(" \t", max_size=3), st.sampled_from(["", ".0", ".", "e0"])
)
def test_every_spelling_of_an_integer_is_that_integer(number, blanks, tail):
    assert read_number(f"{blanks}{number}{tail}{blanks}") == number
    assert read_number(float(number)) == read_number(number) == number


@given(st.text())
def test_a_text_with_other_than_ascii_is_never_read(text):
    if not text.isascii():
        assert read_number(text) is None


@pytest.mark.parametrize("result", [True, 1.0, "1", np.float32(1), np.True_, None, [1]])
def test_read_int_takes_integers_only(result):
    assert read_int(result) is None


@pytest.mark.parametrize(
    ("result", "number"),
    [
        (1, 1),
        (2, 2),
        (3, 3),
        ("left", 1),
        ("Right", 2),
        (" FEET\n", 3),
        ("3.0", 3),
        (0, None),
        (4, None),
        (11, None),
        ("lefty", None),
        ("le ft", None),
        ("ﬁ", None),
        (["left"], None),
        (True, None),
    ],
    ids=repr,
)
def test_mi_reads_numbers_and_words(result, number):
    assert mi.read(result) == number


@pytest.mark.parametrize("result", [0, 8, -1, 9, 1.5, "Left-MI", True])
def test_turing_reads_one_to_seven_only(result):
    assert turing.read(result) is None
    assert [turing.read(number) for number in range(1, 8)] == list(range(1, 8))


@pytest.mark.parametrize("result", [-1, 9, 3.0, "3", True, None, [3], np.float64(3)])
def test_emotion_reads_integers_of_0_to_8_only(result):
    assert emotion.read(result) is None
    assert [emotion.read(np.int64(number)) for number in range(9)] == list(range(9))


@pytest.mark.parametrize(
    ("result", "character"),
    [
        ("A", "A"),
        ("z", "Z"),
        (" q ", "Q"),
        ("_", "_"),
        ("1", "1"),
        (" 9\t", "9"),
        (1, "A"),
        (1.0, "A"),
        ("1.0", "A"),
        ("01", "A"),
        ("+1", "A"),
        (26, "Z"),
        (27, "1"),
        ("35", "9"),
        (36, "_"),
        (101, "A"),
        ("136", "_"),
        ("120.0", "T"),
    ],
    ids=repr,
)
def test_erp_reads_characters_and_numbers(result, character):
    assert erp.CLASSES[erp.read(result)] == character


@pytest.mark.parametrize(
    "result",
    ["0", "", "  ", "AB", "é", "ſ", "ı", "１", "-", 0, 37, 100, 137, True, None, "-1", 1.5, "10 1"],
    ids=repr,
)
def test_erp_refuses_what_is_no_character(result):
    assert erp.read(result) is None
