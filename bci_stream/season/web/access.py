"""Who a request of a season's server is from: signed requests of `bci-decode`, sessions of browsers.

A team's token never travels in a URL, and with signed requests not at all: each carries an HMAC of its
method, path, time, a number used once and the hash of its body, under a key derived from the token. A browser
sends its team file once, in a form, and gets a session cookie; forms carry a second value that only the
server's own pages know.
"""

import hmac
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256
from typing import Final

import msgspec

from bci_stream.contest.keys import TeamFile
from bci_stream.errors import BciError
from bci_stream.wire.crypto import derived_key

SCHEME: Final = "BCI-HMAC"
CLOCK_S: Final = 300.0
"""How far a client's clock may be off; a number used once is remembered for as long."""
MOST_NONCES: Final = 10_000
"""Of one team in that time: one that sends more is refused, and no other team is affected."""
SESSION_S: Final = 12 * 3600.0
EMPTY: Final = sha256(b"").hexdigest()

_HEADER = re.compile(
    rf"{SCHEME} team=([A-Za-z0-9_.-]{{1,64}}),time=(\d{{1,12}}),"
    r"nonce=([0-9a-f]{16,64}),mac=([0-9a-f]{64})"
)

TokenOf = Callable[[str], bytes | None]
"""A team's present token; None for a team that may not take part."""


class AccessError(BciError):
    """A request that is not from a team of the contest."""


def sign_request(
    team: str, token: bytes, method: str, path: str, body_sha256: str, now: float | None = None
) -> str:
    """The value of the header Authorization. path: with the query."""
    at, nonce = int(time.time() if now is None else now), secrets.token_hex(12)
    mac = _mac(token, method, path, body_sha256, at, nonce)
    return f"{SCHEME} team={team},time={at},nonce={nonce},mac={mac}"


def _mac(token: bytes, method: str, path: str, body_sha256: str, at: int, nonce: str) -> str:
    text = "\n".join((method, path, body_sha256, str(at), nonce))
    return hmac.digest(derived_key(token, "season request"), text.encode(), sha256).hex()


class RequestVerifier:
    """Verifies signed requests; each may be used once."""

    def __init__(self, token_of: TokenOf, now: Callable[[], float] = time.time) -> None:
        self._token_of = token_of
        self._now = now
        self._used: dict[str, OrderedDict[str, float]] = {}

    def team_of(self, header: str, method: str, path: str, body_sha256: str) -> str:
        """The team that signed a request. Raises AccessError."""
        found = _HEADER.fullmatch(header)
        if found is None:
            raise AccessError(
                f"the request is not signed: the header Authorization must be {SCHEME} ..."
            )
        team, at, nonce, mac = found[1], int(found[2]), found[3], found[4]
        token = self._token_of(team)
        expected = _mac(token or b"", method, path, body_sha256, at, nonce)
        if not hmac.compare_digest(expected, mac) or token is None:
            raise AccessError("the request is not signed with the token of a team of this contest")
        if abs(self._now() - at) > CLOCK_S:
            raise AccessError(
                f"the request is of another time: set your clock; it may be off by {CLOCK_S:g} s at most"
            )
        self._use(team, nonce)
        return team

    def _use(self, team: str, nonce: str) -> None:
        used, now = self._used.setdefault(team, OrderedDict()), self._now()
        while used and next(iter(used.values())) < now:
            used.popitem(last=False)
        if nonce in used:
            raise AccessError("the request was used before")
        if len(used) >= MOST_NONCES:
            raise AccessError(
                f"this team made {MOST_NONCES} requests in {2 * CLOCK_S:g} s: wait some minutes"
            )
        used[nonce] = now + 2 * CLOCK_S


class Sessions:
    """Session cookies, valid while the team's token is; the server keeps none of them."""

    def __init__(self, token_of: TokenOf, now: Callable[[], float] = time.time) -> None:
        self._token_of = token_of
        self._now = now

    def log_in(self, team_file: bytes) -> str:
        """The cookie for the owner of a team file. Raises AccessError."""
        try:
            given = msgspec.json.decode(team_file, type=TeamFile)
            token = self._token_of(given.team)
            valid = token is not None and hmac.compare_digest(given.token_bytes, token)
        except (msgspec.DecodeError, ValueError, BciError):
            raise AccessError(
                "that is not a team file: choose the file (.bci) of your team"
            ) from None
        if not valid or not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", given.team):
            raise AccessError("this team file is not valid here, or no longer: ask the organiser")
        text = f"{given.team}|{int(self._now() + SESSION_S)}|{secrets.token_hex(8)}"
        return f"{text}|{self._sealed(given.team, text) or ''}"

    def team_of(self, cookie: str) -> str | None:
        """The team of a session; None if the cookie is not valid, or not any more."""
        if not cookie.isascii():
            return None
        text, _, mac = cookie.rpartition("|")
        team, _, rest = text.partition("|")
        until = rest.partition("|")[0]
        expected = self._sealed(team, text)
        if expected is None or not hmac.compare_digest(expected, mac):
            return None
        return team if until.isdecimal() and int(until) > self._now() else None

    def form_key(self, cookie: str) -> str:
        """What each form of a session must carry: a page of another site can't know it."""
        if not cookie.isascii():
            return ""
        return self._sealed(cookie.partition("|")[0], f"form {cookie}") or ""

    def _sealed(self, team: str, text: str) -> str | None:
        token = self._token_of(team)
        if token is None:
            return None
        return hmac.digest(derived_key(token, "season session"), text.encode(), sha256).hex()
