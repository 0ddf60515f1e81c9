"""What a track is called, what its score is counted in, and what a recording without labels is told."""

import pytest

from tracks.common.truth import read_truth
from tracks.errors import TruthError
from tracks.registry import TRACKS

WORDS = {
    "mi": ("Motor imagery", "bits/min", "s", "11, 21 or 31 (a first segment)"),
    "turing": ("Brain-computer Turing test", "points", "s", "8-79 (a task)"),
    "emotion": ("Emotion recognition", "share of seconds", "", "240 after a clip's number 1-28"),
    "ecog": ("Joint angles from ECoG", "points", "", "(but joint angles)"),
    "erp": ("P300 speller", "bits/min", "sequences", "101-136 (a trial's start)"),
}


@pytest.mark.parametrize("name", TRACKS)
def test_each_track_has_its_name_and_its_units(name) -> None:
    track = TRACKS[name]
    title, unit, used_unit, _ = WORDS[name]
    assert (track.title, track.unit, track.used_unit) == (title, unit, used_unit)


@pytest.mark.parametrize("name", [name for name in TRACKS if name != "ecog"])
def test_a_recording_without_labels_is_told_what_was_looked_for(name) -> None:
    with pytest.raises(TruthError) as told:
        read_truth(TRACKS[name], TRACKS[name].rate, [(1000, ())])
    assert f"no trigger {WORDS[name][3]} in it" in str(told.value)
