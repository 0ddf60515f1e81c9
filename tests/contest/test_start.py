"""When a run begins: the policies, and the gate that applies them to the runs of a judge."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.contest.start import StartGate, StartPolicy, WaitingTeams, parse_start
from bci_stream.errors import ContestError

NOON = datetime(2026, 8, 20, 12, 0, tzinfo=UTC)


def teams(complete: bool = False, waited_s: float = 0.0, ready: tuple[str, ...] = ("a",)):
    return WaitingTeams(ready, complete, waited_s)


@pytest.mark.parametrize("text", ["ready", "go", "at 2026-08-20 14:00+02:00"])
def test_nothing_begins_without_a_team(text) -> None:
    policy = parse_start(text)
    assert not policy.may_start(teams(complete=True, ready=()), NOON + timedelta(1))


def test_ready_waits_for_all_but_not_longer_than_join_s() -> None:
    policy = parse_start("ready", join_s=30)
    assert policy.may_start(teams(complete=True), NOON)
    assert not policy.may_start(teams(waited_s=29.9), NOON)
    assert policy.may_start(teams(waited_s=30.0), NOON)


def test_go_waits_for_the_operator_whoever_is_there() -> None:
    assert not parse_start("go").may_start(teams(complete=True, waited_s=1e6), NOON)


def test_at_begins_at_its_time_with_those_that_are_there() -> None:
    policy = parse_start("at 2026-08-20T14:00:00+02:00")
    assert policy.at == NOON
    assert not policy.may_start(teams(complete=True), NOON - timedelta(seconds=1))
    assert policy.may_start(teams(), NOON)


@pytest.mark.parametrize(
    "text", ["", "Go", "at", "at noon", "at 2026-08-20", "at 14:00", "atlas", "3"]
)
def test_another_start_is_refused_with_what_is_allowed(text) -> None:
    with pytest.raises(ContestError, match='allowed is "ready", "go" or "at TIME"') as caught:
        parse_start(text)
    assert repr(text) in str(caught.value)


@given(st.lists(st.sampled_from("abcd"), max_size=6), st.integers(0, 200))
def test_the_gate_starts_a_listed_track_only_with_all_or_after_join_s(present, step) -> None:
    gate = StartGate(lambda _: StartPolicy("ready", None, 60.0), lambda _: ("a", "b"))
    begun = [gate.may_start("run", "mi", set(present), at) for at in (0.0, float(step))]
    assert begun[0] == ({"a", "b"} <= set(present))
    assert begun[1] == (bool(present) and ({"a", "b"} <= set(present) or step >= 60))
    assert gate.missing("mi", present) == [team for team in "ab" if team not in present]


def test_without_a_list_so_many_teams_are_expected() -> None:
    gate = StartGate(lambda _: StartPolicy(), lambda _: (), team_count=2)
    assert not gate.may_start("r", "mi", ["a"], 0.0)
    assert gate.may_start("r", "mi", ["a", "x"], 1.0)


def test_a_team_that_left_again_does_not_count_as_the_first_one() -> None:
    gate = StartGate(lambda _: StartPolicy("ready", None, 60.0), lambda _: ("a", "b"))
    assert not gate.may_start("r", "mi", ["a"], 0.0)
    assert not gate.may_start("r", "mi", [], 50.0)
    assert not gate.may_start("r", "mi", ["a"], 70.0)
    assert gate.may_start("r", "mi", ["a"], 130.0)
