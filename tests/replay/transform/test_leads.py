"""Leads are found by their place on the head, put into the track's order, and each change is noted."""

import numpy as np
import pytest

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from replay.model.options import SourceOptions
from replay.model.signal import ArraySignal
from replay.transform.leads import place, plan_leads
from tracks.common.leads import EMOTION_FIRST_BATCH, EMOTION_SECOND_BATCH
from tracks.registry import TRACKS

EMOTION = TRACKS["emotion"]


def leads(*names):
    return tuple(Lead(name) for name in names)


def plan(names, track=None, **options):
    return plan_leads("x.edf", leads(*names), SourceOptions(**options), track)


@pytest.mark.parametrize(
    ("name", "found"),
    {"Fc5.": "FC5", "EEG Fp1-Ref": "FP1", "T3": "T7", "t6": "P8", "Cz": "CZ"}.items(),
)
def test_a_place_is_the_same_however_it_is_spelt(name, found):
    assert place(name) == found


def test_the_first_batch_comes_out_in_the_second_batchs_order():
    made = plan(EMOTION_FIRST_BATCH, EMOTION)
    assert tuple(lead.name for lead in made.leads) == EMOTION_SECOND_BATCH
    signal = ArraySignal(np.arange(32.0)[:, None] * np.ones((1, 5)))
    row = made.applied_to(signal, 32).read(0, 1)[0]
    position = {name: k for k, name in enumerate(EMOTION_FIRST_BATCH)}
    assert row[EMOTION_SECOND_BATCH.index("T7")] == position["T3"]
    assert row[EMOTION_SECOND_BATCH.index("P8")] == position["T6"]
    assert row[EMOTION_SECOND_BATCH.index("A1")] == position["A1"]
    assert any("T3=T7" in note for note in made.notes)
    assert any("order" in note for note in made.notes)


def test_a_recording_in_the_tracks_order_is_left_alone_without_a_note():
    made = plan(EMOTION_SECOND_BATCH, EMOTION)
    signal = ArraySignal(np.ones((32, 5)))
    assert made.applied_to(signal, 32) is signal
    assert made.notes == ()


def test_without_a_track_and_without_being_asked_nothing_changes():
    made = plan(["Oz", "T3", "weird"])
    assert [lead.name for lead in made.leads] == ["Oz", "T3", "weird"]
    assert made.columns == (0, 1, 2)


@pytest.mark.parametrize(("missing", "sent"), [("drop", 2), ("zero", 32)])
def test_missing_leads_are_dropped_or_sent_flat_and_noted(missing, sent):
    made = plan(["Cz", "Pz", "XX"], EMOTION, missing=missing)
    assert len(made.leads) == sent
    samples = made.applied_to(ArraySignal(np.ones((3, 4))), 3).read(0, 4)
    assert samples.shape == (4, sent)
    assert samples.sum() == 8
    assert any("30 of emotion's leads are missing" in note for note in made.notes)
    assert any("XX" in note for note in made.notes)


def test_missing_leads_are_refused_when_asked():
    with pytest.raises(SourceError, match="lacks 30 of emotion's leads"):
        plan(["Cz", "Pz"], EMOTION, missing="refuse")


def test_leads_that_have_none_of_the_tracks_names_are_sent_as_they_are():
    made = plan(["a", "b"], TRACKS["ecog"])
    assert [lead.name for lead in made.leads] == ["a", "b"]
    assert "as they are" in made.notes[0]


def test_renaming_and_selecting_do_what_was_asked_in_that_order():
    made = plan(["a", "b", "c"], rename={"a": "Cz"}, select=("c", "Cz"))
    assert [lead.name for lead in made.leads] == ["c", "Cz"]
    assert made.columns == (2, 0)


@pytest.mark.parametrize("options", [{"rename": {"z": "y"}}, {"select": ("z",)}])
def test_a_lead_that_is_not_there_is_reported_with_those_that_are(options):
    with pytest.raises(SourceError, match=r"no lead 'z'.*it has a, b"):
        plan(["a", "b"], **options)


def test_the_tracks_kinds_are_known_better_than_the_files():
    made = plan(["ECG", "Cz"], TRACKS["mi"])
    assert {lead.name: lead.kind for lead in made.leads} == {"Cz": "EEG", "ECG": "ECG"}
