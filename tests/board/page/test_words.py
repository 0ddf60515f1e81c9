"""The page in Chinese and in English."""

from pathlib import Path

from board.page.tab import Tab

from bci_stream.leaderboard.fold import fold
from bci_stream.leaderboard.web.server import WebBoard


def test_it_speaks_chinese_and_remembers_it(served: WebBoard, tab: Tab) -> None:
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


def test_the_reasons_of_all_golden_logs_are_told_in_chinese(served: WebBoard, tab: Tab) -> None:
    """If the rules word a reason anew, reasons.js must learn it."""
    page = tab.open(served.url)
    untold = page.evaluate(
        """async (texts) => {
            const { reasonIn } = await import("/static/reasons.js");
            return texts.filter((text) => !/[\\u4e00-\\u9fff]/.test(reasonIn("zh", text)));
        }""",
        sorted(golden_reasons()),
    )
    assert [text for text in untold if not text.startswith("NRMSE")] == []


def golden_reasons() -> set[str]:
    found: set[str] = set()
    for path in (Path(__file__).parents[2] / "golden").glob("*.jsonl.gz"):
        for trial in fold(path).view.detail()["trials"]:
            found |= set(trial["reason"].split("; ")) - {"", "…"}
    return found
