"""`bci-judge publish`, and logs that are incomplete: what is shown of them, and that they harm nothing."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from playground import Recorder, erp_recording, play, program

from bci_stream.contest.contest import load_contest
from bci_stream.judge.cli import main as judge_main
from bci_stream.judge.live_command import only_judge
from bci_stream.leaderboard.measured import MEASURES, measured_file, write_measured
from bci_stream.wire.memory import MemoryTransport

FILE = """\
name = "c"
title = "脑机接口大赛"
teams = ["alice", "carol"]
[team.alice]
name = "清华脑机一队"
[tracks.erp]
[[awards]]
name = "特等奖"
prize = "15000"
"""
EMPTY = (
    '{"kind":"run","v":1,"track":"erp","team":"bob","rules":{},"t":0}\n'
    '{"kind":"end","reason":"stopped","t":1}\n'
)
"""The log of a run that was stopped before anything was played."""


def judge(*arguments: object) -> str:
    done = CliRunner().invoke(judge_main, [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def cup(tmp_path: Path) -> Path:
    """A contest with one run, and with a log that can't be scored."""
    folder = tmp_path / "cup"
    folder.mkdir()
    (folder / "contest.toml").write_text(FILE, encoding="utf-8")
    what = program("erp", erp_recording())
    played = play(MemoryTransport(), load_contest(folder), what, {"alice": Recorder()})
    assert played.runs["alice"].ended == "finished"
    (folder / "runs" / "erp-bob-empty.jsonl").write_text(EMPTY)
    return folder


def test_a_run_log_has_the_display_name(cup) -> None:
    (log,) = (cup / "runs").glob("erp-alice-*.jsonl")
    assert json.loads(log.read_text(encoding="utf-8").splitlines()[0])["name"] == "清华脑机一队"


def test_the_published_folder_has_the_results_and_logs_that_anyone_can_verify(
    cup, tmp_path
) -> None:
    out = tmp_path / "public"
    (run,) = (cup / "runs").glob("erp-alice-*.jsonl")
    write_measured(run, {"leads": 8, "calibration": 10, "size_mib": 1.5, "reaction_ms": 20.25})
    assert judge("publish", out, "--contest", cup).count("left out") == 1
    judge("verify", out / "logs", "--public-key", out / "public-key.txt")
    results = json.loads((out / "results.json").read_text(encoding="utf-8"))
    rows = json.loads((out / "api" / "snapshot.json").read_bytes())["rows"]
    for row in (results["rows"][0], next(row for row in rows if row["team"] == "alice")):
        assert [row[name] for name in MEASURES] == [8, 10, 1.5, 20.25]
    (copied,) = (out / "logs").glob("*.measured.json")
    assert copied.read_bytes() == measured_file(run).read_bytes()
    assert results["title"] == "脑机接口大赛"
    assert [(a["award"], a["name"], a["prize"]) for a in results["awards"]] == [
        ("特等奖", "清华脑机一队", "15000")
    ]
    report = (out / "report.html").read_text(encoding="utf-8")
    assert "特等奖" in report
    assert "清华脑机一队" in report
    assert "erp-bob-empty.jsonl" in report
    (log,) = (out / "logs").glob("erp-alice-*.jsonl")
    assert "holds: seal" in judge("verify", log, "--public-key", out / "public-key.txt")
    log.write_bytes(log.read_bytes().replace(b'"start":0', b'"start":1', 1))
    changed = CliRunner().invoke(
        judge_main, ["verify", str(log), "--public-key", str(out / "public-key.txt")]
    )
    assert changed.exit_code == 1


def test_nothing_secret_is_published(cup, tmp_path) -> None:
    out = tmp_path / "public"
    judge("publish", out, "--contest", cup, "--no-logs")
    keys = load_contest(cup).keys
    secrets = [keys.contest_key(), keys.truth_key(), keys.token("alice"), keys.token("carol")]
    published = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    assert not any(secret.hex().encode() in published or secret in published for secret in secrets)
    assert not (out / "logs").exists()


def test_it_is_refused_over_other_files_and_while_a_judge_is_at_work(cup, tmp_path) -> None:
    (tmp_path / "x").touch()
    full = CliRunner().invoke(judge_main, ["publish", str(tmp_path), "--contest", str(cup)])
    assert full.exit_code == 1
    assert "is not empty" in full.output
    with only_judge(load_contest(cup)):
        busy = CliRunner().invoke(
            judge_main, ["publish", str(tmp_path / "p"), "--contest", str(cup)]
        )
    assert busy.exit_code == 1
    assert "is at work" in busy.output


def test_an_incomplete_log_and_an_absent_team_leave_report_and_leaderboard_alone(
    cup, tmp_path
) -> None:
    out = tmp_path / "report.html"
    judge("report", cup / "runs", "--out", out)
    text = out.read_text(encoding="utf-8")
    assert "Not scored" in text
    assert "the log holds no truth" in text
    found = CliRunner().invoke(judge_main, ["leaderboard", "--contest", str(cup), "--form", "json"])
    assert found.exit_code == 0
    rows = json.loads(found.stdout)["rows"]
    assert [(row["team"], row["rank"], row["status"]) for row in rows] == [
        ("alice", 1, "finished"),
        ("carol", None, "missing"),
    ]
    assert "left out" in found.stderr


def test_where_no_log_can_be_scored_the_report_says_so(tmp_path) -> None:
    (tmp_path / "a.jsonl").write_text(EMPTY)
    done = CliRunner().invoke(
        judge_main, ["report", str(tmp_path), "--out", str(tmp_path / "r.html")]
    )
    assert done.exit_code == 1
    assert "no log can be scored: a.jsonl (the log holds no truth" in done.output
