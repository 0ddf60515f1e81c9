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
import math
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import asdict, fields, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import aiohttp
import psutil

from bci_stream.contest.contest import Contest, TrackPlan, load_contest
from bci_stream.contest.keys import read_team_file
from bci_stream.leaderboard.ranking import LeaderboardRow
from bci_stream.season.client import SeasonClient
from bci_stream.season.queue import CHECK
from bci_stream.season.results import result_of
from bci_stream.season.storage.schema import (
    RUN,
    SUBMISSION,
    Submission,
    UnitResult,
    submission_values,
)
from bci_stream.season.storage.store import SeasonStore, open_season_store
from bci_stream.season.storage.unit_rows import add_unit
from bci_stream.season.units.jobs import UnitJob, read_outcome, write_job
from bci_stream.season.web.access import Sessions
from bci_stream.season.web.server import COOKIE
from scripts.bench.ratios import report_ratio
from scripts.season_faults import KilledServer
from scripts.season_rig import do_unit, package

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
    """(units a minute, processor seconds of the server a unit), once processes that read logs run."""
    contest = make_contest(folder / f"slots-{slots}", slots + submissions)
    store = str(contest.folder / "season.sqlite")
    server = KilledServer(contest.folder, store, slots)
    url = server.start()
    process = psutil.Process(server.pid)
    path = folder / "package.zip"
    path.write_bytes(package("work"))
    with closing(open_season_store(store)) as opened:
        for first, last in ((0, slots), (slots, slots + submissions)):
            cpu, began = _cpu_s(process), time.monotonic()
            for number in range(first, last):
                client_of(contest, url, number).submit(path, "erp", "", lambda _done, _size: None)
            _wait_until_judged(opened, began + END_S)
        seconds, used = time.monotonic() - began, _cpu_s(process) - cpu
        units = sum(unit.submission > slots for unit in opened.units())
    server.stop()
    return 60 * units / seconds, used / units


def _wait_until_judged(store: SeasonStore, deadline: float) -> None:
    while any(each.ended is None for each in store.submissions()):
        if time.monotonic() > deadline:
            raise SystemExit("not all submissions were judged in time")
        time.sleep(0.1)
    for each in store.submissions():
        if each.stage != "judged":
            raise SystemExit(f"submission {each.id}: {each.stage} ({each.reason})")


def throughput(folder: Path, units: int) -> dict[str, Any]:
    rates, cpu = {}, {}
    for slots in (1, 2):
        rates[slots], cpu[slots] = units_a_minute(folder, slots, max(1, units // 2))
    return {
        "units a minute, 1 worker": round(rates[1], 2),
        "units a minute, 2 workers": round(rates[2], 2),
        "server CPU a unit (s)": round(cpu[2], 3),
        "server CPU a line of a run log (us)": round(log_line_us(folder), 1),
    }


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


# --- status requests under load ---------------------------------------------------------------


def fill_queue(store: str, contest: Contest, queued: int) -> None:
    """Submissions that wait for their check, a judged one of each team, and a first one whose run hangs."""
    teams = len(contest.teams)
    with closing(open_season_store(store)) as opened, opened._transaction() as cursor:
        marks = ", ".join("?" for _ in fields(Submission))
        for number in range(1, teams + queued + 1):
            team = f"t{(number - 1) % teams}"
            made = Submission(
                number, team, "erp", "open", "team.zip", 10, "0" * 64, time.time(),
                report="6 of 6 answers would count\n" * 100,
            )  # fmt: skip
            if number > queued:
                row = asdict(
                    LeaderboardRow(team, "erp", "bits/min", score=float(number), trials=32)
                )
                made = replace(made, stage="judged", score=float(number), row=row, ended=1.0)
            cursor.execute(
                f"INSERT INTO submissions ({SUBMISSION}) VALUES ({marks})", submission_values(made)
            )
            if number <= queued:
                add_unit(cursor, made, CHECK if number > 1 else RUN)
    uploads = contest.folder / "uploads"
    uploads.mkdir(exist_ok=True, mode=0o700)
    (uploads / "1").write_bytes(package("hang"))


def show_pages(url: str, folder: Path, pages: int, seconds: float) -> tuple[int, int, int]:
    """(refreshed pages, pages that had not changed, failed requests) of pages that are open so long."""
    return asyncio.run(_show_pages(url, load_contest(folder), pages, seconds))


async def _show_pages(
    url: str, contest: Contest, pages: int, seconds: float
) -> tuple[int, int, int]:
    sessions = Sessions(contest.token)
    counts = Counter[int]()
    end = time.monotonic() + seconds
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:

        async def page(number: int) -> None:
            team = f"t{number % len(contest.teams)}"
            file = contest.keys.team_file(team, contest.name, contest.results)
            cookies = {COOKIE: sessions.log_in(file.read_bytes())}
            path = "/" if number % 10 == 9 else f"/submissions/{number + 1}"
            headers: dict[str, str] = {}
            await asyncio.sleep(random.Random(number).uniform(0, PAGE_S))
            while time.monotonic() < end:
                async with session.get(url + path, cookies=cookies, headers=headers) as answer:
                    await answer.read()
                    counts[answer.status] += 1
                    headers["If-None-Match"] = answer.headers.get("ETag", "")
                await asyncio.sleep(PAGE_S)

        await asyncio.gather(*(page(number) for number in range(pages)))
    return counts[200] + counts[304], counts[304], counts.total() - counts[200] - counts[304]


def ask_status(client: SeasonClient, seconds: float) -> list[float]:
    """Seconds of each status request."""
    took: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        client.submission(2)
        took.append(time.perf_counter() - began)
        time.sleep(ASKED_S)
    return took


def under_load(folder: Path, queued: int, pages: int, seconds: float) -> dict[str, Any]:
    contest = make_contest(folder / "load", min(TEAMS, queued))
    store = str(contest.folder / "season.sqlite")
    fill_queue(store, contest, queued)
    server = KilledServer(contest.folder, store, 1)
    url = server.start()
    process = psutil.Process(server.pid)
    client = client_of(contest, url, 1)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as browsers:
        show = partial(show_pages, url, contest.folder, pages)
        browsers.submit(show, PAGE_S).result()  # each once
        memory, cpu, began = process.memory_info().rss, _cpu_s(process), time.monotonic()
        showing = browsers.submit(show, seconds)
        took = ask_status(client, seconds)
        shown, unchanged, failed = showing.result()
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
        "longest (ms)": round(1000 * took[-1], 1),
        "page refreshes a second": round(shown / lasted, 1),
        "of them unchanged (%)": round(100 * unchanged / max(1, shown)),
        "failed": failed,
        "server CPU (share of a core)": round(used / lasted, 2),
        "memory (MB)": round(memory / 1e6, 1),
        "memory growth (MB)": round(grown / 1e6, 1),
    }


# --- what a large season needs ----------------------------------------------------------------

SUBMISSIONS = 8622
PEOPLE = 18
HOURS = 1.5
SEASON_DAYS = 60
PEAK = 4.0
"""How much more than on average arrives in the last days of a phase."""
PACKET_S = 0.04
SHARES = (0.01, 0.05, 0.2, 1.0)
"""Compute time of a decoder over the duration of its data; 1 is the default limit (`compute_factor`)."""


def reckon(packets_a_second: float, server_cpu_s: float, line_us: float) -> list[str]:
    """A Markdown table: core hours and machines for a season of SUBMISSIONS on PEOPLE x HOURS each."""
    data_s = PEOPLE * HOURS * 3600
    packets = data_s / PACKET_S
    titles = ("compute share", "core hours a submission", "core hours in all", "slots on average",
              "slots at the peak", "machines of 32 cores")  # fmt: skip
    lines = [
        f"{SUBMISSIONS} submissions x {PEOPLE} people x {HOURS:g} h = "
        f"{SUBMISSIONS * data_s / 3600:,.0f} h of data; {packets:,.0f} packets of {PACKET_S:g} s each; "
        f"{packets_a_second:g} packets a second without the decoder's own compute time.",
        "",
        f"| {' | '.join(titles)} |",
        f"|{'---|' * len(titles)}",
    ]
    for share in SHARES:
        each_h = (data_s * share + packets / packets_a_second) / 3600
        total_h = SUBMISSIONS * each_h
        average = total_h / (SEASON_DAYS * 24)
        machines = math.ceil(average * PEAK / 31)  # one core of each is left to the system
        row = (f"{share:.0%}", f"{each_h:.2f}", f"{total_h:,.0f}", f"{average:.1f}",
               f"{average * PEAK:.0f}", str(machines))  # fmt: skip
        lines.append(f"| {' | '.join(row)} |")
    units = SUBMISSIONS * (1 + PEOPLE)
    own_h = units * server_cpu_s / 3600
    logs_h = SUBMISSIONS * packets * line_us / 1e6 / 3600
    lines += [
        "",
        f"Server: {units:,} units (a check and {PEOPLE} runs each, with `split`) x {server_cpu_s:g} s = "
        f"{own_h:.1f} h of one core; {SUBMISSIONS * packets:,.0f} lines of logs to verify and score x "
        f"{line_us:g} us = {logs_h:.0f} h: {(own_h + logs_h) / (SEASON_DAYS * 24):.2f} cores over "
        f"{SEASON_DAYS} days, {PEAK * (own_h + logs_h) / (SEASON_DAYS * 24):.2f} at the peak.",
    ]
    return lines


def log_line_us(folder: Path) -> float:
    """Microseconds of processor time in which the server verifies and scores one line of a run log."""
    contest = make_contest(folder / "lines", 1)
    job = UnitJob(1, 1, 1, "t0", "erp", [])
    (folder / "one.zip").write_bytes(package())
    write_job(folder / "unit", contest, TrackPlan(), job, folder / "one.zip")
    do_unit(folder / "unit", threading.Event())
    outcome = read_outcome(folder / "unit")
    assert outcome is not None
    lines = len((folder / "unit" / "runs" / outcome.log).read_bytes().splitlines())
    began, turns = time.process_time(), 20
    for _ in range(turns):
        result = result_of(contest, contest.runs / "x.jsonl", job, folder / "unit", outcome)
        assert isinstance(result, UnitResult), result
    return 1e6 * (time.process_time() - began) / turns / lines


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--units",
        type=int,
        default=24,
        help="two for each submission; 0: none",
    )
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--json", type=Path)
    parser.add_argument(
        "--reckon", nargs=3, type=float, metavar=("PACKETS_A_SECOND", "SERVER_CPU_S", "LINE_US"),
        help="print what a large season needs, from the figures of the lockstep bench and of this one",
    )  # fmt: skip
    given = parser.parse_args(words)
    if given.reckon:
        print("\n".join(reckon(*given.reckon)))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="season-bench-"))
    try:
        found = throughput(folder, given.units) if given.units else {}
        found |= under_load(folder, given.queued, given.pages, given.seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("| measure | value |\n|---|---|")
    for name, value in found.items():
        print(f"| {name} | {value} |")
    if given.units:
        ratio = found["units a minute, 2 workers"] / found["units a minute, 1 worker"]
        report_ratio(
            "season", "units a minute with 2 workers", "with 1 worker", [ratio],
            asked="at least 1.8 on two idle cores",
        )  # fmt: skip
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
