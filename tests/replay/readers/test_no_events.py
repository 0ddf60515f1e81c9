"""Annotations about the recording itself are no events, however they are spelt."""

import edfio
import numpy as np
import pytest

from replay.sources import open_source

BOUNDS = {"physical_range": (-32768, 32767), "digital_range": (-32768, 32767)}


@pytest.mark.parametrize("text", ["bad 1", "BAD_1", "Bad:1", "edge 2", "EDGE 2", "new segment/1"])
def test_bad_stretches_and_edges_are_no_triggers(text, tmp_path):
    signal = edfio.EdfSignal(np.zeros(500), 250, label="C3", physical_dimension="uV", **BOUNDS)
    notes = [edfio.EdfAnnotation(0.4, None, text), edfio.EdfAnnotation(1.0, None, "7")]
    edfio.Edf([signal], data_record_duration=0.2, annotations=notes).write(tmp_path / "x.edf")
    (session,) = open_source(str(tmp_path / "x.edf")).sessions()
    assert session.block_triggers() == [(500, ((250, 7),))]
    assert session.notes == ()
