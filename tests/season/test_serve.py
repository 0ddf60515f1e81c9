"""A season's server: uploads over HTTP, the queue, results that are verified, and what each team may see."""

import hashlib
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from season.serving import SMALL, Served, make_contest, serving, wait_for

from bci_stream.contest.contest import load_contest
from bci_stream.contest.keys import read_team_file
from bci_stream.errors import ContestError
from bci_stream.runlog import score_run
from bci_stream.season.client import SeasonClient, SeasonError, ServerAway
from bci_stream.season.units.jobs import (
    UnitOutcome,
    file_sha256,
    read_job,
    write_job,
    write_outcome,
)
from bci_stream.season.uploads import UploadLimits, Uploads
from bci_stream.season.web.access import Sessions, sign_request
from bci_stream.season.web.server import COOKIE
from decoders.cli import main as decode_main
from scripts.season_rig import ThreadEngine, do_unit, package

pytestmark = pytest.mark.slow


def no_progress(_done: int, _size: int) -> None:
    """Not shown here."""


def written(folder: Path, content: bytes, name: str = "team.zip") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def submit(client: SeasonClient, folder: Path, content: bytes = b"", phase: str = "") -> int:
    made = client.submit(written(folder, content or package()), "erp", phase, no_progress)
    return int(made["id"])


def test_a_submission_is_uploaded_checked_run_verified_and_scored(tmp_path: Path) -> None:
    with serving(make_contest(tmp_path / "cup")) as served:
        alice = served.client("alice")
        number = submit(alice, tmp_path)
        judged = served.until(alice, number, "judged")
        log = tmp_path / "cup" / "runs" / "open" / f"erp-alice-{number}.jsonl"
        assert judged["score"] == score_run(log).result()["score"] > 0
        assert judged["logs"] == [{"log": log.name, "sha256": file_sha256(log)}]
        assert judged["report"] == "checked: passed\n\nprinted 0"
        assert log.stat().st_mode & 0o077 == 0, "it holds truth"
        assert [s["stage"] for s in alice.submissions()] == ["judged"]
        work = tmp_path / "cup" / "season-work"
        wait_for(lambda: not list(work.iterdir()))  # units leave nothing behind


def test_the_command_shows_each_step_and_ends_with_the_score(tmp_path: Path) -> None:
    with serving(make_contest(tmp_path / "cup")) as served:
        options = ["--server", served.url, "--team-file", str(served.team_file("alice"))]
        path = str(written(tmp_path, package()))
        done = CliRunner().invoke(decode_main, ["submit", path, "--track", "erp", *options])
        assert done.exit_code == 0, done.output
        assert "submission 1 (phase open, track erp): received" in done.output
        assert "judged: it ran to the end and was scored" in done.output
        assert "score: " in done.output
        assert "run log: erp-alice-1.jsonl on the server, SHA-256" in done.output
        rejected = str(written(tmp_path, package("reject"), "bad.zip"))
        done = CliRunner().invoke(decode_main, ["submit", rejected, "--track", "erp", *options])
        assert done.exit_code == 1
        assert "its check failed; this costs no quota" in done.output
        listed = CliRunner().invoke(decode_main, ["submissions", *options])
        assert "rejected" in listed.output
        assert "bad.zip" in listed.output
        shown = CliRunner().invoke(decode_main, ["submissions", "2", *options])
        assert "  checked: rejected" in shown.output


def test_a_team_sees_its_own_submissions_only(tmp_path: Path) -> None:
    with serving(make_contest(tmp_path / "cup")) as served:
        alice, bob = served.client("alice"), served.client("bob")
        number = submit(alice, tmp_path)
        served.until(alice, number, "judged")
        assert bob.submissions() == []
        for ask in (bob.submission, bob.choose):
            with pytest.raises(SeasonError, match="your team has no submission 1"):
                ask(number)


def test_what_fails_through_us_is_tried_again_and_what_fails_through_the_team_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bci_stream.season.storage.store.retry_delay_s", lambda failures: 0.0)
    phases = '[[phases]]\nname = "one"\nquota = 2\n'
    failed_before: set[int] = set()

    def unit(folder: Path, stop) -> None:
        job = read_job(folder)
        if job.number == 1 and job.attempt < 3 and job.submission == 1:
            failed_before.add(job.attempt)
            write_outcome(folder, UnitOutcome("stopped", "the disk is full"))
        else:
            do_unit(folder, stop)

    with serving(make_contest(tmp_path / "cup", phases), ThreadEngine(do=unit)) as served:
        alice = served.client("alice")
        assert served.until(alice, submit(alice, tmp_path), "judged")["attempts"] == 3
        assert failed_before == {1, 2}
        crashed = served.until(alice, submit(alice, tmp_path, package("crash")), "failed")
        assert (crashed["fault"], crashed["attempts"]) == ("team", 1)
        assert crashed["score"] is not None, "a crashed run is scored as far as it came"
        with pytest.raises(SeasonError, match="the 2 submissions of phase one are used up"):
            submit(alice, tmp_path)
        with served.store() as store:
            outcomes = [a.outcome for a in store.attempts(1)]
        assert outcomes == ["passed", "stopped", "stopped", "finished"]


def test_a_failed_check_costs_no_quota(tmp_path: Path) -> None:
    phases = '[[phases]]\nname = "one"\nquota = 1\n'
    with serving(make_contest(tmp_path / "cup", phases)) as served:
        alice = served.client("alice")
        for _ in range(2):
            served.until(alice, submit(alice, tmp_path, package("reject")), "rejected")
        served.until(alice, submit(alice, tmp_path), "judged")
        with pytest.raises(SeasonError, match="used up"):
            submit(alice, tmp_path)


def test_a_unit_that_fails_in_an_unexpected_way_does_not_end_its_slot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bci_stream.season.storage.store.retry_delay_s", lambda failures: 0.0)
    failed: list[int] = []

    def write(folder: Path, *given) -> None:
        if not failed:
            failed.append(1)
            raise RuntimeError("\0 no code expected this")
        write_job(folder, *given)

    monkeypatch.setattr("bci_stream.season.workers.write_job", write)
    with serving(make_contest(tmp_path / "cup")) as served:
        alice = served.client("alice")
        number = submit(alice, tmp_path)
        assert served.until(alice, number, "judged")["attempts"] == 2
        with served.store() as store:
            assert "RuntimeError: \ufffd no code" in store.attempts(number)[0].detail


def test_a_log_that_was_changed_is_not_scored_but_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bci_stream.season.storage.store.retry_delay_s", lambda failures: 0.0)

    def cheating_worker(folder: Path, stop) -> None:
        do_unit(folder, stop)
        job = read_job(folder)
        if job.number == 1 and job.attempt < 3:
            (log,) = (folder / "runs").glob("*.jsonl")
            log.write_text(log.read_text().replace('"result":"E"', '"result":"A"'))
            named = log.name if job.attempt == 1 else f"../runs/{log.name}"
            sha256 = file_sha256(log) if job.attempt == 1 else "0" * 64
            write_outcome(folder, UnitOutcome("finished", "", "", named, sha256))

    engine = ThreadEngine(do=cheating_worker)
    with serving(make_contest(tmp_path / "cup"), engine) as served:
        alice = served.client("alice")
        assert served.until(alice, submit(alice, tmp_path), "judged")["attempts"] == 3
        with served.store() as store:
            details = [a.detail for a in store.attempts(1) if a.outcome == "stopped"]
    assert "does not verify" in details[0]
    assert "its hash differs" in details[1]


def test_a_phase_that_shows_nothing_shows_no_score(tmp_path: Path) -> None:
    phases = '[[phases]]\nname = "blind"\nshows = "nothing"\n'
    with serving(make_contest(tmp_path / "cup", phases)) as served:
        alice = served.client("alice")
        judged = served.until(alice, submit(alice, tmp_path), "judged")
        assert (judged["score"], judged["subjects"]) == (None, [])
        assert get(served, "/api/v1/standings?phase=blind&track=erp")[0] == 404
        assert b"shows no scores" in get(served, "/")[1]


def get(served: Served, path: str, **headers: str) -> tuple[int, bytes]:
    return ask(served, "GET", path, headers=headers)


def ask(
    served: Served, method: str, path: str, body: bytes | None = None, headers=None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=30)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_the_leaderboard_ranks_the_teams_and_is_open_to_all(tmp_path: Path) -> None:
    with serving(make_contest(tmp_path / "cup"), ThreadEngine(2)) as served:
        for seed, team in enumerate(("alice", "bob")):
            client = served.client(team)
            served.until(client, submit(client, tmp_path, package(seed=seed)), "judged")
        path = "/api/v1/standings?phase=open&track=erp"

        def rows() -> list[dict]:
            found = json.loads(get(served, path)[1])["rows"]
            return found if len(found) == 2 else []

        assert {row["team"] for row in wait_for(rows)} == {"alice", "bob"}
        text = get(served, path.replace("standings", "standings.csv"))[1].decode()
        assert text.startswith("rank,team,track")


def test_a_page_that_has_not_changed_is_not_sent_again(tmp_path: Path) -> None:
    contest = make_contest(tmp_path / "cup")
    text = (contest.folder / "contest.toml").read_text()
    (contest.folder / "contest.toml").write_text(f'{text}\n[team.alice]\nname = "<Alpha> Waves"\n')
    with serving(load_contest(contest.folder)) as served:
        alice = served.client("alice")
        served.until(alice, submit(alice, tmp_path), "judged")
        cookie = Sessions(contest.token).log_in(served.team_file("alice").read_bytes())
        own = {"Cookie": f"{COOKIE}={cookie}"}
        page = wait_for(lambda: found if b"Waves" in (found := get(served, "/", **own)[1]) else b"")
        assert b'class="own"><td class="number">1</td><td>&lt;Alpha&gt; Waves <small>alice' in page
        assert b'class="own"' not in get(served, "/")[1]
        connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=30)
        tag = ""
        for status in (200, 304, 304, 200):
            if status == 200 and tag:
                served.until(alice, submit(alice, tmp_path, package("crash")), "failed")
            connection.request("GET", "/team", headers={**own, "If-None-Match": tag})
            answer = connection.getresponse()
            assert (answer.status, bool(answer.read())) == (status, status == 200)
            tag = answer.getheader("ETag")
        connection.close()


class TestUploads:
    def signed(self, served: Served, content: bytes, path: str, **changes) -> dict[str, str]:
        file = read_team_file(served.team_file("alice"))
        sha256 = hashlib.sha256(content).hexdigest()
        given = {"method": "POST", "path": path, "body_sha256": sha256, **changes}
        header = sign_request(file.team, file.token_bytes, **given)
        return {"Authorization": header, "X-Content-SHA256": sha256}

    PATH = "/api/v1/submissions?track=erp&phase=&name=x.zip"

    def test_hostile_uploads_are_refused_and_leave_no_file(self, tmp_path: Path) -> None:
        with serving(make_contest(tmp_path / "cup")) as served:
            post = lambda body, headers, path=self.PATH: ask(served, "POST", path, body, headers)  # noqa: E731
            good = package()
            cases = {
                "unsigned": (good, {}, 401),
                "old": (good, self.signed(served, good, self.PATH, now=1000.0), 401),
                "other path": (good, self.signed(served, good, self.PATH + "x"), 401),
                "other method": (good, self.signed(served, good, self.PATH, method="PUT"), 401),
                "changed": (good + b"x", self.signed(served, good, self.PATH), 400),
                "large": (good * 5000, self.signed(served, good * 5000, self.PATH), 413),
                "no package": (b"MZ" * 300, self.signed(served, b"MZ" * 300, self.PATH), 400),
            }
            for name, (body, headers, status) in cases.items():
                assert post(body, headers)[0] == status, name
            assert list((tmp_path / "cup" / "uploads").iterdir()) == []
            with served.store() as store:
                assert store.submissions() == []
            headers = self.signed(served, good, self.PATH)
            assert post(good, headers)[0] == 201
            assert post(good, headers)[0] == 401, "a signed request is used once"

    def test_chunks_without_an_announced_length_are_bounded_while_they_arrive(self, tmp_path):
        with serving(make_contest(tmp_path / "cup")) as served:
            piece = b"PK\x03\x04" + b"x" * 50_000
            headers = self.signed(served, piece * 9, self.PATH)
            taken = 0

            def endless() -> Iterator[bytes]:
                nonlocal taken
                while True:
                    taken += len(piece)
                    yield piece

            connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=30)
            with pytest.raises(OSError):
                connection.request("POST", self.PATH, endless(), headers)
            connection.close()
            assert taken < 20_000_000, "the server ended it"
            assert wait_for(lambda: not list((tmp_path / "cup" / "uploads").iterdir()))

    def test_an_upload_that_trickles_in_is_ended(self, tmp_path: Path) -> None:
        limits = UploadLimits(bytes=100_000, spare_bytes=0, idle_s=0.2, slowest=50_000.0)
        with serving(make_contest(tmp_path / "cup"), limits=limits) as served:
            body = package() + b"x" * 300
            headers = self.signed(served, body, self.PATH)

            def trickle() -> Iterator[bytes]:
                for number in range(len(body)):
                    yield body[number : number + 1]
                    threading.Event().wait(0.01)

            connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=30)
            with suppress(OSError):  # the server ends it
                connection.request("POST", self.PATH, trickle(), headers)
            assert connection.getresponse().status == 408
            connection.close()
            assert list((tmp_path / "cup" / "uploads").iterdir()) == []

    def test_forms_and_addresses_of_any_kind_are_refused_in_words(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("bci_stream.season.web.pages.FORM_S", 0.3)
        with serving(make_contest(tmp_path / "cup")) as served:
            form = {"Content-Type": "multipart/form-data; boundary=b"}
            part = b'--b\r\nContent-Disposition: form-data; name="team_file"\r\n\r\n'
            alice = Sessions(served.contest.token).log_in(served.team_file("alice").read_bytes())
            own = {"Cookie": f"{COOKIE}={alice}"}
            cases = [
                ("POST", "/login", b"--x", {"Content-Type": "multipart/form-data"}, 400),
                ("POST", "/login", b"no boundary", form, 400),
                ("POST", "/login", part + b"{}", form, 400),
                ("POST", "/login", part + b"x" * 20_000 + b"\r\n--b--\r\n", form, 413),
                ("POST", "/login", b"--b\r\n" + b"A: b\r\n" * 300, form, 400),
                ("POST", "/console/login", b"token=x", {
                    "Content-Type": "application/x-www-form-urlencoded; charset=none"}, 400),
                ("POST", "/login", part + b"{}", {**form, "Content-Length": "20000"}, 408),
                ("POST", "/submit", part + b"{}", {**form, **own, "Content-Length": "20000"}, 408),
                ("GET", "/team", None, {"Cookie": f"{COOKIE}=alice|9|\xe9"}, 401),
                ("GET", "/submissions/" + "9" * 30, None, own, 404),
                ("GET", "/submissions/999999999", None, own, 404),
            ]  # fmt: skip
            for method, path, body, headers, status in cases:
                assert ask(served, method, path, body, headers)[0] == status, (path, body)

    def test_names_are_never_paths(self, tmp_path: Path) -> None:
        with serving(make_contest(tmp_path / "cup")) as served:
            path = "/api/v1/submissions?track=erp&name=..%2F..%2Fkeys%2Fcontest.key%00%1b%5B2J"
            status, body = ask(
                served, "POST", path, package(), self.signed(served, package(), path)
            )
            assert status == 201
            assert json.loads(body)["name"] == "contest.key??[2J"
            assert [p.name for p in (tmp_path / "cup" / "uploads").iterdir()] == ["1"]

    @pytest.mark.parametrize(
        ("limits", "words"),
        [
            (UploadLimits(bytes=100_000, an_hour=1, spare_bytes=0), "1 uploads an hour"),
            (UploadLimits(bytes=100_000, spare_bytes=1 << 60), "disk is full"),
        ],
    )
    def test_rate_and_disk_are_bounded(self, tmp_path: Path, limits, words) -> None:
        with serving(make_contest(tmp_path / "cup"), limits=limits) as served:
            alice = served.client("alice")

            def submit_twice() -> None:
                submit(alice, tmp_path)
                submit(alice, tmp_path)

            with pytest.raises(SeasonError, match=words):
                submit_twice()

    def test_a_revoked_or_unlisted_team_is_refused(self, tmp_path: Path) -> None:
        with serving(make_contest(tmp_path / "cup")) as served:
            carol = served.contest.keys.team_file("carol", "cup", "sealed")
            with pytest.raises(SeasonError, match="token of a team of this contest"):
                SeasonClient(served.url, read_team_file(carol)).submissions()
            alice = served.client("alice")
            assert alice.submissions() == []
            served.contest.keys.revoke("alice")
            with pytest.raises(SeasonError, match="token of a team of this contest"):
                alice.submissions()


def test_what_a_killed_server_left_is_removed_and_its_units_are_done(tmp_path: Path) -> None:
    contest = make_contest(tmp_path / "cup")
    uploads = contest.folder / "uploads"
    uploads.mkdir()
    (uploads / "12ab.part").write_bytes(b"half")
    (uploads / "1").write_bytes(b"no submission has this number yet")
    hanging = ThreadEngine()
    with serving(contest, hanging) as served:
        alice = served.client("alice")
        assert alice.submissions() == []
        assert list(uploads.iterdir()) == []
        number = submit(alice, tmp_path, package("hang"))
        running = served.until(alice, number, "running")
        wait_for(lambda: (view := alice.submission(number))["percent"] and view)
        assert wait_for(lambda: "40 %" in alice.submission(number)["words"])
        assert running["fault"] == ""
    (uploads / str(number)).write_bytes(package())
    with serving(contest) as served:
        assert served.until(served.client("alice"), number, "judged")["attempts"] == 2


def test_a_store_that_does_not_know_the_uploads_is_refused_and_nothing_is_removed(
    tmp_path: Path,
) -> None:
    uploads = Uploads(tmp_path / "uploads", SMALL)
    for name in ("1", "2", "3", "ab.part"):
        (tmp_path / "uploads" / name).write_bytes(b"x")
    for known in (set(), {1}):
        with pytest.raises(
            ContestError, match=r"does not know \((2, 3|3)\): give the store of this"
        ):
            uploads.clean(known)
    assert len(list((tmp_path / "uploads").iterdir())) == 4
    uploads.clean({1, 2})
    assert {path.name for path in (tmp_path / "uploads").iterdir()} == {"1", "2"}


def test_a_server_that_is_not_there_is_named() -> None:
    from bci_stream.contest.keys import TeamFile

    client = SeasonClient("http://127.0.0.1:9", TeamFile("cup", "a", "00" * 32, "00" * 32))
    with pytest.raises(ServerAway, match=r"the server http://127\.0\.0\.1:9 can't be reached"):
        client.submissions()
    with pytest.raises(SeasonError, match="give an address"):
        SeasonClient("cup.example.org", TeamFile("cup", "a", "00" * 32, "00" * 32))


def test_postgresql_serves_a_season_too(tmp_path: Path, postgres_url: str) -> None:
    with serving(make_contest(tmp_path / "cup"), store=postgres_url, limits=SMALL) as served:
        alice = served.client("alice")
        assert served.until(alice, submit(alice, tmp_path), "judged")["score"] is not None
