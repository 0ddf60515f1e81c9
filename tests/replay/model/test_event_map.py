"""A mapping turns a file's events into a track's codes, and notes what it could not map."""

from collections import Counter

import pytest

from bci_stream.errors import SourceError
from replay.model.event_map import EventMap, code_in, describe_map
from replay.model.events import Mark
from replay.sources import open_source

CASES = {
    "51": 51,
    "Trigger-In:51": 51,
    "Stimulus/S  2": 2,
    "Response/R 15": None,
    "KeyPad Response 3": None,
    "Trigger 15": 15,
    "S  1": 1,
    "S1": 1,
    "Stimulus/8": 8,
    "stim 8": 8,
    "Event: 4": 4,
    "condition 3": 3,
    "Comment/see 8": None,
    "Comment/8": None,
    "see 8": None,
    "Block 3": None,
    "Optic/O  1": None,
    "Response/R  1": None,
    "Trigger -5": None,
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


def test_start_and_end_are_on_the_first_and_last_sample():
    events = EventMap.parse("START=250+242,END=243")
    assert events.triggers([], 250.0, 100) == ((0, 250), (0, 242), (99, 243))


def test_a_code_beyond_the_end_is_left_out():
    assert EventMap.parse("T1=11+241@4").triggers([Mark(90, "T1")], 100.0, 100) == ((90, 11),)


def test_names_may_hold_any_sign_and_a_comma_after_a_backslash():
    assert EventMap.parse("left hand=1=11").rules == {"left hand=1": ((11, 0.0),)}
    assert EventMap.parse(r"left\=1 = 11").rules == {"left=1": ((11, 0.0),)}
    found = EventMap.parse(r"1.4\,0\,10=1, 1.4\,1\,10=2,a\\=3,C:\dir=4").rules
    assert found == {
        "1.4,0,10": ((1, 0.0),),
        "1.4,1,10": ((2, 0.0),),
        "a\\": ((3, 0.0),),
        r"C:\dir": ((4, 0.0),),
    }


@pytest.mark.parametrize(
    ("rules", "codes"),
    [
        (r"p300\,*=1", [1, 1, None, None]),
        ("p300*=1,p300,x=0", None),
        (r"*\,2=1", [None, 1, None, None]),
        (r"p*\,2=1,*=7", [7, 1, 7, 7]),
        (r"p300\,m\,2=2,p300*=1,p*=5", [1, 2, None, None]),
        (r"a\*b=4,*ello=0,*=9", [9, 9, 4, None]),
        ("*=0", [None] * 4),
    ],
)
def test_a_star_matches_any_text_and_a_names_own_rule_takes_precedence(rules, codes):
    names = ["p300,m,1", "p300,m,2", "a*b", "hello"]
    if codes is None:
        with pytest.raises(SourceError, match="in a name"):
            EventMap.parse(rules)
        return
    events = EventMap.parse(rules)
    marks = [Mark(place, name) for place, name in enumerate(names)]
    expected = tuple((place, code) for place, code in enumerate(codes) if code)
    assert events.triggers(marks, 1.0, 10) == expected


def test_a_star_within_a_name_does_not_match_start_and_end():
    assert EventMap.parse("S*=1,E*=2").triggers([Mark(3, "Says")], 1.0, 10) == ((3, 1),)


def test_a_delayed_code_of_a_pattern_is_no_instant_one():
    assert EventMap.parse("a*=1").instant
    assert not EventMap.parse("a*=1+2@1").instant


@pytest.mark.parametrize(
    "text", ["T1", "T1=", "=11", "T1=x", "T1=70000", "T1=11@", "T1=-3", r"T1\=3"]
)
def test_what_is_no_mapping_is_refused_with_the_right_form(text):
    with pytest.raises(SourceError, match="NAME=CODE"):
        EventMap.parse(text)


def test_events_without_a_code_and_unused_rules_are_noted():
    notes = describe_map(EventMap.parse("T9=11"), [Mark(1, "T0"), Mark(2, "T0")])
    assert "'T0' (2)" in notes[0]
    assert "'T9'" in notes[1]


def test_patterns_count_as_rules_in_the_notes():
    notes = describe_map(EventMap.parse("T*=0,X*=3"), [Mark(1, "T0"), Mark(2, "T1")])
    assert notes == ("no event is called 'X*': that rule is not used",)


def test_all_names_that_are_left_out_are_counted_where_not_all_are_shown():
    marks = [Mark(k, f"{chr(97 + k)}," + "x" * 50) for k in range(11)]
    (note,) = describe_map(EventMap(), marks)
    assert "and 3 more; map them" in note
    assert f"'a,{'x' * 38}...' (1)" in note
    rule = note.partition("e.g. ")[2]
    assert EventMap.parse(rule).triggers(marks, 1.0, 50) == ((0, 11),)
    (note,) = describe_map(EventMap(), marks[:8])
    assert "more" not in note


def test_the_markers_of_real_xdf_sessions_can_be_mapped(real_data):
    trials = {
        "ssvep_example.xdf": (r"1.4\,0\,10\,12\,15=1,1.4\,1*=2,*=0", {1: 84, 2: 84}),
        "sub-P001_ses-S001_task-P300Checkboard_run-001_eeg.xdf": (r"p300\,*=1,*=0", {1: 39}),
    }
    for name, (rules, counts) in trials.items():
        if not (real_data / "xdf" / name).exists():
            pytest.skip(f"no {name}")
        (session,) = open_source(f"{real_data / 'xdf' / name}?events={rules}").sessions()
        found = Counter(code for _, own in session.block_triggers() for _, code in own)
        assert found == counts
