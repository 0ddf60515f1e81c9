"""The season's pages in English and Chinese: one table a language, and each page in both."""

import http.client
import re
import string
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import pytest
from season.serving import Served, make_contest, serving
from season.test_serve import submit

from bci_stream.contest.keys import CONSOLE_TOKEN
from bci_stream.judge.session.team_run import END_REASONS
from bci_stream.season.actions import FAILED
from bci_stream.season.web.page_words import CHINESE, ENGLISH
from bci_stream.season.web.pages import FOLDER

HAN = re.compile(r"[\u4e00-\u9fff]")


def test_both_tables_have_the_same_keys_and_fields() -> None:
    assert ENGLISH.keys() == CHINESE.keys()
    for key, words in ENGLISH.items():
        fields = [{name for _, name, _, _ in string.Formatter().parse(text) if name}
                  for text in (words, CHINESE[key])]  # fmt: skip
        assert fields[0] == fields[1], key


def test_the_file_of_the_token_is_named_as_it_is() -> None:
    for table in (ENGLISH, CHINESE):
        assert f"keys/{CONSOLE_TOKEN}" in table["token"]
        assert f"keys/{CONSOLE_TOKEN}" in table["wrong_token"]


def test_each_word_is_used_and_each_that_is_used_is_there() -> None:
    modules = [FOLDER / name for name in ("pages.py", "console.py", "server.py")]
    sources = [*FOLDER.glob("templates/*.html"), *modules]
    text = "".join(path.read_text() for path in sources)
    used = set(re.findall(r"\bt\.(\w+)", text)) | set(re.findall(r"\"(\w+)\"", text))
    kinds = tuple(re.findall(r"\"(\w+_)\" \+", text)) + tuple(
        f"{kind}_" for kind in (*re.findall(r"word\(\"(\w+)\"", text), "claim")
    )
    assert set(re.findall(r"\bt\.(\w+)", text)) <= ENGLISH.keys()
    assert {key for key in ENGLISH if not key.startswith(kinds)} <= used
    assert {f"ending_{name}" for name in END_REASONS} <= ENGLISH.keys()
    assert {f"outcome_{name}" for name in FAILED} <= ENGLISH.keys()


def page(served: Served, path: str, cookie: str = "", form: dict[str, str] | None = None):
    """(cookie, text) of a page, or of the answer to a form, for a reader of Chinese."""
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=30)
    headers = {"Accept-Language": "zh-CN,zh;q=0.9", "Cookie": cookie}
    if form is not None:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    body = None if form is None else urlencode(form)
    connection.request("GET" if form is None else "POST", path, body, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return (answer.getheader("Set-Cookie") or "").partition(";")[0], text


def visible(text: str) -> list[str]:
    """What a reader sees of a page: the text between tags, and texts of form fields."""
    body = text.partition("<body>")[2]
    shown = re.findall(r">([^<]+)<", body) + re.findall(r"(?:placeholder|aria-label)=\"(\w+)", body)
    return [each.strip() for each in shown if each.strip()]


@pytest.fixture
def served(tmp_path: Path):
    phases = '[[phases]]\nname = "p1"\ncounts = "chosen"\nshows = "subjects"\n'
    with serving(make_contest(tmp_path / "cup", phases)) as running:
        yield running


def test_the_console_is_in_chinese_for_a_reader_of_chinese(served: Served, tmp_path: Path) -> None:
    alice = served.client("alice")
    served.until(alice, submit(alice, tmp_path), "judged")
    assert any("主办方令牌" in each for each in visible(page(served, "/console")[1]))
    assert "这不是主办方令牌" in page(served, "/console/login", form={"token": "0"})[1]
    token = served.contest.keys.console_token()
    cookie, _ = page(served, "/console/login", form={"token": token})
    _, text = page(served, "/console", cookie)
    key = re.search(r'name="form_key" value="(\w+)"', text)
    assert key is not None
    _, text = page(
        served, "/console/act", cookie, {"form_key": key[1], "action": "announce", "text": "42"}
    )
    assert '<html lang="zh">' in text
    assert "已完成：已在所有页面显示：42" in text
    names = re.compile(r"cup|alice|erp|p1|console|42|1|UTC|thread|local")
    english = [
        each for each in visible(text)
        if re.search("[A-Za-z]", each) and not HAN.search(each) and not names.search(each)
    ]  # fmt: skip
    assert english == []
    assert "Organiser's token" in http_text(served, "/console")


def http_text(served: Served, path: str) -> str:
    connection = http.client.HTTPConnection(urlsplit(served.url).netloc, timeout=30)
    connection.request("GET", path)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


@pytest.mark.parametrize("path", ["/", "/login", "/register", "/team"])
def test_the_other_pages_are_in_chinese_too(served: Served, path: str) -> None:
    shown = visible(page(served, path)[1])
    assert "排行榜" in shown
    assert not any(words in shown for words in (ENGLISH["log_in"], ENGLISH["leaderboard"]))
