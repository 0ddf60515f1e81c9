"""On real people the decoders work too; skipped where these recordings are not at hand."""

import os
from pathlib import Path

import pytest

from scripts.bench.recordings.erp import flash_row, watch
from scripts.bench.recordings.spellers import read_speller

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("BCI_DATA", ROOT.parent / "shared" / "data"))


@pytest.mark.parametrize("name", ["bi2012_s1.npz"])  # the bench has all
def test_single_flashes_of_real_people_are_distinguished(name: str) -> None:
    path = DATA / "p300" / name
    if not path.is_file():
        pytest.skip(f"no {path}; set BCI_DATA to a folder that has it")
    speller = read_speller(path)
    ours = flash_row(speller, "erp-bayes", watch(speller, None))
    assert ours.low > 0.5
    assert ours.n > 100
