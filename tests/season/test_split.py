"""Submissions whose subjects run on their own: `split = "subject"`."""

from pathlib import Path

import pytest
from season.conftest import put
from season.serving import Served, make_contest, serving, shared_logs, wait_for
from season.test_season_store import FINISHED, PASSED
from season.test_serve import submit

from bci_stream.leaderboard.fold import fold_log
from bci_stream.runlog import score_run
from bci_stream.season.organiser import best_submissions, rerun
from bci_stream.season.queue import MOST_ATTEMPTS
from bci_stream.season.results import combined_result
from bci_stream.season.storage.schema import UnitResult
from bci_stream.season.storage.store import SeasonStore
from scripts.season_rig import ThreadEngine, package

pytestmark = pytest.mark.slow

SPLIT = 'split = "subject"\nrecordings = ["synthetic:erp?seed=1", "synthetic:erp?seed=2", "synthetic:erp"]\n'


def logs_of(served: Served, number: int) -> list[Path]:
    folder = served.contest.runs / "open"
    return [folder / f"erp-alice-{number}-{run}.jsonl" for run in (1, 2, 3)]


def test_each_subject_is_a_run_and_the_score_is_that_of_one_run_of_all(tmp_path: Path) -> None:
    with serving(make_contest(tmp_path / "cup", SPLIT), ThreadEngine(2), units_a_team=2) as served:
        alice = served.client("alice")
        judged = served.until(alice, number := submit(alice, tmp_path), "judged")
        logs = logs_of(served, number)
        assert [each["log"] for each in judged["logs"]] == [log.name for log in logs]
        scores = [score_run(log).result()["score"] for log in logs]
        assert judged["score"] == sum(scores) / 3 > 0
        one = fold_log(logs[0]).row
        with served.store() as store:
            row = store.submission(number).row
            phase, best = best_submissions(served.contest, store, "", "erp", 1)
            (same,) = rerun(
                served.contest, store, phase, best, ThreadEngine(), shared_logs(), served.stop
            )
        assert same.difference is None
        assert (row["trials"], row["right"]) == (3 * one.trials, 3 * one.right)
        assert (row["accuracy"], row["used"], row["status"]) == (one.accuracy, one.used, "finished")

        crashed = submit(alice, tmp_path, package("exit", only=2))
        failed = served.until(alice, crashed, "failed")
        assert failed["score"] == pytest.approx(2 * scores[0] / 3), (
            "a subject without a run scores 0"
        )
        assert failed["reason"] == "run 2 of 3: it exited before its run"
        assert "run 3 of 3: printed 0" in failed["report"]
        with served.store() as store:
            again = (served.contest, store, phase, [store.submission(crashed)])
            (same,) = rerun(*again, ThreadEngine(), shared_logs(), served.stop)
            (served.contest.folder / "uploads" / str(crashed)).write_bytes(package())
            (other,) = rerun(*again, ThreadEngine(), shared_logs(), served.stop)
        assert same.difference is None, "run 2 left no log then, and leaves none now"
        assert other.difference == "the end: no run log then, a run log now"

        hanging = submit(alice, tmp_path, package("hang", only=2))
        assert wait_for(lambda: "run 3 of 3: 80 %" in alice.submission(hanging)["words"])


def test_a_server_that_was_killed_before_the_last_result_judges_it_at_its_start(
    tmp_path: Path,
) -> None:
    contest = make_contest(tmp_path / "cup", SPLIT)
    with serving(contest) as served:
        alice = served.client("alice")
        score = served.until(alice, number := submit(alice, tmp_path), "judged")["score"]
        with served.store() as store, store._database.transaction() as cursor:
            cursor.execute("UPDATE submissions SET stage = 'running', ended = NULL, score = NULL")
    with serving(contest) as served:
        again = served.until(served.client("alice"), number, "judged")
        assert (again["score"], again["attempts"]) == (score, 1)


def leases(store: SeasonStore, count: int, now: float = 0.0):
    found = [store.lease("w1", now, 60.0, 5) for _ in range(count)]
    assert all(found)
    return [lease for lease, _ in found]


def test_the_last_of_several_runs_leaves_the_submission_to_be_judged(store: SeasonStore) -> None:
    put(store, "alice")
    put(store, "alice")
    (check,) = leases(store, 1)
    store.finish(check, PASSED, 0.0, runs=3)
    assert store.waiting_before(store.submission(2)) == 3
    first, second, third = leases(store, 3)
    assert [lease.number for lease in (first, second, third)] == [1, 2, 3]
    store.give_back(second, "disk full", 1.0)
    waiting = store.submission(1)
    assert (waiting.stage, waiting.fault) == ("running", "organiser")
    assert store.finish(third, FINISHED, 2.0)
    assert store.finish(first, FINISHED, 3.0)
    assert store.to_judge() == []
    assert store.submission(1).stage == "queued"
    (again,) = leases(store, 1, 100.0)
    assert not store.finish(second, FINISHED, 101.0), "it was given back"
    assert store.finish(again, UnitResult("crashed", "boom"), 102.0)
    assert [each.id for each in store.to_judge()] == [each.id for each in store.to_judge(1)] == [1]
    assert store.judge(1, FINISHED, 103.0)
    assert not store.judge(1, UnitResult("crashed"), 104.0), "once"
    assert (store.submission(1).stage, store.submission(1).score) == ("judged", 12.5)
    assert store.to_judge() == []


def test_a_run_that_fails_on_our_side_too_often_holds_the_others(store: SeasonStore) -> None:
    put(store, "alice")
    (check,) = leases(store, 1)
    store.finish(check, PASSED, 0.0, runs=2)
    now = 0.0
    for _ in range(MOST_ATTEMPTS):
        (lease,) = leases(store, 1, now)
        assert lease.number == 1
        store.give_back(lease, "disk full", now)
        now += 10_000.0
    assert store.submission(1).stage == "failed"
    assert store.lease("w1", now, 60.0, 5) is None, "the other run is held"
    store.retry(1, "console", now)
    assert len(leases(store, 2, now)) == 2


@pytest.mark.parametrize("how", ["finished", "given back", "expired"])
def test_a_held_submission_stays_held_when_its_other_runs_end(store: SeasonStore, how: str) -> None:
    put(store, "alice")
    (check,) = leases(store, 1)
    store.finish(check, PASSED, 0.0, runs=3)
    first, second, third = leases(store, 3)
    store.hold(1, "the disk is full", 1.0)
    store.give_back(first, "the disk is full", 1.0)
    if how == "finished":
        assert store.finish(second, FINISHED, 2.0)
    elif how == "given back":
        store.give_back(second, "lost", 2.0)
    else:
        assert len(store.expire(1000.0)) == 2
    held = store.submission(1)
    assert (held.stage, held.fault, held.reason) == ("failed", "organiser", "the disk is full")
    assert store.lease("w1", 100_000.0, 60.0, 5) is None
    store.finish(third, FINISHED, 3.0)
    assert store.submission(1).stage == "failed"
    assert store.to_judge() == []
    store.retry(1, "console", 100_000.0)
    assert store.submission(1).stage == "queued"
    assert len(leases(store, 1, 100_000.0)) == 1


def test_runs_whose_logs_cannot_be_read_are_done_again(store: SeasonStore) -> None:
    put(store, "alice")
    (check,) = leases(store, 1)
    store.finish(check, PASSED, 0.0, runs=2)
    for lease in leases(store, 2):
        store.finish(lease, FINISHED, 1.0)
    store.hold(1, "a run log can't be read", 2.0)
    assert store.to_judge() == []
    store.retry(1, "console", 3.0)
    assert store.submission(1).stage == "queued"
    assert [lease.number for lease in leases(store, 2, 4.0)] == [1, 2]


def test_a_submission_whose_runs_left_no_log_has_no_score(
    tmp_path: Path, store: SeasonStore
) -> None:
    put(store, "alice")
    (check,) = leases(store, 1)
    store.finish(check, PASSED, 0.0, runs=2)
    for lease in leases(store, 2):
        store.finish(lease, UnitResult("crashed", "no module"), 1.0)
    result = combined_result(make_contest(tmp_path / "cup"), store.units(1)[1:])
    assert (result.ending, result.reason, result.score) == (
        "crashed",
        "run 1 of 2: no module",
        None,
    )
