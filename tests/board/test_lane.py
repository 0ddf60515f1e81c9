"""The time line of the current trial."""

from bci_stream.leaderboard.timeline import TrialTimeline


def lane(track: str = "mi") -> TrialTimeline:
    made = TrialTimeline(track)
    made.begin("S01", 1000)
    return made


def test_a_trial_begins_where_its_data_may_be_used_and_reports_are_placed_by_the_data_used() -> (
    None
):
    line = lane()
    line.packet(40, [[0, 242]])
    line.packet(40, [[10, 200]])
    line.packet(40, [])
    line.report()
    view = line.view()
    assert (view["block"], view["trial"]) == (0, 0)
    assert view["reports"] == [0.04]
    assert view["triggers"] == [[-0.03, 200]]
    assert view["now_s"] == 0.04


def test_the_next_trial_clears_the_line_and_a_block_starts_counting_anew() -> None:
    line = lane()
    for triggers in ([[0, 242]], [[0, 200]], [[0, 241]], [[0, 200]]):
        line.packet(40, triggers)
    assert line.view()["trial"] == 1
    line.packet(40, [[0, 242]])
    line.packet(40, [[0, 200]])
    view = line.view()
    assert (view["block"], view["trial"], view["reports"]) == (1, 0, [])


def test_a_track_without_trial_triggers_sweeps() -> None:
    line = lane("ecog")
    for _ in range(300):
        line.packet(40, [])
        line.report()
    view = line.view()
    assert view["trial"] is None
    assert 0 <= view["now_s"] <= view["span_s"]


def test_a_flood_of_reports_does_not_grow_the_line_without_end() -> None:
    line = lane()
    for _ in range(1000):
        line.report()
    assert len(line.view()["reports"]) < 200
