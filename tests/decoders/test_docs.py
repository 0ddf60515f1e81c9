"""The code of the documentation runs."""

import importlib
import re
import sys
from importlib import metadata
from pathlib import Path

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


def code_of(page: str) -> str:
    """The first Python block of a page."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]


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
