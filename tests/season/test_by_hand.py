"""`bci-judge run --engine`: one contest by hand in units."""

import threading
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from season.serving import make_contest

from bci_stream.errors import ContestError
from bci_stream.judge.cli import main
from bci_stream.judge.run_command import run_contest
from bci_stream.season.organiser import run_on_engine
from scripts.season_rig import ThreadEngine, do_unit, package

pytestmark = pytest.mark.slow


def run(folder: Path, engine: ThreadEngine, *packages: bytes, resume: bool = False) -> None:
    contest = make_contest(folder / "cup")
    names = ("alice", "bob")
    for name, content in zip(names, packages, strict=False):
        (folder / f"{name}.zip").write_bytes(content)
    stop = threading.Event()

    def runner(entries, bars, resume):
        return run_on_engine(engine, contest, entries, bars, stop, folder / "work", resume=resume)

    play = partial(run_contest, decoders=[], recordings=[], calibration=[], jobs=1, as_json=True)
    play(
        contest, contest.folder, track="erp", runner=runner, stop=stop, resume=resume, scope="",
        lsl_session="", submissions=[str(folder / f"{name}.zip") for name in names],
    )  # fmt: skip


def test_entries_are_units_and_a_lost_one_is_done_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = iter([True])

    def do(folder: Path, stop: threading.Event) -> None:
        if next(lost, False):
            return  # its machine is lost: no outcome
        do_unit(folder, stop)

    engine = ThreadEngine(2, do)
    run(tmp_path, engine, package(seed=0), package("crash", seed=1))
    printed, shown = capsys.readouterr()
    assert "crashed" in shown.split("Ties:")[0].split("bob")[-1], "on the leaderboard, too"
    assert printed.count('"reason": "finished"') == 1
    assert printed.count('"reason": "crashed"') == 1
    assert engine.started == 3
    logs = list((tmp_path / "cup" / "runs").glob("*.jsonl"))
    assert len(logs) == 2
    assert not list((tmp_path / "work").iterdir())


def test_what_failed_on_our_side_is_named_and_resumed(tmp_path: Path) -> None:
    with pytest.raises(ContestError, match=r"1 of 2 runs did not end .*registry is out of reach"):
        run(tmp_path, ThreadEngine(), package("fail"), package())
    engine = ThreadEngine()
    run(tmp_path, engine, package(), package(), resume=True)
    assert engine.started == 1, "what has run is kept"


def test_the_engine_of_the_command_is_checked(tmp_path: Path) -> None:
    make_contest(tmp_path / "cup")
    (tmp_path / "alice").mkdir()
    words = ["run", "--track", "erp", "--submission", str(tmp_path / "alice")]
    words += ["--contest", str(tmp_path / "cup")]
    wrong = CliRunner().invoke(main, [*words, "--engine", "http://x"])
    assert (wrong.exit_code, "give local:N" in wrong.output) == (1, True)
    both = CliRunner().invoke(main, [*words, "--engine", "local:2", "--jobs", "2"])
    assert (both.exit_code, "give one" in both.output) == (2, True)
