"""A sixth track from one file outside the packages (tests/sixth_track.py), in every command."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import msgspec
import pytest
import sixth_track
from playground import play, program

from bci_stream.contest.contest import Contest
from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.fold import fold
from bci_stream.leaderboard.web.process import WebBoard
from bci_stream.wire.memory import MemoryTransport
from decoders.offline import run_offline
from decoders.registry import load
from replay.synthetic.registry import open_synthetic
from tracks.common.words import LANGUAGES, describe
from tracks.registry import GROUP, TRACKS
from tracks.run import Run

ROOT = Path(__file__).parents[2]
SOURCE = "synthetic:eyes?subjects=1&trials=4"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with what `pip install` would leave of the package that brings the track."""
    info = tmp_path / "site" / "sixth_track-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sixth-track\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\neyes = sixth_track:TRACK\n")
    return info.parent


@pytest.fixture
def command(installed: Path, tmp_path: Path):
    """Runs a command of ours in a process of its own, with the package installed."""
    folders = (installed, Path(sixth_track.__file__).parent, ROOT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}

    def run(module: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=environment,
            timeout=100,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run


@pytest.fixture
def registered(installed: Path, monkeypatch: pytest.MonkeyPatch):
    """The track in this process's own registry."""
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.delitem(vars(TRACKS), "_paths", raising=False)
    yield TRACKS["eyes"]
    vars(TRACKS).pop("_paths", None)
    vars(TRACKS)["_loaded"].pop("eyes", None)
    for language, templates in sixth_track.WORDS.items():
        for code in templates:
            del LANGUAGES[language].templates[code]


def test_the_how_to_quotes_the_file_that_runs_here() -> None:
    text = (ROOT / "docs" / "howto" / "add-a-track.md").read_text(encoding="utf-8")
    file = Path(sixth_track.__file__).read_text(encoding="utf-8")
    excerpts = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(excerpts) >= 7
    assert [excerpt for excerpt in excerpts if excerpt not in file] == []
    assert f'[project.entry-points."{GROUP}"]' in text


def test_synth_and_inspect(command, tmp_path: Path) -> None:
    command("replay", "synth", SOURCE, "--out", "made")
    (made,) = (tmp_path / "made").glob("*.npz")
    assert made.name == "eyes_test_S11.npz"
    printed = command("replay", "inspect", str(made))
    assert "eyes" in printed
    assert "yes" in printed


def test_prepare_makes_its_sets(command, tmp_path: Path) -> None:
    command("bci_stream.judge", "init", "cup", "--track", "eyes", "--name", "cup")
    source = "synthetic:eyes?subjects=1&trials=2&blocks=2"
    options = ("--track", "eyes", "--contest", "cup/contest.toml", "--out", "sets")
    command("replay", "prepare", source, *options)
    assert list((tmp_path / "sets" / "test").glob("eyes_test_*.npz"))


def test_a_decoder_is_checked(command) -> None:
    assert "bounded memory" in command("decoders", "check", "--track", "eyes")


@pytest.mark.slow
def test_replay_decode_and_judge_in_processes_then_score_leaderboard_and_report(
    command, tmp_path: Path
) -> None:
    command("bci_stream.judge", "init", "cup", "--track", "eyes", "--name", "cup")
    contest = ("--contest", "cup/contest.toml")
    options = ("--recording", SOURCE, "--decoder", "sixth_track:AlphaPower", "--json")
    command("bci_stream.judge", "run", "--track", "eyes", *options, *contest)
    (log,) = (tmp_path / "cup" / "runs").rglob("*.jsonl")
    assert json.loads(command("bci_stream.judge", "score", str(log), "--json"))["score"] == 100.0
    assert "4 of 4 trials right" in command("bci_stream.judge", "score", str(log))
    assert "percent" in command("bci_stream.judge", "leaderboard", *contest)
    report = ("--recording", SOURCE, "--out", "report.html")
    command("bci_stream.judge", "report", str(log), *report)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Eyes open or closed" in page
    assert "power 8-12 Hz" in page


def test_in_lockstep_the_board_shows_it_in_its_own_words(registered, contest: Contest) -> None:
    (session,) = open_synthetic("eyes", {"subjects": "1", "trials": "4"}).sessions()
    teams = {"alice": load(None, "eyes")}
    played = play(MemoryTransport(), contest, program("eyes", session), teams)
    assert played.errors == {}
    view = fold(played.runs["alice"].path).view
    assert (view.row().score, view.row().unit) == (100.0, "percent")
    assert view.row().used == pytest.approx(2.0, abs=0.2)
    shown = msgspec.json.decode(msgspec.json.encode(view.detail()))
    assert [trial["truth"] for trial in shown["trials"]] == ["closed", "open"] * 2


def test_its_own_reasons_have_words_in_both_languages(registered) -> None:
    sessions = list(open_synthetic("eyes", {"subjects": "1", "trials": "2"}).sessions())
    run = run_offline("eyes", Hasty(), sessions).run
    (reason,) = run.verdicts()[0].reasons
    assert reason.code == "too_early"
    assert describe(reason) == "at 0.10 s: at least 1 s are needed"
    assert "至少需要 1 秒" in describe(reason, "zh")
    assert run.result()["score"] == 0.0


def test_the_page_gets_its_names_from_the_api(registered) -> None:
    board, run = Leaderboard("Finals"), Run()
    sessions = list(open_synthetic("eyes", {"subjects": "1", "trials": "2"}).sessions())
    for event in run_offline("eyes", load(None, "eyes"), sessions).events:
        board.event("alice", "eyes", event, run.feed(event), run)
    page = WebBoard(board, port=0, period_s=0.01)
    page.start()
    try:
        tracks = _get(page, "api/v1/contest")["tracks"]
        (row,) = _get(page, "api/v1/leaderboard?track=eyes")["rows"]
        team = _get(page, "api/v1/teams/eyes/alice")
    finally:
        page.stop()
    assert tracks["eyes"]["names"]["zh"]["closed"] == "闭眼"
    assert (row["score"], row["trials"]) == (100.0, 2)
    assert [trial["reported"] for trial in team["trials"]] == ["closed", "open"]
    assert team["confusion"]


def _get(page: WebBoard, path: str):
    with urlopen(page.url + path, timeout=20) as answer:
        return json.load(answer)


class Hasty:
    """Reports with the first packet of a trial."""

    def start(self, info) -> None:
        self._begun = False

    def step(self, packet):
        results = [1] if self._begun else []
        self._begun = any(code == sixth_track.SHOWN for _, code in packet.triggers)
        return results


def test_warnings_name_the_place(registered) -> None:
    (warning,) = registered.warnings(250, [(2000, ((100, 51), (600, 241)))])
    assert warning == (
        "block 0, sample 100 (0.400 s): 241 comes 2 s after 51; expected 4 s of one state of the eyes"
    )
