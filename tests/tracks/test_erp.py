"""erp, rule by rule."""

from math import log2

import pytest

from tracks import erp
from tracks.common.verdicts import Verdict
from tracks.common.words import describe


def flashes(log, *codes):
    for code in codes:
        log.packet(code).packets(3)
    return log


def outcome(log):
    return [(v.right[0], pytest.approx(v.charged_s)) for v in log.run().verdicts() if v.scored]


def itr(p, seconds):
    wrong = (1 - p) * log2((1 - p) / 35) if p < 1 else 0
    return 60 / seconds * (log2(36) + p * log2(p) + wrong)


@pytest.mark.parametrize("code", [*range(101, 137)])
def test_codes_101_to_136_begin_a_trial(new_log, code):
    log = new_log("erp").truth(blocks=[["A"]]).packet(code).packet().report("A")
    assert outcome(log) == [(True, 1.8)]


@pytest.mark.parametrize("code", [0, 1, 12, 13, 100, 137, 200, 240, 241])
def test_other_codes_begin_none(new_log, code):
    log = new_log("erp").truth(blocks=[["A"]]).packet(code).packet().report("A")
    assert outcome(log) == [(False, 9.0)]


@pytest.mark.parametrize(("number", "sequences"), [(2, 1), (12, 1), (14, 1), (15, 2)])
def test_a_sequence_counts_from_its_third_flash(new_log, number, sequences):
    log = new_log("erp").truth(blocks=[["A"]]).packet(101)
    flashes(log, *range(1, 13)[:number])
    if number > 12:
        flashes(log, 200, *range(1, 13)[: number - 12])
    assert outcome(log.report("A")) == [(True, 1.8 * sequences)]


def test_m_is_at_least_1(new_log):
    log = new_log("erp").truth(blocks=[["A"]]).packet(101).packet().report("A")
    assert outcome(log) == [(True, 1.8)]


def test_m_is_at_most_5(new_log):
    log = new_log("erp").truth(blocks=[["A"]]).packet(101)
    for _ in range(7):
        flashes(log, 1, 2, 3, 200)
    assert outcome(log.report("A")) == [(True, 9.0)]


def test_200_alone_separates_sequences(new_log):
    log = new_log("erp").truth(blocks=[["A"]]).packet(101)
    flashes(log, *range(1, 13), *range(1, 13), 242, *range(1, 13))
    assert outcome(log.report("A")) == [(True, 1.8)]


def test_two_flashes_then_200_begin_the_count_anew(new_log):
    log = flashes(new_log("erp").truth(blocks=[["A"]]).packet(101), 1, 2, 200, 3, 4, 200)
    assert outcome(flashes(log, 1, 2, 3, 200, 1, 2, 3).report("A")) == [(True, 3.6)]


def test_flashes_count_in_the_packet_with_which_they_come(new_log):
    log = new_log("erp").truth(blocks=[["A"]]).packet((2, 101), (4, 1), (6, 2), (8, 3), (9, 200))
    assert outcome(log.packet((1, 1), (3, 2), (5, 3)).report("A")) == [(True, 3.6)]


def test_flashes_before_the_trial_trigger_are_not_its_own(new_log):
    log = new_log("erp").truth(blocks=[["A"]]).packet((1, 1), (2, 2), (3, 101)).packet(3)
    assert outcome(log.packet(200).packet(1).packet(2).report("A")) == [(True, 1.8)]


@pytest.mark.parametrize("code", [0, 13, 100, 150])
def test_other_codes_are_no_flashes(new_log, code):
    log = flashes(new_log("erp").truth(blocks=[["A"]]).packet(101), 1, 2, 3, 200, 1, 2, code)
    assert outcome(log.report("A")) == [(True, 1.8)]


def test_flashes_after_241_count_for_nothing(new_log):
    log = flashes(new_log("erp").truth(blocks=[["A"]]).packet(101), 1, 2, 3, 200, 1, 2)
    log.packet((1, 241), (2, 3)).report("A")
    assert outcome(log) == [(True, 1.8)]


def test_a_report_is_valid_up_to_and_with_the_packet_of_241(new_log):
    log = new_log("erp").truth(blocks=[["A", "B"]]).packet(101).packet().packet(241).report("A")
    assert outcome(log.packet(101).packet(241).packet().report("B")) == [(True, 1.8), (False, 9.0)]


def test_the_first_241_ends_the_trial(new_log):
    log = new_log("erp").truth(blocks=[["A"]]).packet(101).packet(241).packet(241).report("A")
    assert outcome(log) == [(False, 9.0)]


def test_a_late_report_uses_up_the_trial(new_log):
    log = new_log("erp").truth(blocks=[["A"]]).packet(101).packet(241).packet().report("A")
    assert outcome(log.report("A")) == [(False, 9.0)]
    assert "after the trial's end" in describe(log.run().verdicts()[0].reasons)


def test_a_trial_without_241_is_valid_until_the_next_one(new_log):
    log = new_log("erp").truth(blocks=[["A", "B"]]).packet(101).packets(500).packet(101).report("A")
    assert outcome(log.packet().report("B")) == [(True, 1.8), (True, 1.8)]


def test_on_the_next_trigger_packet_a_report_is_the_previous_trials_if_in_time(new_log):
    log = new_log("erp").truth(blocks=[["A", "B"]]).packet(101).packet()
    log.packet((1, 241), (5, 101)).report("A").packet().report("B")
    assert outcome(log) == [(True, 1.8), (True, 1.8)]


def test_missing_costs_9_s_and_is_wrong(new_log):
    log = new_log("erp").truth(blocks=[["A", "B"]]).packet(101).packet()
    assert outcome(log) == [(False, 9.0), (False, 9.0)]


def test_a_wrong_answer_in_time_costs_what_it_used(new_log):
    log = new_log("erp").truth(blocks=[["A", "A"]]).packet(101).packet().report("B")
    assert outcome(log.packet(101).packet().report(None)) == [(False, 1.8), (False, 1.8)]


def test_the_first_report_counts(new_log):
    log = new_log("erp").truth(blocks=[["A"]]).packet(101).packet().report("B").report("A")
    assert outcome(log) == [(False, 1.8)]


def test_times_are_rules_of_the_contest(new_log):
    log = new_log("erp", rules={"sequence_s": 2, "missing_trial_s": 12}).truth(blocks=[["A", "B"]])
    assert outcome(log.packet(101).packet().report("A")) == [(True, 2.0), (False, 12.0)]


def test_score_is_the_rate_over_the_mean_trial_time(new_log):
    log = new_log("erp").truth(blocks=[["A", "B", "C"]]).packet(101).packet().report("A")
    log.packet(101)
    flashes(log, 1, 2, 3, 200, 1, 2, 3).report("B").packet(101)
    assert log.score() == pytest.approx(itr(2 / 3, (1.8 + 3.6 + 9) / 3), abs=1e-12)


def test_all_right_with_one_sequence(new_log):
    log = new_log("erp").truth(blocks=[["A"]]).packet(101).packet().report("a")
    assert log.score() == pytest.approx(60 / 1.8 * log2(36), abs=1e-12)


def test_half_right_scores_nothing(new_log):
    log = new_log("erp").truth(blocks=[["A", "B"]]).packet(101).packet().report("A")
    assert log.score() == 0


def test_labels_may_be_any_spelling_of_a_character(new_log):
    log = new_log("erp").truth(blocks=[["1", 1, "101", "z", " _ "]])
    for answer in (27, "A", 1.0, 26, 136):
        log.packet(101).packet().report(answer)
    assert outcome(log) == [(True, 1.8)] * 5


def test_a_missing_trial_is_told_from_one_without_a_report(new_log):
    log = new_log("erp").truth(blocks=[["A", "A"]]).packet(101).packet()
    assert [describe(verdict.reasons) for verdict in log.run().verdicts()] == [
        "no report: wrong, charged 9 s",
        "missing: its trigger never came: wrong, charged 9 s",
    ]


def test_facts_of_the_document():
    track = erp.TRACK
    assert (track.rate, track.packet_samples, len(track.leads)) == (250, 10, 64)
    assert "".join(track.classes.values()) == "ABCDEFGHIJKLMNOPQRSTUVWXYZ123456789_"
    assert (erp.CUE_S, erp.FLASH_S, erp.GAP_S, erp.SEQUENCES) == (1.0, 0.15, 0.85, 5)
    assert (len(erp.FLASHES), erp.FLASHES_THAT_COUNT, erp.SEQUENCE_END) == (12, 3, 200)
    assert track.rules["sequence_s"] == pytest.approx(12 * erp.FLASH_S)


def test_groups_are_those_of_the_document():
    assert list(erp.GROUPS.items()) == [
        (1, "ABCDEF2"),
        (2, "GHIJKL9"),
        (3, "MNOPQR8"),
        (4, "ASTUVWX"),
        (5, "BHYZ134"),
        (6, "CIO567_"),
        (7, "DJPV"),
        (8, "EKQW3"),
        (9, "FLRX4_"),
        (10, "GMSY25"),
        (11, "NTZ69"),
        (12, "U178"),
    ]


def test_every_character_is_the_only_one_in_its_pair_of_groups():
    pairs = [tuple(g for g in erp.GROUPS if c in erp.GROUPS[g]) for c in erp.CHARACTERS]
    assert all(len(pair) == 2 for pair in pairs)
    assert len(set(pairs)) == 36


def test_the_score_is_explained(new_log):
    trials = [
        Verdict("S", 0, n, "A", (), scored=True, right=(n < 3,), charged_s=1.8 + n)
        for n in range(4)
    ]
    assert erp.explain(trials) == ["3 of 4 right, 3.3000 s a trial in the mean"]
    assert erp.explain(trials[2:]) == ["1 of 2 right: more than half must be, so 0"]
    assert erp.explain(trials[3:]) == ["0 of 1 right: more than half must be, so 0"]
