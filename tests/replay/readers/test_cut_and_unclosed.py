"""What lacks its end: an event table that is cut off, and a file whose recorder crashed."""

import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.sources import open_source

N_EVENTS = 6


def opened(path):
    (session,) = open_source(str(path)).sessions()
    return session


@pytest.mark.parametrize("lost", [1, 2, N_EVENTS])
def test_a_cnt_without_its_last_events_is_refused(lost, write):
    path = write("run.cnt")
    path.write_bytes(path.read_bytes()[: -8 * lost])
    with pytest.raises(
        SourceError, match=f"has {N_EVENTS} events, and {N_EVENTS - lost} are there"
    ):
        opened(path)


@pytest.mark.parametrize("name", ["run.edf", "stim.edf", "run.bdf"])
@pytest.mark.parametrize("half_written", [b"", b"\0\0\0\0\0"])
def test_a_file_that_was_never_closed_is_played_as_far_as_it_goes(
    name, half_written, write, counted
):
    path = write(name)
    whole = path.read_bytes()
    expected = opened(path).block_triggers()
    path.write_bytes(whole[:236] + b"-1".ljust(8) + whole[244:] + half_written)
    session = opened(path)
    samples = np.concatenate([packet.samples for packet in session.packets(100)])
    np.testing.assert_array_equal(samples, counted.T.astype(np.float32))
    assert session.block_triggers() == expected
    assert any("never closed" in note for note in session.notes)


def test_a_number_of_records_that_is_not_true_is_still_refused(write):
    path = write("run.edf")
    whole = path.read_bytes()
    path.write_bytes(whole[:236] + b"99".ljust(8) + whole[244:])
    with pytest.raises(SourceError, match="damaged or incomplete"):
        opened(path)


def test_a_file_that_was_never_closed_and_has_no_record_is_refused(write):
    path = write("run.edf")
    whole = path.read_bytes()
    path.write_bytes(whole[:236] + b"-1".ljust(8) + whole[244 : int(whole[184:192])])
    with pytest.raises(SourceError):
        opened(path)
