"""A season's server: units a minute with one and two workers, and status requests under load.

    python scripts/bench/season.py [--units 24] [--queued 10000] [--pages 1000] [--seconds 30] [--json OUT]

Units are compute-bound (`scripts/season_rig.py`: replay, decoder and judge in one process, and 2 s of
processor time); server, store, queue, uploads, verification and scoring are the real ones. Then `--queued`
submissions of 1,197 teams wait in the store while `--pages` open pages of submissions refresh themselves as a
browser's do, and a client asks for the status of a submission again and again.
"""

import argparse
import asyncio
import json
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import aiohttp
import psutil

from bci_stream.contest.contest import Contest, load_contest
from bci_stream.contest.keys import read_team_file
from bci_stream.season.client import SeasonClient
from bci_stream.season.storage.schema import Submission
from bci_stream.season.storage.store import open_season_store
from bci_stream.season.web.access import Sessions
from bci_stream.season.web.server import COOKIE
from scripts.bench.ratios import report_ratio
from scripts.season_faults import KilledServer
from scripts.season_rig import package

TEAMS = 1197
PAGE_S = 10.0
"""How often a page whose submission waits asks for itself again (static/season.js)."""
ASKED_S = 0.05
END_S = 1800.0


def make_contest(folder: Path, teams: int) -> Contest:
    folder.mkdir(parents=True)
    names = ", ".join(f'"t{number}"' for number in range(teams))
    (folder / "contest.toml").write_text(f'name = "cup"\nteams = [{names}]\n[tracks.erp]\n')
    contest = load_contest(folder)
    contest.keys.public_key()
    return contest


def client_of(contest: Contest, url: str, number: int) -> SeasonClient:
    file = contest.keys.team_file(f"t{number}", contest.name, contest.results)
    return SeasonClient(url, read_team_file(file))


# --- throughput -------------------------------------------------------------------------------


def units_a_minute(folder: Path, slots: int, submissions: int) -> tuple[float, float]:
    """(units a minute, processor seconds of the server a unit) over submissions that are all uploaded."""
    contest = make_contest(folder / f"slots-{slots}", submissions)
    store = str(contest.folder / "season.sqlite")
    server = KilledServer(contest.folder, store, slots)
    url = server.start()
    process = psutil.Process(server.pid)
    path = folder / "package.zip"
    path.write_bytes(package("work"))
    cpu, began = _cpu_s(process), time.monotonic()
    for number in range(submissions):
        client_of(contest, url, number).submit(path, "erp", "", lambda _done, _size: None)
    deadline = began + END_S
    with closing(open_season_store(store)) as opened:
        while any(each.ended is None for each in opened.submissions()):
            if time.monotonic() > deadline:
                raise SystemExit("not all submissions were judged in time")
            time.sleep(0.2)
        units = len(opened.units())
        failed = [each for each in opened.submissions() if each.stage != "judged"]
    seconds, used = time.monotonic() - began, _cpu_s(process) - cpu
    server.stop()
    if failed:
        raise SystemExit(f"submission {failed[0].id}: {failed[0].stage} ({failed[0].reason})")
    return 60 * units / seconds, used / units


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


# --- status requests under load ---------------------------------------------------------------


def fill_queue(store: str, contest: Contest, queued: int) -> None:
    """Submissions of all teams that wait for their check; one that hangs occupies the only worker."""
    uploads = contest.folder / "uploads"
    uploads.mkdir(exist_ok=True, mode=0o700)
    teams = len(contest.teams)
    with closing(open_season_store(store)) as opened:
        for number in range(queued):
            team = f"t{number % teams}"
            made = opened.add(
                lambda new, team=team: Submission(
                    new, team, "erp", "open", "team.zip", 10, "0" * 64, time.time()
                ),
                lambda _earlier: None,
                team,
            )
            content = package("hang") if number == 0 else b""
            (uploads / str(made.id)).write_bytes(content or package())


async def open_pages(
    url: str, contest: Contest, pages: int, seconds: float, client: SeasonClient
) -> tuple[list[float], int, int]:
    """(seconds of each status request, refreshed pages, failed requests)."""
    sessions = Sessions(contest.token)
    took: list[float] = []
    counts = {"pages": 0, "failed": 0}
    end = time.monotonic() + seconds
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def page(number: int) -> None:
            team = f"t{number % len(contest.teams)}"
            file = contest.keys.team_file(team, contest.name, contest.results)
            cookies = {COOKIE: sessions.log_in(file.read_bytes())}
            await asyncio.sleep(random.Random(number).uniform(0, PAGE_S))
            while time.monotonic() < end:
                async with session.get(
                    f"{url}/submissions/{number + 1}", cookies=cookies
                ) as answer:
                    await answer.read()
                    counts["pages"] += 1
                    counts["failed"] += answer.status != 200
                await asyncio.sleep(PAGE_S)

        def ask() -> None:
            while time.monotonic() < end:
                began = time.perf_counter()
                client.submission(2)
                took.append(time.perf_counter() - began)
                time.sleep(ASKED_S)

        asking = threading.Thread(target=ask)
        asking.start()
        await asyncio.gather(*(page(number) for number in range(pages)))
        await asyncio.to_thread(asking.join)
    return took, counts["pages"], counts["failed"]


def under_load(folder: Path, queued: int, pages: int, seconds: float) -> dict[str, Any]:
    contest = make_contest(folder / "load", min(TEAMS, queued))
    store = str(contest.folder / "season.sqlite")
    fill_queue(store, contest, queued)
    server = KilledServer(contest.folder, store, 1)
    url = server.start()
    process = psutil.Process(server.pid)
    client = client_of(contest, url, 1)
    asyncio.run(open_pages(url, contest, pages, min(seconds, 10.0), client))  # warm
    memory, cpu, began = process.memory_info().rss, _cpu_s(process), time.monotonic()
    took, shown, failed = asyncio.run(open_pages(url, contest, pages, seconds, client))
    lasted = time.monotonic() - began
    grown = process.memory_info().rss - memory
    used = _cpu_s(process) - cpu
    server.stop()
    took.sort()
    return {
        "queued": queued,
        "pages": pages,
        "seconds": round(lasted, 1),
        "status requests": len(took),
        "p50 (ms)": round(1000 * statistics.median(took), 1),
        "p99 (ms)": round(1000 * took[int(0.99 * (len(took) - 1))], 1),
        "page refreshes a second": round(shown / lasted, 1),
        "failed": failed,
        "server CPU (share of a core)": round(used / lasted, 2),
        "memory (MB)": round(memory / 1e6, 1),
        "memory growth (MB)": round(grown / 1e6, 1),
    }


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--units", type=int, default=24, help="two for each submission")
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args(words)
    folder = Path(tempfile.mkdtemp(prefix="season-bench-"))
    try:
        rates, cpu = {}, {}
        for slots in (1, 2):
            rates[slots], cpu[slots] = units_a_minute(folder, slots, max(1, given.units // 2))
        load = under_load(folder, given.queued, given.pages, given.seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found: dict[str, Any] = {
        "units a minute, 1 worker": round(rates[1], 1),
        "units a minute, 2 workers": round(rates[2], 1),
        "server CPU a unit (s)": round(cpu[2], 3),
        **load,
    }
    print("| measure | value |\n|---|---|")
    for name, value in found.items():
        print(f"| {name} | {value} |")
    report_ratio(
        "season", "units a minute with 2 workers", "with 1 worker", [rates[2] / rates[1]],
        asked="at least 1.8 on two idle cores",
    )  # fmt: skip
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
