"""Damaged tables beside a recording: BIDS sidecars, events, joint angles, parameters of a URI."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_recordings import write_recording

from replay.model.event_map import EventMap
from replay.readers.events_table import read_events_table
from replay.readers.files import read_angles
from replay.sources import open_source, parse_uri
from tests.fuzz.damage import damaged, examples, read_within_limits

CHANNELS = "name\ttype\tunits\nC3\tEEG\tuV\nCz\tEOG\tuV\nC4\tMISC\tuV\nCOUNT\tTRIG\tn/a\n"
ELECTRODES = "name\tx\ty\tz\nC3\t-50\t0\t90\nCz\t0\t0\t120\nC4\tn/a\tn/a\tn/a\n"
SYSTEM = (
    '{"EEGCoordinateSystem": "CTF", "EEGCoordinateUnits": "mm", '
    '"AnatomicalLandmarkCoordinates": {"NAS": [0, 100, 0], "LPA": [-80, 0, 0], "RPA": [80, 0, 0]}, '
    '"AnatomicalLandmarkCoordinateSystem": "CTF", "AnatomicalLandmarkCoordinateUnits": "mm"}'
)
EVENTS = "onset\tduration\ttrial_type\tvalue\n0.5\t1\tleft\t11\n1.5\t1\tright\t21\n2\tn/a\tn/a\t7\n"
SIDECARS = {
    "sub-1_task-x_channels.tsv": CHANNELS,
    "sub-1_task-x_electrodes.tsv": ELECTRODES,
    "sub-1_task-x_coordsystem.json": SYSTEM,
    "sub-1_task-x_events.tsv": EVENTS,
}


@pytest.fixture
def run(tmp_path) -> Path:
    """A BIDS run with all its sidecars."""
    path = write_recording("run.edf", tmp_path).rename(tmp_path / "sub-1_task-x_eeg.edf")
    for name, text in SIDECARS.items():
        (tmp_path / name).write_text(text)
    return path


def play(uri: str) -> None:
    for session in open_source(uri).sessions():
        for _ in session.packets(40):
            pass
        session.block_triggers()


def test_the_sidecars_are_read(run):
    (session,) = open_source(str(run)).sessions()
    assert [lead.kind for lead in session.leads] == ["EEG", "EOG", "MISC"]
    assert session.leads[1].position is not None
    ((_, triggers),) = session.block_triggers()
    assert [code for _, code in triggers] == [11, 21, 7]


@pytest.mark.parametrize("name", SIDECARS)
@examples(25)
@given(data=st.data())
def test_a_damaged_sidecar_is_used_or_refused(name, run, data):
    table = run.with_name(name)
    table.write_bytes(data.draw(damaged(SIDECARS[name].encode(), head=1.0)))
    read_within_limits(lambda: play(str(run)))
    table.write_text(SIDECARS[name])


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
@examples(100)
@given(data=st.data())
def test_a_damaged_events_table_is_read_or_refused(suffix, tmp_path, data):
    path = tmp_path / f"events{suffix}"
    text = EVENTS if suffix == ".tsv" else EVENTS.replace("\t", ",")
    path.write_bytes(data.draw(damaged(text.encode(), head=1.0)))
    read_within_limits(lambda: read_events_table(path, EventMap.parse("left=3")))


@examples(50)
@given(data=st.data())
def test_a_damaged_fif_of_events_is_read_or_refused(tmp_path, data):
    import mne

    path = tmp_path / "x-eve.fif"
    mne.write_events(path, np.array([[10, 0, 1], [20, 0, 2]]), overwrite=True, verbose="error")
    path.write_bytes(data.draw(damaged(path.read_bytes(), head=1.0)))
    read_within_limits(lambda: read_events_table(path))


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".npz", ".mat"])
@examples(25)
@given(data=st.data())
def test_damaged_joint_angles_are_read_or_refused(suffix, tmp_path, data):
    from scipy.io import savemat

    angles, path = np.random.default_rng(0).normal(size=(20, 8)), tmp_path / f"angles{suffix}"
    writers = {
        ".csv": lambda: np.savetxt(path, angles, delimiter=","),
        ".npy": lambda: np.save(path, angles),
        ".npz": lambda: np.savez(path, angles=angles),
        ".mat": lambda: savemat(path, {"angles": angles}),
    }
    writers[suffix]()
    path.write_bytes(data.draw(damaged(path.read_bytes(), head=0.3)))
    read_within_limits(lambda: read_angles(path))


@examples(200)
@given(text=st.text(max_size=80))
def test_any_event_map_is_read_or_refused(text):
    read_within_limits(lambda: EventMap.parse(text))


@examples(100)
@given(text=st.text(max_size=80))
def test_any_uri_is_split_or_refused(text):
    read_within_limits(lambda: parse_uri(text))


@examples(60)
@given(query=st.dictionaries(st.sampled_from(["rate", "leads", "events", "select", "rename", "unit",
       "resample", "triggers", "variable", "subject", "x"]), st.text(max_size=20)))  # fmt: skip
def test_any_parameters_are_used_or_refused(query, run):
    from urllib.parse import urlencode

    read_within_limits(lambda: play(f"{run}?{urlencode(query)}"))
