"""The organiser's console and open registration: who may, what is recorded, what pages show."""

import http.client
import re
import threading
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from click.testing import CliRunner
from season.conftest import put
from season.serving import Served, make_contest, serving, wait_for
from season.test_serve import submit

from bci_stream.contest.keys import TeamFile, read_team_file
from bci_stream.errors import ContestError, StoreError
from bci_stream.judge.cli import main
from bci_stream.season.actions import claimed, dated_phases, perform
from bci_stream.season.client import SeasonClient, SeasonError
from bci_stream.season.storage.store import SeasonStore
from bci_stream.season.units.engines import EngineMachine
from bci_stream.season.workers import MOST_FAILURES, keep_failure
from scripts.season_rig import ThreadEngine, package

pytestmark = pytest.mark.slow

OPEN = 'registration = "open"\n'


class Visitor:
    """Forms as a browser sends them."""

    def __init__(self, served: Served) -> None:
        self._at = urlsplit(served.url).netloc
        self.cookie = ""
        self.form_key = ""
        self.proxy: dict[str, str] = {}

    def get(self, path: str) -> tuple[int, str]:
        return self._ask("GET", path, None, {})

    def post(self, path: str, origin: str = "", **fields: str) -> tuple[int, str]:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        headers["Origin"] = origin or f"http://{self._at}"
        body = urlencode({"form_key": self.form_key, **fields})
        return self._ask("POST", path, body, headers | self.proxy)

    def act(self, action: str, **fields: str) -> tuple[int, str]:
        return self.post("/console/act", action=action, **fields)

    def _ask(self, method: str, path: str, body: str | None, headers) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self._at, timeout=30)
        connection.request(method, path, body, {**headers, "Cookie": self.cookie})
        answer = connection.getresponse()
        content = answer.read().decode(errors="replace")
        if cookie := answer.getheader("Set-Cookie"):
            assert "HttpOnly" in cookie
            assert "SameSite=Strict" in cookie
            self.cookie = cookie.partition(";")[0]
            self.is_secure = "Secure" in cookie
        connection.close()
        if found := re.search(r'name="form_key" value="(\w+)"', content):
            self.form_key = found[1]
        return answer.status, content


def logged_in(served: Served) -> Visitor:
    organiser = Visitor(served)
    token = served.contest.keys.console_token()
    assert organiser.post("/console/login", token=token)[0] == 303
    assert organiser.get("/console")[0] == 200
    return organiser


def cup(folder: Path, top: str = "", phases: str = ""):
    make_contest(folder)
    text = (
        f'{top}name = "cup"\nteams = ["alice", "bob"]\nresults = "sealed"\n[tracks.erp]\n{phases}'
    )
    (folder / "contest.toml").write_text(text)
    from bci_stream.contest.contest import load_contest

    return load_contest(folder)


def test_the_console_is_for_the_organiser_and_each_action_is_recorded(tmp_path: Path) -> None:
    phases = (
        '[[phases]]\nname = "open"\ncloses = 2020-01-01T00:00:00\ntime_zone = "Asia/Shanghai"\n'
    )
    with serving(cup(tmp_path / "cup", phases=phases)) as served:
        stranger = Visitor(served)
        assert "Organiser's token" in stranger.get("/console")[1]
        assert stranger.post("/console/login", token="0" * 64)[0] == 401
        assert stranger.act("announce", text="hacked")[0] == 401
        assert stranger.get("/console/failures/1-0-1")[0] == 401
        organiser = logged_in(served)
        assert (
            organiser.post("/console/act", "http://evil.org", action="announce", text="x")[0] == 401
        )
        key, organiser.form_key = organiser.form_key, "0" * 32
        assert organiser.act("announce", text="x")[0] == 401
        organiser.form_key = key
        alice = served.client("alice")
        with pytest.raises(SeasonError, match="no phase of track erp is open"):
            submit(alice, tmp_path)
        status, shown = organiser.act("dates", phase="open", opens="", closes="2099-01-01T00:00")
        assert (status, "no limit to 2099-01-01 00:00 CST" in shown) == (200, True)
        number = submit(alice, tmp_path)
        served.until(alice, number, "judged")
        assert organiser.act("announce", text="Results on <b>Friday</b>")[0] == 200
        assert "Results on &lt;b&gt;Friday&lt;/b&gt;" in stranger.get("/")[1]
        assert organiser.act("remove", number="1")[0] == 200
        assert "Friday" not in stranger.get("/login")[1]
        assert organiser.act("rerun", number=str(number))[0] == 200
        wait_for(lambda: "submission 1: the same log" in organiser.get("/console")[1])
        assert organiser.act("disqualify", number=str(number), reason="copied")[0] == 200
        assert alice.submission(number)["stage"] == "disqualified"
        for action, fields in {
            "dates": {"phase": "open", "opens": "tomorrow"},
            "disqualify": {"number": "99", "reason": "x"},
            "rerun": {"number": "99"},
            "retry": {"number": "1"},
            "explode": {},
        }.items():
            assert organiser.act(action, **fields)[0] == 409, action
        with served.store() as store:
            done = [(who, action) for _, who, action, _ in reversed(store.actions())]
        assert done == [
            ("console", action)
            for action in (
                "dates",
                "announce",
                "remove announcement",
                "rerun",
                "rerun",
                "disqualify",
            )
        ]
        assert organiser.post("/console/logout")[0] == 303
        assert organiser.act("announce", text="x")[0] == 401


def test_pages_do_not_wait_for_a_scheduler_that_is_away(tmp_path: Path) -> None:
    asked, back = threading.Event(), threading.Event()

    class Away(ThreadEngine):
        def machines(self) -> list[EngineMachine]:
            asked.set()
            back.wait(60.0)
            return []

    with serving(cup(tmp_path / "cup"), Away()) as served:
        organiser = Visitor(served)
        organiser.post("/console/login", token=served.contest.keys.console_token())
        shown: list[int] = []
        looking = threading.Thread(target=lambda: shown.append(organiser.get("/console")[0]))
        looking.start()
        assert asked.wait(60.0)
        assert served.client("alice").submissions() == []
        assert shown == []
        back.set()
        looking.join()
        assert shown == [200]


def test_clients_of_a_proxy_on_this_machine_have_bounds_of_their_own(tmp_path: Path) -> None:
    with serving(cup(tmp_path / "cup", OPEN)) as served:
        visitor = Visitor(served)

        def apply(number: int, named: str) -> int:
            visitor.proxy = {"X-Forwarded-For": named, "X-Forwarded-Proto": "https"}
            return visitor.post("/register", team=f"team{number}", contact="c")[0]

        assert [apply(n, "198.51.100.7, 203.0.113.1") for n in range(6)] == [201] * 5 + [409]
        assert apply(6, "203.0.113.1, 203.0.113.2") == 201
        assert apply(7, "no address") == 201
        visitor.post("/console/login", token=served.contest.keys.console_token())
        assert visitor.is_secure


def test_failures_have_their_logs(tmp_path: Path) -> None:
    with serving(cup(tmp_path / "cup")) as served:
        alice = served.client("alice")
        number = submit(alice, tmp_path, package("fail"))
        organiser = logged_in(served)
        wait_for(lambda: f"/console/failures/{number}-0-1" in organiser.get("/console")[1])
        assert organiser.get(f"/console/failures/{number}-0-1") == (200, "nothing was printed\n")
        assert organiser.get("/console/failures/..%2f..%2fkeys%2fcontest.key")[0] == 404
        assert "registry is out of reach" in organiser.get("/console")[1]
        assert organiser.act("retry", number=str(number))[0] == 200


def test_few_logs_of_failures_are_kept_and_their_ends_only(tmp_path: Path) -> None:
    unit = tmp_path / "unit"
    unit.mkdir()
    (unit / "unit.log").write_text("x" * 30_000 + "the end")
    for number in range(MOST_FAILURES + 3):
        keep_failure(tmp_path / "kept", f"{number}-0-1", unit)
    kept = list((tmp_path / "kept").iterdir())
    assert len(kept) == MOST_FAILURES
    assert kept[0].stat().st_size < 21_000
    assert kept[0].read_text().endswith("the end")


def test_a_team_registers_is_approved_and_fetches_its_file_once(tmp_path: Path) -> None:
    with serving(cup(tmp_path / "cup", OPEN)) as served:
        visitor, organiser = Visitor(served), logged_in(served)
        assert 'href="/register"' in visitor.get("/")[1]
        for wrong in ({"team": "../x"}, {"team": "Alice"}, {"team": "carol", "contact": ""}):
            fields = {"contact": "c@example.org", **wrong}
            assert visitor.post("/register", **fields)[0] == 409, wrong
        status, shown = visitor.post("/register", team="carol", name="卡罗尔", contact="c@x.org")
        code = re.search(r'id="code">(\w+)<', shown)[1]
        assert (status, len(code)) == (201, 32)
        assert visitor.post("/register", team="carol", contact="other")[0] == 409
        assert "not decided yet" in visitor.post("/register/claim", code=code)[1]
        assert "c@x.org" in organiser.get("/console")[1]
        assert "c@x.org" not in visitor.get("/register")[1]
        assert organiser.act("approve", number="1")[0] == 200
        status, content = visitor.post("/register/claim", code=code)
        assert status == 200
        path = tmp_path / "carol.bci"
        path.write_text(content)
        carol: TeamFile = read_team_file(path)
        client = SeasonClient(served.url, carol)
        assert served.until(client, submit(client, tmp_path), "judged")["team"] == "carol"
        assert "fetched already" in visitor.post("/register/claim", code=code)[1]
        assert visitor.post("/register/claim", code="0" * 32)[0] == 409
        with served.store() as store:
            assert store.actions()[0][2:] == ("approved", "application 1: team carol")
            assert code not in str(store.applications()), "its hash is stored"


def test_registration_is_closed_unless_the_contest_file_opens_it(tmp_path: Path) -> None:
    with serving(cup(tmp_path / "cup")) as served:
        visitor = Visitor(served)
        assert 'href="/register"' not in visitor.get("/")[1]
        status, shown = visitor.post("/register", team="carol", contact="c")
        assert (status, "no open registration" in shown) == (409, True)


def test_the_same_by_command(tmp_path: Path) -> None:
    contest = cup(tmp_path / "cup", OPEN)
    from bci_stream.season.storage.store import open_season_store

    store = open_season_store(str(contest.folder / "season.sqlite"))
    put(store, "alice")
    store.apply("carol", "", "c@x.org", "0" * 64, 1.0)
    store.apply("dave", "", "d@x.org", "1" * 64, 1.0)

    def run(*words: str):
        return CliRunner().invoke(main, ["season", *words, "--contest", str(contest.folder)])

    assert "application 1 of team carol waits" in run("status").output
    assert "takes part" in run("approve", "1").output
    assert "is refused" in run("approve", "2", "--refuse").output
    assert run("approve", "2").exit_code == 1
    assert "shown on all pages" in run("announce", "Hello").output
    assert (
        "phase open: no limit to 2030-01-01"
        in run("dates", "open", "--closes", "2030-01-01").output
    )
    wrong = run("dates", "open", "--opens", "2031-01-01", "--closes", "2030-01-01")
    assert (wrong.exit_code, "before it opens" in wrong.output) == (1, True)
    (phase,) = dated_phases(contest, store.phase_dates())
    assert phase.closes.year == 2030
    assert "carol" in contest.team_list()
    store.close()


def test_applications_are_in_both_databases(tmp_path: Path, store: SeasonStore) -> None:
    contest = cup(tmp_path / "cup", OPEN)
    assert store.apply("carol", "", "c", "a" * 64, 1.0) == 1
    with pytest.raises(StoreError, match="already"):
        store.apply("CAROL", "", "c", "b" * 64, 1.0)
    assert store.decide(1, "refused", "me", 2.0).team == "carol"
    with pytest.raises(StoreError, match="no application 1 waits"):
        store.decide(1, "approved", "me", 2.0)
    assert store.apply("carol", "", "c", "b" * 64, 3.0) == 2, "it may try again"
    with pytest.raises(ContestError, match="of no application"):
        claimed(contest, store, "x")
    perform(contest, store, "announce", {"text": " a  b "}, "me", 4.0)
    assert [each.text for each in store.announcements()] == ["a b"]
    store.set_phase_dates("open", "", "2030-01-01", "me", 5.0)
    store.set_phase_dates("open", "2029-01-01", "", "me", 6.0)
    assert store.phase_dates() == {"open": ("2029-01-01", "")}
