"""`make demo`, with one track and a recording of two trials."""

import subprocess
import sys
from pathlib import Path

import pytest

from bci_stream.runlog import score_run

pytestmark = pytest.mark.lsl

ROOT = Path(__file__).parents[2]
SHORT = """
from pathlib import Path
from scripts import demo

demo.FOLDER = Path("demo")
demo.TRAINING = {"mi": ["synthetic:mi?set=train&subjects=1&blocks=1&trials=6&seed=5&difficulty=0"]}
demo.TEST = {"mi": "synthetic:mi?subjects=1&blocks=1&trials=2&seed=5&difficulty=0"}
demo.DECODERS = {"mi": "mi-riemann"}
demo.main()
"""


def test_the_demo_trains_plays_and_ends_with_a_leaderboard_and_a_report(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHORT],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for team in ("mi-riemann", "mi-chance"):
        assert team in done.stdout
        (log,) = (tmp_path / "demo").glob(f"**/mi-{team}-*.jsonl")
        assert score_run(log).end_reason == "finished"
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000
