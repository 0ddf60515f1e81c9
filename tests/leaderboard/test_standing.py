"""The standing over all tracks, and the awards."""

from hypothesis import given
from hypothesis import strategies as st

from bci_stream.contest.contest import Award
from bci_stream.leaderboard.ranking import LeaderboardRow, rank
from bci_stream.leaderboard.standing import give_awards, standing


def row(team: str, track: str, score: float, **more: object) -> LeaderboardRow:
    return LeaderboardRow(team, track, score=score, trials=3, status="finished", **more)  # type: ignore[arg-type]


def test_the_smallest_sum_of_places_is_first_and_an_absent_team_is_after_the_last() -> None:
    rows = rank(
        [
            row("a", "mi", 9),
            row("b", "mi", 8),
            row("c", "mi", 7),
            row("b", "erp", 5),
            row("a", "erp", 4),
        ]
    )
    found = standing(rows)
    assert [(r.team, r.rank, r.total) for r in found] == [("a", 1, 3), ("b", 1, 3), ("c", 3, 6)]
    assert found[2].places == {"erp": None, "mi": 3}


def test_equal_sums_are_told_apart_by_the_best_place() -> None:
    scores = {
        "mi": {"a": 9, "b": 8, "c": 7},
        "erp": {"c": 9, "b": 8, "a": 7},
        "ecog": {"b": 9, "a": 8, "c": 7},
    }
    rows = rank([row(t, track, s) for track, teams in scores.items() for t, s in teams.items()])
    assert [(r.team, r.rank) for r in standing(rows)] == [("b", 1), ("a", 2), ("c", 3)]


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["mi", "erp"]), st.integers(0, 3)),
                unique_by=lambda item: item[:2], min_size=1))  # fmt: skip
def test_a_team_that_is_nowhere_behind_another_is_not_behind_it_in_all(results) -> None:
    rows = rank([row(team, track, score) for team, track, score in results])
    found = standing(rows)
    tracks = {r.track for r in rows}
    for one in found:
        for other in found:
            if all((one.places[t] or 99) <= (other.places[t] or 99) for t in tracks):
                assert one.rank <= other.rank


def test_awards_go_down_the_ranks_and_a_prize_needs_its_score() -> None:
    """As in the documents: certificates by rank, money above 60."""
    awards = [
        Award("特等奖", 1, prize="15000", prize_above=60.0),
        Award("一等奖", 2, prize="10000", prize_above=60.0),
        Award("二等奖", 3, least_score=10.0),
    ]
    scores = {"a": 80.0, "b": 70.0, "c": 60.0, "d": 20.0, "e": 5.0}
    given = give_awards(rank([row(team, "mi", score) for team, score in scores.items()]), awards)
    assert [(g.award, g.team, g.prize) for g in given] == [
        ("特等奖", "a", "15000"),
        ("一等奖", "b", "10000"),
        ("一等奖", "c", ""),
        ("二等奖", "d", ""),
    ]


def test_teams_that_share_a_rank_share_the_award_and_tracks_have_their_own() -> None:
    rows = rank([row("a", "mi", 9), row("b", "mi", 9), row("c", "mi", 1), row("a", "erp", 1)])
    given = give_awards(
        rows, [Award("gold"), Award("silver", tracks=["mi"]), Award("bronze", tracks=["mi"])]
    )
    assert [(g.award, g.track, g.team) for g in given] == [
        ("gold", "erp", "a"),
        ("gold", "mi", "a"),
        ("gold", "mi", "b"),
        ("bronze", "mi", "c"),
    ]


def test_a_team_without_a_rank_gets_nothing() -> None:
    empty = LeaderboardRow("a", "mi", status="missing")
    out = row("b", "mi", 9.0)
    disqualified = LeaderboardRow("c", "mi", score=99.0, trials=3, status="disqualified")
    rows = rank([empty, out, disqualified])
    assert [g.team for g in give_awards(rows, [Award("gold", 3)])] == ["b"]
    assert [r.team for r in standing(rows)] == ["b"]
