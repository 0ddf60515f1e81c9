"""kill -9 of server and workers: each unit counts once, and the logs are those of a serial run."""

import threading
import time
from pathlib import Path

import pytest
from season.serving import make_contest, serving, wait_for
from season.test_serve import submit

from bci_stream.runlog import score_run
from bci_stream.season.units.jobs import file_sha256, read_job
from scripts.season_faults import run_faults
from scripts.season_rig import ThreadEngine, do_unit, package

pytestmark = pytest.mark.slow


def test_each_unit_is_judged_once_whatever_is_killed(tmp_path: Path) -> None:
    report = run_faults(tmp_path, submissions=4, kills=3, seed=3)
    assert report.problems == []
    assert report.units == 8
    assert report.attempts >= 8


def test_a_worker_that_is_cut_off_longer_than_its_lease_does_not_replace_the_result(
    tmp_path: Path,
) -> None:
    cut_off, back = threading.Event(), threading.Event()

    def do(folder: Path, stop: threading.Event) -> None:
        job = read_job(folder)
        if not job.is_check and job.attempt == 1:
            cut_off.set()
            assert back.wait(60.0)
            (folder / "package").unlink()
            (folder / "package").write_bytes(package(seed=1))  # another log
        do_unit(folder, stop)

    with serving(make_contest(tmp_path / "cup"), ThreadEngine(2, do)) as served:
        alice = served.client("alice")
        number = submit(alice, tmp_path)
        assert cut_off.wait(60.0)
        with served.store() as store:
            assert len(store.expire(time.time() + 1000.0)) == 1
        judged = served.until(alice, number, "judged")
        back.set()
        with served.store() as store:
            wait_for(
                lambda: [a.outcome for a in store.attempts(number)][1:] == ["late", "finished"]
            )
            late, counted = store.attempts(number)[1:]
        assert late.log_sha256 not in ("", counted.log_sha256)
        (log,) = (tmp_path / "cup" / "runs" / "open").iterdir()
        assert judged["logs"] == [{"log": log.name, "sha256": file_sha256(log)}]
        assert score_run(log).result()["score"] == alice.submission(number)["score"]
