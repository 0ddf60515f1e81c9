"""The shim's own laws, observed apart from any process."""

import socket
import sys

import numpy as np
import pytest

from decoders.host.inside import framework, shim
from decoders.host.process import packet_body


class Loop:
    def tolist(self) -> "Loop":
        return self


class Explodes:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("value", "expected"),
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
def test_plain_values(value: object, expected: object) -> None:
    assert shim.plain(value) == expected


class Theirs:
    """A report class of the submission's own."""

    def __init__(self, result: object) -> None:
        self.result = result


def test_a_report_is_its_result_for_any_class_of_object() -> None:
    old = framework.ReportModel()
    old.resultType = 3
    assert framework.result_of(old) == 3
    assert framework.result_of(framework.ReportModel(4)) == 4
    assert framework.result_of(framework.AlgorithmResultObject("5")) == "5"
    assert framework.result_of(framework.AlgorithmResultObject()) is None
    assert framework.result_of(Theirs(6)) == 6
    assert framework.result_of(7) == 7


def test_without_numpy_rows_are_lists_of_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    packet = packet_body(np.arange(6, dtype=np.float32).reshape(3, 2), 0, False, False)
    monkeypatch.delitem(sys.modules, "numpy")
    assert shim.rows_of(packet, 3, 2) == [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]


def test_the_framework_is_found_under_every_root_that_real_submissions_import() -> None:
    for root in ("Algorithm", "AlgorithmImplement", "AlgorithmSystem.AlgorithmImplement"):
        assert f"{root}.Interface.Model.DataModel" in framework.FRAMEWORK
        assert f"{root}.Interface" in framework.FRAMEWORK_PACKAGES
    assert not set(framework.FRAMEWORK) & framework.FRAMEWORK_PACKAGES


def test_both_spellings_of_a_packet_say_the_same() -> None:
    model = framework.DataModel("data", 10, 3, True)
    assert (model.start_pos, model.subject_id, model.finish_flag) == (10, 3, True)
    assert (model.startPosition, model.personID, model.finishedFlag) == (10, 3, True)


def test_what_is_there_is_seen_without_a_rest() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"x")
        spin = shim.SpinWait(ours)
        for _ in range(3):
            spin.wait()
            assert spin._skips == 0
        assert ours.recv(9) == b"x"  # it only looked


def test_a_look_without_result_is_followed_by_more_and_more_skips() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        spin = shim.SpinWait(ours)
        skips = []
        for _ in range(9):
            spin.wait()
            skips.append(spin._skips)
            for _ in range(skips[-1]):
                spin.wait()
        assert skips == [1, 2, 4, 8, 16, 32, 64, 64, 64]
        theirs.send(b"x")
        spin.wait()
        ours.recv(1)
        spin.wait()
        assert spin._skips == 1  # an answer at once restarts the count


def test_a_link_that_is_gone_is_left_to_the_read_that_follows() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        shim.SpinWait(ours).wait()
        assert ours.recv(1) == b""
    shim.SpinWait(ours).wait()  # closed: no error here
