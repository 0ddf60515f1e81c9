"""docs/tracks.md says what the code does."""

from pathlib import Path

import pytest

from tracks import ecog, emotion, erp, mi, turing
from tracks.common.seconds import SecondGrid
from tracks.common.trials import itr_bits_per_min
from tracks.common.verdicts import Verdict
from tracks.registry import TRACKS

PAGE = (Path(__file__).parents[2] / "docs" / "tracks.md").read_text()


def verdicts(*rows):
    """(right, charged seconds) of each trial."""
    return [
        Verdict("S", 0, n, "x", (), scored=True, right=right, charged_s=charged)
        for n, (right, charged) in enumerate(rows)
    ]


def test_example_of_mi():
    rates = [itr_bits_per_min(r, 30, 3, t) for r, t in zip((24, 26, 27), mi.LIMITS_S, strict=True)]
    rows = [((n < 24, n < 26, n < 27), None) for n in range(30)]
    assert "{:.4f}, {:.4f} and\n{:.4f}".format(*rates) in PAGE
    assert f"scores {mi.score(verdicts(*rows)):.4f} bits/min" in PAGE


def test_example_of_turing():
    rows = [((True,), 1.2), ((False,), 2.0), ((True,), 1.6), ((True,), 1.2), ((True,), 2.0)]
    assert f"= {turing.score(verdicts(*rows)):.1f}. Had" in PAGE
    assert turing.score(verdicts(*rows[:4], ((False,), 2.0))) == 0


def test_example_of_a_void_trial():
    rows = [((True,), 1.2), ((True,), 1.6), ((True,), 1.2), ((True,), 2.0)]
    assert f"S = 200 x 4 / 6 = {turing.score(verdicts(*rows)):.1f}" in PAGE


def test_example_of_emotion():
    grid = SecondGrid(250, emotion.DEFAULTS)
    grid.packet(50, 50, [(1, 242)])
    assert list(grid.inside(0, 500, 2000, emotion.MARGIN_S)) == [3, 4, 5]
    assert f"right: {2 / 3:.4f}" in PAGE


def test_example_of_ecog():
    assert f"= {ecog.trial_score(0.15, 0.80):.1f} points" in PAGE


def test_example_of_erp():
    times = [3.6] * 20 + [5.4] * 10 + [9.0] * 2
    rows = [((n < 28,), time) for n, time in enumerate(times)]
    assert f"P = 0.875: {erp.score(verdicts(*rows)):.4f} bits/min" in PAGE


@pytest.mark.parametrize("track", TRACKS.values(), ids=lambda t: t.name)
def test_every_rule_that_a_contest_can_change_is_documented(track):
    for name in track.rules:
        assert f"`{name}`" in PAGE


@pytest.mark.parametrize("name", TRACKS)
def test_every_track_has_its_picture(name):
    assert f"(img/track-{name}.png)" in PAGE
    assert (Path(__file__).parents[2] / "docs" / "img" / f"track-{name}.png").stat().st_size > 5000


def test_the_groups_are_those_of_the_code():
    words = " ".join(PAGE.split())
    assert ", ".join(f"{number} {group}" for number, group in erp.GROUPS.items()) in words
