"""A BIDS run takes places and event names from the tables beside it, if their meaning is stated."""

import json

import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.readers.events_table import read_events_table
from replay.sources import open_source

STEM = "sub-01_task-x_run-1"
ELECTRODES = "name\tx\ty\tz\nC3\t{0}\t0\t0\nC4\t0\t{0}\tn/a\nCz\t0\t{0}\t0\n"
LANDMARKS = {"NAS": [0, 0.1, 0], "LPA": [-0.08, 0, 0], "RPA": [0.08, 0, 0]}


@pytest.fixture
def run(tmp_path):
    path = tmp_path / f"{STEM}_eeg.npz"
    leads = np.array(["C3", "C4", "Cz", "O1"])
    np.savez(path, data=np.ones((4, 500)), rate=100, leads=leads)
    return path


def tables(folder, electrodes, name="sub-01", **stated):
    (folder / f"{name}_electrodes.tsv").write_text(electrodes)
    if stated:
        system = {f"EEGCoordinate{key}": value for key, value in stated.items() if key != "marks"}
        marks = stated.get("marks")
        if marks:
            stem = "AnatomicalLandmarkCoordinate"
            system |= {f"{stem}s": marks, f"{stem}System": stated["System"], f"{stem}Units": "m"}
        (folder / f"{name}_coordsystem.json").write_text(json.dumps(system))


def opened(path):
    (session,) = open_source(str(path)).sessions()
    return session


def places(session):
    return {lead.name: lead.position for lead in session.leads if lead.position}


@pytest.mark.parametrize(("unit", "value"), [("m", 0.05), ("cm", 5), ("mm", 50)])
def test_places_in_the_heads_own_frame_are_made_metres(unit, value, run):
    tables(run.parent, ELECTRODES.format(value), System="CapTrak", Units=unit)
    found = places(opened(run))
    assert found == {"C3": pytest.approx((0.05, 0, 0)), "Cz": pytest.approx((0, 0.05, 0))}
    assert f"2 of 4 lead positions are from sub-01_electrodes.tsv (CapTrak, {unit})" in str(
        opened(run).notes
    )


def test_places_in_another_frame_are_turned_by_its_landmarks(run):
    """CTF: x to the nose, y to the left ear; here its origin is 10 cm too low."""
    marks = {"NAS": [0.1, 0, 0.1], "LPA": [0, 0.08, 0.1], "RPA": [0, -0.08, 0.1]}
    tables(run.parent, ELECTRODES.format(0.05), System="CTF", Units="m", marks=marks)
    found = places(opened(run))
    assert found["C3"] == pytest.approx((0, 0.05, -0.1))
    assert found["Cz"] == pytest.approx((-0.05, 0, -0.1))


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({}, "no coordsystem.json states its coordinate system"),
        ({"System": "CTF", "Units": "mm"}, "CTF in mm can't be transformed"),
        ({"System": "ACPC", "Units": "mm", "marks": {"NAS": [0, 1, 0]}}, "ACPC in mm can't"),
        ({"System": "CapTrak", "Units": "n/a"}, "CapTrak in n/a can't be transformed"),
        ({"System": "CapTrak", "Units": "m"}, "its leads are metres away from the head"),
    ],
)
def test_what_cant_be_placed_is_left_out_and_noted(stated, expected, run):
    tables(run.parent, ELECTRODES.format(50), **stated)
    session = opened(run)
    assert places(session) == {}
    assert expected in str(session.notes)


def test_of_several_spaces_one_that_can_be_placed_is_taken(run):
    text = ELECTRODES.format(0.05)
    tables(run.parent, text, name="sub-01_space-ACPC", System="ACPC", Units="m")
    tables(run.parent, text, name="sub-01_space-CapTrak", System="CapTrak", Units="m")
    tables(run.parent, text, name="sub-02_space-CTF", System="CTF", Units="m", marks=LANDMARKS)
    session = opened(run)
    assert len(places(session)) == 2
    assert "space-CapTrak" in str(session.notes)


def test_a_broken_table_is_named(run):
    tables(run.parent, "name\tx\nC3\t1\n", System="CapTrak", Units="m")
    with pytest.raises(SourceError, match=r"sub-01_electrodes\.tsv can't be read"):
        opened(run)


EVENTS = "onset\ttrial_type\tvalue\n1\tleft\t1\n2\tright\t2\n3\trest\tn/a\n"


@pytest.mark.parametrize(
    ("rules", "codes"),
    [
        ("", [1, 2]),
        ("rest=5", [1, 2, 5]),
        ("left=11,right=21", [11, 21]),
        ("1=31,left=11", [31, 2]),
        ("le*=11", [11, 2]),
        ("left=11,*=0", [11]),
        ("left=0", [2]),
    ],
)
def test_a_rule_may_be_about_any_of_the_columns_that_name_an_event(rules, codes, run, tmp_path):
    table = tmp_path / "mine.tsv"
    table.write_text(EVENTS)
    (session,) = open_source(f"{run}?events_file={table}&events={rules}").sessions()
    assert [code for _, own in session.block_triggers() for _, code in own] == codes


def test_a_rule_about_a_column_holds_for_the_table_beside_a_run_too(write, tmp_path):
    path = write("run.edf").rename(tmp_path / f"{STEM}_eeg.edf")
    (tmp_path / f"{STEM}_events.tsv").write_text(EVENTS)
    (session,) = open_source(f"{path}?events=left=11").sessions()
    assert session.block_triggers()[0][1] == ((250, 11), (500, 2))
    assert "rest" in str(session.notes)


def test_blanks_around_a_tables_cells_mean_nothing(tmp_path):
    table = tmp_path / "x.tsv"
    table.write_text("onset \tduration\t value\n 1.5 \t0\t 11 \n")
    assert read_events_table(table) == [(1.5, "11", "")]


@pytest.mark.parametrize("onset", ["n/a", "", "inf"])
def test_an_onset_that_is_no_number_is_refused(write, tmp_path, onset):
    table = tmp_path / "events.tsv"
    table.write_text(f"onset\tvalue\n{onset}\t11\n")
    with pytest.raises(SourceError, match=f"an onset is '{onset}'; it must be a number of seconds"):
        open_source(f"{write('run.edf')}?events_file={table}")
