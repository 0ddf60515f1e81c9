"""Signed and sealed texts.

Signed: the text, a blank, and its HMAC-SHA256 in hexadecimal. Sealed: AES-GCM, padded, in base64.
"""

import base64
import hmac
import os
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bci_stream.errors import WireError

SIGNATURE_LENGTH = 64


def sign(text: str, key: bytes) -> str:
    return f"{text} {_digest(text, key)}"


def verified(signed: str, key: bytes) -> str | None:
    """The text without its signature, or None if it was not signed under this key."""
    text, signature = signed[: -SIGNATURE_LENGTH - 1], signed[-SIGNATURE_LENGTH:]
    separator = signed[-SIGNATURE_LENGTH - 1 : -SIGNATURE_LENGTH]
    if separator != " " or not signature.isascii():
        return None
    return text if hmac.compare_digest(_digest(text, key), signature) else None


def proof(run: str, team: str, key: bytes) -> str:
    """HMAC by which a replay proves to a team that it has the team's token."""
    return _digest(f"welcome {run} {team}", key)


def _digest(text: str, key: bytes) -> str:
    return hmac.digest(key, text.encode(), sha256).hex()


NONCE_LENGTH = 12

LEAST_LENGTH = 512
"""Least length of a sealed text in bytes; the truth of a live trial and a probe are shorter."""


def seal(text: str, key: bytes, run: str) -> str:
    nonce = os.urandom(NONCE_LENGTH)
    sealed = _cipher(key).encrypt(nonce, _padded(text.encode()), run.encode())
    return base64.b64encode(nonce + sealed).decode()


def unseal(sealed: str, key: bytes, run: str) -> str:
    """Raises WireError for a text that was not sealed under this key for this run."""
    try:
        raw = base64.b64decode(sealed, validate=True)
        text = _cipher(key).decrypt(raw[:NONCE_LENGTH], raw[NONCE_LENGTH:], run.encode())
        return text.rstrip(b"\0").decode()
    except (InvalidTag, ValueError) as error:
        raise WireError(
            "a sealed message can't be opened: it was sealed under another contest's key, for another "
            "run, or changed in transit; check that replay and judge use the same contest file"
        ) from error


def _padded(text: bytes) -> bytes:
    """Pad to a multiple of an eighth of its order of magnitude, so that the length shows little."""
    step = max(LEAST_LENGTH, 1 << max(0, len(text).bit_length() - 4))
    return text.ljust(max(1, -(-len(text) // step)) * step, b"\0")


def _cipher(key: bytes) -> AESGCM:
    return AESGCM(sha256(b"truth " + key).digest())
