from hypothesis import given
from hypothesis import strategies as st

from bci_stream.wire.crypto import proof, sign, verified

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
