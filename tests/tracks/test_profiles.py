"""Profiles of other years: data in the track's file, as the facts page has them; the referee is the same."""

import re
from pathlib import Path

import numpy as np
import pytest

from tracks.common.truth import read_truth
from tracks.errors import RuleError
from tracks.registry import TRACKS
from tracks.run import Run

MI = TRACKS["mi"]
FACTS = Path("/work/shared/facts/contest-interfaces.md")


def year(name):
    return MI.under({"profile": name})


def test_a_profile_is_what_the_facts_page_has() -> None:
    if not FACTS.is_file():
        pytest.skip("no facts page of contest interfaces")
    line = next(line for line in FACTS.read_text().splitlines() if line.startswith("mi of 2022/23"))
    rate, code, newer, first, last, packet = map(
        int,
        re.match(
            r"mi of 2022/23: (\d+) Hz, imagery code (\d+) \(2023: (\d+)\), results and classes "
            r"(\d+)-(\d+), packets of (\d+)",
            line,
        ).groups(),
    )
    for name, begins in (("2022", code), ("2023", newer)):
        track, profile = year(name), MI.profiles[name]
        assert (track.rate, track.packet_samples, profile.trial_code) == (rate, packet, begins)
        assert list(profile.results) == list(range(first, last + 1))
        assert set(profile.results) <= set(profile.labels)


def test_the_default_is_the_documents_own_year() -> None:
    assert year("2024").rules == MI.rules
    assert (year("2024").rate, year("2024").packet_samples) == (1000, 40)
    assert MI.under({}).mask(1000).step(np.ones((2, 1), np.float32), ((0, 21), (1, 22)))[1] == (
        (0, 200),
        (1, 202),
    )


@pytest.mark.parametrize(("name", "begins"), [("2022", 249), ("2023", 200)])
def test_no_class_is_shown(name, begins) -> None:
    mask = year(name).mask(250)
    codes = (11, 12, 13, 241, 203, 241, 22)
    _, shown = mask.step(np.ones((7, 1), np.float32), tuple(enumerate(codes)))
    assert [code for _, code in shown] == [begins, 241, begins, 241]


def test_labels_of_both_kinds_are_read() -> None:
    triggers = ((0, 242), (10, 202), (1010, 241), (2000, 31), (2500, 32), (3000, 241))
    assert read_truth(year("2022"), 250, [(4000, triggers)])["blocks"] == [[2, 3]]
    with pytest.raises(RuleError, match="249 is a test recording's code"):
        read_truth(year("2022"), 250, [(4000, ((5, 249),))])


def run_of(profile, begins, results):
    run = Run()
    run.feed({"kind": "run", "track": "mi", "rules": {"profile": profile} if profile else {}})
    run.feed({"kind": "session", "subject": "S1", "rate": 250})
    run.feed({"kind": "truth", "blocks": [[2]]})
    run.feed({"kind": "packet", "start": 0, "n": 10, "triggers": [[0, begins]]})
    for number, result in enumerate(results):
        run.feed({"kind": "packet", "start": 10 * number + 10, "n": 10, "triggers": []})
        run.feed({"kind": "report", "result": result})
    run.feed({"kind": "end", "reason": "finished"})
    return run.result()


def test_the_same_answers_score_the_same_under_each_year() -> None:
    now = run_of(None, 200, [2, "right", 1])
    assert now["sessions"][0]["right"] == 2
    for name, begins in (("2022", 249), ("2023", 200)):
        then = run_of(name, begins, [202, "202", 201])
        assert (then["score"], then["sessions"]) == (now["score"], now["sessions"])
    assert run_of("2022", 249, [2, 2, 2])["sessions"][0]["right"] == 0
    assert run_of("2022", 200, [202, 202, 202])["sessions"][0]["refused"] == 3


def test_an_unknown_profile_is_named() -> None:
    with pytest.raises(
        RuleError, match='profile must be one of "2024", "2023", "2022", got \'1999\''
    ):
        year("1999")
    with pytest.raises(RuleError, match="got 2022"):
        year(2022)
