"""A tab of headless Chromium, and a page to open in it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.process import WebBoard
from bci_stream.leaderboard.web.published import SignalSource

Page = Any


@contextmanager
def serving(
    board: Leaderboard, port: int = 0, signal: SignalSource | None = None
) -> Iterator[WebBoard]:
    served = WebBoard(board, port=port, period_s=0.02, signal=signal)
    served.start()
    try:
        yield served
    finally:
        served.stop()


class Tab:
    """A browser tab that records console problems and requests."""

    def __init__(self, browser: Any, **options: Any) -> None:
        self.context = browser.new_context(locale="en-US", reduced_motion="reduce", **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(30_000)
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._add_problem)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def _add_problem(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def open(self, url: str) -> Page:
        self.page.goto(url)
        self.page.wait_for_selector(".board tbody tr, .tiles, .empty")
        return self.page


def teams(page: Page) -> list[str]:
    return page.locator(".board tbody .name").all_inner_texts()  # type: ignore[no-any-return]


def wait_for_team(page: Page, name: str) -> None:
    page.locator(".board .name", has_text=name).wait_for()
