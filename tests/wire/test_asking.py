import numpy as np
import pytest

from bci_stream.wire.asking import read_ask, write_ask

TOKEN = b"t" * 32


def test_an_ask_is_read_by_who_knows_the_token() -> None:
    row = write_ask("run", 12345, 678, TOKEN)
    assert row.shape == (1, 10)
    assert read_ask(row[0], "run", TOKEN) == (12345, 678)


@pytest.mark.parametrize(("run", "token"), [("another", TOKEN), ("run", b"x" * 32)])
def test_another_runs_or_another_teams_ask_is_not_believed(run: str, token: bytes) -> None:
    assert read_ask(write_ask("run", 1, 2, TOKEN)[0], run, token) is None


@pytest.mark.parametrize("place", range(10))
def test_a_changed_ask_is_not_believed(place: int) -> None:
    row = write_ask("run", 1, 2, TOKEN)[0]
    row[place] ^= np.int32(1)
    assert read_ask(row, "run", TOKEN) is None
