"""Ranks are a pure function of the rows; rows as records and CSV."""

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.leaderboard.ranking import (
    COLUMNS,
    STATUSES,
    TIE_RULE,
    LeaderboardRow,
    Qualifying,
    rank,
    to_csv,
    to_records,
)

ROWS = st.lists(
    st.builds(
        LeaderboardRow,
        team=st.text("abcdef", min_size=1, max_size=4),
        track=st.sampled_from(["mi", "erp"]),
        score=st.sampled_from([0.0, 1.5, 7.25]),
        accuracy=st.sampled_from([None, 0.5, 0.75]),
        used=st.sampled_from([None, 1.0, 2.0]),
        trials=st.integers(0, 3),
        status=st.sampled_from(STATUSES),
    ),
    max_size=12,
    unique_by=lambda row: (row.track, row.team),
)


def row(team: str, score: float, **more: object) -> LeaderboardRow:
    return replace(LeaderboardRow(team, "erp", score=score, trials=1, status="running"), **more)  # type: ignore[arg-type]


@given(ROWS)
def test_ranking_loses_no_row_and_changes_nothing_but_rank_and_qualification(
    rows: list[LeaderboardRow],
) -> None:
    ranked = [replace(r, rank=None, qualifies=None) for r in rank(rows)]
    assert sorted(ranked, key=repr) == sorted(rows, key=repr)


@given(ROWS, st.randoms())
def test_ranking_does_not_depend_on_the_order_of_its_input(
    rows: list[LeaderboardRow], random: object
) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert rank(shuffled) == rank(rows)


@given(ROWS)
def test_a_rank_is_one_more_than_the_number_of_better_teams(rows: list[LeaderboardRow]) -> None:
    def merit(r: LeaderboardRow) -> tuple[float, float, float]:
        return r.score, r.accuracy or 0.0, -(r.used if r.used is not None else float("inf"))

    ranked = [r for r in rank(rows) if r.rank is not None]
    for r in ranked:
        better = [o for o in ranked if o.track == r.track and merit(o) > merit(r)]
        assert r.rank == 1 + len(better)


def test_equal_scores_go_by_accuracy_then_by_less_data_used_then_share_the_rank() -> None:
    rows = [
        row("e", 1.0, accuracy=0.5, used=2.0),
        row("d", 1.0, accuracy=0.5, used=2.0),
        row("c", 1.0, accuracy=0.5, used=1.0),
        row("b", 1.0, accuracy=0.9, used=5.0),
        row("a", 0.5, accuracy=1.0, used=0.1),
    ]
    assert [(r.team, r.rank) for r in rank(rows)] == [
        ("b", 1), ("c", 2), ("d", 3), ("e", 3), ("a", 5),
    ]  # fmt: skip


def test_the_announced_rule_names_what_breaks_ties_in_that_order() -> None:
    words = ["score", "accuracy", "data used", "share the rank"]
    places = [TIE_RULE.lower().index(word) for word in words]
    assert places == sorted(places)


def test_a_team_without_a_closed_trial_and_a_disqualified_one_have_no_rank() -> None:
    rows = [
        row("new", 0.0, trials=0, status="running"),
        row("cheat", 99.0, status="disqualified"),
        row("fair", 1.0),
    ]
    assert [(r.team, r.rank) for r in rank(rows)] == [("fair", 1), ("new", None), ("cheat", None)]


@pytest.mark.parametrize("status", ["timeout", "stopped", "missing", "finished"])
def test_an_empty_run_has_no_rank(status) -> None:
    assert rank([row("late", 0.0, trials=0, status=status)])[0].rank is None


def test_tracks_are_ranked_apart() -> None:
    rows = [row("a", 1.0), replace(row("b", 5.0), track="mi")]
    assert {(r.team, r.rank) for r in rank(rows)} == {("a", 1), ("b", 1)}


def test_the_line_admits_the_first_n_of_at_least_the_least_score() -> None:
    rows = [row("a", 9.0), row("b", 5.0), row("c", 4.0), row("d", 3.0)]
    ranked = rank(rows, Qualifying(top=3, least_score=5.0))
    assert [r.qualifies for r in ranked] == [True, True, False, False]


def test_a_tie_across_the_line_lets_both_through() -> None:
    ranked = rank([row("a", 9.0), row("b", 5.0), row("c", 5.0)], Qualifying(top=2))
    assert [r.qualifies for r in ranked] == [True, True, True]


def test_a_team_that_was_never_asked_anything_does_not_qualify() -> None:
    rows = [row("a", 9.0), row("b", 0.0, trials=0, status="crashed")]
    assert [r.qualifies for r in rank(rows, Qualifying(top=2))] == [True, False]


def test_without_a_line_no_team_qualifies_or_fails_to() -> None:
    assert rank([row("a", 9.0), row("b", 0.0, trials=0)])[0].qualifies is None


def test_records_and_csv_have_the_same_columns_with_the_rank_first() -> None:
    rows = [LeaderboardRow("a", "mi", rank=1, score=2.5, accuracy=0.5), LeaderboardRow("b", "mi")]
    assert list(to_records(rows)[0]) == list(COLUMNS)
    read = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert COLUMNS[0] == "rank"
    assert read[0]["score"] == "2.5"
    assert read[1]["rank"] == ""


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx"])
def test_a_name_that_a_spreadsheet_would_run_is_defused(name: str) -> None:
    read = list(csv.DictReader(io.StringIO(to_csv([LeaderboardRow(name, "mi")]), newline="")))
    assert read[0]["team"].startswith("'")


def test_names_with_commas_quotes_and_line_breaks_come_back_whole() -> None:
    name = 'a,"b"\nc'
    read = list(csv.DictReader(io.StringIO(to_csv([LeaderboardRow(name, "mi")]), newline="")))
    assert read[0]["team"] == name
