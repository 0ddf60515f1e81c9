"""Keys of a contest, in files that only their owner may read.

There is one secret, the contest's key, which only the organiser has. The signing key, the key that seals
truth and the teams' tokens are derived from it; none of them reveals it, or another one.
"""

import json
import secrets
from pathlib import Path
from typing import Literal

import msgspec

from bci_stream.errors import ContestError
from bci_stream.files import atomic_write
from bci_stream.wire.crypto import PublicKey, SigningKey, derived_key

KEY_BYTES = 32

Results = Literal["sealed", "signed"]
"""How results travel: encrypted (contests with keys), or readable with a MAC (open contests)."""


class TokenState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """generation: how often the team's token was replaced. revoked: it has none any more."""

    generation: int = 0
    revoked: bool = False


class TeamFile(msgspec.Struct, frozen=True):
    """All that a team on another machine needs to take part; for that team alone.

    peers: hosts of the contest, for networks without multicast.
    """

    contest: str
    team: str
    token: str
    public_key: str
    results: Results = "sealed"
    peers: list[str] = msgspec.field(default_factory=list)

    @property
    def token_bytes(self) -> bytes:
        return bytes.fromhex(self.token)


class Keys:
    """The key files in one folder. States of tokens are read again when their file changes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._contest_key: bytes | None = None
        self._signing_key: SigningKey | None = None
        self._states: dict[str, TokenState] = {}
        self._states_read = (0, 0)

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

    def exist(self) -> bool:
        """Whether the contest's key is on this machine."""
        return (self._folder / "contest.key").exists()

    def signing_key(self) -> SigningKey:
        """Signs control and judge messages, and the heads of run logs."""
        if self._signing_key is None:
            self._signing_key = SigningKey(derived_key(self.contest_key(), "sign"))
        return self._signing_key

    def public_key(self) -> PublicKey:
        return self.signing_key().public

    def truth_key(self) -> bytes:
        """Seals what the replay sends to the judge."""
        return derived_key(self.contest_key(), "truth")

    def recording_seed(self, seed: str) -> int:
        """Seed of synthetic recordings that takes the place of this one.

        Without the contest's key the recordings can't be made again, and their labels not be known.
        """
        return int.from_bytes(derived_key(self.contest_key(), f"synthetic {seed}")[:4], "big")

    # --- teams --------------------------------------------------------------------------------

    def token(self, team: str) -> bytes:
        return self._token(team, self.token_state(team).generation)

    def issued_tokens(self, team: str) -> list[bytes]:
        """All tokens that a team was given, the present one first."""
        last = self.token_state(team).generation
        return [self._token(team, generation) for generation in range(last, -1, -1)]

    def _token(self, team: str, generation: int) -> bytes:
        name = f"team {team}" if generation == 0 else f"team {team} {generation}"
        return derived_key(self.contest_key(), name)

    def token_state(self, team: str) -> TokenState:
        return self._token_states().get(team, TokenState())

    def rotate(self, team: str) -> None:
        """Replace a team's token; the old one is refused from now on, and a revoked team is let in."""
        state = self.token_state(team)
        self._write_state(team, TokenState(state.generation + 1))
        for path in (self._folder / f"{team}.token", self._folder / f"{team}.bci"):
            path.unlink(missing_ok=True)

    def revoke(self, team: str) -> None:
        """Refuse a team's token from now on."""
        self._write_state(team, TokenState(self.token_state(team).generation, revoked=True))

    def token_file(self, team: str) -> Path:
        """The token file of a team, for that team only; created if absent."""
        path = self._folder / f"{team}.token"
        if not path.exists():
            _write_key(path, self.token(team))
        return path

    def team_file(self, team: str, contest: str, results: Results) -> Path:
        """The team file of a team, for that team only; created if absent."""
        path = self._folder / f"{team}.bci"
        public_key = self.public_key().raw.hex()
        content = TeamFile(contest, team, self.token(team).hex(), public_key, results)
        text = msgspec.json.format(msgspec.json.encode(content)) + b"\n"
        atomic_write(path, lambda file: file.write(text), secret=True)
        return path

    def _token_states(self) -> dict[str, TokenState]:
        path = self._folder / "teams.json"
        try:
            status = path.stat()
            read = (status.st_mtime_ns, status.st_ino)
            if read != self._states_read:
                self._states = msgspec.json.decode(path.read_bytes(), type=dict[str, TokenState])
                self._states_read = read
        except FileNotFoundError:
            self._states = {}
        except (OSError, msgspec.DecodeError) as error:
            raise ContestError(
                f"{path} can't be read ({error}); restore it from a copy: without it revoked tokens "
                "would be valid again"
            ) from error
        return self._states

    def _write_state(self, team: str, state: TokenState) -> None:
        states = {**self._token_states(), team: state}
        text = json.dumps(msgspec.to_builtins(states), indent=1).encode() + b"\n"
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        atomic_write(self._folder / "teams.json", lambda file: file.write(text), secret=True)


def read_team_file(path: Path) -> TeamFile:
    """Raises ContestError for a file that is absent or is not a team file."""
    try:
        file = msgspec.json.decode(path.read_bytes(), type=TeamFile)
        if len(file.token_bytes) != KEY_BYTES or len(bytes.fromhex(file.public_key)) != KEY_BYTES:
            raise ValueError(f"token and public_key have {KEY_BYTES} bytes each")
    except FileNotFoundError as error:
        raise ContestError(f"no team file at {path}: ask the organiser for it") from error
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise ContestError(
            f"{path} is not a team file ({error}): ask the organiser for it again"
        ) from error
    return file


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
