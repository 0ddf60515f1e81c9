"""erp-umm still spells; it is no track's default, and its users are informed of the patent."""

import numpy as np
import pytest
from click.testing import CliRunner

from decoders.cli import main
from decoders.erp.umm import UmmDecoder, fit
from decoders.model import Model, ModelError
from decoders.offline import run_offline
from decoders.registry import default_of
from tests.decoders.laws import CAUSAL, broken

pytestmark = pytest.mark.slow


def test_it_is_no_default_and_the_patent_is_named() -> None:
    assert default_of("erp") == "erp-bayes"
    shown = CliRunner().invoke(main, ["list", "--track", "erp"]).output
    assert any("erp-umm" in line and "patent" in line for line in shown.splitlines())
    assert "patent" in UmmDecoder.notice


def test_it_spells_with_others_template_and_keeps_the_laws(erp_session) -> None:
    model = fit([erp_session(text="TRAINING", seed=10)], seed=0, progress=lambda _: None)
    outcome = run_offline("erp", UmmDecoder(model=model), [erp_session(text="HELLO", seed=3)])
    assert [v.right[0] for v in outcome.run.verdicts()].count(True) >= 4
    session = erp_session(text="CD", seed=2)
    assert broken("erp", lambda: UmmDecoder(model=model), session, CAUSAL) == []


def test_a_model_of_another_shape_is_refused() -> None:
    arrays = {"leads": np.array(["Cz"]), "template": np.zeros((3, 1))}
    with pytest.raises(ModelError, match=r"its template has shape \(3, 1\)"):
        UmmDecoder(model=Model("erp", "erp-umm", arrays))
