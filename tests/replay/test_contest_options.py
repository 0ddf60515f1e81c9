"""What `bci-replay start --contest` takes from the contest file: pace, track and recordings."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import replay.service
from replay.cli import main

FILE = """\
name = "c"
pace = "lockstep"
[tracks.mi]
recordings = ["synthetic:mi?subjects=1"]
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The services that a command starts; they do not play."""
    made: list[Any] = []
    monkeypatch.setattr(replay.service.Service, "run", lambda service: made.append(service))
    return made


def start(folder: Path, text: str, *options: str) -> Any:
    (folder / "contest.toml").write_text(text)
    return CliRunner().invoke(main, ["start", "--foreground", "--contest", str(folder), *options])


def test_its_pace_holds_unless_another_one_is_given(tmp_path, started) -> None:
    assert start(tmp_path, FILE).exit_code == 0
    assert start(tmp_path, FILE, "--pace", "2.0").exit_code == 0
    assert start(tmp_path, FILE.replace("lockstep", "realtime")).exit_code == 0
    assert [str(service.pace) for service in started] == ["lockstep", "2", "realtime"]


def test_without_sources_its_recordings_of_the_only_track_are_played(tmp_path, started) -> None:
    assert start(tmp_path, FILE).exit_code == 0
    assert start(tmp_path, FILE, "synthetic:mi?subjects=2", "--track", "mi").exit_code == 0
    assert [(s.track, s.name, s.uris) for s in started] == [
        ("mi", "mi", ("synthetic:mi?subjects=1",)),
        ("mi", "mi", ("synthetic:mi?subjects=2",)),
    ]


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (
            FILE + "[tracks.erp]\n",
            (),
            "say which track of the contest to play: --track (it has mi, erp)",
        ),
        (FILE + "[tracks.erp]\n", ("--track", "erp"), "no recordings for track erp"),
        (FILE.replace('"lockstep"', '"sideways"'), (), "pace = 'sideways'"),
    ],
)
def test_what_can_not_be_played_is_named(tmp_path, started, text, options, words) -> None:
    done = start(tmp_path, text, *options)
    assert done.exit_code in (1, 2)
    assert words in " ".join(done.output.split())
    assert started == []


def test_without_a_contest_sources_are_needed() -> None:
    done = CliRunner().invoke(main, ["start"])
    assert done.exit_code == 2
    assert "say what to play" in done.output
