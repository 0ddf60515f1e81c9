"""Untrusted text is escaped for the terminal."""

from hypothesis import given
from hypothesis import strategies as st

from decoders.host.limits import escape_text


@given(st.text())
def test_nothing_of_it_is_a_control_sign(text: str) -> None:
    assert all(sign.isprintable() or sign == "\t" for sign in escape_text(text))


def test_plain_words_stay_as_they_are_in_any_language() -> None:
    assert escape_text("KeyError: 'Fz' 想像 é 🙂\tat 3 µV") == "KeyError: 'Fz' 想像 é 🙂\tat 3 µV"


def test_escape_sequences_and_turned_text_are_spelled_out() -> None:
    assert escape_text("\x1b[2J\x07 \u202etxt.exe\r\n") == "\\x1b[2J\\x07 \\u202etxt.exe\\r\\n"


def test_a_line_has_an_end() -> None:
    assert escape_text("x" * 5000, 10) == "xxxxxxxxxx ... (5000 characters)"
