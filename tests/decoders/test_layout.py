"""A layout is data: the track's own, rows and columns, or any other."""

import numpy as np
import pytest

from bci_stream.errors import RuleError
from decoders.layout import Layout

ROWS = ("ABCDEF", "GHIJKL", "MNOPQR", "STUVWX", "YZ1234", "56789_")
COLUMNS = ("AGMSY5", "BHNTZ6", "CIOU17", "DJPV28", "EKQW39", "FLRX4_")


@pytest.mark.parametrize("layout", [Layout(), Layout(ROWS + COLUMNS)])
def test_every_character_has_two_groups_of_its_own(layout: Layout) -> None:
    assert layout.membership.shape == (36, 12)
    assert np.all(layout.membership.sum(axis=1) == 2)
    assert len({tuple(row) for row in layout.membership}) == 36


def test_codes_are_the_tracks() -> None:
    assert [Layout().code(n) for n in (0, 25, 26, 35)] == [101, 126, 127, 136]


def test_a_small_layout_reports_the_same_codes() -> None:
    assert Layout(("AC", "BC", "A", "B")).characters == "ABC"
    assert Layout(("XC", "X", "C1")).code(2) == 127


def test_twins_and_strangers_are_refused() -> None:
    with pytest.raises(RuleError, match="'AB' flash in the same groups"):
        Layout(("ABC", "AB"))
    with pytest.raises(RuleError, match="it has '!'"):
        Layout(("A!", "B"))
