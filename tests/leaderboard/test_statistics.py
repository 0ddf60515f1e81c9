"""The paired test that says whether two teams differ."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bci_stream.leaderboard.report.statistics import (
    TeamComparison,
    accuracy_curve,
    compare,
    holm,
    sign_flip_p,
    trial_scores,
    wilson,
)
from tracks.common.verdicts import Answer, Verdict

SCORES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=8)


@settings(max_examples=40, deadline=None)
@given(SCORES)
def test_few_trials_give_the_exact_share_of_sign_flips_at_least_as_extreme(
    pairs: list[tuple[int, int]],
) -> None:
    differences = np.array([a - b for a, b in pairs], dtype=float)
    flips = np.array(list(product((-1, 1), repeat=len(pairs)))) @ differences
    p = sign_flip_p([a for a, _ in pairs], [b for _, b in pairs])
    assert p == pytest.approx(np.mean(np.abs(flips) >= abs(differences.sum())))


@settings(max_examples=20, deadline=None)
@given(SCORES)
def test_it_does_not_matter_who_is_named_first(pairs: list[tuple[int, int]]) -> None:
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    assert sign_flip_p(a, b) == pytest.approx(sign_flip_p(b, a))


def test_equal_teams_are_not_shown_to_differ_and_unlike_ones_are() -> None:
    random = np.random.default_rng(1)
    a, b = (random.random(60) < 0.9).tolist(), (random.random(60) < 0.4).tolist()
    assert sign_flip_p(a, a) == 1.0
    assert sign_flip_p(a, b) < 0.001


def test_chance_alone_is_called_a_difference_about_as_often_as_the_level_says() -> None:
    random = np.random.default_rng(3)
    ps = [sign_flip_p(random.normal(size=9), random.normal(size=9)) for _ in range(200)]
    assert 0.01 < np.mean(np.array(ps) < 0.05) < 0.11


def test_only_trials_that_both_were_judged_on_are_compared() -> None:
    of_a = {("S1", 0, trial): 1.0 for trial in range(6)}
    of_b = {("S1", 0, trial): 0.0 for trial in range(3, 9)}
    (found,) = compare({"a": of_a, "b": of_b})
    assert (found.trials, found.difference) == (3, 1.0)
    assert compare({"a": of_a, "b": {("S2", 0, 0): 1.0}}) == []


def test_holm_multiplies_the_least_p_by_the_number_of_pairs_and_keeps_the_order() -> None:
    pairs = [
        TeamComparison(n, "z", 9, 0.1, p, p) for n, p in (("a", 0.04), ("b", 0.01), ("c", 0.03))
    ]
    assert [(c.a, c.p_holm) for c in holm(pairs)] == [
        ("b", pytest.approx(0.03)), ("c", pytest.approx(0.06)), ("a", pytest.approx(0.06)),
    ]  # fmt: skip


def verdict(trial: int, *answers: tuple[float | None, bool], **more: object) -> Verdict:
    made = tuple(Answer(1, "left", when, "s", right) for when, right in answers)
    values = {
        "subject": "S", "block": 0, "trial": trial, "label": "left", "answers": made,
        "scored": True, "right": tuple(right for _, right in answers),
    }  # fmt: skip
    return Verdict(**(values | more))  # type: ignore[arg-type]


def test_a_trial_is_worth_its_share_or_how_much_of_it_was_right() -> None:
    verdicts = [
        verdict(0, (2.0, True), (3.0, False)),
        verdict(1, (2.0, True), share=0.25),
        verdict(2, (2.0, True), scored=False),
        verdict(3),
    ]
    assert trial_scores(verdicts) == {("S", 0, 0): 0.5, ("S", 0, 1): 0.25, ("S", 0, 3): 0.0}


def test_the_curve_loses_no_answer_and_keeps_answers_of_one_moment_together() -> None:
    verdicts = [verdict(n, (1.96, True), (2.96, n % 2 == 0), (3.96, False)) for n in range(10)]
    points = accuracy_curve(verdicts)
    assert [point.used for point in points] == pytest.approx([1.96, 2.96, 3.96])
    assert [point.right for point in points] == [10, 5, 0]
    assert sum(point.answers for point in points) == 30


def test_answers_that_never_came_are_on_no_curve() -> None:
    assert accuracy_curve([verdict(0, (None, False))]) == []


@given(st.integers(1, 200).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_share_and_stays_between_0_and_1(counts: tuple[int, int]) -> None:
    right, n = counts
    low, high = wilson(right, n)
    assert 0.0 <= low <= right / n <= high <= 1.0


def test_the_interval_is_wilsons() -> None:
    assert wilson(8, 10) == pytest.approx((0.4901625, 0.9433178), abs=1e-6)


def test_one_trial_proves_nothing() -> None:
    assert sign_flip_p([1.0], [0.0]) == 1.0
