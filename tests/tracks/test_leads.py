"""The orders of leads, as the documents list them."""

import numpy as np
import pytest

from tracks.errors import RuleError
from tracks.leads import (
    EMOTION_FIRST_BATCH,
    EMOTION_SECOND_BATCH,
    NEUSEN_64,
    NEUSEN_64_KINDS,
    lead_permutation,
)


def test_the_64_leads_stand_where_table_4_says():
    assert len(NEUSEN_64) == len(set(NEUSEN_64)) == 64
    numbered = {1: "Fpz", 8: "Fz", 17: "FCz", 26: "Cz", 33: "T7", 43: "Pz", 50: "POz", 57: "Oz"}
    numbered |= {
        9: "F1",
        24: "FT7",
        25: "FT8",
        41: "TP7",
        49: "P8",
        59: "O2",
        60: "ECG",
        64: "VEOL",
    }
    assert {number: NEUSEN_64[number - 1] for number in numbered} == numbered


def test_the_leads_that_are_no_eeg():
    eog = dict.fromkeys(NEUSEN_64[60:], "EOG")
    assert {**eog, "ECG": "ECG"} == NEUSEN_64_KINDS


def test_the_batches_differ_as_the_document_says():
    assert len(EMOTION_FIRST_BATCH) == len(EMOTION_SECOND_BATCH) == 32
    assert EMOTION_FIRST_BATCH[14:18] == ("T3", "T4", "A1", "A2")
    assert EMOTION_FIRST_BATCH[25:27] == ("T5", "T6")
    assert EMOTION_SECOND_BATCH[14:18] == ("T7", "T8", "CP1", "CP2")
    assert EMOTION_SECOND_BATCH[23:25] == ("P7", "P8")
    assert EMOTION_SECOND_BATCH[30:] == ("A2", "A1")


def test_the_first_batch_is_brought_into_the_order_of_the_second():
    order = lead_permutation(EMOTION_FIRST_BATCH, EMOTION_SECOND_BATCH)
    assert sorted(order) == list(range(32))
    names = np.array(EMOTION_FIRST_BATCH)[list(order)]
    renamed = [{"T3": "T7", "T4": "T8", "T5": "P7", "T6": "P8"}.get(n, n) for n in names]
    assert tuple(renamed) == EMOTION_SECOND_BATCH


def test_letter_case_does_not_matter():
    assert lead_permutation(["cz", "FZ"], ["Fz", "Cz"]) == (1, 0)


def test_a_missing_lead_is_named():
    with pytest.raises(RuleError, match="Pz; it has Cz"):
        lead_permutation(["Cz"], ["Cz", "Pz"])
