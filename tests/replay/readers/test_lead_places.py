"""Places of leads come out in metres, on a head of a head's size."""

import numpy as np
import pytest

from replay.readers.mne.content import HEAD_RADIUS_M, places_of
from replay.readers.xdf import channels_of
from replay.sources import open_source


def channels(*places):
    return [{"loc": np.array([*place, *[0.0] * 9]), "coord_frame": 4} for place in places]


ON_A_HEAD = ((0.0, 0.0, 0.1), (0.0, 0.08, 0.05), (-0.06, 0.06, 0.04))


def test_metres_stay_as_they_are():
    assert places_of(channels(*ON_A_HEAD)).metres == ON_A_HEAD
    assert places_of(channels(*ON_A_HEAD)).notes == ()


def test_one_lead_that_is_a_metre_away_does_not_move_the_others():
    found = places_of(channels(*ON_A_HEAD, (0.0, 0.0, 1.0)))
    assert found.metres[:3] == ON_A_HEAD
    assert found.notes == ()


@pytest.mark.parametrize(
    ("unit", "metres", "expected"),
    [
        (1 / HEAD_RADIUS_M, HEAD_RADIUS_M, "sphere of radius 1"),
        (100, 0.01, "taken as centimetres"),
        (1000, 0.001, "taken as millimetres"),
    ],
)
def test_other_units_are_reported(unit, metres, expected):
    found = places_of(channels(*np.array(ON_A_HEAD) * unit))
    np.testing.assert_allclose(found.metres, np.array(ON_A_HEAD) * unit * metres)
    assert expected in found.notes[0]


def test_a_lead_on_the_vertex_of_a_sphere_is_no_millimetre():
    found = places_of(channels((0.0, 0.0, 1.0), (0.0, 0.8, 0.6), (0.6, 0.0, 0.8)))
    assert found.metres[0] == (0.0, 0.0, HEAD_RADIUS_M)


def test_unknown_places_stay_unknown():
    nowhere = channels((np.nan, 0.0, 0.0), (0.0, 0.0, 0.0))
    assert places_of(nowhere).metres == (None, None)
    assert places_of([]).metres == ()


def test_a_position_that_is_no_number_leaves_the_lead_without_one():
    places = [{"X": [x], "Y": ["1"], "Z": ["2"]} for x in ("1000", "1,5", "left")]
    channels = [{"label": [str(k)], "location": [place]} for k, place in enumerate(places)]
    desc = [{"channels": [{"channel": channels}]}]
    found = channels_of({"info": {"channel_count": ["3"], "desc": desc}})
    assert [channel.lead.position for channel in found] == [(1.0, 0.001, 0.002), None, None]


def test_a_cnts_leads_are_on_the_head(write):
    (session,) = open_source(str(write("run.cnt"))).sessions()
    places = np.array([lead.position for lead in session.leads])
    assert np.linalg.norm(places, axis=1).min() > 0.05
    assert np.linalg.norm(places, axis=1).max() < 0.12
    assert any("sphere of radius 1" in note for note in session.notes)
