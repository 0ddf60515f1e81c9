"""The fair order, and the laws of the queue under any sequence of workers, failures and time."""

from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from season.conftest import put

from bci_stream.leaderboard.store import SqliteDatabase
from bci_stream.season.queue import (
    LONGEST_RETRY_S,
    MOST_ATTEMPTS,
    QueuePlaces,
    TeamQueue,
    next_team,
    retry_delay_s,
)
from bci_stream.season.storage.schema import Submission, UnitLease, UnitResult
from bci_stream.season.storage.store import SeasonStore

TEAMS = ("alice", "bob", "carol")


def test_the_team_that_was_served_longest_ago_is_next() -> None:
    queues = [TeamQueue("a", 3, 1, 9, 0), TeamQueue("b", 2, 5, 1, 0), TeamQueue("c", 2, 4, 1, 0)]
    assert next_team(queues, 1) == "c"
    assert next_team(queues[:2], 1) == "b"
    assert next_team([TeamQueue("a", 0, 1, 5, 1)], 1) is None
    assert next_team([], 1) is None


def test_the_delay_before_another_attempt_grows_to_a_bound() -> None:
    delays = [retry_delay_s(n) for n in range(1, 100)]
    assert delays[0] > 0
    assert delays == sorted(delays)
    assert delays[-1] == LONGEST_RETRY_S


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=5),
    st.data(),
)
def test_the_place_in_the_queue_is_what_happens(teams, data) -> None:
    queues = [
        TeamQueue(f"t{number}", turn, number, waiting, 0)
        for number, (turn, waiting) in enumerate(teams)
    ]
    mine = data.draw(st.sampled_from(queues))
    own_ahead = data.draw(st.integers(0, mine.waiting - 1))
    turn, served = 10, []
    left = {queue.team: queue for queue in queues}
    while (team := next_team(left.values(), 1)) is not None:
        turn += 1
        queue = left[team]
        left[team] = TeamQueue(team, turn, queue.first, queue.waiting - 1, 0)
        served.append(team)
    places = [place for place, team in enumerate(served) if team == mine.team]
    assert QueuePlaces(queues).units_ahead(mine.team, own_ahead) == places[own_ahead]
    assert QueuePlaces(queues).units_ahead("no unit waits", 0) is None


class QueueLaws(RuleBasedStateMachine):
    """Submissions, workers that finish, fail, vanish and come back late, and time that passes."""

    MOST_A_TEAM = 2
    LEASE_S = 100.0

    def __init__(self) -> None:
        super().__init__()
        self.store = SeasonStore(SqliteDatabase(Path(":memory:")))
        self.now = 0.0
        self.held: dict[tuple[int, int], UnitLease] = {}
        self.lost: list[UnitLease] = []
        self.counted: Counter[tuple[int, int]] = Counter()
        self.served: dict[str, int] = {}
        self.turn = 0

    @rule(team=st.sampled_from(TEAMS))
    def submit(self, team: str) -> None:
        put(self.store, team, self.now)

    def _ready_teams(self) -> set[str]:
        running = Counter(self.store.submission(unit[0]).team for unit in self.held)
        return {
            self.store.submission(unit.submission).team
            for unit in self.store.units()
            if unit.state == "waiting" and unit.not_before <= self.now
        } - {team for team, count in running.items() if count >= self.MOST_A_TEAM}

    @rule()
    def lease(self) -> None:
        ready = self._ready_teams()
        found = self.store.lease("w", self.now, self.LEASE_S, self.MOST_A_TEAM)
        assert (found is None) == (not ready)
        if found is None:
            return
        lease, submission = found
        assert submission.team in ready
        oldest = min(self.served.get(team, 0) for team in ready)
        assert self.served.get(submission.team, 0) == oldest, "round robin"
        earlier = [
            unit
            for unit in self.store.units()
            if self.store.submission(unit.submission).team == submission.team
            and unit.state == "waiting"
            and unit.not_before <= self.now
        ]
        assert all((u.submission, u.number) > (lease.submission, lease.number) for u in earlier)
        self.turn += 1
        self.served[submission.team] = self.turn
        assert (lease.submission, lease.number) not in self.held
        self.held[lease.submission, lease.number] = lease

    def _a_held(self, data: st.DataObject) -> UnitLease | None:
        if not self.held:
            return None
        return self.held.pop(data.draw(st.sampled_from(sorted(self.held))))

    @rule(data=st.data(), good=st.booleans())
    def finish(self, data: st.DataObject, good: bool) -> None:
        lease = self._a_held(data)
        if lease is None:
            return
        endings = ("passed", "rejected") if lease.number == 0 else ("finished", "crashed")
        assert self.store.finish(lease, UnitResult(endings[not good], score=1.0), self.now)
        self.counted[lease.submission, lease.number] += 1
        self.lost.append(lease)  # the same worker may send its result twice

    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        lease = self._a_held(data)
        if lease is not None:
            assert self.store.give_back(lease, "disk full", self.now)
            self.lost.append(lease)

    @rule(data=st.data())
    def come_back_late(self, data: st.DataObject) -> None:
        if self.lost:
            lease = data.draw(st.sampled_from(self.lost))
            result = UnitResult("passed" if lease.number == 0 else "finished", score=9.0)
            assert not self.store.finish(lease, result, self.now)

    @rule(seconds=st.sampled_from([1.0, 60.0, 700.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        expired = self.store.expire(self.now)
        assert {(e.submission, e.number) for e in expired} == {
            unit for unit, lease in self.held.items() if lease.until < self.now
        }
        for lease in expired:
            self.lost.append(self.held.pop((lease.submission, lease.number)))

    @rule()
    def restart(self) -> None:
        """The server and its workers are killed."""
        assert len(self.store.release("w", self.now)) == len(self.held)
        self.lost += self.held.values()
        self.held = {}

    @invariant()
    def a_unit_counts_once(self) -> None:
        assert all(count == 1 for count in self.counted.values())
        accepted = Counter(
            (a.submission, a.number)
            for a in self.store.attempts()
            if a.outcome in ("passed", "rejected", "finished", "crashed")
        )
        assert accepted == self.counted
        assert not any(s.score == 9.0 for s in self.store.submissions())

    @invariant()
    def stages_follow_from_the_units(self) -> None:
        units = {(u.submission, u.number): u for u in self.store.units()}
        for submission in self.store.submissions():
            assert submission.stage in self._possible_stages(submission, units)

    def _possible_stages(self, submission: Submission, units) -> set[str]:
        number = 1 if (submission.id, 1) in units else 0
        unit = units[submission.id, number]
        if unit.state == "waiting":
            return {"received" if number == 0 else "queued"}
        if unit.state == "leased":
            return {"checking" if number == 0 else "running"}
        if unit.failures >= MOST_ATTEMPTS:
            return {"failed"}
        return {"rejected"} if number == 0 else {"judged", "failed"}

    def teardown(self) -> None:
        self.store.close()


QueueLaws.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestQueueLaws = QueueLaws.TestCase
