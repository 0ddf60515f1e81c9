"""Keys of a contest, in files that only their owner may read.

Truth is sealed and the judge signs under the contest's key, which only the organiser has. Teams' tokens
are derived from it, so there is one secret to store, and a token reveals no other token.
"""

import hmac
import secrets
from hashlib import sha256
from pathlib import Path

from bci_stream.errors import ContestError
from bci_stream.files import atomic_write

KEY_BYTES = 32


class Keys:
    """The key files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._contest_key: bytes | None = None

    def contest_key(self) -> bytes:
        """The contest's key; created on first use."""
        if self._contest_key is None:
            self._contest_key = self._read_or_make()
        return self._contest_key

    def _read_or_make(self) -> bytes:
        path = self._folder / "contest.key"
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write_key(path, secrets.token_bytes(KEY_BYTES))
        return read_key(path)

    def token(self, team: str) -> bytes:
        return hmac.digest(self.contest_key(), f"team {team}".encode(), sha256)

    def token_file(self, team: str) -> Path:
        """The token file of a team, for that team only; created if absent."""
        path = self._folder / f"{team}.token"
        if not path.exists():
            _write_key(path, self.token(team))
        return path


def read_key(path: Path) -> bytes:
    """Raises ContestError for a file that is absent or holds no key."""
    try:
        text = path.read_text()
        key = bytes.fromhex(text.strip())
    except FileNotFoundError as error:
        raise ContestError(
            f"no key at {path}: ask the organiser, or run `bci-judge init`"
        ) from error
    except (OSError, ValueError) as error:
        raise ContestError(
            f"{path} is not a key file ({error}): 64 hexadecimal digits expected"
        ) from error
    if len(key) != KEY_BYTES:
        raise ContestError(f"{path} holds {len(key)} bytes; a key has {KEY_BYTES}")
    return key


def _write_key(path: Path, key: bytes) -> None:
    """Write a key file; one that another process has written meanwhile is kept."""
    text = f"{key.hex()}\n".encode()
    atomic_write(path, lambda file: file.write(text), secret=True, overwrite=False)
