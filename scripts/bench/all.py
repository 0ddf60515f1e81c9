"""Runs all benchmarks one after the other, and prints their ratios in one table: `make bench`.

    python -m scripts.bench.all [--quick] [--only NAME]... [--out docs/performance]

Writes OUT.json, OUT.png and the page OUT.md, with date, machine and how to repeat it. With --only, or
where a benchmark fails, the rows of OUT.json stay for those that were not measured. Failed benchmarks are
named at the end, with exit status 1.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import psutil

from scripts.bench.ratios import FILE_VARIABLE, BenchRatio, number, read_ratios

HERE = Path(__file__).parent
LIMIT_S = 1800.0

BENCHES: dict[str, tuple[list[str], list[str]]] = {
    # name: (arguments, arguments with --quick)
    "pacing": ([], ["--seconds", "5", "--turns", "1", "--most", "2"]),
    "delivery": ([], ["--seconds", "5", "--turns", "1"]),
    "lockstep": ([], ["--slices", "10"]),
    "lockstep_decoders": ([], ["--turns", "1", "--track", "erp"]),
    "first_packet": ([], ["--hours", "0.3", "--rounds", "3"]),
    "judge": ([], ["--teams", "20", "--seconds", "8"]),
    "growth": ([], ["--hours", "0.3", "--teams", "5", "--seconds", "5"]),
    "page": ([], ["--pages", "100", "--updates", "20", "--rounds", "1"]),
    "host": ([], ["--packets", "500", "--repeats", "2"]),
    "devices": (["--seconds", "60"], ["--seconds", "5"]),
    "season": ([], ["--units", "4", "--queued", "200", "--pages", "20", "--seconds", "3"]),
}

PAGE = """\
# Performance

Each ratio is a figure of ours over that of something simpler that does the same, measured in turns in one
run, so that the speed of the machine counts little. Lower is better, except for packets a second and units a
minute. Spread: the smallest and the largest of all turns.

`make bench` makes this page in about half an hour; nothing else should run meanwhile. To measure some of it
again and keep the other rows: `python -m scripts.bench.all --only judge --only delivery`.

{results}
"""

RESULTS = """\
{machine}. The last column has the date of each row, the load of the machine when its benchmark
began (0 is idle; above the number of cores the figures are worth little), and "short" for `--quick`.

![Ratios]({picture})

| benchmark | measured | beside | ratio | spread (turns) | asked | measured on |
|---|---|---|---|---|---|---|
{rows}"""

NO_RESULTS = "It has not been run on an idle machine yet."


def run_bench(name: str, arguments: list[str], ratios: Path) -> bool:
    """Run a benchmark with its output shown; False if it failed or took too long."""
    print(f"== {name}", flush=True)
    env = {**os.environ, FILE_VARIABLE: str(ratios), "PYTHONPATH": str(HERE.parents[1])}
    begun = time.monotonic()
    try:
        command = [sys.executable, "-P", str(HERE / f"{name}.py"), *arguments]
        status = subprocess.run(command, env=env, timeout=LIMIT_S).returncode
    except subprocess.TimeoutExpired:
        print(f"{name}: stopped after {LIMIT_S:g} s")
        return False
    print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
    return status == 0


def measured_ratios(name: str, *, quick: bool) -> list[BenchRatio] | None:
    """The ratios of one benchmark; None if it failed."""
    when = f"{datetime.now(UTC):%Y-%m-%d}, load {os.getloadavg()[0]:.1f}" + ", short" * quick
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ratios.jsonl"
        if not run_bench(name, BENCHES[name][quick], file):
            return None
        return [replace(ratio, when=when) for ratio in read_ratios(file)]


def machine() -> str:
    memory_gb = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} cores, {memory_gb:.0f} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}"
    )


def table_rows(ratios: list[BenchRatio]) -> str:
    return "\n".join(
        f"| {r.bench} | {r.measure} | {r.beside} | {number(r.ratio)} | "
        f"{number(r.low)} to {number(r.high)} ({r.turns}) | {r.asked} | {r.when} |"
        for r in ratios
    )


def draw(ratios: list[BenchRatio], path: Path) -> None:
    """Each ratio on a logarithmic axis, with its spread."""
    figure, axes = plt.subplots(figsize=(9, 0.6 + 0.32 * len(ratios)), layout="constrained")
    for row, ratio in enumerate(reversed(ratios)):
        axes.plot([ratio.low, ratio.high], [row, row], color="#9fb3c8", linewidth=3)
        axes.plot(ratio.ratio, row, "o", color="#1d5fa8")
    labels = [f"{ratio.measure} / {ratio.beside}" for ratio in reversed(ratios)]
    axes.set_yticks(range(len(ratios)), labels, fontsize=8)
    axes.axvline(1.0, color="0.5", linewidth=1)
    axes.set(xscale="log", xlabel="ratio of ours to the other")
    figure.savefig(path, dpi=110, facecolor="white")


def write(ratios: list[BenchRatio], out: Path) -> None:
    """Print the page, and write page, table and plot."""
    picture = out.with_suffix(".png")
    rows = table_rows(ratios)
    results = RESULTS.format(machine=machine(), picture=picture.name, rows=rows)
    page = PAGE.format(results=results if ratios else NO_RESULTS)
    print(page)
    out.with_suffix(".json").write_text(json.dumps([asdict(r) for r in ratios], indent=1) + "\n")
    out.with_suffix(".md").write_text(page, encoding="utf-8")
    if ratios:
        draw(ratios, picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short runs, to try it")
    parser.add_argument("--only", action="append", choices=list(BENCHES), help="repeatable")
    parser.add_argument("--out", type=Path, default=Path("docs/performance"))
    given = parser.parse_args()
    table = given.out.with_suffix(".json")
    ratios: dict[str, list[BenchRatio]] = {name: [] for name in BENCHES}
    if table.exists():
        for row in json.loads(table.read_text()):
            ratios[row["bench"]].append(BenchRatio(**row))
    failed = []
    for name in given.only or BENCHES:
        measured = measured_ratios(name, quick=given.quick)
        if measured is None:
            failed.append(name)
        else:
            ratios[name] = measured
    write([ratio for rows in ratios.values() for ratio in rows], given.out)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
