"""The code of the documentation runs."""

import importlib
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import mne
import numpy as np
import pytest
from scipy.stats import binomtest

from decoders.checks import sample_session
from decoders.offline import run_offline
from decoders.registry import GROUP, names
from decoders.train import train
from replay.synthetic.registry import open_synthetic
from tests.decoders.laws import broken

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"


def codes_of(page: str) -> list[str]:
    """The Python blocks of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def code_of(page: str) -> str:
    return codes_of(page)[0]


def test_the_decoder_in_thirty_lines_keeps_the_laws() -> None:
    code = code_of("decoders.md")
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    scope: dict[str, type] = {}
    exec(compile(code, "docs/decoders.md", "exec"), scope)  # noqa: S102 - our own page
    session = sample_session("mi")
    assert broken("mi", scope["Mine"], session) == []


@pytest.fixture
def mi_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module of the how-to, installed with its entry point."""
    (tmp_path / "mi_power.py").write_text(code_of("howto/add-a-decoder.md"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mi_power", raising=False)
    points = metadata.EntryPoints([metadata.EntryPoint("mi-power", "mi_power:ENTRY", GROUP)])
    monkeypatch.setattr(metadata, "entry_points", lambda **chosen: points.select(**chosen))


@pytest.mark.usefixtures("mi_power")
def test_the_decoder_of_the_how_to_is_trained_and_keeps_the_laws(tmp_path: Path) -> None:
    assert "mi-power" in names("mi")
    uri = "synthetic:mi?set=train&subjects=1&blocks=2&trials=9&difficulty=0"
    trained = train("mi", [uri], tmp_path / "power.npz", decoder="mi-power", validate=False)
    module = importlib.import_module("mi_power")
    assert module.PowerDecoder().notice
    session = next(
        iter(open_synthetic("mi", {"subjects": "1", "blocks": "1", "trials": "2"}).sessions())
    )
    assert broken("mi", lambda: module.PowerDecoder(model=trained.model), session) == []


def test_the_first_decoder_keeps_the_laws_and_is_better_than_chance_at_each_report() -> None:
    code = code_of("contestant.md")
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    scope: dict[str, type] = {}
    exec(compile(code, "docs/contestant.md", "exec"), scope)  # noqa: S102 - our own page
    assert broken("mi", scope["Mine"], sample_session("mi")) == []
    people = open_synthetic(
        "mi", {"subjects": "2", "blocks": "1", "trials": "30", "difficulty": "0"}
    )
    verdicts = run_offline("mi", scope["Mine"](), list(people.sessions())).run.verdicts()
    right = [sum(answers) for answers in zip(*(v.right for v in verdicts), strict=True)]
    assert [binomtest(count, 60, 1 / 3, "greater").pvalue < 0.01 for count in right] == [True] * 3


@pytest.fixture
def recordings_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that docs/python-api.md opens, in the current folder: 6 trials with 3 leads each."""
    monkeypatch.chdir(tmp_path)
    data = 1e-5 * np.random.default_rng(0).normal(size=(3, 40 * 128))
    raw = mne.io.RawArray(data, mne.create_info(["C3", "Cz", "C4"], 128.0, "eeg"), verbose="error")
    raw.set_annotations(mne.Annotations([6.0 * k + 1 for k in range(6)], 4.0, ["T1", "T2"] * 3))
    for run in ("04", "08", "12"):
        mne.export.export_raw(f"S001R{run}.edf", raw, physical_range=(-200, 200), verbose="error")


@pytest.mark.usefixtures("recordings_here")
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg")
def test_the_python_api_s_page_runs() -> None:
    first, _, score, _ = codes_of("python-api.md")  # the others need MOABB and a client of MNE-LSL
    scope: dict[str, Any] = {}
    exec(compile(first, "docs/python-api.md", "exec"), scope)  # noqa: S102 - our own page
    assert len(scope["result"].table()) == 18
    Path("runs").mkdir()
    scope["bci"].evaluate("mi-chance", scope["runs"][0]).save(Path("runs/mi-ours-3f2a.jsonl"))
    exec(compile(score, "docs/python-api.md", "exec"), scope)  # noqa: S102 - our own page
