"""The registry of tracks: the five, those of entry points, and what is wrong with a broken one."""

import logging
from importlib.metadata import EntryPoint

import pytest

from tracks import mi, registry
from tracks.errors import RuleError
from tracks.registry import BUILT_IN, GROUP, TRACKS, TrackRegistry, load_object

HAN = range(0x4E00, 0xA000)


@pytest.fixture
def brought(monkeypatch):
    """Makes a registry in which other packages bring these entry points (name=path)."""

    def make(**paths):
        points = [EntryPoint(name, path, GROUP) for name, path in paths.items()]
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
        return TrackRegistry()

    return make


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_track_has_the_name_that_it_is_registered_by(name):
    assert TRACKS[name].name == name


def test_the_five_come_first_in_their_order(brought):
    assert list(brought(other="x:Y")) == ["mi", "turing", "emotion", "ecog", "erp", "other"]


def test_an_unknown_name_is_a_key_error(brought):
    tracks = brought()
    assert "other" not in tracks
    with pytest.raises(KeyError):
        tracks["other"]


def test_an_entry_point_never_replaces_one_of_the_five(brought):
    assert brought(mi="nowhere:TRACK")["mi"] is mi.TRACK


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:TRACK", "can't be imported: ModuleNotFoundError"),
        ("tracks.mi:NO_SUCH", "can't be imported: AttributeError"),
        ("tracks.mi:CLASSES", "must be a tracks.track.Track named 'broken'; got {1: 'left'"),
        ("tracks.mi:TRACK", "named 'broken'; got a Track named 'mi'"),
    ],
)
def test_a_broken_entry_point_is_named_and_harms_only_its_own_track(brought, path, message):
    tracks = brought(broken=path)
    assert "broken" in tracks
    with pytest.raises(RuleError, match="track 'broken', from the entry point") as error:
        tracks["broken"]
    assert message in str(error.value)
    assert tracks["erp"].name == "erp"


def test_those_that_can_be_imported_are_listed_and_the_others_are_warned_of(
    brought, monkeypatch, caplog
):
    monkeypatch.setattr(registry, "TRACKS", brought(broken="no_such_module:TRACK"))
    monkeypatch.setattr(logging.getLogger("tracks"), "propagate", True)
    assert [track.name for track in registry.available_tracks()] == list(BUILT_IN)
    assert "track 'broken'" in caplog.text


@pytest.mark.parametrize("track", TRACKS.values(), ids=lambda track: track.name)
def test_what_a_track_names_by_dotted_name_is_there(track):
    assert load_object(track.synthetic)
    if track.rearrange_test:
        assert callable(load_object(track.rearrange_test))


@pytest.mark.parametrize("name", ["mi", "emotion", "ecog"])
def test_classes_and_joints_have_their_chinese_names(name):
    """Those of turing and erp are codes and letters, in the documents too."""
    track = TRACKS[name]
    names = track.classes.values() or track.traces.names
    assert all(ord(track.names["zh"][word][0]) in HAN for word in names)


@pytest.mark.parametrize(
    ("name", "title", "unit", "used_unit"),
    [
        ("mi", "Motor imagery", "bits/min", "s"),
        ("turing", "Brain-computer Turing test", "points", "s"),
        ("emotion", "Emotion recognition", "share of seconds", ""),
        ("ecog", "Joint angles from ECoG", "points", ""),
        ("erp", "P300 speller", "bits/min", "sequences"),
    ],
)
def test_title_and_units(name, title, unit, used_unit):
    track = TRACKS[name]
    assert (track.title, track.unit, track.used_unit) == (title, unit, used_unit)


@pytest.mark.parametrize("track", TRACKS.values(), ids=lambda track: track.name)
def test_every_track_is_named_in_both_languages(track):
    assert track.names["en"][track.name]
    assert any(ord(letter) in HAN for letter in track.names["zh"][track.name])
    assert any(ord(letter) in HAN for letter in track.names["zh"][track.unit])


@pytest.mark.parametrize("track", TRACKS.values(), ids=lambda track: track.name)
def test_a_trial_of_the_time_line_begins_with_what_the_wire_shows(track):
    begins = track.timeline.begins
    codes = {"mi": (200,), "turing": (8, 16, 72), "erp": (101,)}.get(track.name)
    assert (begins is None) == (codes is None)
    assert all(begins(code) for code in codes or ())
    assert not any(begins(code) for code in (0, 7, 80, 241, 242) if begins)


def test_the_kind_of_leads():
    assert TRACKS["ecog"].lead_kind == "ECOG"
    assert TRACKS["mi"].lead_kind == "EEG"


def test_as_many_leads_as_there_are_can_be_chosen_from():
    track = TRACKS["ecog"]
    assert track.check_leads(list(range(41, 65)), available=64) == list(range(41, 65))
    with pytest.raises(RuleError, match="whole numbers of 1-30; got 31"):
        track.check_leads(list(range(8, 32)), available=30)
