"""Signed and sealed texts."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.errors import WireError
from bci_stream.wire.crypto import proof, seal, sign, unseal, verified

KEY = b"k" * 32

texts = st.text(st.characters(codec="utf-8"), max_size=200)
keys = st.binary(min_size=1, max_size=64)


@given(texts, keys)
def test_what_was_signed_is_verified(text: str, key: bytes) -> None:
    assert verified(sign(text, key), key) == text


@given(texts, keys, keys)
def test_another_key_verifies_nothing(text: str, key: bytes, other: bytes) -> None:
    if key.ljust(64, b"\0") != other.ljust(64, b"\0"):
        assert verified(sign(text, key), other) is None


@given(texts, st.data())
def test_a_changed_text_is_not_verified(text: str, data: st.DataObject) -> None:
    signed = sign(text, b"k")
    at = data.draw(st.integers(0, len(signed) - 1))
    letter = data.draw(st.characters(codec="ascii"))
    changed = signed[:at] + letter + signed[at + 1 :]
    if changed != signed:
        assert verified(changed, b"k") is None


@given(texts)
def test_garbage_is_not_verified(text: str) -> None:
    assert verified(text, b"k") is None


def test_the_format_is_the_documented_one() -> None:
    # HMAC-SHA256 of RFC 4231, test case 2
    expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert sign("what do ya want for nothing?", b"Jefe").endswith(" " + expected)


def test_a_proof_is_for_one_run_and_one_team() -> None:
    assert proof("r1", "a", b"k") != proof("r2", "a", b"k") != proof("r2", "b", b"k")


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0")))
def test_the_holder_of_the_key_reads_what_was_sealed(text: str) -> None:
    assert unseal(seal(text, KEY, "run"), KEY, "run") == text


@pytest.mark.parametrize(("key", "run"), [(b"x" * 32, "run"), (KEY, "another run")])
def test_another_key_or_another_run_opens_nothing(key: bytes, run: str) -> None:
    with pytest.raises(WireError, match="another contest's key, for another run"):
        unseal(seal("label 3", KEY, "run"), key, run)


def test_a_changed_text_is_refused() -> None:
    raw = bytearray(base64.b64decode(seal("label 3", KEY, "run")))
    for at in range(len(raw)):
        changed = bytes(raw[:at]) + bytes([raw[at] ^ 1]) + bytes(raw[at + 1 :])
        with pytest.raises(WireError):
            unseal(base64.b64encode(changed).decode(), KEY, "run")


def test_sealing_a_text_twice_gives_different_texts() -> None:
    assert seal("label 3", KEY, "run") != seal("label 3", KEY, "run")


@pytest.mark.parametrize(
    ("one", "another"),
    [("label 3", "label 31"), ("", "x" * 500), ("1.5 " * 20_000, "-0.123 " * 11_600)],
)
def test_texts_of_similar_length_are_sealed_to_equal_length(one: str, another: str) -> None:
    assert len(seal(one, KEY, "run")) == len(seal(another, KEY, "run"))


def test_padding_adds_an_eighth_at_most() -> None:
    assert len(base64.b64decode(seal("x" * 100_000, KEY, "run"))) < 100_000 * 1.125 + 28


@pytest.mark.parametrize("garbage", ["", "ä", "AAAA", "!!!!"])
def test_garbage_is_refused(garbage: str) -> None:
    with pytest.raises(WireError):
        unseal(garbage, KEY, "run")
