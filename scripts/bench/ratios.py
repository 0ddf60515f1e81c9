"""Ratios that the benchmarks measure: printed, and collected by `scripts/bench/all.py`."""

import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

FILE_VARIABLE = "BCI_BENCH_RATIOS"
"""Environment variable with the file to which ratios are appended, a JSON object a line."""


@dataclass(frozen=True)
class BenchRatio:
    """One figure of ours over that of something simpler, measured in turns in the same run.

    bench: the script. measure: what was measured. beside: what it is compared with. ratio: the median;
    low, high: the smallest and the largest of all turns. asked: the limit in words, or empty. when: date and
    circumstances of the run, for the page.
    """

    bench: str
    measure: str
    beside: str
    ratio: float
    low: float
    high: float
    turns: int
    asked: str = ""
    when: str = ""

    def text(self) -> str:
        asked = f"; asked: {self.asked}" if self.asked else ""
        spread = f" ({number(self.low)} to {number(self.high)} in {self.turns} turns)"
        return f"{self.measure} / {self.beside}: {number(self.ratio)}{spread * (self.turns > 1)}{asked}"


def number(ratio: float) -> str:
    """A ratio to two figures; far below 1 as a fraction."""
    return f"1/{1 / ratio:.0f}" if 0 < ratio < 0.1 else f"{ratio:.2f}"


def report_ratio(
    bench: str, measure: str, beside: str, ratios: Sequence[float], asked: str = ""
) -> BenchRatio:
    """Print a ratio, and append it to the file of `make bench` if there is one."""
    found = BenchRatio(
        bench,
        measure,
        beside,
        statistics.median(ratios),
        min(ratios),
        max(ratios),
        len(ratios),
        asked,
    )
    print(found.text(), flush=True)
    if path := os.environ.get(FILE_VARIABLE):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(found)) + "\n")
    return found


def read_ratios(path: Path) -> list[BenchRatio]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [BenchRatio(**json.loads(line)) for line in lines]
