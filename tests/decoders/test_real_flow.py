"""The flow that docs/decoders.md shows for a real person: train, decode, judge, by its very URIs."""

import os
import re
from pathlib import Path

import pytest

from decoders.offline import run_offline
from decoders.registry import load
from decoders.train import train
from replay.model.options import SourceOptions
from replay.sources import open_source

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DATA = Path(os.environ.get("BCI_DATA", ROOT.parent / "shared" / "data")) / "mi"
RUNS = {"train": ("04", "06"), "test": ("12", "14")}


def event_rules() -> dict[str, str]:
    """HANDS and FEET, as the page has them."""
    page = (ROOT / "docs" / "decoders.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^(HANDS|FEET)='(.*)'$", page, re.MULTILINE))


def test_the_page_names_both_kinds_of_runs() -> None:
    assert set(event_rules()) == {"HANDS", "FEET"}


def test_a_real_person_is_trained_on_decoded_and_judged(tmp_path: Path) -> None:
    numbers = [number for pair in RUNS.values() for number in pair]
    if not all((DATA / f"S001R{number}.edf").exists() for number in numbers):
        pytest.skip(f"no runs {', '.join(numbers)} of EEGMMIDB's S001 in {DATA}; set BCI_DATA")
    rules = event_rules()
    uris = {
        kind: [f"{DATA}/S001R{number}.edf?{rules[name]}" for number, name in
               zip(pair, ("HANDS", "FEET"), strict=True)]
        for kind, pair in RUNS.items()
    }  # fmt: skip
    trained = train("mi", uris["train"], tmp_path / "real.npz", validate=False)
    assert trained.model.settings["subjects"] == ["S001"]
    decoder = load(None, "mi", tmp_path / "real.npz")
    sources = [open_source(uri, SourceOptions(track="mi")) for uri in uris["test"]]
    sessions = [session for source in sources for session in source.sessions()]
    outcome = run_offline("mi", decoder, sessions)
    verdicts = outcome.run.verdicts()
    assert len(verdicts) > 10
    assert all(len(verdict.answers) == 3 for verdict in verdicts)
    assert not outcome.run.refusals()
    for source in sources:
        source.close()
