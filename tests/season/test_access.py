"""Signed requests and sessions: what is accepted, and what is not."""

import json

import pytest

from bci_stream.season.web.access import (
    CLOCK_S,
    EMPTY,
    SESSION_S,
    AccessError,
    RequestVerifier,
    Sessions,
    sign_request,
)

TOKENS = {"alice": b"a" * 32, "bob": b"b" * 32}


class TestSignedRequests:
    def verifier(self, now: float = 1000.0) -> RequestVerifier:
        return RequestVerifier(TOKENS.get, lambda: now)

    def header(self, **changes) -> str:
        given = {"method": "GET", "path": "/x?a=1", "body_sha256": EMPTY, "now": 1000.0, **changes}
        return sign_request("alice", TOKENS["alice"], **given)

    def test_the_team_that_signed_is_known(self) -> None:
        assert self.verifier().team_of(self.header(), "GET", "/x?a=1", EMPTY) == "alice"

    @pytest.mark.parametrize(
        "changes",
        [
            {"method": "POST"},
            {"path": "/x?a=2"},
            {"body_sha256": "0" * 64},
            {"now": 1000.0 - CLOCK_S - 1},
            {"now": 1000.0 + CLOCK_S + 1},
        ],
    )
    def test_any_change_is_refused(self, changes) -> None:
        with pytest.raises(AccessError):
            self.verifier().team_of(self.header(**changes), "GET", "/x?a=1", EMPTY)

    def test_a_header_of_another_team_or_form_is_refused(self) -> None:
        header = self.header()
        for wrong in (
            header.replace("team=alice", "team=bob"),
            header.replace("team=alice", "team=carol"),
            header[:-1],
            "",
            "Bearer " + TOKENS["alice"].hex(),
        ):
            with pytest.raises(AccessError):
                self.verifier().team_of(wrong, "GET", "/x?a=1", EMPTY)

    def test_a_request_is_used_once_and_not_forgotten_too_early(self) -> None:
        now = [1000.0]
        verifier = RequestVerifier(TOKENS.get, lambda: now[0])
        header = self.header(now=1000.0 + CLOCK_S)
        verifier.team_of(header, "GET", "/x?a=1", EMPTY)
        for now[0] in (1000.0, 1000.0 + 2 * CLOCK_S):
            with pytest.raises(AccessError, match="used before"):
                verifier.team_of(header, "GET", "/x?a=1", EMPTY)

    def test_a_team_that_sends_too_much_is_refused_and_no_other(self, monkeypatch) -> None:
        monkeypatch.setattr("bci_stream.season.web.access.MOST_NONCES", 3)
        verifier, first = self.verifier(), self.header()
        for header in (first, self.header(), self.header()):
            verifier.team_of(header, "GET", "/x?a=1", EMPTY)
        with pytest.raises(AccessError, match="3 requests in 600 s"):
            verifier.team_of(self.header(), "GET", "/x?a=1", EMPTY)
        with pytest.raises(AccessError, match="used before"):
            verifier.team_of(first, "GET", "/x?a=1", EMPTY)
        other = sign_request("bob", TOKENS["bob"], "GET", "/x?a=1", EMPTY, 1000.0)
        assert verifier.team_of(other, "GET", "/x?a=1", EMPTY) == "bob"

    def test_the_token_is_not_in_the_header(self) -> None:
        assert TOKENS["alice"].hex() not in self.header()


class TestSessions:
    def file(self, team: str = "alice", token: bytes = TOKENS["alice"]) -> bytes:
        content = {"contest": "c", "team": team, "token": token.hex(), "public_key": "00" * 32}
        return json.dumps(content).encode()

    def test_a_session_ends_with_its_time_or_its_token(self) -> None:
        now, tokens = [0.0], dict(TOKENS)
        sessions = Sessions(tokens.get, lambda: now[0])
        cookie = sessions.log_in(self.file())
        assert sessions.team_of(cookie) == "alice"
        assert TOKENS["alice"].hex() not in cookie
        now[0] = SESSION_S + 1
        assert sessions.team_of(cookie) is None
        now[0] = 1.0
        tokens["alice"] = b"c" * 32
        assert sessions.team_of(cookie) is None, "the token was replaced"

    def test_files_of_others_and_changed_cookies_are_refused(self) -> None:
        sessions = Sessions(TOKENS.get)
        for wrong in (self.file(token=TOKENS["bob"]), self.file(team="carol"), b"{}", b"\xff"):
            with pytest.raises(AccessError):
                sessions.log_in(wrong)
        cookie = sessions.log_in(self.file())
        for wrong in (
            cookie.replace("alice", "bob"),
            cookie[:-1],
            "",
            "|",
            "a|b|c|d",
            f"{cookie}é",
            "é\udcff",
        ):
            assert sessions.team_of(wrong) is None
            assert sessions.form_key(wrong) != sessions.form_key(cookie)

    def test_each_session_has_its_own_form_key(self) -> None:
        sessions = Sessions(TOKENS.get)
        one, other = (sessions.log_in(self.file()) for _ in range(2))
        assert sessions.form_key(one) != sessions.form_key(other)
        assert sessions.form_key("nobody|x") == ""
