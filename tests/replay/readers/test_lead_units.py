"""What is no voltage is neither called microvolts nor scaled; what is unknown is not taken for EEG."""

import numpy as np
import pytest

from replay.readers.xdf import channels_of
from replay.sources import open_source


def described(label, kind="", unit=""):
    entry = {"label": [label], "type": [kind], "unit": [unit]}
    stream = {
        "info": {"channel_count": ["1"], "desc": [{"channels": [{"channel": [entry]}]}]},
    }
    (channel,) = channels_of(stream)
    return channel.lead.kind, channel.lead.unit, channel.scale


CASES = {
    ("C3", "EEG", "microvolts"): ("EEG", "microvolts", 1.0),
    ("C3", "EEG", "mV"): ("EEG", "microvolts", 1e3),
    ("C3", "eeg", ""): ("EEG", "microvolts", 1.0),
    ("C3", "", "V"): ("EEG", "microvolts", 1e6),
    ("C3", "EEG", "counts"): ("EEG", "counts", 1.0),
    ("up", "VEOG", "uV"): ("EOG", "microvolts", 1.0),
    ("AccX", "ACC", "g"): ("MISC", "g", 1.0),
    ("AccX", "", "g"): ("MISC", "g", 1.0),
    ("GSR", "GSR", "uS"): ("MISC", "uS", 1.0),
    ("Batt", "AUX", "percent"): ("MISC", "percent", 1.0),
    ("Resp", "RESP", "millivolts"): ("MISC", "millivolts", 1.0),
    ("Count", "MISC", ""): ("MISC", "none", 1.0),
    ("TRIGGER", "EEG", "V"): ("STIM", "V", 1.0),
}


@pytest.mark.parametrize(("given", "expected"), CASES.items())
def test_an_xdf_channel_is_what_its_header_states(given, expected):
    assert described(*given) == expected


def saved(path, **more):
    data = np.vstack([np.full((3, 100), 2.0), np.eye(1, 100, 7)])
    names = np.array(["C3", "FORCE", "EOG", "TRIGGER"])
    np.savez(path, data=data, rate=100, leads=names, **more)
    return path


def test_an_arrays_unit_is_about_its_voltages_alone(tmp_path):
    path = saved(tmp_path / "z.npz", kinds=np.array(["EEG", "MISC", "EOG", "STIM"]))
    (session,) = open_source(f"{path}?unit=mV").sessions()
    assert [lead.unit for lead in session.leads] == ["microvolts", "none", "microvolts"]
    np.testing.assert_array_equal(next(session.packets(1)).samples, [[2000, 2, 2000]])


def test_kinds_of_all_rows_stay_with_their_rows_wherever_the_triggers_are(tmp_path):
    path = saved(tmp_path / "z.npz", kinds=np.array(["EEG", "MISC", "EOG", "STIM"]))
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}
    order = [3, 0, 1, 2]
    arrays |= {key: arrays[key][order] for key in ("data", "leads", "kinds")}
    np.savez(path, **arrays)
    (session,) = open_source(str(path)).sessions()
    found = [(lead.name, lead.kind) for lead in session.leads]
    assert found == [("C3", "EEG"), ("FORCE", "MISC"), ("EOG", "EOG")]


def test_rows_without_names_are_numbered_and_noted(tmp_path):
    np.savez(tmp_path / "z.npz", data=np.full((2, 100), 0.5), rate=100)
    (session,) = open_source(str(tmp_path / "z.npz")).sessions()
    assert "the file names no leads: they are called ch1 to ch2" in str(session.notes)
