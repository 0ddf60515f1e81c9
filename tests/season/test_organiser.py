"""The organiser's commands: status, retry, disqualify, export, rerun."""

import csv
import io
import json
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from season.serving import make_contest, serving, shared_logs
from season.test_serve import submit

from bci_stream.judge.cli import main
from bci_stream.season.organiser import best_submissions, open_organiser_store, rerun
from scripts.season_rig import ThreadEngine, do_unit, package

pytestmark = pytest.mark.slow


def run(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.fixture
def season(tmp_path: Path) -> Path:
    """Two judged submissions, and one that failed on the organiser's side."""
    folder = tmp_path / "cup"
    with serving(make_contest(folder), ThreadEngine(2)) as served:
        for seed, team in enumerate(("alice", "bob")):
            client = served.client(team)
            served.until(client, submit(client, tmp_path, package(seed=seed)), "judged")
        number = submit(client, tmp_path, package("fail"))
        served.until(client, number, "received", "checking")
        with served.store() as store:
            for _ in range(3000):
                if store.submission(number).fault == "organiser":
                    break
                threading.Event().wait(0.01)
    return folder


def test_the_organiser_sees_retries_disqualifies_and_exports(season: Path) -> None:
    here = ("--contest", str(season))
    shown = run("season", "status", *here).output
    assert "2 judged, 1 received" in shown
    assert "submission 3 of bob: received" in shown
    assert "registry is out of reach" in shown
    assert "submission 3 is done again" in run("season", "retry", "3", *here).output
    refused = run("season", "retry", "1", *here)
    assert refused.exit_code == 1
    assert "only what failed there is done again" in refused.output
    assert run("season", "disqualify", "9", "--reason", "x", *here).exit_code == 1
    done = run("season", "disqualify", "1", "--reason", "=copied", *here)
    assert "submission 1 counts for nothing" in done.output
    exported = json.loads(run("season", "export", *here).output)
    assert [row["team"] for row in exported["standings"][0]["rows"]] == ["bob"]
    rows = list(csv.DictReader(io.StringIO(run("season", "export", "--form", "csv", *here).output)))
    assert (rows[0]["stage"], rows[0]["reason"]) == ("disqualified", "'=copied")
    assert "disqualify submission 1" in run("season", "status", *here).output


def test_the_best_are_run_again_and_a_difference_names_its_line(season: Path) -> None:
    contest = make_contest(season)
    store = open_organiser_store(contest, "")
    store.disqualify(3, "test", "in the way", 0.0)
    phase, best = best_submissions(contest, store, "", "erp", 1)
    assert [each.team for each in best] == ["alice"]
    stop = threading.Event()
    (same,) = rerun(contest, store, phase, best, ThreadEngine(), shared_logs(), stop)
    assert same.difference is None

    def other_answers(folder: Path, stop: threading.Event) -> None:
        (folder / "package").unlink()
        (folder / "package").write_bytes(package(seed=1))
        do_unit(folder, stop)

    (other,) = rerun(
        contest, store, phase, best, ThreadEngine(do=other_answers), shared_logs(), stop
    )
    assert other.difference.startswith("line ")
    assert '"result":"E"' in other.difference
    assert '"result":"A"' in other.difference
    store.close()


def test_a_contest_without_a_season_is_named(tmp_path: Path) -> None:
    make_contest(tmp_path / "cup")
    for words in (("season", "status"), ("season", "export"), ("rerun", "--track", "erp")):
        done = run(*words, "--contest", str(tmp_path / "cup"))
        assert done.exit_code == 1
        assert "`bci-judge serve` makes it" in done.output
