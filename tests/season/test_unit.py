"""The process of a unit: a real submission in its sandbox, and whose fault a failure is."""

import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import pytest
from msgspec import structs
from season.serving import make_contest

from bci_stream.contest.contest import TrackPlan, load_contest
from bci_stream.errors import HOST_FAILED
from bci_stream.season.results import keep_log, log_place, result_of
from bci_stream.season.standing import run_recordings
from bci_stream.season.storage.schema import UnitResult
from bci_stream.season.units import unit as unit_module
from bci_stream.season.units.engines import parse_engine
from bci_stream.season.units.jobs import (
    UnitJob,
    UnitOutcome,
    read_outcome,
    read_progress,
    write_job,
)
from bci_stream.season.units.unit import run_unit
from tracks.common.reasons import Reason

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "scripts" / "templates" / "g1"
RECORDINGS = ["synthetic:erp?subjects=1&trials=1"]


def prepared(folder: Path, package: Path, number: int, **rules: object) -> UnitJob:
    contest = make_contest(folder / "cup")
    job = UnitJob(1, number, 1, "alice", "erp", RECORDINGS)
    write_job(folder / "unit", contest, TrackPlan([], rules=rules), job, package)
    return job


def done(folder: Path) -> UnitOutcome:
    run_unit(folder / "unit", threading.Event())
    outcome = read_outcome(folder / "unit")
    assert outcome is not None
    return outcome


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BCI_HOME", "replaced by the unit")


@pytest.mark.slow
@pytest.mark.lsl
def test_a_real_submission_is_run_in_its_sandbox_and_its_log_is_kept(tmp_path: Path) -> None:
    package = tmp_path / "team.tar.gz"
    with tarfile.open(package, "w:gz") as archive:
        archive.add(TEMPLATE, ".")
    job = prepared(tmp_path, package, 1, sequence_s=2.0)
    # In a process of its own: liblsl has one configuration a process.
    unit = [sys.executable, "-m", "bci_stream.season", str(tmp_path / "unit")]
    subprocess.run(unit, cwd=ROOT, check=True, timeout=110)
    outcome = read_outcome(tmp_path / "unit")
    assert outcome is not None
    assert (outcome.ending, outcome.detail) == ("finished", "")
    assert read_progress(tmp_path / "unit").total > 0
    contest = make_contest(tmp_path / "cup")
    kept = log_place(contest, "open", job)
    result = result_of(contest, kept, job, tmp_path / "unit", outcome)
    assert isinstance(result, UnitResult)
    keep_log(contest, tmp_path / "unit", outcome, kept)
    assert kept == contest.runs / "open" / "erp-alice-1.jsonl"
    assert '"rules":{"sequence_s":2.0}' in kept.read_text().splitlines()[0]


def test_a_package_that_cannot_be_read_is_rejected_with_its_report(tmp_path: Path) -> None:
    package = tmp_path / "x"
    package.write_bytes(b"PK\x03\x04 but no more")
    prepared(tmp_path, package, 0)
    outcome = done(tmp_path)
    assert outcome.ending == "rejected"
    assert "not a folder, a .zip or a .tar.gz" in outcome.report
    assert str(tmp_path) not in outcome.report


@pytest.mark.parametrize(
    ("codes", "ending", "words"),
    [
        ([0, 0, 0], "passed", ""),
        ([0, 1, 0], "passed", ""),  # pruning failed: not the team's concern
        ([0, 0, 1], "rejected", "nothing that would count"),
        ([1], "rejected", "nothing that would count"),
        ([0, 0, None], "rejected", "longer than 600 s"),
        ([HOST_FAILED], "stopped", "no registry"),
        ([0, 0, -9], "stopped", "exit code -9"),
    ],
)
def test_whose_fault_a_failed_check_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes, ending, words
) -> None:
    package = tmp_path / "x"
    package.write_bytes(b"PK\x03\x04")
    prepared(tmp_path, package, 0)
    left = iter(codes)
    monkeypatch.setattr(unit_module, "_child", lambda *_: (next(left), "Error: no registry"))
    outcome = done(tmp_path)
    assert outcome.ending == ending
    assert words in outcome.detail


def test_the_folder_of_a_unit_has_the_rules_of_its_phase_and_is_private(tmp_path: Path) -> None:
    package = tmp_path / "x"
    package.write_bytes(b"PK\x03\x04")
    prepared(tmp_path, package, 1, sequence_s=2.0, outage="stand")
    unit = tmp_path / "unit"
    made, contest = load_contest(unit), make_contest(tmp_path / "cup")
    assert made.rules("erp") == {"sequence_s": 2.0, "outage": "stand"}
    assert made.teams == ("alice",)
    assert made.limits == contest.limits
    assert made.keys.token("alice") == contest.keys.token("alice")
    assert unit.stat().st_mode & 0o077 == 0
    assert (unit / "keys" / "contest.key").stat().st_mode & 0o077 == 0


def test_a_run_without_a_log_or_stopped_by_us(tmp_path: Path) -> None:
    contest = make_contest(tmp_path / "cup")
    job = UnitJob(1, 1, 1, "alice", "erp", [])
    kept = log_place(contest, "open", job)
    stopped = result_of(contest, kept, job, tmp_path, UnitOutcome("stopped", "disk full"))
    assert isinstance(stopped, Reason)
    crashed = result_of(
        contest,
        log_place(contest, "open", job),
        job,
        tmp_path,
        UnitOutcome("crashed", "no module x"),
    )
    assert crashed == UnitResult("crashed", "no module x")
    lost = result_of(
        contest,
        log_place(contest, "open", job),
        job,
        tmp_path,
        UnitOutcome("finished", log="../../x"),
    )
    assert isinstance(lost, Reason)
    assert lost.code == "log_refused"


def test_engines_and_recordings_are_named(tmp_path: Path) -> None:
    assert parse_engine("local:3").slots == 3
    for wrong in ("local", "local:0", "http://x:1", "local:x"):
        with pytest.raises(Exception, match="no engine"):
            parse_engine(wrong)
    contest = make_contest(tmp_path / "cup")
    (contest.folder / "a.npz").touch()
    own, made = str(contest.folder / "a.npz"), "synthetic:erp"
    plan = TrackPlan(["a.npz", made])
    assert run_recordings(contest, plan, "erp") == [[own, made]]
    assert run_recordings(contest, structs.replace(plan, split="subject"), "erp") == [[own], [made]]
    assert run_recordings(contest, TrackPlan(), "mi") == [["synthetic:mi?set=test"]]
