"""The season's store: the same in SQLite and in PostgreSQL."""

import sqlite3
from pathlib import Path

import pytest
from season.conftest import put

from bci_stream.errors import ContestError, StoreError
from bci_stream.season.queue import MOST_ATTEMPTS
from bci_stream.season.storage import schema as schema_module
from bci_stream.season.storage import store as store_module
from bci_stream.season.storage.schema import UnitLease, UnitResult
from bci_stream.season.storage.store import SeasonStore, open_season_store
from bci_stream.season.units.jobs import UnitOutcome, read_outcome, storable, write_outcome

PASSED = UnitResult("passed", report="6 of 6 answers would count")
FINISHED = UnitResult(
    "finished", score=12.5, row={"team": "alice"}, sessions=[{"score": 12.5}],
    log="runs/a.jsonl", log_sha256="a" * 64,
)  # fmt: skip


def leased(store: SeasonStore, now: float = 0.0) -> UnitLease:
    found = store.lease("w1", now, 60.0, 1)
    assert found is not None
    return found[0]


def test_a_submission_is_checked_then_run_then_judged(store: SeasonStore) -> None:
    put(store, "alice")
    check = leased(store)
    assert store.submission(1).stage == "checking"
    assert store.finish(check, PASSED, 1.0)
    assert store.submission(1).stage == "queued"
    run = leased(store)
    assert (run.submission, run.number, run.attempt) == (1, 1, 1)
    assert store.submission(1).stage == "running"
    assert store.finish(run, FINISHED, 2.0)
    judged = store.submission(1)
    assert (judged.stage, judged.score, judged.fault, judged.ended) == ("judged", 12.5, "", 2.0)
    assert judged.sessions == [{"score": 12.5}]
    assert judged.report == PASSED.report
    assert [unit.log_sha256 for unit in store.units(1)] == ["", "a" * 64]
    assert store.lease("w1", 3.0, 60.0, 1) is None


def test_a_page_is_read_while_a_worker_writes(store: SeasonStore, store_url: str) -> None:
    page, seen = open_season_store(store_url), []
    put(store, "alice", admit=lambda _earlier: seen.append(page.submissions()))
    assert seen == [[]]
    assert len(page.submissions()) == 1
    page.close()


def test_a_rejected_submission_is_not_run(store: SeasonStore) -> None:
    put(store, "alice")
    store.finish(leased(store), UnitResult("rejected", reason="no class"), 1.0)
    rejected = store.submission(1)
    assert (rejected.stage, rejected.fault, rejected.reason) == ("rejected", "team", "no class")
    assert store.lease("w1", 3.0, 60.0, 1) is None


def test_a_late_result_is_recognised_and_does_not_count(store: SeasonStore) -> None:
    put(store, "alice")
    store.finish(leased(store), PASSED, 0.0)
    first = leased(store, now=10.0)
    assert store.expire(69.0) == []
    assert store.expire(71.0) == [first]
    assert store.submission(1).stage == "queued"
    second = leased(store, now=72.0)
    assert second.attempt == 2
    late = UnitResult("finished", score=99.0, log="runs/b.jsonl", log_sha256="b" * 64)
    assert not store.finish(first, late, 73.0)
    assert not store.renew(first, 200.0)
    assert not store.give_back(first, "boom", 73.0)
    assert store.submission(1).score is None
    assert store.finish(second, FINISHED, 74.0)
    assert not store.finish(second, FINISHED, 75.0), "a result counts once"
    assert store.submission(1).score == 12.5
    outcomes = [(a.number, a.attempt, a.outcome) for a in store.attempts(1)]
    assert outcomes == [(0, 1, "passed"), (1, 1, "late"), (1, 2, "finished")]
    assert [a.log_sha256[:1] for a in store.attempts(1)] == ["", "b", "a"]


def test_a_lease_that_is_renewed_does_not_expire(store: SeasonStore) -> None:
    put(store, "alice")
    lease = leased(store)
    assert store.renew(lease, 500.0)
    assert store.expire(400.0) == []
    assert store.finish(lease, PASSED, 450.0)


def test_a_failure_on_our_side_is_tried_again_later_and_then_given_up(store: SeasonStore) -> None:
    put(store, "alice")
    now = 0.0
    for attempt in range(1, MOST_ATTEMPTS + 1):
        lease = leased(store, now)
        assert lease.attempt == attempt
        assert store.give_back(lease, "registry out of reach", now)
        assert store.lease("w1", now, 60.0, 1) is None, "not at once"
        now += 10_000.0
    failed = store.submission(1)
    assert (failed.stage, failed.fault) == ("failed", "organiser")
    assert store.lease("w1", now, 60.0, 1) is None
    store.retry(1, "console", now)
    assert store.submission(1).stage == "received"
    assert store.finish(leased(store, now), PASSED, now)
    with pytest.raises(StoreError, match="not through the organiser's side"):
        store.retry(1, "console", now)
    assert [action[2] for action in store.actions()] == ["retry"]


def test_whatever_a_submission_prints_can_be_stored(store: SeasonStore, tmp_path: Path) -> None:
    put(store, "alice")
    printed = UnitOutcome("rejected", "no \0 class", "a\0b")
    write_outcome(tmp_path, printed)
    found = read_outcome(tmp_path)
    result = UnitResult(found.ending, found.detail, found.report)
    assert store.finish(leased(store), result, 1.0)
    rejected = store.submission(1)
    assert (rejected.reason, rejected.report) == ("no \ufffd class", "a\ufffdb")
    assert storable("\ud800") == "?"


def test_what_the_console_lists_is_bounded(store: SeasonStore) -> None:
    for team in ("alice", "bob", "carol"):
        put(store, team)
    lease = leased(store)
    store.give_back(lease, "disk full", 1.0)
    running = leased(store, 2.0)
    assert store.stages() == {"checking": 1, "received": 2}
    assert [each.id for each in store.latest(2)] == [3, 2]
    assert [each.id for each in store.latest(9, fault="organiser")] == [1]
    assert [(a.submission, a.worker) for a in store.running()] == [(running.submission, "w1")]
    assert [a.detail for a in store.failed_attempts({"stopped", "lost"}, 5)] == ["disk full"]
    assert store.failed_attempts({"lost"}, 5) == store.failed_attempts({"stopped"}, 0) == []


def test_leases_of_a_worker_that_is_gone_are_released(store: SeasonStore) -> None:
    put(store, "alice")
    lease = leased(store)
    assert store.release("other", 1.0) == []
    assert store.release("w1", 1.0) == [lease]
    assert leased(store).attempt == 2


def test_teams_take_turns_and_have_a_bound(store: SeasonStore) -> None:
    for _ in range(3):
        put(store, "alice")
    put(store, "bob")
    order = []
    for _ in range(2):
        found = store.lease("w", 0.0, 60.0, 1)
        order.append((found[1].team, found[1].id))
    assert order == [("alice", 1), ("bob", 4)]
    assert store.lease("w", 0.0, 60.0, 1) is None, "one unit a team at a time"
    assert store.lease("w", 0.0, 60.0, 2)[1].id == 2


def test_the_quota_is_asked_in_the_same_transaction(store: SeasonStore) -> None:
    def admit(earlier) -> None:
        if len(earlier) >= 1:
            raise ContestError("quota")

    put(store, "alice", admit=admit)
    with pytest.raises(ContestError, match="quota"):
        put(store, "alice", admit=admit)
    put(store, "bob", admit=admit)
    assert [(s.id, s.team) for s in store.submissions()] == [(1, "alice"), (2, "bob")]
    assert [s.id for s in store.submissions(team="bob")] == [2]


def test_one_submission_of_a_team_is_chosen(store: SeasonStore) -> None:
    for team in ("alice", "alice", "bob"):
        put(store, team)
    store.choose(1)
    store.choose(3)
    store.choose(2)
    assert [s.chosen for s in store.submissions()] == [False, True, True]


def test_a_disqualified_submission_counts_for_nothing(store: SeasonStore) -> None:
    put(store, "alice")
    lease = leased(store)
    store.disqualify(1, "console", "copied", 5.0)
    assert not store.finish(lease, PASSED, 6.0)
    found = store.submission(1)
    assert (found.stage, found.fault, found.reason) == ("disqualified", "team", "copied")
    assert store.actions() == [(5.0, "console", "disqualify", "submission 1: copied")]


def test_what_was_written_is_there_when_it_is_opened_again(store_url: str) -> None:
    first = open_season_store(store_url)
    made = put(first, "O'Brien; ?%s")
    first.close()
    again = open_season_store(store_url)
    assert again.submissions() == [made]
    assert again.uploads() == {1}
    again.close()


def test_a_store_of_this_version_is_upgraded_by_the_next(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = open_season_store(store_url)
    made = put(old, "alice")
    old.close()
    newer = (*schema_module.MIGRATIONS, ("ALTER TABLE units ADD COLUMN machine TEXT DEFAULT 'm'",))
    with monkeypatch.context() as patched:
        patched.setattr(schema_module, "MIGRATIONS", newer)
        upgraded = open_season_store(store_url)
        assert upgraded.submissions() == [made]
        with upgraded._database.transaction() as cursor:
            cursor.execute("SELECT machine FROM units")
            assert cursor.fetchall() == [("m",)]
        upgraded.close()
        open_season_store(store_url).close()  # the migration is not made twice
    with pytest.raises(StoreError, match=r"version 4.*newer bci-judge.*up to 3"):
        open_season_store(store_url)


def test_a_store_of_version_2_opens_and_goes_on(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(schema_module, "MIGRATIONS", schema_module.MIGRATIONS[:2])
        old = open_season_store(store_url)
        put(old, "alice")
        lease = leased(old)
        old.close()
    store = open_season_store(store_url)
    assert store.finish(lease, PASSED, 1.0)
    assert (leased(store).number, store.stages()) == (1, {"running": 1})
    store.close()


def test_a_store_written_by_version_1_opens(tmp_path: Path) -> None:
    """The dump stays as it is: a later version must open it."""
    path = tmp_path / "old.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript((Path(__file__).parent / "season_v1.sql").read_text())
    connection.close()
    store = open_season_store(str(path))
    judged, waiting = store.submissions()
    assert (judged.stage, judged.score, judged.row["team"]) == ("judged", 12.5, "alice")
    assert (waiting.stage, waiting.team) == ("received", "bob")
    assert leased(store).submission == waiting.id
    store.close()


def test_a_killed_transaction_leaves_nothing_half_done(tmp_path: Path, monkeypatch) -> None:
    store = open_season_store(str(tmp_path / "s.sqlite"))
    put(store, "alice")
    lease = leased(store)

    def broken(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(store_module, "take_check", broken)
    with pytest.raises(StoreError, match="disk"):
        store.finish(lease, PASSED, 1.0)
    monkeypatch.undo()
    assert store.submission(1).stage == "checking"
    assert store.finish(lease, PASSED, 1.0)
    store.close()
