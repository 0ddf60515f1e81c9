"""The orders of leads, as the documents list them."""

from tracks.common.leads import (
    EMOTION_FIRST_BATCH,
    EMOTION_SECOND_BATCH,
    NEUSEN_64,
    NEUSEN_64_KINDS,
    OLD_NAMES,
)
from tracks.registry import TRACKS


def test_the_64_leads_stand_where_table_4_says():
    assert " ".join(NEUSEN_64) == (
        "Fpz Fp1 Fp2 AF3 AF4 AF7 AF8 Fz F1 F2 F3 F4 F5 F6 F7 F8 FCz FC1 FC2 FC3 FC4 FC5 FC6 FT7 FT8 Cz C1 "
        "C2 C3 C4 C5 C6 T7 T8 CP1 CP2 CP3 CP4 CP5 CP6 TP7 TP8 Pz P3 P4 P5 P6 P7 P8 POz PO3 PO4 PO5 PO6 PO7 "
        "PO8 Oz O1 O2 ECG HEOR HEOL VEOU VEOL"
    )


def test_the_leads_that_are_no_eeg():
    eog = dict.fromkeys(NEUSEN_64[60:], "EOG")
    assert {**eog, "ECG": "ECG"} == NEUSEN_64_KINDS


def test_the_batches_are_those_of_the_document():
    assert " ".join(EMOTION_FIRST_BATCH) == (
        "Fp1 Fp2 Fz F3 F4 F7 F8 FC1 FC2 FC5 FC6 Cz C3 C4 T3 T4 A1 A2 CP1 CP2 CP5 CP6 Pz P3 P4 T5 T6 PO3 "
        "PO4 Oz O1 O2"
    )
    assert " ".join(EMOTION_SECOND_BATCH) == (
        "Fp1 Fp2 Fz F3 F4 F7 F8 FC1 FC2 FC5 FC6 Cz C3 C4 T7 T8 CP1 CP2 CP5 CP6 Pz P3 P4 P7 P8 PO3 PO4 Oz "
        "O1 O2 A2 A1"
    )


def test_the_batches_have_the_same_places_in_another_order():
    renamed = {OLD_NAMES.get(name, name) for name in EMOTION_FIRST_BATCH}
    assert renamed == set(EMOTION_SECOND_BATCH)
    assert TRACKS["emotion"].lead_orders == {1: EMOTION_FIRST_BATCH, 2: EMOTION_SECOND_BATCH}
