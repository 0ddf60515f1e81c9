"""Folding a log gives what was shown live."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bci_stream.errors import LogError
from bci_stream.leaderboard.fold import fold, fold_log
from bci_stream.leaderboard.measured import read_measured, write_measured
from scripts.simulated_runs import SimulatedRun
from tracks.registry import TRACKS

GOLDEN = Path(__file__).parents[1] / "golden"


def golden_logs() -> list[Path]:
    return sorted(GOLDEN.glob("*.jsonl.gz"))


@pytest.mark.parametrize("path", golden_logs(), ids=lambda path: path.name)
def test_a_golden_log_folds_to_its_expected_score(path: Path) -> None:
    expected = json.loads((GOLDEN / "expected.json").read_text())
    row = fold_log(path).row
    name = path.name.removesuffix(".jsonl.gz")
    assert row.score == pytest.approx(expected[name]["score"], abs=1e-9)


@pytest.mark.parametrize("track", list(TRACKS))
def test_a_view_shows_as_many_trials_as_the_run_scored(
    track: str, write_log: Callable[..., Path]
) -> None:
    path = write_log("a", SimulatedRun(track, "a", 0.8, subjects=2, blocks=2, trials=1))
    folded = fold(path)
    assert folded.view.row().trials == 4
    assert len(folded.view.detail()["trials"]) == 4
    assert folded.latencies_s


def test_a_log_that_was_cut_short_is_scored_as_if_it_ended_there(tmp_path: Path) -> None:
    """The judge was killed: what `bci-judge score` says of the log is what the store keeps."""
    events = list(SimulatedRun("turing", "a", 0.5, trials=8, seed=2).events())[:-1]
    path = tmp_path / "cut.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    folded = fold(path)
    assert folded.run.standing().score > 0
    assert folded.view.row().score == folded.run.result()["score"] == 0.0


def test_a_log_names_its_contest_or_is_given_one(tmp_path: Path) -> None:
    events = list(SimulatedRun("mi", "a", trials=1).events())
    plain, named = tmp_path / "plain.jsonl", tmp_path / "named.jsonl.gz"
    plain.write_text("".join(json.dumps(event) + "\n" for event in events))
    events[0]["contest"] = "finals"
    named.write_bytes(gzip.compress("".join(json.dumps(e) + "\n" for e in events).encode()))
    assert fold_log(plain, "given").contest == "given"
    assert fold_log(named, "given").contest == "finals"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "without a run line"),
        ('{"kind":"session"}\n', "line 1: the run line must come first"),
        ('{"kind":"run","v":1,"track":"mi","team":"a"}\n', "no truth"),
        ('{"kind":"run","v":1,"track":"mi","team":"a"}\n{"kind":', "line 2"),
    ],
)
def test_a_log_that_cannot_be_folded_is_refused_with_its_line(
    text: str, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(LogError, match=complaint):
        fold(path)


@pytest.mark.parametrize("text", ["", "[1]", '{"leads": "8"}', '{"leads": NaN}', '{"leads": -1}'])
def test_figures_that_can_not_be_read_are_left_out(tmp_path: Path, text: str) -> None:
    log = tmp_path / "mi-a-1.jsonl.gz"
    write_measured(log, {"leads": 3, "other": 4})
    assert read_measured(log) == {"leads": 3}
    (tmp_path / "mi-a-1.measured.json").write_text(text)
    assert read_measured(log) == {}
