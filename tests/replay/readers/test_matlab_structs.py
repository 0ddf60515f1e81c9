"""Of several structs the right one is played, or none; events and leads are those of the file."""

import re
from urllib.parse import urlencode

import numpy as np
import pytest
from scipy.io import savemat

from bci_stream.errors import SourceError
from replay.sources import open_source

X = np.random.default_rng(4).normal(0, 20, (3, 100))


@pytest.fixture(autouse=True)
def unprobed(monkeypatch):
    """The process in which each file is tried first has tests of its own, and takes half a second."""
    monkeypatch.setattr("replay.readers.arrays.matlab.probe_matlab", lambda _: None)


def save_73(path, variables):
    """As MATLAB lays it out: a struct is a group, and matrices are turned."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            group = file.create_group(name) if isinstance(value, dict) else file
            for field, item in value.items() if isinstance(value, dict) else [(name, value)]:
                group[field] = np.atleast_2d(item).T
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(116) + b" " * 8 + b"\x00\x02IM")


@pytest.fixture(params=[savemat, save_73], ids=["v5", "v7.3"])
def save(request, tmp_path):
    def write(**variables):
        request.param(tmp_path / "x.mat", variables)
        return tmp_path / "x.mat"

    return write


def opened(path, **parameters):
    question = f"?{urlencode(parameters)}" if parameters else ""
    (session,) = open_source(f"{path}{question}").sessions()
    return session


def played(path, **parameters):
    """(samples, rate)"""
    session = opened(path, triggers="none", **parameters)
    return next(session.packets(session.n_samples)).samples.T, session.rate


def check(path, expected, expected_rate, **parameters):
    samples, rate = played(path, **parameters)
    np.testing.assert_array_equal(samples, expected.astype(np.float32))
    assert rate == expected_rate


def two_runs(save, **more):
    return save(run1={"data": X, "fs": 250.0}, run2={"data": 2 * X, "fs": 500.0}, **more)


def test_a_variable_goes_before_a_field_of_the_same_name(save):
    path = save(data=X, rest={"data": 2 * X, "fs": 500.0}, fs=250.0)
    check(path, X, 250)
    check(path, 2 * X, 500, variable="rest")
    check(path, 2 * X, 500, variable="rest.data")
    check(path, X, 250, variable="data")


def test_a_struct_with_a_recording_of_its_own_does_not_affect_another(save):
    path = save(data=X, rest={"data": 2 * X, "fs": 500.0})
    with pytest.raises(SourceError, match="states no rate"):
        played(path)
    check(path, X, 100, rate=100)


def test_of_several_recordings_none_is_played_unless_it_is_chosen(save):
    path = two_runs(save)
    with pytest.raises(SourceError, match=r"run1\.data, run2\.data.*\?variable=run1\b"):
        played(path)
    with pytest.raises(SourceError, match=r"run1\.data, run2\.data"):
        played(path, variable="data")
    check(path, X, 250, variable="run1")
    check(path, 2 * X, 500, variable="run2")
    check(path, 2 * X, 500, variable="run2.data")


def test_a_chosen_structs_own_rate_goes_before_the_files(save):
    check(two_runs(save, fs=100.0), 2 * X, 500, variable="run2")


def test_a_recording_under_an_unknown_name_is_chosen_by_its_struct(save):
    path = save(run1={"trial": X, "fs": 250.0}, run2={"trial": 2 * X, "fs": 500.0})
    with pytest.raises(SourceError, match=r"run1\.fs, run2\.fs"):
        played(path)
    check(path, X, 250, variable="run1")
    check(path, 2 * X, 500, variable="run2.trial")
    path = save(run1={"trial": X}, run2={"trial": 2 * X}, fs=250.0)
    with pytest.raises(SourceError, match=r"run1\.trial \(3 x 100.*run2\.trial"):
        played(path)


def test_one_struct_may_hold_the_data_and_another_the_rate(save):
    path = save(rec={"data": X}, info={"fs": 250.0}, places={"x": np.ones((3, 1))})
    check(path, X, 250)
    check(path, X, 250, variable="rec")
    check(path, X, 250, variable="data")


def test_two_rates_are_refused_and_those_of_no_meaning_here_are_not(save):
    path = save(data=X, a={"fs": 250.0}, b={"fs": 500.0})
    with pytest.raises(SourceError, match=r"a\.fs, b\.fs"):
        played(path)
    check(path, X, 100, variable="data", rate=100)
    check(save(data=X, fs=250.0, a={"version": 1.0}, b={"version": 2.0}), X, 250)


def test_a_field_that_is_not_there_is_reported_with_those_that_are(save):
    path = two_runs(save)
    for wanted in ("run3", "run1.eeg", "run3.data"):
        held = rf"no variable '{re.escape(wanted)}'; it has run1\.data \(3 x 100.*run2\.data"
        with pytest.raises(SourceError, match=held):
            played(path, variable=wanted)
    with pytest.raises(SourceError, match=r"x\.mat: info has no variable `data`; it has fs"):
        played(save(data=X, info={"fs": 250.0}), variable="info")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ((5.9, 0, 2), "5.9 for the sample of row 1"),
        ((5, 0, 2.7), "2.7 for the code of row 1"),
        ((np.nan, 0, 2), "nan for the sample of row 1"),
        ((5, 0, np.inf), "inf for the code of row 1"),
    ],
)
def test_an_event_with_a_fraction_is_refused(row, expected, tmp_path):
    np.savez(tmp_path / "x.npz", data=X, rate=250, events=np.array([(1.0, 0, 7), row]))
    with pytest.raises(SourceError, match=f"{re.escape(expected)}.*whole number"):
        opened(tmp_path / "x.npz")
    played(tmp_path / "x.npz")


def test_events_of_whole_floats_are_read(tmp_path):
    np.savez(tmp_path / "x.npz", data=X, rate=250, events=np.array([(1.0, 0, 7), (5.0, 0.5, 2)]))
    ((_, triggers),) = opened(tmp_path / "x.npz").block_triggers()
    assert list(triggers) == [(1, 7), (5, 2)]


@pytest.mark.parametrize("extra_row", [0, 1], ids=["leads alone", "with triggers"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("key", ["leads", "ch_names"])
def test_names_and_not_the_longer_side_decide_where_the_leads_are(key, turned, extra_row, tmp_path):
    names = np.array([f"E{number}" for number in range(64)])
    data = np.random.default_rng(1).normal(0, 20, (64 + extra_row, 50))
    data[64:] = 0
    held = {"data": data.T if turned else data, "rate": 250, key: names}
    np.savez(tmp_path / "short.npz", **held)
    session = opened(tmp_path / "short.npz")
    assert [lead.name for lead in session.leads] == list(names)
    samples = next(session.packets(50)).samples
    np.testing.assert_array_equal(samples.T, data[:64].astype(np.float32))


def test_names_that_the_user_gives_decide_it_too(tmp_path):
    data = np.random.default_rng(1).normal(0, 20, (8, 5))
    np.save(tmp_path / "short.npy", data)
    samples, _ = played(tmp_path / "short.npy", rate=250, leads=",".join("abcdefgh"))
    np.testing.assert_array_equal(samples, data.astype(np.float32))
