"""Rows of a matrix without names: a time axis or a second trigger row is asked about, not guessed."""

import re

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.io import savemat

from bci_stream.errors import SourceError
from replay.cli import main
from replay.sources import open_source

N = 1000


def rows_like_br41n() -> np.ndarray:
    """Time, eight leads, the trigger, and the class of each trial in a row of its own."""
    rng = np.random.default_rng(0)
    trigger, classes = np.zeros(N), np.zeros(N)
    trigger[100::200], classes[100:140], classes[500:540] = 1, 1, 2
    leads = rng.normal(0, 20, (8, N))
    return np.vstack([np.arange(N) / 256, leads, trigger, classes])


@pytest.fixture
def path(tmp_path):
    savemat(tmp_path / "x.mat", {"y": rows_like_br41n()})
    return tmp_path / "x.mat"


def test_rows_that_do_not_look_like_leads_are_described_and_asked_about(path):
    with pytest.raises(SourceError) as caught:
        open_source(f"{path}?rate=256")
    text = str(caught.value)
    assert "row 1: rises evenly, like a time axis or a counter, 0 to 3.9" in text
    assert "rows 2 to 9: a signal" in text
    assert "rows 10 to 11: whole numbers, mostly 0, like triggers, 0 to 2" in text


def test_the_parameters_that_the_question_suggests_answer_it(path):
    with pytest.raises(SourceError) as caught:
        open_source(f"{path}?rate=256")
    suggested = re.search(r"\?(leads=\S+)", str(caught.value))[1]
    (session,) = open_source(f"{path}?rate=256&{suggested}").sessions()
    assert [lead.name for lead in session.leads] == [f"ch{k}" for k in range(2, 10)]
    ((_, triggers),) = session.block_triggers()
    assert triggers == tuple((at, 1) for at in range(100, N, 200))


def test_inspect_shows_the_rows(path):
    ended = CliRunner().invoke(main, ["inspect", f"{path}?rate=256"])
    assert ended.exit_code == 1
    assert "like a time axis" in ended.output


def test_one_trigger_row_at_the_end_is_taken_and_noted(tmp_path):
    np.save(tmp_path / "x.npy", rows_like_br41n()[1:10])
    (session,) = open_source(f"{tmp_path}/x.npy?rate=256").sessions()
    assert len(session.leads) == 8
    assert "taken as the triggers" in " ".join(session.notes)


def test_a_trigger_row_before_the_last_one_is_asked_about(tmp_path):
    np.save(tmp_path / "x.npy", rows_like_br41n()[[1, 9, 2, 3]])
    with pytest.raises(SourceError, match="row 2: whole numbers, mostly 0"):
        open_source(f"{tmp_path}/x.npy?rate=256")
    (session,) = open_source(f"{tmp_path}/x.npy?rate=256&triggers=none").sessions()
    assert len(session.leads) == 4


def test_a_lead_that_only_begins_like_triggers_is_a_signal(tmp_path):
    rows = np.random.default_rng(0).normal(0, 20, (3, N * 3))
    rows[1, :N] = 0
    np.save(tmp_path / "x.npy", rows)
    (session,) = open_source(f"{tmp_path}/x.npy?rate=256").sessions()
    assert len(session.leads) == 3
