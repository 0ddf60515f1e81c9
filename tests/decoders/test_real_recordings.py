"""On real people the decoders work too; skipped where the recordings are not at hand."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("BCI_DATA", ROOT.parent / "shared" / "data"))


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch):
    if not (DATA / "p300").is_dir():
        pytest.skip(f"no recordings in {DATA / 'p300'}; set BCI_DATA to a folder that has them")
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    import _bench_erp

    yield _bench_erp
    sys.modules.pop("_bench_erp")


def test_single_flashes_of_real_people_are_told_apart(bench) -> None:
    paths = sorted((DATA / "p300").glob("*.npz"))
    assert paths
    for path in paths:
        rows = bench.flash_auc(bench.read_speller(path))
        ours = next(row for row in rows if row.ours)
        assert ours.low > 0.5, path.name
        assert ours.n > 100
