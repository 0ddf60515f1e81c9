"""A sealed contest, and the log of a run that no attack disturbs."""

from pathlib import Path

import pytest
from playground import play
from redteam.attacks import Speller, sealed_contest, what

from bci_stream.contest.contest import Contest
from bci_stream.wire.memory import MemoryTransport


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    contest = sealed_contest("calm", tmp_path_factory.mktemp("calm"))
    played = play(MemoryTransport(), contest, what(), {"alice": Speller()})
    assert played.runs["alice"].run.result()["score"] > 0
    return played.runs["alice"].path


@pytest.fixture
def sealed(contest: Contest) -> Contest:
    return sealed_contest(contest.name, contest.folder)
