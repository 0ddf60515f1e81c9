"""A fault begins when it is asked to, or says that it can't."""

import numpy as np
import pytest
from virtual_amplifier import amplifier, recording

from bci_stream.errors import SourceError
from replay.devices.emulator.amplifier import parse_fault
from replay.devices.neuracle.raw import encode_rows


@pytest.mark.parametrize("text", ["wrap@3", "wrap@3:2", "data-first@1", "new-meta@0.5"])
def test_a_fault_from_the_start_takes_no_time(text):
    kind = text.partition("@")[0]
    with pytest.raises(SourceError, match=rf"{kind} concerns .* takes no @SECONDS; write {kind}"):
        parse_fault(text)


def test_wrap_says_where_its_seconds_stand():
    with pytest.raises(SourceError, match=r"write wrap:VALUE \(seconds after the start\)"):
        parse_fault("wrap@3")


def sent(faults: list[str], triggers: tuple[tuple[int, int], ...] = ()) -> np.ndarray:
    """The words (samples, leads and trigger) that a raw amplifier sends."""
    acts = amplifier(recording(1, triggers=triggers), "raw", faults).actions()
    return np.frombuffer(b"".join(act.data for act in acts), "<f4").reshape(-1, 4)


def test_a_trigger_is_held_from_the_fault_on():
    line = sent(["hold@0.5:5"], ((100, 7), (600, 8)))[:, 3]
    assert np.flatnonzero(line == 7).tolist() == [100]
    assert np.flatnonzero(line == 8).tolist() == [600, 601, 602, 603, 604]


def test_bytes_are_swapped_from_the_fault_on():
    words, swapped = sent([]).view("<u4"), sent(["big-endian@0.5"]).view("<u4")
    begin = 13 * 40  # the first sending whose place is at 0.5 s or after it
    assert (swapped[:begin] == words[:begin]).all()
    assert (swapped[begin:] == words[begin:].byteswap()).all()


def test_the_words_above_are_the_rows_that_the_encoder_writes():
    assert sent([]).tobytes() == encode_rows(recording(1).blocks[0].data, ())
