"""`bci-judge report`: one self-contained page on judged runs."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mne
import numpy as np
import pytest

from bci_stream.errors import BciError, LogError, SourceError
from bci_stream.judge.results_commands import write_report
from bci_stream.leaderboard.report.page import recording_parts
from bci_stream.leaderboard.report.recording import (
    class_maps,
    lead_quality,
    place_leads,
    read_contest_file,
    read_labelled,
    trigger_codes,
)
from scripts.simulated_runs import SimulatedRun
from tracks.registry import TRACKS

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script> $x^2$ 静息态"
NAMES = ("C3", "C4", "Cz", "Fz", "Pz", "O1", "O2", "Fp1", "Fp2", "T7")
RATE = 250


@pytest.fixture
def logs(write_log: Callable[..., Path]) -> list[Path]:
    return [
        write_log(str(n), SimulatedRun("mi", name, skill, trials=5, seed=4))
        for n, (name, skill) in enumerate({"alpha": 0.9, HOSTILE: 0.5}.items())
    ]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten leads; beta at C3 when the right hand is imagined and at C4 for the left; Fp2 is flat."""
    random = np.random.default_rng(1)
    n = 12 * 6 * RATE
    t = np.arange(n) / RATE
    data = random.normal(0, 10e-6, (len(NAMES) + 1, n))
    data[-1] = 0
    for trial in range(12):
        at, code = trial * 6 * RATE, (11, 21)[trial % 2]
        data[-1, at] = code
        lead = NAMES.index("C4" if code == 11 else "C3")
        data[lead, at : at + 4 * RATE] += 20e-6 * np.sin(2 * np.pi * 20 * t[: 4 * RATE])
    data[NAMES.index("Fp2")] = 0
    data[NAMES.index("O1")] += 40e-6 * np.sin(2 * np.pi * 50 * t)
    info = mne.create_info([*NAMES, "TRIGGER"], RATE, ["eeg"] * len(NAMES) + ["stim"])
    path = tmp_path_factory.mktemp("recording") / "s01_raw.fif"
    mne.io.RawArray(data, info, verbose="error").save(path, verbose="error")
    return path


def test_it_is_one_file_that_shows_everything_and_needs_no_other_and_no_script(
    logs: list[Path], tmp_path: Path
) -> None:
    out = tmp_path / "report.html"
    write_report(logs, out, title="Finals")
    text = out.read_text(encoding="utf-8")
    for words in (
        "Finals",
        "alpha",
        "Accuracy against data used",
        "Latency",
        "p (Holm)",
        "5 trials",
    ):
        assert words in text
    assert text.count("<svg") == 5  # scores, accuracy, latency, and a confusion matrix a team
    assert "&lt;script&gt;alert(1)" in text
    assert "<script" not in text
    loaded = re.findall(r"""(?:src|href)\s*=\s*["']([^"'#][^"']*)["']""", text)
    assert [link for link in loaded if not link.startswith("data:")] == []
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.parametrize("track", list(TRACKS))
def test_every_track_can_be_reported(
    track: str, write_log: Callable[..., Path], tmp_path: Path
) -> None:
    log = write_log("a", SimulatedRun(track, "alpha", trials=1))
    write_report([log], tmp_path / "report.html")
    assert TRACKS[track].title in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_several_runs_of_one_team_are_told_apart(
    write_log: Callable[..., Path], tmp_path: Path
) -> None:
    pair = [write_log(str(n), SimulatedRun("mi", "alpha", trials=2, seed=n)) for n in range(2)]
    write_report(pair, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "alpha (run 1)" in text
    assert "alpha (run 2)" in text


def test_a_folder_of_logs_will_do_and_an_empty_one_will_not(
    logs: list[Path], tmp_path: Path
) -> None:
    write_report([logs[0].parent], tmp_path / "report.html")
    assert (tmp_path / "report.html").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogError, match="holds no run log"):
        write_report([tmp_path / "empty"], tmp_path / "other.html")
    with pytest.raises(LogError, match="no run log"):
        write_report([], tmp_path / "other.html")


def test_a_report_that_cannot_be_written_is_named(logs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(BciError, match="can't be written"):
        write_report(logs[:1], tmp_path / "nowhere" / "report.html")


def test_a_recording_adds_lead_quality_and_maps(
    logs: list[Path], recording: Path, tmp_path: Path
) -> None:
    out = tmp_path / "report.html"
    write_report(logs[:1], out, [recording])
    text = out.read_text(encoding="utf-8")
    assert "Maps by class" in text
    assert "Fp2 (flat)" in text
    assert "O1 (hum)" in text


def test_lead_quality_finds_the_flat_and_the_humming_lead(recording: Path) -> None:
    found = {lead.name: lead.verdict for lead in lead_quality(read(recording))}
    assert found.pop("Fp2") == "flat"
    assert found.pop("O1") == "hum"
    assert set(found.values()) == {"good"}


def test_maps_show_each_class_where_it_was_made(recording: Path) -> None:
    raw = read(recording)
    assert trigger_codes(raw)[:2] == [(0, 11), (6 * RATE, 21)]
    maps = class_maps(raw, "mi")
    assert maps is not None
    info, values = maps
    c3, c4 = info.ch_names.index("C3"), info.ch_names.index("C4")
    assert values["left"][c4] > 2 > -2 > values["left"][c3]
    assert values["right"][c3] > 2 > -2 > values["right"][c4]


def test_leads_without_known_places_make_no_map(recording: Path) -> None:
    raw = read(recording)
    raw.rename_channels({name: f"X{i}" for i, name in enumerate(NAMES)})
    assert place_leads(raw) is None
    assert class_maps(raw, "mi") is None
    assert class_maps(raw, "ecog") is None


def test_triggers_may_be_annotations(recording: Path) -> None:
    raw = read(recording).pick("eeg")
    raw.set_annotations(mne.Annotations([0.0, 6.0, 7.0], 0.0, ["11", "21", "BAD blink"]))
    assert trigger_codes(raw) == [(0, 11), (6 * RATE, 21)]


def test_a_recording_with_its_own_names_is_mapped_by_them(recording: Path) -> None:
    raw = read(recording).pick("eeg")
    raw.rename_channels({name: f"{name}.." for name in NAMES})
    onsets = [6.0 * trial for trial in range(12)]
    raw.set_annotations(mne.Annotations(onsets, 0.0, ["T1", "T2"] * 6))
    maps = class_maps(raw, "mi")
    assert maps is not None
    info, values = maps
    assert set(values) == {"T1", "T2"}
    assert values["T1"][info.ch_names.index("C4")] > 2


def test_a_real_recording_can_be_looked_at(tmp_path: Path) -> None:
    folder = Path(os.environ.get("BCI_DATA", "../shared/data"))
    path = folder / "mi" / "S001R04.edf"
    if not path.exists():
        pytest.skip(f"{path} is not here; set BCI_DATA to the folder of real recordings")
    (part,) = recording_parts(str(path), "mi")
    assert [name for name, _ in part.figures] == ["Lead quality", "Maps by class"]


def read(path: Path) -> Any:
    ((_, raw),) = read_labelled(str(path), "mi")
    return raw


def test_a_contest_file_will_do(recording: Path, tmp_path: Path) -> None:
    raw = read(recording)
    path = tmp_path / "mi_test_S01.npz"
    data = raw.get_data() * np.array([[1e6]] * len(NAMES) + [[1]])
    kinds = ["EEG"] * len(NAMES)
    np.savez(path, data=data.astype(np.float32), rate=250.0, leads=NAMES, kinds=kinds)
    again = read(path)
    assert trigger_codes(again) == trigger_codes(raw)
    np.testing.assert_allclose(again.get_data()[:-1], raw.get_data()[:-1], atol=1e-10)
    assert class_maps(again, "mi") is not None


def test_any_source_that_a_replay_plays_will_do() -> None:
    (part,) = recording_parts("synthetic:erp?subjects=1&blocks=1&trials=4&set=train", "erp")
    assert [name for name, _ in part.figures] == ["Lead quality", "Maps by class"]


@pytest.mark.parametrize("name", ["x.edf", "x.npz", "nowhere"])
def test_a_file_that_is_no_recording_is_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name != "nowhere":
        path.write_text("nothing")
    with pytest.raises(SourceError, match=rf"{name} can't be read"):
        read(path)


def test_a_contest_file_without_its_parts_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", data=np.zeros((2, 3)))
    with pytest.raises(SourceError, match=r"x\.npz can't be read as a contest file: 'rate"):
        read_contest_file(tmp_path / "x.npz")
