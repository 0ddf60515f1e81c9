"""The golden logs: scores that an independent implementation gave."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bci_stream.runlog import read_log
from tracks.run import Run

GOLDEN = Path(__file__).parents[1] / "golden"
EXPECTED = json.loads((GOLDEN / "expected.json").read_text())


def test_every_golden_log_has_an_expected_score():
    assert {path.name.removesuffix(".jsonl.gz") for path in GOLDEN.glob("*.gz")} == set(EXPECTED)
    assert {name.split("-")[0] for name in EXPECTED} == {"mi", "turing", "emotion", "ecog", "erp"}


@pytest.fixture(scope="module", params=EXPECTED)
def folded(request):
    """(name of the log, the run, the verdicts that fell along the way)."""
    run, given = Run(), []
    for _, event in read_log(GOLDEN / f"{request.param}.jsonl.gz"):
        given += run.feed(event)
    return request.param, run, given


def test_golden_log_scores_as_expected(folded):
    name, run, _ = folded
    result, expected = run.result(), EXPECTED[name]
    assert result["track"] == expected["track"]
    assert result["score"] == pytest.approx(expected["score"], abs=1e-9)
    assert result.get("void") == expected.get("void")
    for got, wanted in zip(result["sessions"], expected["sessions"], strict=True):
        assert got["subject"] == wanted["subject"]
        assert got["score"] == pytest.approx(wanted["score"], abs=1e-9)


def test_verdicts_given_along_the_way_are_those_of_the_whole_log(folded):
    _, run, given = folded
    revised = len(given) - len(run.verdicts())
    assert len({_place(v) for v in given}) == len(given) - revised
    assert revised == 0 or any(v.void or v.void_parts for v in given)
    assert {_place(v): _counted(v) for v in given} == {
        _place(v): _counted(v) for v in run.verdicts()
    }


@pytest.mark.parametrize("name", [name for name in EXPECTED if "outage" in name])
@pytest.mark.parametrize("last", [False, True])
def test_outage_and_void_lines_may_stand_anywhere(name, last):
    events = [event for _, event in read_log(GOLDEN / f"{name}.jsonl.gz")]
    lines = [event for event in events if event["kind"] in ("outage", "void")]
    others = [event for event in events if event not in lines]
    moved, as_written = Run(), Run()
    for event in [*others, *lines] if last else [others[0], *lines, *others[1:]]:
        moved.feed(event)
    for event in events:
        as_written.feed(event)
    assert lines
    assert moved.result() == as_written.result()
    assert moved.standing().score == pytest.approx(moved.result()["score"], abs=1e-9)


def test_standing_at_the_end_is_the_score(folded):
    _, run, _ = folded
    assert run.standing().score == pytest.approx(run.result()["score"], abs=1e-9)


def _place(verdict):
    return verdict.session, verdict.block, verdict.trial


def _counted(verdict):
    """Without the reports that came too many: some come after the verdict."""
    return replace(verdict, answers=tuple(a for a in verdict.answers if a.right is not None))
