"""Signed texts: JSON, a blank, and the HMAC-SHA256 of that JSON in hexadecimal, under a secret key."""

import hmac
from hashlib import sha256

SIGNATURE_LENGTH = 64


def sign(text: str, key: bytes) -> str:
    return f"{text} {_digest(text, key)}"


def verified(signed: str, key: bytes) -> str | None:
    """The text without its signature, or None where it was not signed under this key."""
    text, signature = signed[: -SIGNATURE_LENGTH - 1], signed[-SIGNATURE_LENGTH:]
    separator = signed[-SIGNATURE_LENGTH - 1 : -SIGNATURE_LENGTH]
    if separator != " " or not signature.isascii():
        return None
    return text if hmac.compare_digest(_digest(text, key), signature) else None


def proof(run: str, team: str, key: bytes) -> str:
    """What a replay shows a team to prove that it knows the team's token."""
    return _digest(f"welcome {run} {team}", key)


def _digest(text: str, key: bytes) -> str:
    return hmac.digest(key, text.encode(), sha256).hex()
