"""mi, rule by rule."""

from math import log2

import pytest

from tracks import mi
from tracks.common.words import describe


def trial(log, *reports, packets=100):
    """One trial of 4 s: reports are (number of packets after the trigger packet, result)."""
    log.packet(200)
    for number in range(1, packets + 1):
        log.packet(241) if number == 100 else log.packet()
        for when, result in reports:
            if when == number:
                log.report(result)
    return log


def rights(log):
    return [verdict.right for verdict in log.run().verdicts()]


@pytest.mark.parametrize(
    ("packets", "right"),
    [((50, 75, 99), (1, 1, 1)), ((51, 75, 99), (0, 1, 1)), ((50, 76, 99), (1, 0, 1))],
)
def test_the_kth_report_has_its_own_limit_inclusive(new_log, packets, right):
    log = trial(new_log("mi").truth(blocks=[[1]]), *((p, 1) for p in packets))
    assert rights(log) == [tuple(map(bool, right))]


def test_the_reason_names_time_and_limit(new_log):
    log = trial(new_log("mi").truth(blocks=[[1]]), (51, 1), (60, 2), (99, 1))
    assert describe(log.run().verdicts()[0].reasons) == (
        "report 1: at 2.04 s, limit 2.00 s; report 2: right instead of left"
    )


def test_all_three_reports_may_come_early(new_log):
    assert rights(trial(new_log("mi").truth(blocks=[[3]]), (1, 3), (1, 3), (1, 3))) == [(True,) * 3]


def test_a_report_on_the_packet_with_241_is_too_late_although_4_s_are_inclusive(new_log):
    log = trial(new_log("mi").truth(blocks=[[1]]), (50, 1), (75, 1), (100, 1))
    assert rights(log) == [(True, True, False)]


def test_4_s_are_inclusive_where_241_comes_later(new_log):
    log = new_log("mi").truth(blocks=[[1]]).packet(200).packets(100).report(1).report(1).report(1)
    assert rights(log) == [(False, False, True)]


def test_beyond_4_s_is_too_late_without_a_241(new_log):
    log = new_log("mi").truth(blocks=[[1]]).packet(200).packets(101)
    assert rights(log.report(1).report(1).report(1)) == [(False,) * 3]


def test_no_tolerance_moves_the_241(new_log):
    log = new_log("mi", rules={"window_tolerance_s": 10}).truth(blocks=[[1]])
    assert rights(trial(log, (99, 1), (99, 1), (100, 1))) == [(True, True, False)]


@pytest.mark.parametrize(("tolerance", "right"), [(0.04, True), (0.039, False), (0, False)])
def test_the_tolerance_is_added_to_each_limit_inclusive(new_log, tolerance, right):
    log = new_log("mi", rules={"window_tolerance_s": tolerance}).truth(blocks=[[1]])
    assert rights(trial(log, (51, 1), (76, 1), (99, 1))) == [(right, right, True)]


@pytest.mark.parametrize("hundredths", range(1, 100))
def test_the_tolerance_is_the_decimal_that_was_written(new_log, hundredths):
    log = new_log("mi", rules={"window_tolerance_s": hundredths / 100}, n=1).truth(blocks=[[1]])
    log.packet(200).packet(n=2000 + 10 * hundredths).report(1).packet(n=1)
    log.truth(block=0, label=1).packet(200).packet(n=2001 + 10 * hundredths).report(1)
    assert [right[0] for right in rights(log)] == [True, False]


def test_a_report_is_judged_by_its_number_not_by_what_was_in_time(new_log):
    log = trial(new_log("mi").truth(blocks=[[1]]), (60, 2), (61, 1), (62, 1))
    assert rights(log) == [(False, True, True)]


def test_an_unreadable_report_uses_up_its_turn(new_log):
    log = trial(new_log("mi").truth(blocks=[[1]]), (10, None), (10, 1))
    assert rights(log) == [(False, True, False)]


def test_reports_beyond_three_are_ignored(new_log):
    log = trial(new_log("mi").truth(blocks=[[1]]), (1, 1), (1, 1), (1, 2), (1, 1))
    assert rights(log) == [(True, True, False)]
    assert [a.right for a in log.run().verdicts()[0].answers] == [True, True, False, None]


def test_a_report_on_the_next_trials_trigger_packet_counts_for_none(new_log):
    log = new_log("mi").truth(blocks=[[1, 2]]).packet(200).packets(2).packet(200).report(1)
    log.packet().report(2).report(2).report(2)
    assert rights(log) == [(False,) * 3, (True,) * 3]
    assert len(log.run().refusals()) == 1


def test_a_report_in_the_rest_counts_for_none(new_log):
    log = trial(new_log("mi").truth(blocks=[[1, 1]]), (1, 1)).packet().report(1).report(1)
    trial(log, (1, 1), (1, 1), (1, 1))
    assert rights(log) == [(True, False, False), (True,) * 3]


def test_a_241_in_the_trials_own_trigger_packet_closes_it(new_log):
    log = new_log("mi").truth(blocks=[[1]]).packet((3, 200), (5, 241)).packet().report(1)
    assert rights(log) == [(False,) * 3]


def test_a_241_before_the_trigger_in_its_packet_is_the_trial_befores(new_log):
    log = new_log("mi").truth(blocks=[[1]]).packet((5, 200), (3, 241)).packet().report(1)
    assert rights(log) == [(True, False, False)]


@pytest.mark.parametrize("code", [11, 21, 31, 12, 202, 203, 201, 199])
def test_only_200_begins_a_trial(new_log, code):
    log = new_log("mi").truth(blocks=[[1]]).packet(code).packet().report(1)
    assert rights(log) == [(False,) * 3]
    assert len(log.run().refusals()) == 1


def test_score_is_the_mean_of_three_rates(new_log):
    log = new_log("mi").truth(blocks=[[1, 2], [3]])
    trial(log.packet(242), (50, 1), (75, 1), (99, 1))
    trial(log, (50, 2), (75, 2), (99, 1))
    trial(log.packet(243).packet(242), (50, 3), (75, 1), (99, 3))
    two_of_three = log2(3) + 2 / 3 * log2(2 / 3) + 1 / 3 * log2(1 / 3 / 2)
    expected = (60 / 2 * log2(3) + 60 / 3 * two_of_three + 60 / 4 * two_of_three) / 3
    assert log.score() == pytest.approx(expected, abs=1e-12)


def test_one_of_three_scores_nothing(new_log):
    log = new_log("mi").truth(blocks=[[1, 2, 3]])
    for _ in range(3):
        trial(log, (50, 1), (75, 1), (99, 1))
    assert log.score() == 0


def test_missing_trials_are_in_the_denominator(new_log):
    log = trial(new_log("mi").truth(blocks=[[1, 1]]), (50, 1), (75, 1), (99, 1))
    half = log2(3) + 0.5 * log2(0.5) + 0.5 * log2(0.25)
    assert log.score() == pytest.approx(half * (30 + 20 + 15) / 3, abs=1e-12)


def test_a_missing_trial_is_told_from_one_without_reports(new_log):
    log = new_log("mi").truth(blocks=[[1, 1]]).packet(200)
    reasons = [[describe(answer.reason) for answer in v.answers] for v in log.run().verdicts()]
    assert reasons == [
        ["no report 1", "no report 2", "no report 3"],
        ["missing: its trigger never came"] * 3,
    ]


def test_sessions_are_averaged(new_log):
    log = trial(new_log("mi").truth(blocks=[[1]]), (50, 1), (75, 1), (99, 1))
    log.session("S02").truth(blocks=[[1]])
    assert [s["score"] for s in log.run().result()["sessions"]] == [
        pytest.approx(log2(3) * 65 / 3),
        0,
    ]
    assert log.score() == pytest.approx(log2(3) * 65 / 6)


def test_a_rate_that_is_no_whole_number_has_exact_limits(new_log):
    log = new_log("mi", rate=512.5, n=1).truth(blocks=[[1, 1]])
    log.packet(200).packet(n=1025).report(1).packet(200).packet(n=1026).report(1)
    assert [right[0] for right in rights(log)] == [True, False]


def test_facts_of_the_document():
    track = mi.TRACK
    assert (track.rate, track.packet_samples, len(track.leads)) == (1000, 40, 64)
    assert track.classes == {1: "left", 2: "right", 3: "feet"}
    assert track.unit == "bits/min"
    assert (mi.CUE_S, mi.IMAGERY_S, mi.REST_S) == (2, 4, 2)
    assert mi.LIMITS_S == (2, 3, 4)
    assert track.rules["window_tolerance_s"] == 0


@pytest.mark.parametrize(("class_names", "right"), [(True, True), (False, False)])
def test_words_are_read_where_the_contest_takes_them(new_log, class_names, right):
    log = new_log("mi", rules={"class_names": class_names}).truth(blocks=[[1]])
    assert rights(trial(log, (50, "Left"), (60, 1), (99, "1"))) == [(right, True, True)]


def test_the_score_is_explained_report_by_report(new_log):
    log = trial(new_log("mi").truth(blocks=[[1]]), (50, 1), (60, 2), (99, 1))
    assert mi.explain(log.run().verdicts()) == [
        "report 1, T = 2 s: 1 of 1 right, 47.5489 bits/min",
        "report 2, T = 3 s: 0 of 1 right, 0.0000 bits/min",
        "report 3, T = 4 s: 1 of 1 right, 23.7744 bits/min",
    ]
    assert mi.explain(new_log("mi").run().verdicts()) == []
