"""A layout is data: the track's own, rows and columns, or any other."""

import numpy as np
import pytest

from bci_stream.errors import RuleError
from decoders.erp.stopping import SpellerLayout
from tracks.erp import CHARACTERS

ROWS = ("ABCDEF", "GHIJKL", "MNOPQR", "STUVWX", "YZ1234", "56789_")
COLUMNS = ("AGMSY5", "BHNTZ6", "CIOU17", "DJPV28", "EKQW39", "FLRX4_")


@pytest.mark.parametrize("layout", [SpellerLayout(), SpellerLayout(ROWS + COLUMNS)])
def test_every_character_has_two_groups_of_its_own(layout: SpellerLayout) -> None:
    assert layout.membership.shape == (36, 12)
    assert np.all(layout.membership.sum(axis=1) == 2)
    assert len({tuple(row) for row in layout.membership}) == 36


def test_characters_stand_in_the_tracks_order() -> None:
    assert SpellerLayout().characters == CHARACTERS
    assert SpellerLayout(("AC", "BC", "A", "B")).characters == "ABC"
    assert SpellerLayout(("XC", "X", "C1")).characters == "CX1"


def test_twins_and_other_people_are_refused() -> None:
    with pytest.raises(RuleError, match="'AB' flash in the same groups"):
        SpellerLayout(("ABC", "AB"))
    with pytest.raises(RuleError, match="it has '!'"):
        SpellerLayout(("A!", "B"))
