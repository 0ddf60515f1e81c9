"""turing, rule by rule."""

import pytest

from tracks import turing
from tracks.common.words import describe


def trial(log, packets, result, code=16):
    """One trial: its trigger, then a report after so many packets; None for no report."""
    log.packet(code)
    log.packets(packets)
    return log if result is None else log.report(result)


def outcome(log):
    return [(v.right[0], v.charged_s) for v in log.run().verdicts() if v.scored]


@pytest.mark.parametrize("code", range(8, 80))
def test_codes_8_to_79_begin_a_trial(new_log, code):
    assert outcome(trial(new_log("turing").truth(blocks=[[1]]), 1, 1, code)) == [(True, 0.04)]


@pytest.mark.parametrize("code", [0, 1, 7, 80, 127, 128, 136, 200, 240, 241, 242, -8])
def test_other_codes_begin_none(new_log, code):
    assert outcome(trial(new_log("turing").truth(blocks=[[1]]), 1, 1, code)) == [(False, 5.0)]


def test_the_first_report_counts(new_log):
    log = trial(new_log("turing").truth(blocks=[[1, 1]]), 1, 2).report(1)
    assert outcome(trial(log, 1, 1).report(2)) == [(False, 0.04), (True, 0.04)]


@pytest.mark.parametrize(("packets", "right"), [(124, True), (125, False), (126, False)])
def test_used_data_must_be_below_5_s(new_log, packets, right):
    log = trial(new_log("turing").truth(blocks=[[1]]), packets, 1)
    assert outcome(log) == [(right, packets * 0.04)]


def test_one_sample_less_than_5_s_is_in_time(new_log):
    log = new_log("turing").truth(blocks=[[1, 1]]).packet(16).packet(n=1249).report(1)
    assert outcome(log.packet(16).packet(n=1250).report(1)) == [(True, 4.996), (False, 5.0)]


def test_a_late_report_is_wrong_and_charged_with_what_was_used(new_log):
    log = trial(new_log("turing").truth(blocks=[[1]]), 300, 1)
    assert outcome(log) == [(False, 12.0)]
    assert "must be below 5.00 s" in describe(log.run().verdicts()[0].reasons)


def test_a_late_report_may_come_in_the_next_block_before_its_first_trial(new_log):
    log = new_log("turing").truth(blocks=[[1], [2]]).packet(242, 16).packets(4).packet(243)
    log.packet(242).report(1)
    assert outcome(log) == [(True, 0.24), (False, 5.0)]


def test_240_and_241_begin_and_end_nothing(new_log):
    log = new_log("turing").truth(blocks=[[1]]).packet(240).packet(16).packet(241).packet(240)
    assert outcome(log.report(1)) == [(True, 0.08)]


def test_after_the_next_trigger_packet_a_report_is_the_next_trials(new_log):
    log = new_log("turing").truth(blocks=[[1, 2]]).packet(16).packets(5).packet(16).packet()
    assert outcome(log.report(1)) == [(False, 5.0), (False, 0.04)]


@pytest.mark.parametrize(
    ("trials", "needed"),
    [
        (1, 1),
        (2, 2),
        (3, 3),
        (4, 4),
        (5, 4),
        (6, 5),
        (10, 8),
        (11, 9),
        (15, 12),
        (25, 20),
        (30, 24),
    ],
)
def test_four_fifths_rounded_up_must_be_right(trials, needed):
    assert turing.needed(trials) == needed


def test_a_block_scores_200_n_over_l_up_to_the_trial_that_reaches_n(new_log):
    log = new_log("turing").truth(blocks=[[1, 1, 1, 1, 1]])
    for packets, result in [(10, 1), (20, 2), (30, 1), (40, 1), (50, 1)]:
        trial(log, packets, result)
    assert log.score() == pytest.approx(200 * 4 / 6.0, abs=1e-12)


def test_trials_after_the_goal_cost_nothing(new_log):
    log = new_log("turing").truth(blocks=[[1, 1, 1, 1, 1]])
    for packets, result in [(10, 1), (10, 1), (10, 1), (10, 1), (120, 2)]:
        trial(log, packets, result)
    assert log.score() == pytest.approx(200 * 4 / 1.6, abs=1e-12)


def test_a_block_that_never_reaches_n_scores_0(new_log):
    log = new_log("turing").truth(blocks=[[1, 1, 1, 1, 1]])
    for result in (1, 1, 1, 2, 2):
        trial(log, 10, result)
    assert log.score() == 0


def test_an_unreported_trial_is_charged_5_s(new_log):
    log = new_log("turing").truth(blocks=[[1, 1, 1, 1, 1]])
    for result in (None, 1, 1, 1, 1):
        trial(log, 25, result)
    assert log.score() == pytest.approx(200 * 4 / 9.0, abs=1e-12)


def test_the_charge_of_a_missing_trial_is_a_rule_of_the_contest(new_log):
    log = new_log("turing", rules={"missing_trial_s": 7}).truth(blocks=[[1, 1]])
    assert outcome(trial(log, 1, None)) == [(False, 7.0), (False, 7.0)]


def test_a_session_is_the_mean_over_its_labelled_blocks(new_log):
    log = new_log("turing").truth(blocks=[[1], [2], [3]])
    trial(log.packet(242), 25, 1)
    trial(log.packet(242), 50, 2)
    assert log.score() == pytest.approx((200 / 1.0 + 200 / 2.0 + 0) / 3, abs=1e-12)


def test_while_a_block_runs_the_score_is_200_correct_over_l(new_log):
    log = new_log("turing").truth(blocks=[[1] * 10])
    for result in (1, 2, 1):
        trial(log, 25, result)
    run = log.packet(16).packet().run()
    assert run.standing().score == pytest.approx(200 * 2 / 3.0)
    assert run.result()["score"] == 0


def test_blocks_that_ended_count_as_they_ended_while_the_next_one_runs(new_log):
    log = new_log("turing").truth(blocks=[[1, 1], [1, 1, 1]])
    trial(trial(log.packet(242), 25, 1), 25, 2)
    trial(log.packet(242), 25, 1)
    run = log.packet(16).packet().run()
    assert run.standing().score == pytest.approx((0 + 200) / 2)


def test_a_session_without_a_verdict_stands_at_0(new_log):
    assert new_log("turing").truth(blocks=[[1]]).run().standing().score == 0
    assert turing.running([]) == 0


def test_what_used_no_data_scores_no_infinity(new_log):
    log = new_log("turing").truth(blocks=[[1]]).packet(16).packet(n=0).report(1)
    assert log.score() == 0


def test_another_rate_has_its_own_seconds(new_log):
    log = new_log("turing", rate=256.0, n=10).truth(blocks=[[1, 1]])
    log.packet(16).packet(n=1279).report(1).packet(16).packet(n=1280).report(1)
    assert outcome(log) == [(True, 1279 / 256), (False, 5.0)]


def test_a_missing_trial_is_told_from_one_without_a_report(new_log):
    log = new_log("turing").truth(blocks=[[1, 1]]).packet(16).packet()
    assert [describe(verdict.reasons) for verdict in log.run().verdicts()] == [
        "no report: wrong, charged 5 s",
        "missing: its trigger never came: wrong, charged 5 s",
    ]


def test_facts_of_the_document():
    track = turing.TRACK
    assert (track.rate, track.packet_samples, len(track.leads)) == (250, 10, 64)
    assert list(track.classes.values()) == [
        *("Left-MI", "Right-MI", "Left-SSVEP", "Right-SSVEP"),
        *("Pass-SSVEP", "Shoot-SSVEP", "Idle"),
    ]
    assert {b: set(tasks) for b, tasks in turing.TASKS_OF_BEHAVIOUR.items()} == {
        1: {1, 3, 7},
        2: {1, 2, 3, 4},
        3: {1, 2, 3, 4},
        4: {2, 4, 7},
        5: {5, 7},
        6: {6, 3, 1, 7},
        7: {6, 4, 2, 7},
        8: {6, 3, 1, 7},
        9: {6, 4, 2, 7},
    }
    assert turing.SSVEP_HZ == {3: 15.4, 4: 15.5, 5: 15.6, 6: 15.7}
    assert (turing.CUE_S, turing.TASK_S, turing.ACTION_S) == (3, 5, 5)
    assert turing.behaviour_of(79) == 9
    assert turing.behaviour_of(80) is None


@pytest.mark.parametrize(("packets", "right"), [(124, True), (125, True), (126, False)])
def test_exactly_5_s_are_in_time_where_the_contest_says_so(new_log, packets, right):
    log = trial(new_log("turing", rules={"limit_inclusive": True}).truth(blocks=[[1]]), packets, 1)
    assert outcome(log) == [(right, packets * 0.04)]
    if not right:
        assert describe(log.run().verdicts()[0].reasons) == "report at 5.04 s: limit 5.00 s"


def test_the_score_is_explained_block_by_block(new_log):
    log = new_log("turing").truth(blocks=[[1, 1], [1], [2]]).packet(242)
    trial(trial(log, 25, 1), 50, 1).packet(242)
    trial(trial(log, 25, 2).packet(242), 10, 2)
    assert turing.explain(log.run().verdicts()) == [
        "block 1: 2 of 2 right, 2 needed and reached with 3.00 s: 200 * 2 / L = 133.3333",
        "block 2: 0 of 1 right, 1 needed: 0",
        "block 3: 1 of 1 right, 1 needed and reached with 0.40 s: 200 * 1 / L = 500.0000",
    ]


def test_a_block_that_took_no_time_scores_nothing(new_log):
    """Packets without a sample are no data: there is nothing to divide by."""
    log = new_log("turing", n=0).truth(blocks=[[1]])
    trial(log, 1, 1)
    run = log.run()
    assert run.verdicts()[0].charged_s == 0
    assert (turing.score(run.verdicts()), turing.running(run.verdicts())) == (0, 0)
    assert turing.explain(run.verdicts()) == ["block 1: 1 of 1 right, 1 needed: 0"]
