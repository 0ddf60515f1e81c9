"""A mapping turns a file's events into a track's codes, and says what it could not place."""

import pytest

from bci_stream.errors import SourceError
from replay.event_map import EventMap, code_in, said_aloud
from replay.events import Mark

CASES = {
    "51": 51,
    "Trigger-In:51": 51,
    "Stimulus/S  2": 2,
    "Response/R 15": None,
    "KeyPad Response 3": None,
    "Trigger 15": 15,
    "S  1": 1,
    "11.0": 11,
    "007": 7,
    "T1": None,
    "0": None,
    "70000": None,
    "p300,m,16,1,5": None,
    "-5": None,
    "": None,
    "٣": None,
}


@pytest.mark.parametrize(("name", "code"), CASES.items())
def test_a_name_that_spells_a_code_is_that_code(name, code):
    assert code_in(name) == code


def test_named_events_become_codes_and_numbers_stay():
    events = EventMap.parse("T1=11, T2=21")
    marks = [Mark(5, "T1"), Mark(7, "T2"), Mark(9, "242"), Mark(11, "T0")]
    assert events.triggers(marks, 100.0, 50) == ((5, 11), (7, 21), (9, 242))


def test_one_event_may_become_several_codes_seconds_later():
    events = EventMap.parse("T1=11+12@2+13@3s+241@4.0")
    found = events.triggers([Mark(10, "T1")], 160.0, 1000)
    assert found == ((10, 11), (330, 12), (490, 13), (650, 241))


def test_a_code_0_leaves_an_event_out_and_a_star_all_others():
    marks = [Mark(1, "T0"), Mark(2, "5"), Mark(3, "T1")]
    assert EventMap.parse("T0=0,T1=11").triggers(marks, 1.0, 10) == ((2, 5), (3, 11))
    assert EventMap.parse("T1=11,*=0").triggers(marks, 1.0, 10) == ((3, 11),)


def test_start_and_end_stand_on_the_first_and_last_sample():
    events = EventMap.parse("START=250+242,END=243")
    assert events.triggers([], 250.0, 100) == ((0, 250), (0, 242), (99, 243))


def test_a_code_beyond_the_end_is_left_out():
    assert EventMap.parse("T1=11+241@4").triggers([Mark(90, "T1")], 100.0, 100) == ((90, 11),)


def test_names_may_hold_any_sign_but_a_comma():
    assert EventMap.parse("left hand=1=11").rules == {"left hand=1": ((11, 0.0),)}


@pytest.mark.parametrize("text", ["T1", "T1=", "=11", "T1=x", "T1=70000", "T1=11@", "T1=-3"])
def test_what_is_no_mapping_is_refused_and_the_right_form_told(text):
    with pytest.raises(SourceError, match="NAME=CODE"):
        EventMap.parse(text)


def test_events_without_a_code_and_unused_rules_are_said_aloud():
    notes = said_aloud(EventMap.parse("T9=11"), [Mark(1, "T0"), Mark(2, "T0")])
    assert "'T0' (2)" in notes[0]
    assert "'T9'" in notes[1]
