"""What a parameter names is taken, in every format; what a format can't take is refused, not passed over."""

import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.sources import open_source

pytestmark = pytest.mark.usefixtures("unprobed")

RATE = 250
LEADS = ["C3", "Cz", "C4", "COUNT"]
TRIGGERS = [(0, 250), (10, 242), (260, 11), (510, 12), (760, 21), (1249, 243)]
PARAMETERS = {"run.npy": "rate=250&leads=C3,Cz,C4,COUNT", "run.pkl": "leads=C3,Cz,C4,COUNT"}


def opened(path, *parameters):
    asked = [part for part in (PARAMETERS.get(path.name), *parameters) if part]
    (session,) = open_source(f"{path}?{'&'.join(asked)}").sessions()
    return session


def triggers(session):
    return [trigger for _, own in session.block_triggers() for trigger in own]


ALL = ("run.edf", "stim.edf", "run.bdf", "run_raw.fif", "run.gdf", "run.cnt", "run.vhdr", "run.set",
       "run.npz", "run.npy", "run.mat", "run.pkl", "run.xdf")  # fmt: skip


@pytest.mark.parametrize("name", ALL)
def test_triggers_that_are_not_there_are_refused(name, write):
    with pytest.raises(SourceError, match="'NOPE' for triggers"):
        opened(write(name), "triggers=NOPE")


@pytest.mark.parametrize("name", ALL)
def test_an_events_file_is_taken_by_every_format(name, write, tmp_path):
    table = tmp_path / "mine.csv"
    table.write_text("onset,name\n0.2,7\n1.0,9\n")
    session = opened(write(name), f"events_file={table}")
    assert triggers(session) == [(50, 7), (250, 9)]
    assert [lead.name for lead in session.leads] == LEADS


@pytest.mark.parametrize(
    ("name", "parameter", "expected"),
    [
        ("run.edf", "rate=500", "for MATLAB, npy, npz, pickle, and not for EDF"),
        ("run_raw.fif", "leads=a,b", "and not for FIF"),
        ("run.vhdr", "unit=mV", "and not for BrainVision"),
        ("run.npz", "stream=EEG", "for XDF, and not for npz"),
        ("run.xdf", "variable=data", "and not for XDF"),
    ],
)
def test_a_parameter_that_a_format_does_not_take_is_refused(name, parameter, expected, write):
    with pytest.raises(SourceError, match=expected):
        opened(write(name), parameter)


def test_the_row_and_the_array_of_events_can_both_be_asked_for(tmp_path):
    row = np.zeros(500)
    row[[10, 20]] = 1, 2
    path = tmp_path / "both.npz"
    np.savez(
        path, data=np.vstack([np.ones((2, 500)), row]), rate=RATE, leads=np.array(["C3", "C4"]),
        events=np.array([[30, 3], [40, 4]]),
    )  # fmt: skip
    assert triggers(opened(path)) == triggers(opened(path, "triggers=events")) == [(30, 3), (40, 4)]
    for named in ("last", "stim", "TRIGGER"):
        assert triggers(opened(path, f"triggers={named}")) == [(10, 1), (20, 2)]
    np.savez(path, data=np.ones((2, 500)), rate=RATE, leads=np.array(["C3", "C4"]))
    for named in ("stim", "events", "annotations"):
        with pytest.raises(SourceError, match=f"has no '{named}' for triggers; it has none"):
            opened(path, f"triggers={named}")


@pytest.mark.parametrize("asked", ["", "stream=Signal"])
def test_an_xdfs_markers_can_be_named_with_its_stream_or_without(asked, write):
    path = write("run.xdf")
    assert triggers(opened(path, asked, "triggers=Marks")) == TRIGGERS
    counting = opened(path, asked, "triggers=COUNT")
    assert triggers(counting)[:2] == [(1, 1), (2, 2)]
    assert [lead.name for lead in counting.leads] == ["C3", "Cz", "C4"]
    with pytest.raises(SourceError, match="its marker streams: 'Marks'"):
        opened(path, asked, "triggers=stim")


def test_a_neuracle_folder_takes_its_own_events_or_a_files(write, tmp_path):
    folder = tmp_path / "neuracle"
    folder.mkdir()
    for name in ("data.bdf", "evt.bdf"):  # its annotations serve as the events here
        (folder / name).write_bytes(write("run.bdf").read_bytes())
    assert triggers(opened(folder)) == triggers(opened(folder, "triggers=events")) == TRIGGERS
    table = tmp_path / "mine.csv"
    table.write_text("onset,name\n0.2,7\n")
    assert triggers(opened(folder, f"events_file={table}")) == [(50, 7)]
    with pytest.raises(SourceError, match="no channel 'NOPE' for triggers"):
        opened(folder, "triggers=NOPE")
