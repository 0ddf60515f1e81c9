"""A team's time line and latencies."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.team_view import (
    BIN_RATIO,
    Latencies,
    TeamView,
    TrialTimeline,
    elapsed_s,
)
from scripts.simulated_runs import SimulatedRun
from tracks.registry import TRACKS
from tracks.run import Run


def timeline(track: str = "mi") -> TrialTimeline:
    made = TrialTimeline(track)
    made.begin_session("S01", 1000)
    return made


def test_a_trial_begins_where_its_data_may_be_used_and_reports_are_placed_by_the_data_used() -> (
    None
):
    line = timeline()
    line.add_packet(40, [[0, 242]])
    line.add_packet(40, [[10, 200]])
    line.add_packet(40, [])
    line.add_report()
    view = line.view()
    assert (view["block"], view["trial"]) == (0, 0)
    assert view["reports"] == [0.04]
    assert view["triggers"] == [[-0.03, 200]]
    assert view["now_s"] == 0.04


def test_the_next_trial_clears_the_time_line_and_a_block_restarts_the_count() -> None:
    line = timeline()
    for triggers in ([[0, 242]], [[0, 200]], [[0, 241]], [[0, 200]]):
        line.add_packet(40, triggers)
    assert line.view()["trial"] == 1
    line.add_packet(40, [[0, 242]])
    line.add_packet(40, [[0, 200]])
    view = line.view()
    assert (view["block"], view["trial"], view["reports"]) == (1, 0, [])


def test_a_track_without_trial_triggers_starts_again_every_span() -> None:
    line = timeline("ecog")
    for _ in range(300):
        line.add_packet(40, [])
        line.add_report()
    view = line.view()
    assert view["trial"] is None
    assert 0 <= view["now_s"] <= view["span_s"]


def test_a_flood_of_reports_does_not_grow_the_time_line_without_end() -> None:
    line = timeline()
    for _ in range(1000):
        line.add_report()
    assert len(line.view()["reports"]) < 200


@given(
    st.lists(st.floats(1e-5, 1e3), min_size=1, max_size=200),
    st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]),
)
def test_a_percentile_is_within_a_bin_of_the_exact_one(values: list[float], share: float) -> None:
    latencies = Latencies()
    for value in values:
        latencies.add(value)
    exact = sorted(values)[math.ceil(share * len(values)) - 1]
    assert latencies.percentile(share) == pytest.approx(exact, rel=BIN_RATIO - 1)


def test_without_reports_there_is_no_percentile() -> None:
    assert Latencies().percentile(0.5) is None


@pytest.mark.parametrize("value", [None, True, "0.1", [0.1], math.nan, math.inf])
def test_an_elapsed_time_that_is_no_number_is_not_counted(value: object) -> None:
    assert elapsed_s({"kind": "report", "elapsed_s": value}) is None


def test_only_reports_have_a_latency() -> None:
    assert elapsed_s({"kind": "packet", "elapsed_s": 0.1}) is None
    assert elapsed_s({"kind": "report", "elapsed_s": 0.1}) == 0.1


@pytest.mark.parametrize("track", list(TRACKS))
def test_a_void_line_after_the_end_replaces_the_rows_of_its_trials(track: str) -> None:
    events = list(SimulatedRun(track, "a", 0.8, subjects=2, blocks=2, trials=2).events())
    run, view = Run(), TeamView("a", track)
    void = {"kind": "void", "session": 0, "block": 1, "reason": "wrong cue", "again": True}
    for event in [*events, void]:
        if (closed := view.add_event(event, run.feed(event), run)) is not None:
            view.show_trials(closed)
    detail, row = view.detail(), view.row()
    places = [(t["subject"], t["block"], t["trial"]) for t in detail["trials"]]
    assert places == sorted(set(places))
    marked = [
        place for place, t in zip(places, detail["trials"], strict=True) if t["mark"] == "void"
    ]
    assert marked == [place for place in places if place[:2] == (places[0][0], 1)]
    # It may be asked again, so that its labels are not shown.
    shown = [t for t in detail["trials"] if t["mark"] == "void"]
    assert {(t["truth"], t["reported"]) for t in shown} == {("", "")}
    assert row.trials == len(places) - len(marked)
    assert row.score == pytest.approx(run.result()["score"], abs=1e-12)
    assert detail["sessions"] == run.result()["sessions"]
    assert view.history[-1][1] == row.score


def test_the_board_shows_a_revised_verdict() -> None:
    events = list(SimulatedRun("mi", "a", 0.8, blocks=1, trials=2).events())
    board, run = Leaderboard(), Run()
    void = {"kind": "void", "session": 0, "block": 0, "trial": 1, "reason": "wrong cue"}
    for event in [*events[:-1], void, events[-1]]:
        board.event("a", "mi", event, run.feed(event), run)
    detail = board.detail("a", "mi")
    assert detail is not None
    assert [trial["mark"] for trial in detail["trials"]][1] == "void"
    assert "void: decided by the organiser (wrong cue)" in {
        verdict["reason"] for verdict in board.snapshot().data["verdicts"]
    }
    assert board.rows()[0].trials == 1
