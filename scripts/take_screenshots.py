"""Take the pictures of docs/leaderboard.md: a simulated contest, in headless Chromium.

python scripts/take_screenshots.py            (needs playwright, pillow and Debian's chromium)
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

from PIL import Image
from playwright.sync_api import Browser, sync_playwright
from simulate_contest import SimulatedSignals, play, simulated_runs

from bci_stream.judge.results_commands import write_report
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.ranking import Qualifying
from bci_stream.leaderboard.web.process import WebBoard
from scripts.simulated_runs import SimulatedRun
from tracks.registry import TRACKS

FOLDER = Path(__file__).parents[1] / "docs" / "img"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
SHOTS = {
    "board-light": (1440, 900, "light", "?lang=en"),
    "board-dark": (1600, 900, "dark", "?lang=en"),
    "board-phone": (390, 1440, "light", "?lang=en"),
    "board-chinese": (1440, 900, "light", "?lang=zh#/turing"),
    "board-team": (1440, 900, "light", "?lang=en#/mi/Alpha%20Waves"),
    "board-ecog": (1440, 900, "dark", "?lang=en#/ecog/Alpha%20Waves"),
}


def take(browser: Browser, url: str, name: str) -> None:
    """One picture of the page, with few colours to keep the file small."""
    width, height, scheme, where = SHOTS[name]
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(url + where)
    page.wait_for_selector("table")
    page.wait_for_timeout(1000)  # the signal and the team's page are drawn a moment later
    path = FOLDER / f"{name}.png"
    page.screenshot(path=path)
    page.close()
    reduce_colours(path, 128)


def take_report(browser: Browser) -> None:
    with TemporaryDirectory() as folder:
        logs: list[Path] = []
        for team, skill in {"Alpha Waves": 0.92, "Riemann's Children": 0.78, "静息态": 0.6}.items():
            logs.append(Path(folder) / f"{len(logs)}.jsonl")
            events = SimulatedRun("mi", team, skill, subjects=2, trials=20).events()
            logs[-1].write_text("".join(f"{json.dumps(event)}\n" for event in events))
        out = Path(folder) / "report.html"
        write_report(logs, out, ["synthetic:mi?set=test&subjects=1&blocks=1"])
        page = browser.new_page(viewport={"width": 1200, "height": 900})
        page.goto(out.as_uri())
        page.screenshot(path=FOLDER / "board-report.png", full_page=True)
        page.close()
    reduce_colours(FOLDER / "board-report.png", 256)


def reduce_colours(path: Path, colours: int) -> None:
    picture = Image.open(path).convert("RGB")
    picture.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)


def main() -> None:
    board = Leaderboard("World Robot Contest · BCI finals", Qualifying(top=3))
    signals = SimulatedSignals(TRACKS)
    page = WebBoard(board, port=0, signal=signals.source)
    page.start()
    runs = {track: simulated_runs(track, 7, 1) for track in TRACKS}
    play(board, signals, runs, speed=20, until_s=165)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=list(FLAGS))
        for name in SHOTS:
            take(browser, page.url, name)
        take_report(browser)
        browser.close()
    page.stop()


if __name__ == "__main__":
    main()
