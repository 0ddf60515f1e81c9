"""A recording as a BIDS run: signal and events as they were, results, and no error of the validator."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from small_recordings import XdfWriter, stream_header

from bci_stream.errors import SourceError
from bci_stream.packet import Lead
from bci_stream.runlog import read_log, score_run
from replay.cli import main
from replay.sources import open_source
from replay.tools.bids.places import find_line_hz, write_places
from replay.tools.bids.run import trial_results

mne_bids = pytest.importorskip("mne_bids", reason="mne-bids is not installed")

RATE, N = 250, 1000
PLACES = {"C3": (-0.065, -0.012, 0.068), "Cz": (0.0, -0.009, 0.1)}


def _location(name: str) -> str:
    place = zip("XYZ", PLACES.get(name, ()), strict=False)
    return "".join(f"<{axis}>{1000 * metres}</{axis}>" for axis, metres in place)


CHANNELS = "".join(
    f"<channel><label>{name}</label><unit>microvolts</unit><type>{kind}</type>"
    f"<location>{_location(name)}</location></channel>"
    for name, kind in (("C3", "EEG"), ("Cz", "EEG"), ("HEOG", "EOG"))
)
BIDS = ("--subject", "01", "--task", "mi")


def rows() -> np.ndarray:
    return np.random.default_rng(0).integers(-100, 100, (N, 3)).astype(np.float32)


def xdf(path: Path, gap: int = 0) -> Path:
    """What `record` writes of a replay: a signal, its markers as texts, and again as codes."""
    times = 100 + (np.arange(N) + gap * (np.arange(N) >= 600)) / RATE
    with path.open("wb") as file:
        writer = XdfWriter(file)
        writer.stream(1, stream_header("Signal", "EEG", 3, RATE, "float32", CHANNELS))
        for number, form, source_id in (
            (2, "string", "bci/c/markers/r"),
            (3, "int32", "bci/c/codes/r"),
        ):
            header = stream_header(f"M{number}", "Markers", 1, 0, form, "")
            writer.stream(number, header.replace(f"M{number}-1", source_id))
        for begin in range(0, N, 100):
            part = slice(begin, begin + 100)
            writer.samples(1, rows()[part], times[part])
        at = times[[50, 300, 700]]
        writer.samples(2, [["left"], ["right\tRed"], ["21"]], at)
        writer.samples(3, [np.array([code], dtype=np.int32) for code in (11, 31, 21)], at)
        for number, first, last, n in (
            (1, times[0], times[-1], N),
            (2, at[0], at[-1], 3),
            (3, at[0], at[-1], 3),
        ):
            writer.finish(number, first, last, n)
    return path


def written(tmp_path: Path, *more: str, gap: int = 0) -> Path:
    path = xdf(tmp_path / "wire.xdf", gap)
    root = tmp_path / "bids"
    arguments = ["record", "--from", str(path), "--bids", str(root), *BIDS, *more]
    ended = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return root


def table(root: Path) -> list[list[str]]:
    (path,) = root.rglob("*_events.tsv")
    return [line.split("\t") for line in path.read_text().splitlines()]


@pytest.mark.filterwarnings("ignore")
def test_signal_events_and_the_xdf_are_in_the_dataset(tmp_path):
    root = written(tmp_path)
    path = mne_bids.BIDSPath(subject="01", task="mi", datatype="eeg", root=root)
    raw = mne_bids.read_raw_bids(path, verbose="error")
    np.testing.assert_allclose(raw.get_data() * 1e6, rows().T, atol=1e-3)
    assert raw.get_channel_types() == ["eeg", "eeg", "eog"]
    assert table(root) == [
        ["onset", "duration", "sample", "trial_type", "value", "HED"],
        ["0.200000", "0", "50", "left", "11", "n/a"],
        ["1.200000", "0", "300", "right", "31", "Red"],
        ["2.800000", "0", "700", "21", "21", "n/a"],
    ]
    (ours,) = open_source(str(root / "sourcedata" / "sub-01" / "sub-01_task-mi.xdf")).sessions()
    assert ours.n_samples == N
    assert set(json.loads(next(root.rglob("*_events.json")).read_text())) == set(table(root)[0]) - {
        "onset",
        "duration",
        "HED",
    }


def test_positions_and_the_power_line_are_in_the_dataset(tmp_path):
    root = written(tmp_path, "--line-hz", "60")
    (session,) = open_source(str(root)).sessions()
    for name, place in PLACES.items():
        (lead,) = [lead for lead in session.leads if lead.name == name]
        assert lead.position == pytest.approx(place, abs=1e-6)
    assert "2 of 3 lead positions are from sub-01_space-CapTrak_electrodes.tsv" in str(
        session.notes
    )
    (described,) = root.rglob("*_eeg.json")
    found = json.loads(described.read_text())
    assert (found["PowerLineFrequency"], found["Manufacturer"]) == (60, "n/a")
    table = next(root.rglob("*_electrodes.tsv"))
    table.write_text(table.read_text().replace("0.1", "0.2"))
    other = write_places(table.parent, "sub-01", [Lead("C3", position=PLACES["C3"])], "eeg")
    assert "of an earlier run has other positions, and is kept" in other


@pytest.mark.parametrize(("hum_hz", "found"), [(50, 50), (60, 60), (None, None)])
def test_the_power_line_is_found_in_the_signal(hum_hz, found):
    signal = np.random.default_rng(0).normal(0, 20, (20 * RATE, 4))
    if hum_hz is not None:
        signal += 5 * np.sin(2 * np.pi * hum_hz * np.arange(len(signal)) / RATE)[:, None]
    assert find_line_hz(signal.astype(np.float32), RATE) == found


@pytest.mark.parametrize("gap", [3, 500])
def test_a_gap_is_a_boundary(tmp_path, gap):
    rows_found = table(written(tmp_path, gap=gap))
    assert ["2.400000", "0", "600", "boundary", "n/a", "n/a"] in rows_found


def test_the_bids_validator_finds_no_error(tmp_path):
    validator = Path(sys.executable).with_name("bids-validator-deno")
    if not validator.exists():
        pytest.skip("the BIDS validator is not installed")
    root = written(tmp_path, "--session", "a", "--run", "2")
    command = [str(validator), str(root), "--format", "json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    if "issues" not in ended.stdout:
        pytest.skip("the BIDS validator can't run here: it needs its schema")
    issues = json.loads(ended.stdout)["issues"]["issues"]
    assert [one for one in issues if one["severity"] == "error"] == []


GOLDEN = Path(__file__).parents[2] / "golden"


def logged_triggers(log: Path) -> list[tuple[int, int]]:
    found, n = [], 0
    for _, event in read_log(log):
        if event["kind"] == "packet":
            found += [(n + at, code) for at, code in event["triggers"]]
            n += event["n"]
    return found


@pytest.fixture(params=["mi", "turing", "erp", "emotion", "ecog"])
def log(request, tmp_path) -> Path:
    """A run log of each track."""
    packed = sorted(GOLDEN.glob(f"{request.param}-[0-9].jsonl.gz"))[0]
    path = tmp_path / "run.jsonl"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return path


def test_every_verdict_of_a_log_is_a_result_of_the_recording(log):
    """The recording began 77 samples before the run, and missed its first trigger."""
    triggers = [(at + 77, code) for at, code in logged_triggers(log)][1:]
    found = trial_results(log, triggers)
    verdicts = score_run(log).verdicts()
    assert len(found) == len(verdicts) > 0
    right = [row.result for row in found].count("right")
    assert right == sum(
        v.scored and not v.void and bool(v.right) and all(v.right) for v in verdicts
    )
    assert all(row.result for row in found)
    assert [row.label for row in found] == [str(v.label or "") for v in verdicts]
    assert all(row.sample >= 77 for row in found)


def test_a_log_of_another_recording_is_refused(log):
    with pytest.raises(SourceError, match="is not the log of this recording: 0 of its"):
        trial_results(log, [(5, 9999)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bids", "b"], "--bids needs --subject and --task"),
        (["x.xdf", "--subject", "01"], "belong to --bids"),
        ([], "name the XDF file"),
    ],
)
def test_wrong_arguments_are_usage_errors(arguments, message):
    ended = CliRunner().invoke(main, ["record", *arguments])
    assert ended.exit_code == 2
    assert message in ended.output


def test_labels_that_bids_does_not_allow_are_named(tmp_path):
    arguments = ["record", "--bids", str(tmp_path), "--subject", "sub_1", "--task", "mi"]
    ended = CliRunner().invoke(main, arguments)
    assert ended.exit_code == 1
    assert "--subject 'sub_1': a label in BIDS has letters and digits only" in ended.output


def test_a_run_is_not_overwritten_by_accident(tmp_path):
    root = written(tmp_path)
    arguments = ["record", "--from", str(tmp_path / "wire.xdf"), "--bids", str(root), *BIDS]
    ended = CliRunner().invoke(main, arguments)
    assert ended.exit_code == 1
    assert "exists already" in ended.output


def test_the_extra_is_named_where_it_is_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mne_bids", None)
    ended = CliRunner().invoke(main, ["record", "--bids", str(tmp_path), *BIDS])
    assert ended.exit_code == 1
    assert "bci-stream[bids]" in ended.output
