"""Keys of a contest, in files that only their owner may read.

There is one secret, the contest's key, which only the organiser has. The signing key, the key that seals
truth and the teams' tokens are derived from it; none of them reveals it, or another one.
"""

import json
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from filelock import FileLock
from msgspec import structs

from bci_stream.errors import ContestError
from bci_stream.files import atomic_write
from bci_stream.wire.crypto import PublicKey, SigningKey, derived_key

KEY_BYTES = 32
LOCK_S = 10.0
"""How long a command waits for another one that changes the teams."""

CONSOLE_TOKEN = "console.key"
"""Not `.token`, which is the suffix of a team's."""

Results = Literal["sealed", "signed"]
"""How results travel: encrypted (contests with keys), or readable with a MAC (open contests)."""


class TokenState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the commands of `bci-judge team` have changed for a team.

    generation: how often its token was replaced. revoked: it has none any more. added: it is on the contest's
    list although contest.toml does not name it; tracks: on these only, empty: on all. name: its display name.
    """

    generation: int = 0
    revoked: bool = False
    added: bool = False
    name: str = ""
    tracks: tuple[str, ...] = ()


class TeamFile(msgspec.Struct, frozen=True):
    """All that a team on another machine needs to take part; for that team alone.

    peers: hosts of replay and judge where multicast does not reach.
    """

    contest: str
    team: str
    token: str
    public_key: str
    results: Results = "sealed"
    peers: list[str] = []

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

    def __reduce__(self) -> tuple[type["Keys"], tuple[Path]]:
        """Another process of this machine reads the files itself: no key is in a pickle."""
        return Keys, (self._folder,)

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

    def console_token(self) -> str:
        """The organiser's token for the operator's console, in hexadecimal; made on first use."""
        path = self._folder / CONSOLE_TOKEN
        if not path.exists():
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write_key(path, secrets.token_bytes(KEY_BYTES))
        return read_key(path).hex()

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
        self._change(
            team,
            lambda state: structs.replace(state, generation=state.generation + 1, revoked=False),
        )
        for path in (self._folder / f"{team}.token", self._folder / f"{team}.bci"):
            path.unlink(missing_ok=True)

    def revoke(self, team: str) -> None:
        """Refuse a team's token from now on."""
        self._change(team, lambda state: structs.replace(state, revoked=True))

    def add_team(self, team: str, name: str = "", tracks: Sequence[str] = ()) -> None:
        """Put a team on the contest's list, beside those of contest.toml."""

        def add(state: TokenState) -> TokenState:
            return structs.replace(state, added=True, tracks=tuple(tracks), name=name or state.name)

        self._change(team, add)

    def added_teams(self) -> dict[str, tuple[str, ...]]:
        """The teams that were added, and the tracks of each; empty: all."""
        states = self._token_states().items()
        return {team: state.tracks for team, state in states if state.added}

    def token_file(self, team: str) -> Path:
        """The token file of a team, for that team only; created if absent."""
        path = self._folder / f"{team}.token"
        if not path.exists():
            _write_key(path, self.token(team))
        return path

    def team_file(
        self, team: str, contest: str, results: Results, peers: Sequence[str] = ()
    ) -> Path:
        """The team file of a team, for that team only; it replaces an earlier one."""
        path = self._folder / f"{team}.bci"
        public_key = self.public_key().raw.hex()
        content = TeamFile(contest, team, self.token(team).hex(), public_key, results, list(peers))
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

    def _change(self, team: str, change: Callable[[TokenState], TokenState]) -> None:
        """Change the state of one team; two commands at the same time do not overwrite each other."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self._folder / "teams.lock", timeout=LOCK_S):
            states = {**self._token_states(), team: change(self.token_state(team))}
            text = json.dumps(msgspec.to_builtins(states), indent=1).encode() + b"\n"
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
