"""The benchmark takes other people's recordings: what it can't use is skipped in words, the rest goes on."""

from pathlib import Path

import mne
import numpy as np
import pytest

from bci_stream.errors import TruthError
from scripts.bench import table as bench_row
from scripts.bench.recordings import close_flicker as bench_close
from scripts.bench.recordings import ecog as bench_ecog
from scripts.bench.recordings import emotion as bench_emotion
from scripts.bench.recordings import files as bench_files
from scripts.bench.recordings import flicker as bench_flicker
from scripts.bench.recordings import imagery as bench_imagery
from scripts.bench.recordings import mi as bench_mi
from scripts.bench.recordings import turing as bench_turing

pytestmark = pytest.mark.slow

NotThisLayout = bench_files.NotThisLayoutError


def raw_of(names: list[str], seconds: float, rate: float, kinds: str | list[str] = "eeg"):
    data = 1e-5 * np.random.default_rng(0).normal(size=(len(names), int(seconds * rate)))
    return mne.io.RawArray(data, mne.create_info(names, rate, kinds), verbose="error")


def write_run(path: Path, marks: list[tuple[float, str]], rate: float = 128.0) -> None:
    raw = raw_of(["C3..", "Cz..", "C4.."], 20, rate)
    raw.set_annotations(mne.Annotations([at for at, _ in marks], 1.0, [what for _, what in marks]))
    mne.export.export_raw(path, raw, physical_range=(-200, 200), verbose="error")


def test_mi_takes_the_pairs_of_runs_that_are_there_and_whole_imageries_only(tmp_path: Path) -> None:
    folder = tmp_path / "mi" / "S002"
    folder.mkdir(parents=True)
    for number in (4, 6, 12, 14):
        write_run(folder / f"S002R{number:02d}.edf", [(1.0, "T1"), (8.0, "T2"), (17.0, "T2")])
    (person,) = bench_imagery.imagery_people(tmp_path)
    assert (person.name, person.kind) == ("S002", "EEGMMIDB")
    sessions = person.sessions
    assert [session.rate for session in sessions] == [128.0, 128.0]
    codes = [[code for _, code in block.triggers] for block in sessions[0].blocks]
    assert codes == [[242, 11, 12, 13, 241, 21, 22, 23, 241], [242, 31, 32, 33, 241]]


def test_mi_shows_which_runs_are_missing_and_which_do_not_fit(tmp_path: Path) -> None:
    for number in (4, 6, 8):
        write_run(tmp_path / f"S003R{number:02d}.edf", [(1.0, "T1")])
    with pytest.raises(NotThisLayout, match="there is no R10, R12, R14"):
        bench_imagery.read_mmidb(tmp_path / "S003")
    write_run(tmp_path / "S003R10.edf", [(1.0, "T1")], rate=160.0)
    with pytest.raises(NotThisLayout, match=r"S003R08.edf and S003R10.edf have different rates"):
        bench_imagery.read_mmidb(tmp_path / "S003")


def write_two_classes(folder: Path, subject: str, runs: int = 2) -> None:
    """Hand (21) lowers the power of C3, rest (31) does not; 125 Hz, 8 trials a run."""
    folder.mkdir(exist_ok=True)
    for run in range(runs):
        rng = np.random.default_rng([run, *subject.encode()])
        data = rng.normal(0, 10, (6, 8 * 750 + 750)).astype(np.float32)
        data[-1] = 0
        for trial in range(8):
            begin, code = 125 + 750 * trial, 21 + 10 * (trial % 2)
            data[2, begin : begin + 500] *= 0.4 if code == 21 else 1.0
            data[-1, [begin, begin + 250, begin + 375, begin + 500]] = (
                code,
                code + 1,
                code + 2,
                241,
            )
        names = np.array(["Pz", "Cz", "C3", "C4", "F3", "TRIGGER"])
        np.savez(folder / f"{subject}_{run:02d}.npz", data=data, rate=125.0, ch_names=names)


def test_mi_leaves_sessions_and_people_out_for_all_methods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, *_, other = bench_mi.METHODS  # tests of the decoders run the other references
    monkeypatch.setattr(bench_mi, "METHODS", {m: bench_mi.METHODS[m] for m in (ours, other)})
    for subject in ("p01", "p02"):
        write_two_classes(tmp_path / "mi_two", subject)
    rows = list(bench_mi.run(tmp_path))
    assert {row.data for row in rows} == {"mi_two p01", "mi_two p02"}
    assert {row.method for row in rows} == set(bench_mi.METHODS)
    right = [row for row in rows if row.measure.startswith(bench_mi.RIGHT)]
    assert len(right) == 4 * len(bench_mi.METHODS)
    assert all(row.n == 16 for row in right)
    assert min(row.score for row in right if row.ours) > 0.8
    gains = [row.score for row in rows if row.measure.startswith("nats")]
    assert len(gains) == 4
    assert min(gains) > 0.1


def test_epochs_become_sessions_with_every_task(tmp_path: Path) -> None:
    task = np.repeat([2, 3, 4, 8], 5)
    x = np.random.default_rng(0).normal(0, 10, (20, 3, 500)).astype(np.float32)
    (tmp_path / "mi_epochs").mkdir()
    np.savez(
        tmp_path / "mi_epochs" / "p01.npz", X=x, y=np.repeat([0, 1, 2, 3], 5), task=task,
        rate=125.0, ch_names=np.array(["C3", "Cz", "C4"]),
    )  # fmt: skip
    (person,) = bench_imagery.imagery_people(tmp_path)
    assert person.kind == "mi_epochs, 3 classes"
    for session in person.sessions:
        codes = [code for _, code in session.blocks[0].triggers if code in (11, 21, 31)]
        assert sorted(codes) == [11, 11, 21, 31]


def write_flicker(folder: Path, name: str, events: list[tuple[float, int]], rate: float = 256.0):
    folder.mkdir(exist_ok=True)
    raw = raw_of(["Oz", "O1", "STI 014"], 30, rate, ["eeg", "eeg", "stim"])
    raw.save(folder / f"{name}_raw.fif", verbose="error")
    rows = np.array([(int(at * rate), 0, code) for at, code in events])
    mne.write_events(folder / f"{name}-eve.fif", rows, verbose="error")


def test_flicker_is_read_from_eeg_leads_in_whole_trials(tmp_path: Path) -> None:
    folder = tmp_path / "somebody"
    write_flicker(folder, "a", [(1, 2), (7, 3), (13, 4), (18.5, 1), (21, 2), (27, 3)])
    person = bench_flicker.read_folder(folder).session
    assert [lead.name for lead in person.leads] == ["Oz", "O1"]
    codes = [code for _, code in person.blocks[0].triggers]
    assert [code % 8 for code in codes[1:]] == [3, 4, 5, 3]  # neither the hurried nor the cut one
    write_flicker(folder, "b", [(1, 2), (7, 3), (13, 4)], rate=512.0)
    with pytest.raises(NotThisLayout, match="different rates"):
        bench_flicker.read_folder(folder)


def write_flicker_epochs(path: Path, hz: tuple[float, ...], trials: int = 6) -> None:
    """Epochs of 3 s at 250 Hz with a strong response, three leads, the classes in turns."""
    t = np.arange(750) / 250
    rng = np.random.default_rng(3)
    y = np.arange(trials) % len(hz)
    waves = np.array([np.sin(2 * np.pi * hz[k] * t) for k in y])
    x = 4 * waves[:, None] + rng.normal(0, 3, (trials, 3, len(t)))
    np.savez(path, X=x, y=y, rate=250.0, ch_names=["O1", "Oz", "O2"], frequencies=hz)


def test_flicker_of_npz_epochs_is_decoded_from_the_first_trial_on(tmp_path: Path) -> None:
    folder = tmp_path / "ssvep"
    folder.mkdir()
    for name in ("a", "b"):
        write_flicker_epochs(folder / f"{name}.npz", (9.0, 12.0, 0.0))
    write_flicker_epochs(folder / "many.npz", (8.0, 9.0, 10.0, 11.0, 12.0))
    (people,) = bench_flicker.flicker_sets(tmp_path)
    assert [code % 8 for _, code in people[0].session.blocks[0].triggers[1:]] == [3, 4, 7] * 2
    rows = bench_turing.set_rows(people)
    right = {row.method: row.score for row in rows if row.measure.endswith("at 2.0 s")}
    assert right["turing-phase"] == right["FBCCA, 5 bands"] == 1.0


def test_flicker_of_an_npz_stream_is_read_by_its_trigger_row(tmp_path: Path) -> None:
    data = np.ones((3, 3000), np.float32)
    data[-1] = 0
    data[-1, [100, 800, 1500]] = (1, 2, 3)
    names = ["O1", "O2", "TRIGGER"]
    np.savez(tmp_path / "s.npz", data=data, rate=250, ch_names=names, frequencies=[9, 0, 12])
    person = bench_flicker.read_npz(tmp_path / "s.npz")
    assert person.frequencies_hz == {3: 9.0, 4: 12.0}
    assert person.session.blocks[0].triggers[1:] == ((100, 11), (800, 15), (1500, 36))
    np.savez(tmp_path / "s.npz", data=data, rate=250, ch_names=names)
    with pytest.raises(NotThisLayout, match="it has no frequencies"):
        bench_flicker.read_npz(tmp_path / "s.npz")


def test_close_frequencies_are_simulated_from_a_recorded_response() -> None:
    """The waveform of the known response is found again, turned in time as each trial was."""
    rng = np.random.default_rng(0)
    true = rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))
    turns = np.exp(1j * rng.uniform(0, 6, 12)[:, None] * np.arange(1, 4))
    sizes = rng.uniform(0.5, 1.5, 12)
    found, relative = bench_close.common_response(sizes[:, None, None] * turns[..., None] * true)
    assert np.abs(found) == pytest.approx(sizes.mean() * np.abs(true), rel=0.01)
    assert relative == pytest.approx(sizes / sizes.mean(), rel=0.01)


def test_flicker_without_a_frequency_is_skipped(tmp_path: Path) -> None:
    write_flicker(tmp_path / "rest", "a", [(1, 1), (7, 2), (13, 3)])
    with pytest.raises(NotThisLayout, match="no whole trial"):
        bench_flicker.read_folder(tmp_path / "rest")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"class4": None}, "it holds no class4"),
        ({"class2": np.zeros((32, 1280))}, r"class2 has the shape \(32, 1280\)"),
        ({"class3": np.zeros((14, 128))}, "class3 lasts 0.5 s"),
        ({"class5": np.full((14, 1280), np.nan)}, "class5 has values that are not finite"),
        ({"rate": 10.0}, "its rate is 10 Hz"),
    ],
)
def test_emotion_names_what_a_person_lacks(tmp_path: Path, change: dict, why: str) -> None:
    clips = {f"class{label}": np.zeros((14, 1280)) for label in range(9)}
    whole = {"rate": 256.0, **clips, **change}
    path = tmp_path / "p.npz"
    np.savez(path, **{name: value for name, value in whole.items() if value is not None})
    with pytest.raises(NotThisLayout, match=why):
        bench_emotion._checked(path)


def test_emotion_takes_any_rate(tmp_path: Path) -> None:
    path = tmp_path / "p.npz"
    np.savez(path, rate=250.5, **{f"class{k}": np.zeros((14, 2505)) for k in range(9)})
    session = bench_emotion.session_of(bench_emotion._checked(path), order=0)
    starts = [at for at, code in session.blocks[0].triggers if code == 240]
    assert set(np.diff(starts)) == {2500 + 250}


def movement(n_leads: int) -> bench_ecog.Movement:
    rng = np.random.default_rng(1)
    trace = np.sin(np.arange(3 * 400) / 40)
    signal = rng.normal(0, 20, (3 * 2000, n_leads)).astype(np.float32)
    leads = tuple(bench_ecog.Lead(f"ECOG_{k}", "ECOG") for k in range(n_leads))
    return bench_ecog.Movement("someone", 1000.0, leads, signal, trace)


def test_ecog_with_more_leads_than_the_track_sends_is_decoded_by_all_methods() -> None:
    rows = bench_ecog._rows(movement(26))
    assert [row.method for row in rows if row.ours] == ["ecog-ridge"]
    assert len(rows) == 5
    assert {len(row.units) for row in rows} == {3}


def test_a_trace_must_move_in_every_part_that_is_left_out() -> None:
    still = np.concatenate([np.arange(20.0), np.full(20, 3.0), np.arange(20.0)])
    assert bench_ecog._moves_throughout(np.arange(60.0))
    assert not bench_ecog._moves_throughout(still)
    assert not bench_ecog._moves_throughout(np.full(60, np.nan))


def test_one_recording_that_breaks_stops_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    def rows_of(number: int) -> list[int]:
        if number == 1:
            raise TruthError("needs every class")
        if number == 2:
            raise ZeroDivisionError("ours")
        return [number]

    rows = bench_files.rows_of_each(range(4), lambda number: f"p{number}", rows_of)
    assert [next(rows), next(rows)] == [0, 3]
    with pytest.raises(bench_files.BenchError, match="p2: ZeroDivisionError: ours"):
        next(rows)
    err = capsys.readouterr().err
    assert "skipped p1: needs every class" in err
    assert "FAILED p2" in err


def row(data: str, method: str, score: float) -> bench_row.Row:
    return bench_row.row_of(
        [score, score], bench_row.mean, "trials", track="mi", data=data, method=method,
        ours=method == "ours", measure="M",
    )  # fmt: skip


def test_people_are_pooled_where_a_method_has_them_all() -> None:
    rows = [row(who, "ours", score) for who, score in (("a", 1.0), ("b", 2.0), ("c", 6.0))]
    rows += [row(who, "theirs", 1.0) for who in ("a", "b", "c")] + [row("a", "lazy", 1.0)]
    pooled = bench_row.over_all(rows)
    assert [(one.method, one.score, one.data) for one in pooled] == [
        ("ours", 3.0, "all recordings"),
        ("theirs", 1.0, "all recordings"),
    ]
    assert pooled[0].units == (1.0, 2.0, 6.0)
    assert bench_row.over_all(rows[:2]) == []
