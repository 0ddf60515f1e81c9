"""Signed and sealed texts, in three forms. docs/protocol.md has test vectors of each.

MAC: the text, a blank, and its HMAC-SHA256 in hexadecimal (results of open contests; judge).
Signature: a JSON object whose last field, `sig`, is the Ed25519 signature of the object without it (control
and judge messages). Seal: AES-256-GCM, padded, in base64 (truth; results of contests with keys).
"""

import base64
import hmac
import os
import re
from functools import lru_cache
from hashlib import sha256
from typing import Literal

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bci_stream.errors import WireError

# --- MAC --------------------------------------------------------------------------------------

MAC_LENGTH = 64


def sign(text: str, key: bytes) -> str:
    return f"{text} {_digest(text, key)}"


def verified(signed: str, key: bytes) -> str | None:
    """The text without its MAC, or None if that was not made under this key."""
    text, mac = signed[: -MAC_LENGTH - 1], signed[-MAC_LENGTH:]
    separator = signed[-MAC_LENGTH - 1 : -MAC_LENGTH]
    if separator != " " or not mac.isascii():
        return None
    return text if hmac.compare_digest(_digest(text, key), mac) else None


def proof(run: str, team: str, key: bytes) -> str:
    """HMAC by which a replay proves to a team that it has the team's token."""
    return _digest(f"welcome {run} {team}", key)


def _digest(text: str, key: bytes) -> str:
    return hmac.digest(key, text.encode(), sha256).hex()


def derived_key(secret: bytes, purpose: str) -> bytes:
    """A key for one purpose; it reveals neither the secret nor the key of another purpose."""
    return hmac.digest(secret, purpose.encode(), sha256)


# --- signature --------------------------------------------------------------------------------

SignedRole = Literal["control", "judge", "log"]
"""What a signature is for: a message of one role is not accepted as one of another."""

_SIGNED = re.compile(r',"sig":"([0-9a-f]{128})"\}$')


class SigningKey:
    """The contest's private key."""

    def __init__(self, seed: bytes) -> None:
        """seed: 32 bytes."""
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public = PublicKey(self._key.public_key().public_bytes_raw())

    def sign(self, text: str, role: SignedRole) -> str:
        """A JSON object with its signature as the last field; text: an object with at least one field."""
        signature = self._key.sign(_signed_bytes(text, role)).hex()
        return f'{text[:-1]},"sig":"{signature}"}}'


class PublicKey:
    """The contest's public key, which every team has."""

    def __init__(self, raw: bytes) -> None:
        """raw: 32 bytes; raises ValueError for any other number."""
        self._key = Ed25519PublicKey.from_public_bytes(raw)
        self.raw = raw

    def verified(self, signed: str, role: SignedRole) -> str | None:
        """The object without its signature, or None if it was not signed under this contest's key."""
        match = _SIGNED.search(signed, max(0, len(signed) - 138))
        if match is None:
            return None
        text = signed[: match.start()] + "}"
        try:
            self._key.verify(bytes.fromhex(match[1]), _signed_bytes(text, role))
        except InvalidSignature:
            return None
        return text


def _signed_bytes(text: str, role: SignedRole) -> bytes:
    return f"bci-stream {role}\n{text}".encode("utf-8", "surrogatepass")


# --- seal -------------------------------------------------------------------------------------

NONCE_LENGTH = 12

TRUTH_LENGTH = 512
"""Least length of a sealed text on the truth stream; the truth of a live trial and a probe are shorter."""


def seal(text: str, key: bytes, bound: str, least: int = TRUTH_LENGTH) -> str:
    """Encrypt a text. bound: what it can be opened for; least: its shortest padded length in bytes."""
    nonce = os.urandom(NONCE_LENGTH)
    sealed = _cipher(key).encrypt(nonce, _padded(text.encode(), least), bound.encode())
    return base64.b64encode(nonce + sealed).decode()


def unseal(sealed: str, key: bytes, bound: str) -> str:
    """Raises WireError for a text that was not sealed under this key for what it is bound to."""
    try:
        raw = base64.b64decode(sealed, validate=True)
        text = _cipher(key).decrypt(raw[:NONCE_LENGTH], raw[NONCE_LENGTH:], bound.encode())
        return text.rstrip(b"\0").decode()
    except (InvalidTag, ValueError) as error:
        raise WireError(
            "a sealed message can't be opened: it was sealed under another contest's key, for another "
            "run or stream, or changed in transit; check that replay and judge use the same contest file"
        ) from error


def _padded(text: bytes, least: int) -> bytes:
    """Pad to a multiple of an eighth of its order of magnitude, so that the length shows little."""
    step = max(least, 1 << max(0, len(text).bit_length() - 4))
    return text.ljust(max(1, -(-len(text) // step)) * step, b"\0")


@lru_cache(maxsize=1024)
def _cipher(key: bytes) -> AESGCM:
    return AESGCM(key)


def seal_truth(text: str, key: bytes, run: str, uid: str) -> str:
    """The run's id, a blank, and the text sealed for this run and for the stream with this uid."""
    return f"{run} {seal(text, key, f'truth {run} {uid}')}"


def unseal_truth(sealed: str, key: bytes, uid: str) -> tuple[str, str]:
    """The run's id and the text; raises WireError."""
    run, _, rest = sealed.partition(" ")
    return run, unseal(rest, key, f"truth {run} {uid}")


RESULTS_LENGTH = 128
"""Least length of a sealed results message: a short report looks like any other."""


def seal_results(text: str, token: bytes, contest: str, team: str, run: str, seq: int) -> str:
    """`TEAM RUN SEQ SEALED`; the text can be opened for this contest, team, run and number only."""
    head = f"{team} {run or '-'} {seq}"
    key = derived_key(token, "results")
    return f"{head} {seal(text, key, f'results {contest} {head}', RESULTS_LENGTH)}"


def unseal_results(sealed: str, token: bytes, contest: str) -> tuple[str, str, str, int]:
    """(text, team, run, number); raises WireError."""
    parts = sealed.split(" ", 3)
    if len(parts) != 4 or not (parts[2].isascii() and parts[2].isdigit()) or len(parts[2]) > 20:
        raise WireError("a results message has no head TEAM RUN SEQ before its sealed part")
    team, run, seq, rest = parts
    text = unseal(rest, derived_key(token, "results"), f"results {contest} {team} {run} {seq}")
    return text, team, "" if run == "-" else run, int(seq)


# --- digest -----------------------------------------------------------------------------------

DIGEST_LENGTH = 32


def sample_digest(*chunks: bytes | memoryview) -> str:
    """The first 128 bits of the SHA-256 of samples: little-endian float32, row by row, TRIGGER last."""
    digest = sha256()
    for chunk in chunks:
        digest.update(chunk)
    return digest.hexdigest()[:DIGEST_LENGTH]
