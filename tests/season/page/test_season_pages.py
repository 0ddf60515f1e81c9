"""The season's pages in a real browser: log in, upload by form, follow, log out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from leaderboard.page.tab import Tab
from season.serving import Served, make_contest, serving
from season.test_serve import ask

from bci_stream.season.web.server import COOKIE
from scripts.season_rig import package


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    phases = '[[phases]]\nname = "preliminary"\nquota = 2\ncounts = "chosen"\nshows = "subjects"\n'
    with serving(make_contest(tmp_path / "cup", phases)) as running:
        yield running


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    made = Tab(browser)
    yield made
    made.context.close()


def log_in(tab: Tab, served: Served, team: str = "alice") -> Any:
    page = tab.page
    page.goto(served.url)
    page.get_by_role("link", name="Log in").click()
    page.get_by_label("Team file").set_input_files(served.team_file(team))
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Submit").wait_for()
    return page


def upload(page: Any, name: str, content: bytes) -> None:
    given = {"name": name, "mimeType": "application/zip", "buffer": content}
    page.get_by_label("Package").set_input_files(given)
    page.get_by_role("button", name="Upload").click()


def test_a_team_logs_in_uploads_follows_chooses_and_logs_out(tab: Tab, served: Served) -> None:
    page = log_in(tab, served)
    assert "2 left in all" in page.get_by_label("Phase and track").inner_text()
    upload(page, "<img src=x onerror=alert(1)>.zip", package())
    page.locator("#state .stage.judged").wait_for()  # the page follows by itself
    assert page.locator("h1").inner_text() == "Submission 1: <img src=x onerror=alert(1)>.zip"
    assert "bits/min" in page.locator("#score").inner_text()
    assert "Subject" in page.locator("#state dl").inner_text()
    assert "checked: passed" in page.locator("pre").inner_text()
    page.get_by_role("button", name="Let this one count").click()
    page.get_by_role("button", name="This one counts").wait_for()
    page.get_by_role("link", name="Submissions of alice").click()
    assert "1 left in all" in page.get_by_label("Phase and track").inner_text()
    assert "(chosen)" in page.locator("#submissions").inner_text()
    page.get_by_role("link", name="Leaderboard").click()
    page.locator("#standings td", has_text="alice").wait_for()
    page.get_by_role("button", name="Log out").click()
    page.get_by_role("link", name="Log in").wait_for()
    assert tab.problems == []
    assert all(url.startswith(served.url) for url in tab.requests)
    token = (served.team_file("alice")).read_text().split('"token": "')[1][:64]
    assert not any(token in url for url in tab.requests)


def test_what_is_refused_is_shown_in_words(tab: Tab, served: Served) -> None:
    page = log_in(tab, served)
    upload(page, "notes.zip", b"these are notes, not a package")
    page.get_by_role("alert").wait_for()
    assert "neither a .zip nor a .tar.gz" in page.get_by_role("alert").inner_text()
    upload(page, "big.zip", package() + b"x" * 200_000)
    page.get_by_text("it is larger than 0.1 MB").wait_for()


def test_another_site_can_neither_log_in_nor_upload(tab: Tab, served: Served) -> None:
    log_in(tab, served)
    (cookie,) = tab.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    headers = {
        "Cookie": f"{COOKIE}={cookie['value']}",
        "Content-Type": "multipart/form-data; boundary=b",
    }
    parts = {"place": b"preliminary/erp", "package": package()}
    body = b"".join(
        b'--b\r\nContent-Disposition: form-data; name="%b"; filename="x.zip"\r\n\r\n%b\r\n'
        % (name.encode(), value)
        for name, value in parts.items()
    )
    status, answer = ask(served, "POST", "/submit", body + b"--b--\r\n", headers)
    assert status == 401
    assert b"not from a page of your session" in answer
    with served.store() as store:
        assert store.submissions() == []
    file = served.team_file("alice").read_bytes()
    login = b'--b\r\nContent-Disposition: form-data; name="team_file"\r\n\r\n%b\r\n--b--\r\n' % file
    foreign = {"Content-Type": headers["Content-Type"], "Origin": "https://evil.example"}
    assert ask(served, "POST", "/login", login, foreign)[0] == 401
    own = {**foreign, "Origin": served.url}
    assert ask(served, "POST", "/login", login, own)[0] == 303


def test_the_organiser_announces_and_sets_dates_in_the_console(tab: Tab, served: Served) -> None:
    page = tab.page
    page.goto(f"{served.url}/console")
    page.get_by_label("Organiser's token").fill(served.contest.keys.console_token())
    page.get_by_role("button", name="Log in", exact=True).click()
    page.get_by_label("New line on all pages").fill("The final begins at noon.")
    page.get_by_role("button", name="Announce").click()
    page.locator("#actions").get_by_text("The final begins at noon.").wait_for()
    page.get_by_label("closes").fill("2099-12-31T12:00")
    page.get_by_role("button", name="Set dates of preliminary").click()
    page.get_by_role("alert").get_by_text("2099-12-31 12:00 UTC").wait_for()
    page.goto(served.url)
    assert "The final begins at noon." in page.locator("#announcements").inner_text()
    assert "open until 2099-12-31 12:00 UTC" in page.locator("#standings").inner_text()
