"""Folders, events files, XDF, MATLAB, pickles: each layout is read as its users mean it."""

import pickle
import shutil
import sys
import types

import numpy as np
import pytest

from bci_stream.errors import SourceError
from replay.model.options import SourceOptions
from replay.sources import open_source

pytestmark = pytest.mark.usefixtures("unprobed")

RATE = 250


def sessions(uri):
    return list(open_source(str(uri)).sessions())


def triggers(session):
    return [trigger for _, own in session.block_triggers() for trigger in own]


def save(path, n_samples=500, *, rate=RATE, codes=((0, 242), (100, 11)), **more):
    path.parent.mkdir(parents=True, exist_ok=True)
    events = np.array(codes).reshape(-1, 2)
    data = np.arange(2.0 * n_samples).reshape(2, n_samples)
    np.savez(path, data=data, rate=rate, leads=np.array(["C3", "C4"]), events=events, **more)
    return path


def edf(path, notes, data, rate=RATE, kind="edf", names=None, units=None):
    import edfio

    path.parent.mkdir(parents=True, exist_ok=True)
    signal = edfio.EdfSignal if kind == "edf" else edfio.BdfSignal
    document = edfio.Edf if kind == "edf" else edfio.Bdf
    rows = [
        signal(
            row,
            rate,
            label=names[k] if names else f"L{k}",
            physical_dimension=units[k] if units else "uV",
            physical_range=(-32768, 32767),
            digital_range=(-32768, 32767),
        )
        for k, row in enumerate(data)
    ]
    listed = [edfio.EdfAnnotation(onset, None, text) for onset, text in notes]
    document(rows, data_record_duration=0.2, annotations=listed).write(path)
    return path


# Folders


def test_files_of_a_folder_are_subjects(tmp_path):
    for name in ("p02", "p01"):
        save(tmp_path / f"{name}.npz")
    assert [session.subject for session in sessions(tmp_path)] == ["p01", "p02"]


def test_subfolders_are_subjects_and_their_files_blocks(tmp_path):
    for name in ("s1/a", "s1/b", "s2/a"):
        save(tmp_path / f"{name}.npz")
    found = sessions(tmp_path)
    assert [(session.subject, len(session.block_triggers())) for session in found] == [
        ("s1", 2),
        ("s2", 1),
    ]
    packets = list(found[0].packets(100))
    assert [packet.block for packet in packets] == [0] * 5 + [1] * 5
    assert [packet.start for packet in packets] == [*range(0, 500, 100)] * 2


def test_a_folder_that_is_called_a_subject_holds_that_subjects_blocks(tmp_path):
    for name in ("a", "b"):
        save(tmp_path / "subject07" / f"{name}.npz")
    (session,) = sessions(tmp_path / "subject07")
    assert (session.subject, len(session.blocks)) == ("subject07", 2)
    assert len(sessions(f"{tmp_path / 'subject07'}?files=subjects")) == 2


def test_one_subject_of_a_folder_can_be_chosen(tmp_path):
    for name in ("p01", "p02"):
        save(tmp_path / f"{name}.npz")
    assert [s.subject for s in sessions(f"{tmp_path}?subject=p02")] == ["p02"]
    with pytest.raises(SourceError, match="no subject 'p9'; it has p01, p02"):
        open_source(f"{tmp_path}?subject=p9")


def test_files_of_one_subject_must_agree(tmp_path):
    save(tmp_path / "a.npz")
    save(tmp_path / "b.npz", rate=500)
    with pytest.raises(SourceError, match=r"b\.npz has 500 Hz and a\.npz 250 Hz"):
        sessions(f"{tmp_path}?files=blocks")
    assert sessions(f"{tmp_path}?files=blocks&resample=250")[0].rate == 250


def test_an_empty_folder_is_reported(tmp_path):
    with pytest.raises(SourceError, match="holds no recording"):
        open_source(str(tmp_path))


# Neuracle, BIDS, events files


def test_a_neuracle_folder_is_one_recording_with_its_events(tmp_path):
    counter = np.arange(500.0)
    for number, piece in enumerate((counter[:250], counter[250:]), 1):
        edf(tmp_path / "rec" / f"data.{number}.bdf", [], [piece], kind="bdf")
    notes = [(0.04, "Trigger-In:242"), (1.2, "11")]
    edf(tmp_path / "rec" / "evt.bdf", notes, [np.zeros(50)], kind="bdf")
    (session,) = sessions(tmp_path / "rec")
    samples = np.concatenate([packet.samples[:, 0] for packet in session.packets(10)])
    np.testing.assert_array_equal(samples, counter)
    assert triggers(session) == [(10, 242), (300, 11)]


def test_a_bids_run_takes_kinds_and_events_from_its_tables(tmp_path):
    folder = tmp_path / "sub-01" / "ieeg"
    stem = "sub-01_task-grip_run-1"
    edf(folder / f"{stem}_ieeg.edf", [], np.ones((2, 500)))
    (folder / f"{stem}_channels.tsv").write_text(
        "\ufeffname\ttype\tunits\nL0\tECOG\tuV\nL1\tMISC\tuV\n"
    )
    (folder / f"{stem}_events.tsv").write_text(
        "onset\tduration\ttrial_type\tvalue\n0.4\t0\tgo\t11\n1.0\t0\tstop\tn/a\n"
    )
    (session,) = sessions(f"{tmp_path}?events=stop=241")
    assert session.subject == "01"
    assert [lead.kind for lead in session.leads] == ["ECOG", "MISC"]
    assert triggers(session) == [(100, 11), (250, 241)]


def test_runs_of_one_task_are_blocks_and_another_task_is_another_session(tmp_path):
    for name in ("task-a_run-1", "task-a_run-2", "task-b_run-1"):
        edf(tmp_path / f"sub-01_{name}_eeg.edf", [(0, "5")], np.ones((1, 250)))
    found = [(session.subject, len(session.blocks)) for session in sessions(tmp_path)]
    assert found == [("01-a", 2), ("01-b", 1)]


def test_events_of_a_fif_file_count_from_the_acquisitions_first_sample(tmp_path):
    import mne

    info = mne.create_info(["Cz"], RATE, "eeg")
    raw = mne.io.RawArray(np.ones((1, 500)) * 1e-6, info, first_samp=1000, verbose="error")
    raw.save(tmp_path / "run_raw.fif", verbose="error")
    mne.write_events(tmp_path / "run-eve.fif", np.array([[1010, 0, 3]]), verbose="error")
    assert triggers(sessions(tmp_path / "run_raw.fif")[0]) == [(10, 3)]


@pytest.mark.parametrize("name", ["run.gdf", "run.edf", "run.vhdr"])
def test_events_of_the_file_come_before_those_of_a_table_beside_it(name, tmp_path, write):
    import mne

    path = write(name)
    own = triggers(sessions(path)[0])
    mne.write_events(tmp_path / "run-eve.fif", np.array([[100, 0, 77]]), verbose="error")
    (session,) = sessions(path)
    assert triggers(session) == own
    assert "own events are used, and not those of run-eve.fif" in " ".join(session.notes)
    (asked,) = sessions(f"{path}?triggers=events")
    assert triggers(asked) == [(100, 77)]
    assert "its 1 events are those of run-eve.fif" in " ".join(asked.notes)


def test_a_table_beside_a_file_without_events_is_used_and_noted(tmp_path):
    import mne

    edf(tmp_path / "run.edf", [], np.ones((1, 500)))
    mne.write_events(tmp_path / "run-eve.fif", np.array([[100, 0, 77]]), verbose="error")
    (session,) = sessions(tmp_path / "run.edf")
    assert triggers(session) == [(100, 77)]
    assert "its 1 events are those of run-eve.fif" in " ".join(session.notes)


@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize("first_sample", [0, 1000])
def test_annotations_are_on_mnes_sample_whatever_the_file_counts_from(
    dated, first_sample, tmp_path
):
    import mne

    info = mne.create_info(["Cz"], RATE, "eeg")
    raw = mne.io.RawArray(np.ones((1, 500)) * 1e-6, info, first_samp=first_sample, verbose="error")
    if dated:
        raw.set_meas_date(1_600_000_000)
    raw.set_annotations(mne.Annotations([0.04, 0.5, 1.996], 0, ["1", "2", "3"]))
    raw.save(tmp_path / "x_raw.fif", verbose="error")
    read = mne.io.read_raw_fif(tmp_path / "x_raw.fif", verbose="error")
    events, _ = mne.events_from_annotations(read, {"1": 1, "2": 2, "3": 3}, verbose="error")
    expected = [(int(s) - read.first_samp, int(code)) for s, _, code in events]
    assert triggers(sessions(tmp_path / "x_raw.fif")[0]) == expected
    assert expected == [(10, 1), (125, 2), (499, 3)]


def test_a_named_events_file_takes_precedence(tmp_path, write):
    table = tmp_path / "mine.csv"
    table.write_text("onset,name\n0.2,7\n")
    (session,) = sessions(f"{write('run.edf')}?events_file={table}")
    assert triggers(session) == [(50, 7)]


@pytest.mark.parametrize(
    "text", ["when,name\n1,7\n", "onset,name\nsoon,7\n", "onset,name\nnan,7\n"]
)
def test_a_bad_events_file_is_reported(text, tmp_path, write):
    table = tmp_path / "mine.csv"
    table.write_text(text)
    with pytest.raises(SourceError, match=r"mine\.csv"):
        open_source(f"{write('run.edf')}?events_file={table}")


def test_a_stim_channel_is_read_on_the_way_and_named_ones_take_precedence(write):
    path = write("stim.edf")
    (session,) = sessions(path)
    assert "TRIGGER" not in [lead.name for lead in session.leads]
    (counting,) = sessions(f"{path}?triggers=COUNT")
    assert triggers(counting)[:3] == [(1, 1), (2, 2), (3, 3)]
    assert "COUNT" not in [lead.name for lead in counting.leads]
    assert triggers(sessions(f"{path}?triggers=none")[0]) == []


@pytest.mark.parametrize("name", ["TRIGGER", "Status", "STIM", "trigger"])
@pytest.mark.parametrize("unit", ["uV", "", "mV", "Boolean"])
@pytest.mark.parametrize("kind", ["edf", "bdf"])
def test_a_trigger_channel_gives_its_codes_whatever_unit_its_header_states(
    name, unit, kind, tmp_path
):
    codes = np.zeros(500)
    codes[[10, 100, 300]] = 242, 11, 241
    data = [np.arange(500.0), codes]
    path = edf(tmp_path / f"x.{kind}", [], data, kind=kind, names=["Cz", name], units=["uV", unit])
    (session,) = sessions(path)
    assert [lead.name for lead in session.leads] == ["Cz"]
    assert triggers(session) == [(10, 242), (100, 11), (300, 241)]


def test_delayed_codes_work_with_a_stim_channel_too(write):
    (session,) = sessions(f"{write('stim.edf')}?events=11=11+241@0.5,*=0")
    assert triggers(session) == [(260, 11), (385, 241)]


def test_a_trigger_channel_that_holds_no_codes_is_reported(write):
    (session,) = sessions(f"{write('stim.edf')}?triggers=C3")
    with pytest.raises(SourceError, match="a trigger is a whole number"):
        session.block_triggers()


# XDF


def test_two_streams_of_one_name_are_reported_and_chosen_by_their_id(tmp_path, xdf_writer):
    path = tmp_path / "two.xdf"
    xdf_writer(path, [("Same", "EEG"), ("Same", "EEG")])
    with pytest.raises(SourceError, match="must hold one signal stream, and has 2 of them"):
        open_source(str(path))
    with pytest.raises(SourceError, match="2 of them"):
        open_source(f"{path}?stream=Same")
    (session,) = sessions(f"{path}?stream=2")
    assert next(session.packets(1)).samples[0, 0] == 2000


def test_an_xdf_without_a_signal_is_reported(tmp_path, xdf_writer):
    xdf_writer(tmp_path / "none.xdf", [])
    with pytest.raises(SourceError, match="has 0 of them"):
        open_source(str(tmp_path / "none.xdf"))


# MATLAB and pickles


def test_a_struct_of_matlab_counts_as_variables(tmp_path):
    from scipy.io import savemat

    inner = {"data": np.arange(300.0).reshape(3, 100), "srate": 250.0}
    savemat(tmp_path / "s.mat", {"EEG": inner})
    (session,) = sessions(tmp_path / "s.mat")
    assert (session.rate, session.n_samples, len(session.leads)) == (250, 100, 3)


def test_a_matlab_7_3_file_is_read_with_h5py(tmp_path):
    h5py = pytest.importorskip("h5py")
    data = np.arange(300.0).reshape(3, 100)
    with h5py.File(tmp_path / "new.mat", "w") as file:
        file["data"], file["fs"] = data.T, np.array([[250.0]])
    (session,) = sessions(tmp_path / "new.mat")
    np.testing.assert_array_equal(next(session.packets(100)).samples, data.T)


def test_samples_by_leads_are_turned_and_noted(tmp_path):
    np.save(tmp_path / "tall.npy", np.arange(300.0).reshape(100, 3))
    (session,) = sessions(f"{tmp_path / 'tall.npy'}?rate=250&triggers=none")
    assert len(session.leads) == 3
    assert any("turned" in note for note in session.notes)


def test_an_unknown_unit_can_be_given(tmp_path):
    np.save(tmp_path / "volts.npy", np.full((2, 100), 3e-6))
    (session,) = sessions(f"{tmp_path / 'volts.npy'}?rate=250&unit=V")
    np.testing.assert_array_equal(next(session.packets(9)).samples, np.float32(3))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_emotion_tracks_pickle_is_read_whatever_wrote_it(protocol, order, tmp_path):
    data = np.asarray(np.random.default_rng(0).normal(0, 20, (33, 400)), order=order)
    data[-1] = 0
    data[-1, [5, 30, 55]] = 242, 1, 240
    path = tmp_path / "sub1.pkl"
    path.write_bytes(pickle.dumps(data, protocol))
    if protocol < 2:
        with pytest.raises(SourceError, match=r"protocol 0 and 1 are too old.*protocol=4"):
            open_source(str(path))
        return
    source = open_source(f"{path}?batch=1")
    (session,) = source.sessions()
    assert (source.track, session.rate, len(session.leads)) == ("emotion", 250, 32)
    assert triggers(session) == [(5, 242), (30, 1), (55, 240)]
    t7 = [lead.name for lead in session.leads].index("T7")
    np.testing.assert_array_equal(
        next(session.packets(400)).samples[:, t7], data[14].astype(np.float32)
    )


def test_numpy_1_pickles_are_read_too(tmp_path):
    data = pickle.dumps(np.ones((33, 50)), 2).replace(b"numpy._core", b"numpy.core")
    (tmp_path / "old.pkl").write_bytes(data)
    assert len(sessions(f"{tmp_path / 'old.pkl'}?triggers=none&nan=keep&rate=250")[0].leads) == 33


# URIs


def test_an_unknown_scheme_and_an_unknown_parameter_are_reported():
    with pytest.raises(SourceError, match="none of the schemes synthetic"):
        open_source("tape:reel7")
    with pytest.raises(SourceError, match="twice"):
        open_source("x.edf?rate=1&rate=2")


def test_a_parameter_is_checked_where_it_is_read(write):
    path = write("run.edf")
    with pytest.raises(SourceError, match="no parameter 'colour'; it takes angles_file"):
        open_source(f"{path}?colour=red")
    with pytest.raises(SourceError, match="rate='-3'"):
        open_source(f"{path}?rate=-3")
    with pytest.raises(SourceError, match="choose one of drop, zero, refuse"):
        open_source(f"{path}?missing=maybe")
    with pytest.raises(SourceError, match="no track 'chess'"):
        open_source(f"{path}?track=chess")


def test_a_file_whose_name_looks_like_a_uri_is_that_file(write, tmp_path):
    shutil.copy(write("run.edf"), tmp_path / "what?rate=3.edf")
    assert sessions(tmp_path / "what?rate=3.edf")[0].rate == RATE


def test_moabb_is_named_where_it_is_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "moabb", None)
    with pytest.raises(SourceError, match=r"pip install bci-stream\[moabb\]"):
        open_source("moabb:BNCI2014_001?subject=1")


def test_moabbs_runs_are_the_blocks_of_a_subject(monkeypatch):
    import mne

    class Tiny:
        subject_list = (2, 4, 5)

        def get_data(self, subjects):
            info = mne.create_info(["Cz", "stim"], RATE, ["eeg", "stim"])
            rows = np.vstack([np.arange(250.0) * 1e-6, np.eye(1, 250, 50)[0] * 3])
            runs = {str(k): mne.io.RawArray(rows, info, verbose="error") for k in range(2)}
            return {subjects[0]: {"0": runs}}

    datasets = types.ModuleType("moabb.datasets")
    datasets.Tiny = Tiny
    package = types.ModuleType("moabb")
    package.datasets = datasets
    monkeypatch.setitem(sys.modules, "moabb", package)
    monkeypatch.setitem(sys.modules, "moabb.datasets", datasets)
    (session,) = sessions("moabb:Tiny?subject=4&events=3=11")
    assert session.subject == "Tiny-4"
    assert session.block_triggers() == [(250, ((50, 11),))] * 2
    with pytest.raises(SourceError, match="no dataset 'Huge'"):
        open_source("moabb:Huge")
    with pytest.raises(SourceError, match="Tiny has no subject 3: it has 2, 4, 5"):
        open_source("moabb:Tiny?subject=3")


def test_a_download_that_fails_is_called_so(monkeypatch):
    class Far:
        subject_list = range(1, 10)

        def get_data(self, subjects):
            raise OSError("no route to zenodo.org")

    datasets = types.ModuleType("moabb.datasets")
    datasets.Far = Far
    package = types.ModuleType("moabb")
    package.datasets = datasets
    monkeypatch.setitem(sys.modules, "moabb", package)
    monkeypatch.setitem(sys.modules, "moabb.datasets", datasets)
    with pytest.raises(SourceError, match=r"could not be fetched: no route to zenodo\.org\. MOABB"):
        open_source("moabb:Far?subject=1")
    with pytest.raises(SourceError, match="no subject 10: it has 1 to 9"):
        open_source("moabb:Far?subject=10")


def test_of_many_recordings_only_the_one_that_is_played_is_in_memory(tmp_path, monkeypatch):
    import gc
    import weakref

    from replay.model.signal import ArraySignal

    for name in ("p1", "p2", "p3"):
        save(tmp_path / f"{name}.npz")
    alive = weakref.WeakSet()
    made = ArraySignal.__init__

    def counted(self, *arguments):
        made(self, *arguments)
        alive.add(self)

    monkeypatch.setattr(ArraySignal, "__init__", counted)
    monkeypatch.setattr(ArraySignal, "__hash__", object.__hash__)
    held = sessions(tmp_path)
    gc.collect()
    assert len(alive) == 0
    assert [session.n_samples for session in held] == [500] * 3
    packets = held[1].packets(100)
    first = next(packets)
    assert len(alive) == 1
    np.testing.assert_array_equal(first.samples[:, 0], np.arange(100))
    assert held[1].block_triggers() == [(500, ((0, 242), (100, 11)))]
    packets.close()


def test_a_file_that_names_its_subject_is_that_subjects(tmp_path):
    np.savez(tmp_path / "a.npz", data=np.zeros((3, 50)), rate=100, subject="S07")
    np.savez(tmp_path / "b.npz", data=np.zeros((3, 50)), rate=100)
    assert [session.subject for session in sessions(tmp_path)] == ["S07", "b"]
    (session,) = sessions(f"{tmp_path / 'a.npz'}?subject=me")
    assert session.subject == "me"


@pytest.mark.parametrize("subject", ["../S07", "a/b", ".x", "a" * 65, "a b"])
def test_a_subject_that_could_choose_a_path_is_refused(tmp_path, subject):
    np.savez(tmp_path / "a.npz", data=np.zeros((3, 50)), rate=100, subject=subject)
    with pytest.raises(SourceError, match="its subject is"):
        open_source(str(tmp_path / "a.npz"))


DEVICES = ("neuracle://127.0.0.1:1", "lsl:name")


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        *(("synthetic:mi", name) for name in ("events", "select", "rename", "rate")),
        *((uri, name) for uri in DEVICES for name in ("resample", "rate")),
        (DEVICES[0], "events"),  # an LSL stream may carry texts, which are mapped
    ],
)
def test_what_only_files_can_do_is_refused(uri, name):
    given = {"events": "T1=11", "select": "C3", "resample": "100", "rename": "a=b", "rate": "5"}
    options = SourceOptions(track="mi").with_params({name: given[name]})
    with pytest.raises(SourceError, match=f"{name}\\)? can't be asked for"):
        open_source(uri, options)


def test_a_track_can_be_asked_of_every_source():
    assert open_source("synthetic:mi", SourceOptions(track="mi")).track == "mi"


@pytest.mark.filterwarnings("default")  # MOABB's own
def test_the_real_moabbs_datasets_are_read():
    pytest.importorskip("moabb", reason="moabb is not installed (pip install bci-stream[moabb])")
    (session,) = sessions("moabb:FakeDataset?subject=2&events=1=11,2=21")
    assert (session.subject, session.rate, len(session.leads)) == ("FakeDataset-2", 128.0, 3)
    assert {code for _, code in triggers(session)} == {11, 21, 3}
    assert sum(len(packet.samples) for packet in session.packets(10)) == session.n_samples
    with pytest.raises(SourceError, match="no subject 99: it has 1 to 10"):
        open_source("moabb:FakeDataset?subject=99")


def test_places_in_millimetres_are_made_metres_and_noted(tmp_path):
    import mne

    info = mne.create_info(["Oz", "Cz"], RATE, "eeg")
    places = {"Oz": [0.1, -114.9, 14.7], "Cz": [0.0, 0.0, 95.0]}
    info.set_montage(mne.channels.make_dig_montage(places, coord_frame="head"))
    raw = mne.io.RawArray(np.zeros((2, 500)), info, verbose="error")
    raw.save(tmp_path / "far_raw.fif", verbose="error")
    (session,) = sessions(tmp_path / "far_raw.fif")
    assert session.leads[0].position == pytest.approx((0.0001, -0.1149, 0.0147))
    assert "taken as millimetres" in session.notes[0]
