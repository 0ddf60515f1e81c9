"""The console's guards: token, session cookie, CSRF token, origin, and the bounds on logins."""

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from bci_stream.clock import ManualClock
from bci_stream.contest.actions import LogIn, OperatorAnswer, OperatorRequest, ReadState
from bci_stream.contest.control_socket import ControlSocket
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.console import (
    ALL_FAILURES,
    FAILURES,
    FAILURES_S,
    MOST_SESSIONS,
    SESSION_S,
    ConsoleSessions,
    LoginLimiter,
)
from bci_stream.leaderboard.web.process import WebBoard

READ_S = 60
TOKEN = "the organiser's"
EMPTY = {"contest": "cup", "replays": [], "teams": [], "dropped": {}}


class FakeJudge:
    """Answers requests as a judge's thread does, and keeps them."""

    def __init__(self, path: Path) -> None:
        self.taken: list[OperatorRequest] = []
        self._control = ControlSocket(path)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.01):
            self._control.take(self._answer)

    def _answer(self, request: OperatorRequest) -> OperatorAnswer:
        self.taken.append(request)
        if isinstance(request.do, LogIn):
            return OperatorAnswer(request.do.token == TOKEN, "login")
        if isinstance(request.do, ReadState):
            return OperatorAnswer(True, state=dict(EMPTY))
        return OperatorAnswer(request.do.words() == "go", request.do.words())

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._control.close()


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeJudge]:
    with closing(FakeJudge(tmp_path_factory.mktemp("c") / "judge.sock")) as made:
        yield made


@pytest.fixture(scope="module")
def page(judge: FakeJudge) -> Iterator[WebBoard]:
    served = WebBoard(Leaderboard("Finals"), port=0, console=str(judge._control.path))
    served.start()
    yield served
    served.stop()


def ask(page: WebBoard, path: str, body: object = None, **headers: str) -> tuple[int, Any, Any]:
    """Status, answer and headers; a POST if there is a body, from this page's origin."""
    origin = page.url.rstrip("/")
    sent = {"Origin": origin, "Content-Type": "application/json"} if body is not None else {}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urlopen(Request(page.url + path, data, sent), timeout=READ_S) as answer:
            return answer.status, json.load(answer), answer.headers
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"{}"), error.headers


def log_in(page: WebBoard) -> tuple[str, str]:
    """The cookie and the CSRF token of a new session."""
    status, answer, headers = ask(page, "console/login", {"token": TOKEN})
    assert status == 200
    cookie = SimpleCookie(headers["Set-Cookie"])["bci-console"]
    assert cookie["httponly"]
    assert (cookie["samesite"], cookie["path"]) == ("Strict", "/console")
    return f"bci-console={cookie.value}", answer["csrf"]


def test_an_action_needs_session_csrf_token_and_origin(page: WebBoard, judge: FakeJudge) -> None:
    cookie, csrf = log_in(page)
    other_cookie, other_csrf = log_in(page)
    go = {"action": "go"}
    acts = ("console/action", go)
    good = {"Cookie": cookie, "X_CSRF_Token": csrf}
    judge.taken.clear()
    assert ask(page, *acts)[0] == 401
    assert ask(page, *acts, Cookie="bci-console=guess", X_CSRF_Token=csrf)[0] == 401
    assert ask(page, *acts, Cookie=cookie)[0] == 403
    assert ask(page, *acts, Cookie=cookie, X_CSRF_Token=other_csrf)[0] == 403
    assert ask(page, *acts, **good, Origin="http://evil.example")[0] == 403
    assert ask(page, *acts, **good, Origin="null")[0] == 403
    assert ask(page, *acts, **good, Content_Type="text/plain")[0] == 403
    assert judge.taken == []
    status, answer, _ = ask(page, *acts, **good)
    assert (status, answer["done"], answer["text"]) == (200, True, "go")
    assert [request.by for request in judge.taken] == ["console 127.0.0.1"]
    assert ask(page, "console/action", {"action": "resume"}, **good)[0] == 409
    assert ask(page, "console/action", {"action": "fly"}, **good)[0] == 400
    assert ask(page, "console/action", {"action": "login", "token": "x"}, **good)[0] == 400
    assert ask(page, "console/logout", {}, **good)[0] == 200
    assert ask(page, *acts, **good)[0] == 401
    assert ask(page, *acts, Cookie=other_cookie, X_CSRF_Token=other_csrf)[0] == 200


def test_the_state_is_for_sessions_only(page: WebBoard) -> None:
    assert ask(page, "console/state")[0] == 401
    cookie, csrf = log_in(page)
    status, state, headers = ask(page, "console/state", Cookie=cookie)
    assert (status, state["contest"], state["csrf"]) == (200, "cup", csrf)
    assert headers["Cache-Control"] == "no-store"


def test_wrong_tokens_are_bounded_and_a_body_elsewhere_is_refused(page: WebBoard) -> None:
    statuses = [ask(page, "console/login", {"token": f"{k}"})[0] for k in range(FAILURES + 2)]
    assert statuses == [403] * FAILURES + [429] * 2
    assert ask(page, "console/login", {"token": TOKEN})[0] == 429
    with pytest.raises(HTTPError) as refused:
        urlopen(Request(f"{page.url}api/v1/contest", b"{}"), timeout=READ_S)
    with refused.value:
        assert refused.value.code == 413


def test_without_a_console_there_are_no_such_pages() -> None:
    served = WebBoard(Leaderboard("Finals"), port=0)
    served.start()
    try:
        for path, body in (("console", None), ("console/state", None), ("console/action", b"{}")):
            with pytest.raises(HTTPError) as refused:
                urlopen(Request(served.url + path, body), timeout=READ_S)
            with refused.value:
                assert refused.value.code in (404, 413)
    finally:
        served.stop()


def test_the_limiter_forgets_after_a_while_and_bounds_all_clients() -> None:
    clock = ManualClock()
    limiter = LoginLimiter(clock.now)
    for k in range(ALL_FAILURES):
        assert limiter.may_try(f"192.0.2.{k}")
        limiter.add_failure(f"192.0.2.{k}")
    assert not limiter.may_try("192.0.2.200")
    clock.advance(FAILURES_S + 1)
    assert limiter.may_try("192.0.2.200")


def test_sessions_end_by_age_and_are_bounded() -> None:
    clock = ManualClock()
    sessions = ConsoleSessions(clock.now)
    first, csrf = sessions.begin()
    assert sessions.csrf(first) == csrf
    assert sessions.csrf("") is None
    others = [sessions.begin()[0] for _ in range(MOST_SESSIONS)]
    assert sessions.csrf(first) is None  # the oldest one
    assert sessions.csrf(others[0]) is not None
    clock.advance(SESSION_S)
    assert sessions.csrf(others[-1]) is None
