"""Sealed texts: what only holders of the contest's key can read, and nobody else can forge.

AES-256-GCM with a random nonce; the run's id is bound to each text, so that none fits another run. Texts
are padded, since a label of two digits is longer than one of one digit.
"""

import base64
import os
from hashlib import sha256

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bci_stream.errors import WireError

NONCE_LENGTH = 12

LEAST_LENGTH = 512
"""Bytes; the truth of a live trial is shorter than this, and so is a probe."""


def seal(text: str, key: bytes, run: str) -> str:
    nonce = os.urandom(NONCE_LENGTH)
    sealed = _cipher(key).encrypt(nonce, _padded(text.encode()), run.encode())
    return base64.b64encode(nonce + sealed).decode()


def unseal(sealed: str, key: bytes, run: str) -> str:
    try:
        raw = base64.b64decode(sealed, validate=True)
        text = _cipher(key).decrypt(raw[:NONCE_LENGTH], raw[NONCE_LENGTH:], run.encode())
        return text.rstrip(b"\0").decode()
    except (InvalidTag, ValueError) as error:
        raise WireError(
            "a sealed truth can't be opened: it was sealed under another contest's key, for another "
            "run, or changed on its way; check that replay and judge use the same contest file"
        ) from error


def _padded(text: bytes) -> bytes:
    """To a multiple of an eighth of its own order of magnitude: lengths of the like are the same."""
    step = max(LEAST_LENGTH, 1 << max(0, len(text).bit_length() - 4))
    return text.ljust(max(1, -(-len(text) // step)) * step, b"\0")


def _cipher(key: bytes) -> AESGCM:
    return AESGCM(sha256(b"truth " + key).digest())
