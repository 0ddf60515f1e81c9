"""A verdict, and what verdicts add up to."""

from tracks.common.verdicts import (
    Answer,
    Refusals,
    RunStanding,
    Verdict,
    brief,
    by_block,
    mean,
    scored,
)


def verdict(block, trial, is_scored=True):
    return Verdict("S01", block, trial, "x", (), scored=is_scored)


def test_a_verdict_says_nothing_that_it_is_not_told():
    assert Answer(1, "left", 0.5, "s", True).reason is None
    plain = verdict(0, 1)
    assert (plain.right, plain.charged_s, plain.share, plain.reasons) == ((), None, None, ())
    assert plain.key == (0, 1)


def test_scored_verdicts_stand_block_by_block_in_the_order_of_their_trials():
    given = [verdict(1, 0), verdict(0, 1), verdict(0, 0), verdict(0, 2, is_scored=False)]
    assert [v.key for v in scored(given)] == [(0, 0), (0, 1), (1, 0)]
    assert [[v.key for v in block] for block in by_block(given)] == [[(0, 0), (0, 1)], [(1, 0)]]
    assert by_block(given[3:]) == []


def test_the_mean_of_nothing_is_0():
    assert (mean([]), mean([1.0, 2.0])) == (0.0, 1.5)


def test_a_result_of_up_to_40_characters_is_shown_whole():
    assert brief("x" * 38) == repr("x" * 38)
    assert brief("x" * 39) == "'" + "x" * 36 + "..."
    assert len(brief("x" * 39)) == 40


def test_a_flood_of_refusals_is_counted_and_its_end_kept():
    refusals = Refusals("S01")
    for number in range(Refusals.KEPT + 5):
        refusals.add(number, number, "why")
    assert refusals.total == 1005
    assert [refusal.result for refusal in refusals] == list(range(5, 1005))


def test_the_accuracy_is_that_of_the_answers():
    def standing(right, answers):
        return RunStanding("S", 0.0, "points", 1, right, answers, None, "", None, ())

    assert standing(1, 4).accuracy == 0.25
    assert standing(0, 0).accuracy is None
