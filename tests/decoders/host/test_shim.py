"""The shim's own laws, told apart from any process."""

import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decoders.host import shim
from tracks.seconds import SecondGrid

PACKETS = st.lists(
    st.tuples(
        st.sampled_from(["on", "on", "on", "on", "back", "session"]),
        st.integers(1, 60),
        st.lists(st.sampled_from([242, 243, 250, 7]), max_size=3),
    ),
    max_size=80,
)


@given(packets=PACKETS)
def test_my_algorithm_is_asked_exactly_when_the_referee_expects_a_decision(
    packets: list[tuple[str, int, list[int]]],
) -> None:
    seconds, grid = shim.Seconds(), SecondGrid(Fraction(250))
    start, session = 0, 1
    for step, n, codes in packets:
        if step == "session":
            start, session, grid = 0, session + 1, SecondGrid(Fraction(250))
        elif step == "back":
            start = 0
        expected = grid.packet(start, n, [(0, code) for code in codes])
        assert seconds.take(session, start, n, codes) == expected
        start += n


class Loop:
    def tolist(self) -> "Loop":
        return self


class Explodes:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
        (np.array([np.nan, 1.0]), [None, 1.0]),
        (np.str_("A"), "A"),
        (b"A", "<bytes: b'A'>"),
        ({"a": 1}, "<dict: {'a': 1}>"),
        (1 + 2j, "<complex: (1+2j)>"),
        (Loop(), "<Loop: can't be read: RecursionError>"),
        (Explodes(), "<Explodes: can't be read: RuntimeError>"),
    ],
)
def test_plain_values(value: object, said: object) -> None:
    assert shim.plain(value) == said


class Theirs:
    """A report class of the submission's own."""

    def __init__(self, result: object) -> None:
        self.result = result


def test_a_report_is_its_result_whoever_made_the_object() -> None:
    old = shim.ReportModel()
    old.resultType = 3
    assert shim.result_of(old) == 3
    assert shim.result_of(shim.ReportModel(4)) == 4
    assert shim.result_of(shim.AlgorithmResultObject("5")) == "5"
    assert shim.result_of(shim.AlgorithmResultObject()) is None
    assert shim.result_of(Theirs(6)) == 6
    assert shim.result_of(7) == 7


def test_without_numpy_rows_are_lists_of_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = np.arange(6, dtype=np.float32).reshape(3, 2)
    monkeypatch.delitem(sys.modules, "numpy")
    assert shim.rows_of(samples.tobytes(), 3, 2) == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]
    assert shim.rows_of(b"", None, 0) is None


def test_the_framework_is_found_under_every_root_that_real_submissions_import() -> None:
    for root in ("Algorithm", "AlgorithmImplement", "AlgorithmSystem.AlgorithmImplement"):
        assert f"{root}.Interface.Model.DataModel" in shim.FRAMEWORK
        assert f"{root}.Interface" in shim.FRAMEWORK_PACKAGES
    assert not set(shim.FRAMEWORK) & shim.FRAMEWORK_PACKAGES


def test_both_spellings_of_a_packet_say_the_same() -> None:
    model = shim.DataModel("data", 10, 3, True)
    assert (model.start_pos, model.subject_id, model.finish_flag) == (10, 3, True)
    assert (model.startPosition, model.personID, model.finishedFlag) == (10, 3, True)
