"""What a terminal is told about a replay."""

from replay.player.journal import PlaybackProgress
from replay.service import describe


def test_a_line_tells_how_far_it_is_for_whom_and_how_late() -> None:
    at = PlaybackProgress("playing", 30, 120, late_s=0.0001, worst_late_s=0.0042, teams=("a", "b"))
    at.subject, at.round = "S01", 2
    assert describe(at) == (
        "playing S01: 25% played, round 3, teams: a, b, last packet 0.1 ms late, at worst 4.2 ms"
    )


def test_a_packet_that_left_a_hair_early_is_not_late() -> None:
    at = PlaybackProgress("finished", 120, 120, late_s=-1e-6, worst_late_s=0.001, subject="S01")
    assert describe(at) == "finished S01: 100% played, last packet 0.0 ms late, at worst 1.0 ms"


def test_where_nobody_knows_the_end_samples_are_counted_and_in_lockstep_nothing_is_late() -> None:
    assert (
        describe(PlaybackProgress("playing", 30, subject="S01")) == "playing S01: 30 samples played"
    )
