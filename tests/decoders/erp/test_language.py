"""A language prior for free writing: off by default, learned from a text."""

import numpy as np
import pytest

from bci_stream.errors import RuleError
from decoders.erp.decoder import BayesDecoder
from decoders.erp.prior import LanguagePrior
from decoders.offline import run_offline
from tracks.erp import CHARACTERS

TEXT = "the quick brown fox and the quiet queen quit the quay, quite quickly. " * 3


def test_it_knows_what_follows_a_character_and_a_word() -> None:
    prior = LanguagePrior(TEXT, CHARACTERS)
    after_q = prior.after(np.eye(len(CHARACTERS))[CHARACTERS.index("Q")])
    assert CHARACTERS[int(after_q.argmax())] == "U"
    assert prior.first[CHARACTERS.index("_")] > prior.first[CHARACTERS.index("Z")]
    for each in (after_q, prior.first, prior.after(np.full(len(CHARACTERS), 1 / len(CHARACTERS)))):
        assert each.sum() == pytest.approx(1)
        assert each.min() > 0


def test_a_text_without_characters_is_refused() -> None:
    with pytest.raises(RuleError, match="language: its text has 0 of the speller's characters"):
        BayesDecoder(language="...")


@pytest.mark.slow
def test_free_writing_of_a_weak_subject_gains(erp_session) -> None:
    session = erp_session(text="THE_QUEEN_QUIT", seed=5, amplitude_uv=2.0)
    alone, helped = (
        [v.right[0] for v in run_offline("erp", decoder, [session]).run.verdicts()].count(True)
        for decoder in (BayesDecoder(), BayesDecoder(language=TEXT))
    )
    assert helped > alone
