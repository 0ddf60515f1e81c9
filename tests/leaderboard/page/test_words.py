"""The page in Chinese and in English."""

from pathlib import Path

from leaderboard.page.tab import Tab

from bci_stream.leaderboard.fold import fold
from bci_stream.leaderboard.web.process import WebBoard
from tracks.common.reasons import Reason
from tracks.common.words import describe


def test_the_language_can_be_chinese_and_is_stored(served: WebBoard, tab: Tab) -> None:
    page = tab.open(served.url)
    page.locator("#language").click()
    page.locator("h2", has_text="排行榜").wait_for()
    assert page.evaluate("document.documentElement.lang") == "zh-CN"
    page.reload()
    page.locator("h2", has_text="排行榜").wait_for()
    assert "运动想象" in page.locator("#tracks").inner_text()


def test_both_languages_have_every_word(served: WebBoard, tab: Tab) -> None:
    page = tab.open(served.url)
    missing = page.evaluate(
        """async () => {
            const source = await (await fetch("/static/i18n.js")).text();
            const words = (text) => [...text.matchAll(/(\\w+): "/g)].map((m) => m[1]).sort().join();
            const [, en, zh] = source.split(/\\n  (?:en|zh): {/);
            return words(en) === words(zh.split("\\n  },")[0]) ? "" : "differ";
        }"""
    )
    assert missing == ""


def test_the_page_words_reasons_as_the_judge_does(served: WebBoard, tab: Tab) -> None:
    """The page formats the tables' templates itself; every code that needs it, with a value."""
    page = tab.open(served.url)
    reasons = [*golden_reasons(), *ENDINGS]
    items = [{"reason": "", "reasons": [reason.to_json()]} for reason in reasons]
    shown = page.evaluate(
        """async (items) => {
            const { reasonIn } = await import("/static/words.js");
            return items.map((item) => [reasonIn("en", item), reasonIn("zh", item)]);
        }""",
        items,
    )
    assert [english for english, _ in shown] == [describe(reason) for reason in reasons]
    named = {"wrong_class"}  # the page has the classes' Chinese names
    same = [(zh, describe(r, "zh")) for r, (_, zh) in zip(reasons, shown, strict=True)
            if r.cause.code not in named]  # fmt: skip
    assert [page_words for page_words, _ in same] == [words for _, words in same]
    wrong = Reason("wrong_class", answer="left", label="feet").to_json()
    script = 'async (r) => (await import("/static/words.js")).reasonIn("zh", r)'
    assert page.evaluate(script, {"reason": "", "reasons": [wrong]}) == "答 左手，应为 双脚"


def test_free_text_and_unknown_codes_are_shown_as_they_are(served: WebBoard, tab: Tab) -> None:
    page = tab.open(served.url)
    script = 'async (r) => (await import("/static/words.js")).reasonIn("zh", r)'
    unknown = [[{"code": code, "parameters": {}}] for code in ("of_tomorrow", "toString")]
    for reasons in ([], *unknown):
        assert page.evaluate(script, {"reason": "exit code 3", "reasons": reasons}) == "exit code 3"
    incomplete = {"reason": "", "reasons": [{"code": "over_limit"}]}
    assert page.evaluate(script, incomplete) == "– 秒时报告：限 – 秒"


ENDINGS = (
    Reason("silent", silent_s=30.04, limit_s=30.0),
    Reason("over_compute_limit", used_s=12.34, data_s=10.0, limit_s=11.5),
    Reason("replay_stopped", detail="interrupted"),
    Reason("trials_held_back"),
    Reason("rows_replaced", rows=3, total=8, value=0.25),
)


def golden_reasons() -> list[Reason]:
    found: dict[Reason, None] = {}
    for path in (Path(__file__).parents[2] / "golden").glob("*.jsonl.gz"):
        for verdict in fold(path).run.verdicts():
            found.update(dict.fromkeys(verdict.reasons))
    assert found
    return list(found)
