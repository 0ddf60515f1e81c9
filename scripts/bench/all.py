"""Runs all benchmarks one after the other, and prints their ratios in one table: `make bench`.

    python -m scripts.bench.all [--quick] [--only NAME]... [--out docs/performance]

Writes OUT.json, OUT.png and the page OUT.md, with date, machine and how to repeat it. A benchmark that fails
is named, and the others go on; the exit status is then 1.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from dataclasses import asdict
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
    "first_packet": ([], ["--hours", "0.2", "--rounds", "3"]),
    "judge": ([], ["--teams", "20", "--seconds", "8"]),
    "page": ([], ["--pages", "100", "--updates", "20", "--rounds", "1"]),
    "host": ([], ["--packets", "500", "--repeats", "2"]),
    "devices": (["--seconds", "60"], ["--seconds", "5"]),
    "season": ([], ["--units", "4", "--queued", "200", "--pages", "20", "--seconds", "3"]),
}

PAGE = """\
# Performance

Ratios of one run, each of ours over something simpler that does the same: below 1 is better, but for
lockstep (packets a second). Spread: all turns of that run. `make bench` makes this page.

{date}, {machine}.

![Ratios](performance.png)

| benchmark | measured | beside | ratio | spread | asked |
|---|---|---|---|---|---|
{rows}
"""


def run_bench(name: str, arguments: list[str], ratios: Path) -> bool:
    """Run a benchmark with its output shown; False if it failed or took too long."""
    print(f"== {name}", flush=True)
    env = {**os.environ, FILE_VARIABLE: str(ratios), "PYTHONPATH": str(HERE.parents[1])}
    try:
        command = [sys.executable, "-P", str(HERE / f"{name}.py"), *arguments]
        return subprocess.run(command, env=env, timeout=LIMIT_S).returncode == 0
    except subprocess.TimeoutExpired:
        print(f"{name}: stopped after {LIMIT_S:g} s")
        return False


def machine() -> str:
    memory_gb = psutil.virtual_memory().total / 2**30
    return (
        f"{os.cpu_count()} cores, {memory_gb:.0f} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, load {os.getloadavg()[0]:.1f} at the end"
    )


def table_rows(ratios: list[BenchRatio]) -> str:
    return "\n".join(
        f"| {r.bench} | {r.measure} | {r.beside} | {number(r.ratio)} | "
        f"{number(r.low)} to {number(r.high)} ({r.turns}) | {r.asked} |"
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short runs, to try it")
    parser.add_argument("--only", action="append", choices=list(BENCHES), help="repeatable")
    parser.add_argument("--out", type=Path, default=Path("docs/performance"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ratios.jsonl"
        failed = [
            name
            for name in given.only or BENCHES
            if not run_bench(name, BENCHES[name][given.quick], file)
        ]
        ratios = read_ratios(file)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    page = PAGE.format(date=date, machine=machine(), rows=table_rows(ratios))
    print(page)
    given.out.with_suffix(".json").write_text(json.dumps([asdict(r) for r in ratios], indent=1))
    given.out.with_suffix(".md").write_text(page, encoding="utf-8")
    if ratios:
        draw(ratios, given.out.with_suffix(".png"))
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
