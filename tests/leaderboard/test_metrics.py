"""`/metrics`: what Prometheus reads of the page."""

from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from bci_stream.judge import live_command
from bci_stream.judge.cli import main
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.metrics import render_metrics
from bci_stream.leaderboard.web.process import WebBoard
from tests.leaderboard.test_console import READ_S, FakeJudge

parser = pytest.importorskip(
    "prometheus_client.parser", reason="prometheus-client is not installed"
)

DELAYS = {"lag_s": 0.004, "worst_s": 0.5, "jitter_s": 0.001}
STATE: dict[str, Any] = {
    "contest": "cup",
    "replays": [
        {
            "name": "r", "track": "mi", "pace": "realtime", "live": False, "state": "running",
            "health": {
                "packets": 7, "missing": 1, "offset_s": 0.25, "silent_s": None,
                "sending": DELAYS, "link": DELAYS,
            },
        }
    ],
    "teams": [{"team": "a", "state": "running"}, {"team": "b", "state": "missing"}],
    "dropped": {"unsigned": 3},
}  # fmt: skip


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    """Values by the metric's name and the values of its labels, in the order of the labels' names."""
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in parser.text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_teams_signals_and_replays_are_gauges() -> None:
    board = Leaderboard("Finals")
    board.team('a "b"', "mi", "lagging", lag_s=2.5)
    health = {
        "mi": {
            "lag_s": 0.02,
            "jitter_s": 0.003,
            "gaps": 2,
            "lost": 40,
            "samples": 9,
            "offset_s": 0.1,
        }
    }
    found = samples(render_metrics(board.rows(), health, STATE))
    assert found["bci_team_status", "lagging", 'a "b"', "mi"] == 1
    assert found["bci_team_lag_seconds", 'a "b"', "mi"] == 2.5
    assert found["bci_signal_lost", "mi"] == 40
    assert found["bci_signal_jitter_seconds", "mi"] == 0.003
    assert found["bci_replay_state", "r", "running", "mi"] == 1
    assert found["bci_replay_offset_seconds", "r", "mi"] == 0.25
    assert ("bci_replay_silent_seconds", "r", "mi") not in found
    assert found["bci_replay_worst_late_seconds", "r", "mi"] == 0.5
    assert found["bci_teams", "missing"] == 1
    assert found["bci_dropped_messages", "unsigned"] == 3
    assert found["bci_judge_up",] == 1


def test_a_judge_that_does_not_answer_is_down() -> None:
    assert samples(render_metrics([], {}, None)) == {("bci_judge_up",): 0.0}


def test_the_page_serves_them(tmp_path: Path) -> None:
    with closing(FakeJudge(tmp_path / "judge.sock")) as judge:
        served = WebBoard(Leaderboard("Finals"), port=0, metrics=str(judge._control.path))
        served.start()
        try:
            texts = []
            for _ in range(5):
                with urlopen(f"{served.url}metrics", timeout=READ_S) as answer:
                    assert answer.headers["Content-Type"].startswith("text/plain")
                    texts.append(answer.read())
        finally:
            served.stop()
    assert samples(texts[0])["bci_judge_up",] == 1
    assert 1 <= len(judge.taken) <= 5


def test_without_the_extra_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_command, "find_spec", lambda name: None)
    CliRunner().invoke(main, ["init", str(tmp_path / "cup")])
    result = CliRunner().invoke(
        main,
        ["live", "--contest", str(tmp_path / "cup"), "--metrics", "--port", "0", "--wait", "0"],
    )
    assert result.exit_code == 1
    assert "pip install 'bci-stream[metrics]'" in result.output
