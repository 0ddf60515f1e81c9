"""What the documents leave open was decided; a contest file can decide each point otherwise."""

from math import log2
from typing import Any

import pytest

from tracks.common.angles import ANGLE_RATE
from tracks.common.truth import read_truth
from tracks.common.words import describe
from tracks.erp import CHARACTERS
from tracks.errors import RuleError
from tracks.registry import TRACKS

COMMON = {"void_reasons", "outage"}
NAMED = {
    "mi": {"window_tolerance_s", "class_names", "profile"},
    "turing": {"limit_inclusive", "missing_trial_s", "end_closes_trial"},
    "emotion": {"decision_limit_s", "grid_after_packet", "end_packet_counts", "restart_ends_block"},
    "ecog": {
        *("packet_s", "short_report_held", "long_report_cut", "missing_report_held"),
        *("initial_angle", "constant_corr", "constant_nrmse", "block_codes"),
    },
    "erp": {
        *("characters", "numbers_read", "sequence_s", "missing_trial_s", "half_scores_zero"),
        "block_codes",
    },
}
"""Every point that rules.md marks as decided, by its name in the contest file."""

BACKWARDS = CHARACTERS[::-1]


@pytest.mark.parametrize("track", TRACKS)
def test_every_decided_point_has_its_name(track):
    assert set(TRACKS[track].rules) == NAMED[track] | COMMON


@pytest.mark.parametrize(
    ("track", "changes", "words"),
    [
        ("mi", {"class_names": 1}, "class_names must be true or false, got 1"),
        ("erp", {"characters": "ABC"}, "characters must be .* in some order, got 'ABC'"),
        ("erp", {"characters": 36}, "characters must be .* in some order, got 36"),
        ("erp", {"sequence_s": "2"}, "sequence_s must be a number, got '2'"),
        ("mi", {"void_reasons": "timeout"}, "void_reasons must be a list of strings"),
        ("mi", {"void_reasons": [1]}, "void_reasons must be a list of strings"),
        ("mi", {"outage": "off"}, 'outage must be "void" or "stand", got \'off\''),
        ("emotion", {"outage": True}, 'outage must be "void" or "stand", got True'),
        ("ecog", {"outage": ["void"]}, 'outage must be "void" or "stand", got'),
    ],
)
def test_a_rule_that_can_not_be_is_refused_by_name(track, changes, words):
    with pytest.raises(RuleError, match=words):
        TRACKS[track].under(changes)


def test_a_change_leaves_the_track_itself_as_it_is():
    changed = TRACKS["erp"].under({"sequence_s": 2.0, "unknown": 1, "block_codes": None})
    assert (changed.rules["sequence_s"], changed.rules["block_codes"]) == (2.0, True)
    assert "unknown" not in changed.rules
    assert TRACKS["erp"].rules["sequence_s"] == 1.8


# --- turing ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("closes", "charged_s", "refused"), [(False, 0.12, 0), (True, 5.0, 1)])
def test_turing_241_may_close_a_trial(new_log, closes, charged_s, refused):
    log = new_log("turing", rules={"end_closes_trial": closes}).truth(blocks=[[1, 1]])
    run = log.packet(9).packet().packet(241).packet().report(1).end().run()
    assert run.verdicts()[0].charged_s == pytest.approx(charged_s)
    assert len(run.refusals()) == refused


def test_turing_on_the_packet_with_241_a_report_still_counts(new_log):
    log = new_log("turing", rules={"end_closes_trial": True}).truth(blocks=[[1]])
    assert log.packet(9).packet(241).report(1).end().score() == pytest.approx(200 / 0.04)


# --- emotion -----------------------------------------------------------------------------------


def emotion_log(new_log, clip: tuple[int, int], **rules: Any):
    start, end = clip
    clips = [{"block": 0, "start": start, "end": end, "label": 1}]
    return new_log("emotion", rules=rules).truth(clips=clips)


@pytest.mark.parametrize(("after_packet", "share"), [(True, 0.0), (False, 1.0)])
def test_emotion_the_grid_may_begin_at_the_242_itself(new_log, after_packet, share):
    # The 242 is at sample 10, its packet ends at 50. Second 0 is 50-300, or 10-260; the clip less
    # a second at both ends is 10-260.
    log = emotion_log(new_log, (10 - 250, 260 + 250), grid_after_packet=after_packet)
    run = log.packet((10, 242)).packets(5).report(1).end().run()
    verdict = run.verdicts()[0]
    assert (verdict.share, verdict.scored) == (share, not after_packet)


@pytest.mark.parametrize("codes", [(243,), (7, 243)])
@pytest.mark.parametrize(("counts", "score"), [(True, 1.0), (False, 0.0)])
def test_emotion_the_packet_with_243_may_be_no_part_of_its_block(new_log, counts, score, codes):
    log = emotion_log(new_log, (50 - 250, 300 + 250), end_packet_counts=counts)
    log.packet(242).packets(4).packet(*codes).report(1)
    assert log.end().score() == score


@pytest.mark.parametrize("codes", [(), (7,)])
def test_emotion_the_packets_before_it_are_part_of_it_all_the_same(new_log, codes):
    log = emotion_log(new_log, (50 - 250, 300 + 250), end_packet_counts=False)
    log.packet(242).packets(4).packet(*codes).report(1).packet(243)
    assert log.end().score() == 1


@pytest.mark.parametrize(("ends", "score"), [(True, 0.0), (False, 1.0)])
def test_emotion_a_block_may_go_on_though_start_goes_back(new_log, ends, score):
    log = emotion_log(new_log, (50 - 250, 300 + 250), restart_ends_block=ends).packet(242)
    log.packets(2)
    log.position = 0
    assert log.packets(3).report(1).end().score() == score


# --- ecog --------------------------------------------------------------------------------------


def ecog_log(new_log, **rules: Any):
    angles = [[float(row + joint) for joint in range(8)] for row in range(16)]
    return new_log("ecog", rules=rules).truth(angles=angles), angles


def test_ecog_a_packet_may_be_longer_or_shorter():
    track = TRACKS["ecog"]
    assert track.packet_samples_at(1000) == 40
    assert track.under({"packet_s": 0.1}).packet_samples_at(1000) == 100
    assert track.under({"packet_s": 0.1}).packet_samples_at(ANGLE_RATE) == 20
    with pytest.raises(RuleError, match="packet_s must be above 0 s, got 0"):
        track.under({"packet_s": 0}).packet_samples_at(1000)


@pytest.mark.parametrize(
    ("rule", "rows", "words"),
    [
        ("short_report_held", 7, "7 rows; this packet has 8"),
        ("long_report_cut", 9, "9 rows; this packet has 8"),
    ],
)
def test_ecog_a_report_of_other_rows_may_be_refused(new_log, rule, rows, words):
    for taken in (True, False):
        log, angles = ecog_log(new_log, **{rule: taken})
        run = log.packet().report(angles[:rows]).end().run()
        assert [describe(refusal.reason) for refusal in run.refusals()] == (
            [] if taken else [words]
        )


@pytest.mark.parametrize("rule", ["short_report_held", "long_report_cut"])
def test_ecog_what_is_refused_uses_up_nothing_and_the_right_number_is_always_taken(new_log, rule):
    log, angles = ecog_log(new_log, **{rule: False})
    wrong = 7 if rule == "short_report_held" else 9
    log.packet().report(angles[:wrong]).report(angles[:8]).packet().report(angles[8:])
    assert log.end().score() == pytest.approx(100)


def test_ecog_a_packet_without_a_report_may_have_the_initial_angle(new_log):
    found = []
    for held in (True, False):
        log, angles = ecog_log(new_log, missing_report_held=held, initial_angle=5)
        run = log.packet().report(angles[:8]).packet().end().run()
        found.append((describe(run.verdicts()[0].reasons), run.result()["score"]))
    (held_words, held_score), (other_words, other_score) = found
    assert held_words.endswith("8 of 16 rows without a report: the last value held")
    assert other_words.endswith("8 of 16 rows without a report: 5 in their place")
    assert held_score > other_score


# --- erp ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("result", ["_", 1, 101, "101", 1.0])
def test_erp_characters_may_stand_in_another_order(new_log, result):
    log = new_log("erp", rules={"characters": BACKWARDS}).truth(blocks=[["_"]])
    verdict = log.packet(101).packet().report(result).end().run().verdicts()[0]
    assert (verdict.right, verdict.label, verdict.answers[0].class_name) == ((True,), "_", "_")


def test_erp_truth_is_read_in_that_order():
    triggers = ((0, 101), (10, 241))
    truth = read_truth(TRACKS["erp"].under({"characters": BACKWARDS}), 250, [(20, triggers)])
    assert truth["blocks"] == [["_"]]
    assert read_truth(TRACKS["erp"], 250, [(20, triggers)])["blocks"] == [["A"]]


@pytest.mark.parametrize(("result", "right"), [("A", True), (1, False), (101, False), ("1", False)])
def test_erp_numbers_may_be_no_characters(new_log, result, right):
    log = new_log("erp", rules={"numbers_read": False}).truth(blocks=[["A"]])
    assert log.packet(101).packet().report(result).end().run().verdicts()[0].right == (right,)


@pytest.mark.parametrize(("zero", "score"), [(True, 0.0), (False, 60 / 1.8 * log2(36 / 35))])
def test_erp_half_may_be_paid_to_the_letter(new_log, zero, score):
    log = new_log("erp", rules={"half_scores_zero": zero}).truth(blocks=[["A", "B"]])
    log.packet(101).packet().report("A").packet(241).packet(101).packet().report("A").packet(241)
    run = log.end().run()
    assert run.result()["score"] == pytest.approx(score, abs=1e-12)
    assert run.track.explain(run.verdicts()) == [
        "1 of 2 right: more than half must be, " + ("so 0" if zero else "so P is set to 0")
    ]


def test_erp_without_any_trial_nothing_is_paid(new_log):
    assert new_log("erp", rules={"half_scores_zero": False}).packet().end().score() == 0


# --- blocks of ecog and erp --------------------------------------------------------------------


@pytest.mark.parametrize(("codes", "blocks"), [(True, [["A"], ["B"]]), (False, [["A", "B"]])])
def test_erp_242_may_mean_nothing(new_log, codes, blocks):
    triggers = ((0, 242), (1, 101), (10, 241), (11, 242), (12, 102), (20, 241))
    track = TRACKS["erp"].under({"block_codes": codes})
    assert read_truth(track, 250, [(30, triggers)])["blocks"] == blocks
    log = new_log("erp", rules={"block_codes": codes}).truth(blocks=blocks)
    log.packet(242, 101).packet().report("A").packet(241)
    log.packet(242, 101).packet().report("B").packet(241)
    verdicts = log.end().run().verdicts()
    assert [(v.block, v.trial, v.right) for v in verdicts] == [
        (0, 0, (True,)),
        (1, 0, (True,)) if codes else (0, 1, (True,)),
    ]


def test_erp_where_242_means_nothing_a_trial_may_stand_across_it():
    triggers = ((0, 101), (5, 242), (10, 241))
    track = TRACKS["erp"].under({"block_codes": False})
    assert read_truth(track, 250, [(30, triggers)])["blocks"] == [["A"]]
    with pytest.raises(RuleError, match="a trial without 241"):
        read_truth(TRACKS["erp"], 250, [(30, triggers)])


@pytest.mark.parametrize(("codes", "block"), [(True, 1), (False, 0)])
def test_ecog_242_may_mean_nothing(new_log, codes, block):
    log, _ = ecog_log(new_log, block_codes=codes)
    run = log.packet(242).packet(242).run()
    assert run.standing().open.block == block
