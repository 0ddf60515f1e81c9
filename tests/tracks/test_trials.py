"""Which trial a report belongs to, how much data it used, and which label is a trial's."""

import pytest

from tracks.common.words import describe
from tracks.errors import RuleError

RIGHT_TURING = 16  # a code that begins a trial of turing


def charged(log):
    """(right, charged seconds) of each scored trial, in order."""
    return [(v.right[0], v.charged_s) for v in log.run().verdicts() if v.scored]


def test_used_data_are_the_packets_after_the_trigger_packet(new_log):
    log = new_log("turing").truth(blocks=[[1]]).packet(16).packets(3).report(1)
    assert charged(log) == [(True, 0.12)]


def test_used_data_count_samples_so_a_short_packet_is_short(new_log):
    log = new_log("turing").truth(blocks=[[1]]).packet((9, 16)).packet(n=10).packet(n=3).report(1)
    assert charged(log) == [(True, 13 / 250)]


def test_a_report_on_the_trigger_packet_is_the_previous_trials(new_log):
    log = new_log("turing").truth(blocks=[[1, 2]])
    log.packet(16).packets(2).packet(16).report(1).packet().report(2)
    assert charged(log) == [(True, 0.12), (True, 0.04)]


def test_a_report_on_the_first_trigger_packet_is_refused_and_uses_up_nothing(new_log):
    log = new_log("turing").truth(blocks=[[1]]).packet(16).report(2).packet().report(1)
    assert charged(log) == [(True, 0.04)]
    assert [(r.after_packet, r.result) for r in log.run().refusals()] == [(1, 2)]


def test_a_report_before_any_packet_is_refused(new_log):
    log = new_log("turing").truth(blocks=[[1]]).report(2).packet(16).packet().report(1)
    assert charged(log) == [(True, 0.04)]


def test_of_two_triggers_in_a_packet_the_later_trial_takes_the_reports(new_log):
    log = new_log("turing").truth(blocks=[[1, 2]]).packet((1, 16), (5, 16)).packet().report(2)
    assert charged(log) == [(False, 5.0), (True, 0.04)]


def test_on_a_packet_with_two_triggers_a_report_is_still_the_trial_befores(new_log):
    log = new_log("turing").truth(blocks=[[1, 2, 3]])
    log.packet(16).packet().packet((1, 16), (5, 16)).report(1).packet().report(3)
    assert charged(log) == [(True, 0.08), (False, 5.0), (True, 0.04)]


def test_triggers_act_in_order_of_their_offset_not_of_the_list(new_log):
    log = new_log("turing").truth(blocks=[[1], [2]])
    log.packet(242).packet((8, 16), (2, 242)).packet().report(2)
    assert charged(log) == [(False, 5.0), (True, 0.04)]


def test_triggers_at_one_offset_act_as_listed(new_log):
    log = new_log("turing").truth(blocks=[[1], [2]])
    log.packet(242).packet((2, 16), (2, 242)).packet().report(1)
    assert charged(log) == [(True, 0.04), (False, 5.0)]


def test_block_k_begins_at_the_kth_242(new_log):
    log = new_log("turing").truth(blocks=[[1], [2]])
    log.packet(242, 16).packet().report(1).packet(243).packet(242).packet(16).packet().report(2)
    assert charged(log) == [(True, 0.04), (True, 0.04)]


def test_triggers_before_any_242_are_block_0s_and_so_are_those_after_the_first(new_log):
    log = new_log("turing").truth(blocks=[[1, 2]])
    log.packet(16).packet().report(1).packet(242).packet(16).packet().report(2)
    assert charged(log) == [(True, 0.04), (True, 0.04)]


def test_blocks_are_counted_anew_in_each_session(new_log):
    log = new_log("turing").truth(blocks=[[1]]).packet(242, 16).packet().report(1)
    log.session("S02").truth(blocks=[[2]]).packet(242, 16).packet().report(2)
    assert charged(log) == [(True, 0.04), (True, 0.04)]


def test_a_session_begins_without_a_trial(new_log):
    log = new_log("turing").truth(blocks=[[1]]).packet(16).packet().report(1)
    log.session("S02").truth(blocks=[[2]]).report(2).packet().report(2).packet(16).report(2)
    assert charged(log) == [(True, 0.04), (False, 5.0)]
    assert len(log.run().refusals()) == 3


def test_a_label_without_a_trigger_is_a_missing_trial(new_log):
    log = new_log("turing").truth(blocks=[[1, 2], [3]]).packet(242, 16).packet().report(1)
    assert charged(log) == [(True, 0.04), (False, 5.0), (False, 5.0)]
    assert "trigger never came" in describe(log.run().verdicts()[-1].reasons)


def test_a_trigger_without_a_label_takes_its_reports_and_is_not_scored(new_log):
    log = new_log("turing").truth(blocks=[[1]])
    log.packet(16).packet().packet(16).packet().report(1).report(1)
    assert charged(log) == [(False, 5.0)]
    assert [v.scored for v in log.run().verdicts()] == [True, False]


def test_a_block_without_labels_is_left_out(new_log):
    log = new_log("turing").truth(blocks=[[1], [], [2]])
    log.packet(242, 16).packet().report(1)
    log.packet(242, 16).packet().report(1)
    log.packet(242, 16).packet().report(2)
    assert charged(log) == [(True, 0.04), (True, 0.04)]
    assert log.score() == pytest.approx(200 / 0.04)


def test_labels_are_read_like_results(new_log):
    log = new_log("mi").truth(blocks=[["Left", " 2.0 ", 3.0]])
    for answer in (1, 2, 3):
        log.packet(200).packet().report(answer).report(answer).report(answer).packet(241)
    assert [v.right for v in log.run().verdicts()] == [(True,) * 3] * 3


@pytest.mark.parametrize("label", [None, 9, "x", True])
def test_a_label_that_names_no_class_makes_every_answer_wrong(new_log, label):
    log = new_log("turing").truth(blocks=[[label]]).packet(16).packet().report(label)
    assert charged(log) == [(False, 0.04)]


def test_what_cannot_be_read_is_wrong_and_uses_up_the_report(new_log):
    log = new_log("turing").truth(blocks=[[1]]).packet(16).packet().report(None).packet().report(1)
    assert charged(log) == [(False, 0.04)]


@pytest.mark.parametrize("code", [0, 4, 7, 80, 88, 120, 127, 240, 241, 243, 244, 250, 251])
def test_any_other_code_has_no_effect(new_log, code):
    plain = new_log("turing").truth(blocks=[[1]]).packet(16).packet().report(1)
    noisy = new_log("turing").truth(blocks=[[1]]).packet(code, 16, code).packet(code).report(1)
    assert charged(noisy) == charged(plain)


def test_truth_accumulates_anywhere_in_its_session(new_log):
    log = new_log("turing").packet(242, 16).packet().report(1).truth(block=0, label=1)
    log.packet(242, 16).packet().report(2).packet(16).packet().report(3)
    log.truth(blocks=[[], [2]]).truth(block=1, label=3)
    assert charged(log) == [(True, 0.04)] * 3


def test_blocks_extends_what_came_before(new_log):
    log = new_log("turing").truth(block=0, label=1).truth(blocks=[[2], [3]])
    assert [(v.block, v.trial, v.label) for v in log.run().verdicts()] == [
        (0, 0, "Left-MI"),
        (0, 1, "Right-MI"),
        (1, 0, "Left-SSVEP"),
    ]


def test_a_verdict_falls_when_the_trial_is_over_and_its_label_known(new_log):
    log = new_log("turing").packet(16).packet().report(1).truth(block=0, label=1).packet(16)
    run = log.run()
    assert run.sessions[0].given == []
    given = run.feed({"kind": "packet", "start": 0, "n": 10, "triggers": []})
    assert [(v.trial, v.right) for v in given] == [(0, (True,))]


def given_with(log, code):
    """The verdicts that fall with a packet that carries a code."""
    run = log.run()
    assert run.sessions[0].given == []
    return len(run.feed({"kind": "packet", "start": 0, "n": 10, "triggers": [[0, code]]}))


@pytest.mark.parametrize(
    ("track", "begin", "reports"), [("mi", 200, 3), ("turing", 16, 1), ("erp", 101, 1)]
)
def test_with_its_241_a_trial_that_has_all_its_answers_is_over(new_log, track, begin, reports):
    def log(count):
        trial = new_log(track).truth(blocks=[[1]]).packet(begin).packet()
        for _ in range(count):
            trial.report(1)
        return trial

    assert given_with(log(reports), 241) == 1
    assert given_with(log(reports - 1), 241) == 0
    assert given_with(log(reports), 99) == 0
    assert log(reports).packet(241).run().standing().open is None
    assert log(reports).run().standing().open is not None


def test_an_answer_after_the_241_ends_the_trial_too(new_log):
    run = new_log("erp").truth(blocks=[["A"]]).packet(101).packet(241).run()
    assert len(run.feed({"kind": "report", "result": "A"})) == 1


def test_a_label_that_comes_after_the_trial_is_over_brings_the_verdict_at_once(new_log):
    run = new_log("turing").packet(16).packet().report(1).packet(241).run()
    assert [v.right for v in run.feed({"kind": "truth", "block": 0, "label": 1})] == [(True,)]
    assert not run.decision_due


def test_a_late_label_brings_the_verdict(new_log):
    run = new_log("turing").packet(16).packet().report(1).packet(16).packet().run()
    given = run.feed({"kind": "truth", "block": 0, "label": 1})
    assert [(v.trial, v.right) for v in given] == [(0, (True,))]


def test_the_end_brings_the_verdicts_that_are_missing(new_log):
    run = new_log("turing").truth(blocks=[[1, 2]]).packet(16).packet().report(1).run()
    given = run.feed({"kind": "end", "reason": "finished"})
    assert [(v.trial, v.right) for v in given] == [(0, (True,)), (1, (False,))]


def test_a_flood_of_reports_is_not_kept(new_log):
    log = new_log("turing").truth(blocks=[[1]]).packet(16).packet()
    for _ in range(1500):
        log.report(2)
    run = log.run()
    assert len(run.verdicts()[0].answers) == 100
    assert run.result()["sessions"][0]["refused"] == 1400
    assert len(run.refusals()) == 1000


@pytest.mark.parametrize(
    "fields",
    [
        {"blocks": 3},
        {"blocks": [1, 2]},
        {"block": -1, "label": 1},
        {"block": "0", "label": 1},
        {"label": 1},
    ],
)
def test_broken_truth_is_refused(new_log, fields):
    with pytest.raises(RuleError, match="`block"):
        new_log("turing").truth(**fields).run()
