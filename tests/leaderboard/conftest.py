"""Simulated runs, and ways to fold them."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from bci_stream.leaderboard.board import Leaderboard
from scripts.simulated_runs import SimulatedRun
from tracks.run import Run

Event = dict[str, Any]

# A shared, busy machine must not fail a law for being slow.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")


def feed_board(board: Leaderboard, team: str, track: str, events: Iterable[Event]) -> Run:
    """Add a whole log to a board, as the judge does; returns the run."""
    run = Run()
    for event in events:
        board.event(team, track, event, run.feed(event), run)
    return run


@pytest.fixture(name="feed_board")
def feed_board_fixture() -> Callable[..., Run]:
    return feed_board


@pytest.fixture
def write_log(tmp_path: Path) -> Callable[..., Path]:
    """Writes a simulated log and returns its path."""

    def write(name: str, simulated: SimulatedRun) -> Path:
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(json.dumps(event) + "\n" for event in simulated.events()))
        return path

    return write
