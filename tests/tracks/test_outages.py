"""Outages and voided trials, sentence by sentence of the rules."""

import copy
from itertools import pairwise

import numpy as np
import pytest

from tracks.common.words import describe
from tracks.errors import RuleError
from tracks.registry import TRACKS
from tracks.run import Run

TRIAL_TRACKS = {"mi": 200, "turing": 16, "erp": 101}


def packets_of(log, session=0):
    number, count = -1, 0
    for event in log.events:
        number += event["kind"] == "session"
        count += event["kind"] == "packet" and number == session
    return count


def occupied(log):
    """Trial -> the packets in which an outage makes it void, found by trying each."""
    found = {}
    for packet in range(packets_of(log)):
        tried = copy.deepcopy(log).outage(packet, packet).run()
        for verdict in tried.verdicts():
            if verdict.void:
                found.setdefault(verdict.key, []).append(packet)
    return found


# --- what a trial of mi, turing or erp occupies ------------------------------------------------


@pytest.mark.parametrize("track", ["mi", "erp"])
def test_a_trial_occupies_its_trigger_packet_up_to_the_packet_with_241(new_log, track):
    begin = TRIAL_TRACKS[track]
    log = new_log(track).truth(blocks=[[1, 1]]).packet(242)
    log.packet(begin).packets(3).packet(241).packets(2)
    log.packet(begin).packets(2).packet(241).packets(2).end()
    assert occupied(log) == {(0, 0): [1, 2, 3, 4, 5], (0, 1): [8, 9, 10, 11]}


def test_turing_a_trial_occupies_up_to_the_packet_with_which_it_has_5_s(new_log):
    log = new_log("turing", n=250).truth(blocks=[[1, 1]]).packet(242)
    log.packet(16).packets(2).packet(241).packets(6)  # 241 ends nothing here
    log.packet(16).packets(4).packet(n=249).packets(3).end()
    assert occupied(log) == {(0, 0): list(range(1, 7)), (0, 1): list(range(11, 18))}


@pytest.mark.parametrize(("track", "begin"), TRIAL_TRACKS.items())
def test_the_next_trials_trigger_packet_is_the_last_one_occupied(new_log, track, begin):
    log = new_log(track).truth(blocks=[[1, 1]])
    log.packet(begin).packets(2).packet(begin).packet(241).packets(2)
    if track == "turing":
        log.packet(begin)  # else the second trial is open to the end
    last = 7 if track == "turing" else 4
    wanted = {(0, 0): [0, 1, 2, 3], (0, 1): list(range(3, last + 1))}
    assert occupied(log.end()) == wanted


@pytest.mark.parametrize(("track", "begin"), TRIAL_TRACKS.items())
def test_an_unlabelled_trials_trigger_is_one_too(new_log, track, begin):
    log = new_log(track).truth(blocks=[[1]])
    log.packet(begin).packets(2).packet(begin).packets(3).packet(241).end()
    assert occupied(log) == {(0, 0): [0, 1, 2, 3]}


@pytest.mark.parametrize(("track", "begin"), TRIAL_TRACKS.items())
def test_without_an_end_a_trial_occupies_up_to_the_last_packet_of_the_session(
    new_log, track, begin
):
    log = new_log(track).truth(blocks=[[1]]).packet(begin).packets(3)
    log.session("S02").truth(blocks=[[1]]).packets(2).packet(begin).end()
    assert occupied(log) == {(0, 0): [0, 1, 2, 3]}


@pytest.mark.parametrize(("track", "begin"), TRIAL_TRACKS.items())
def test_a_blocks_end_closes_no_trial(new_log, track, begin):
    log = new_log(track).truth(blocks=[[1], [1]]).packet(242).packet(begin).packet(243).packets(2)
    log.packet(242).packet().packet(begin).packet(241).end()
    assert occupied(log)[0, 0] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("track", ["mi", "erp"])
def test_where_a_packet_begins_two_trials_the_first_occupies_that_packet_only(new_log, track):
    begin = TRIAL_TRACKS[track]
    log = new_log(track).truth(blocks=[[1, 1]]).packet()
    log.packet((0, begin), (5, begin)).packet().packet(241).packet().end()
    assert occupied(log) == {(0, 0): [1], (0, 1): [1, 2, 3]}


@pytest.mark.parametrize("track", ["mi", "erp"])
def test_a_241_acts_on_the_trial_that_was_begun_before_it_in_the_packet(new_log, track):
    begin = TRIAL_TRACKS[track]
    log = new_log(track).truth(blocks=[[1, 1]])
    log.packet((0, begin), (3, 241)).packet().packet((0, 241), (4, begin)).packet().packet(241)
    assert occupied(log.packet().end()) == {(0, 0): [0], (0, 1): [2, 3, 4]}


@pytest.mark.parametrize("track", TRIAL_TRACKS)
def test_a_label_without_a_trigger_occupies_nothing_and_only_a_void_line_voids_it(new_log, track):
    log = new_log(track).truth(blocks=[[1, 1]]).packet(TRIAL_TRACKS[track]).packet().packet(241)
    log.end()
    assert set(occupied(log)) == {(0, 0)}
    verdicts = log.void(0, 1).run().verdicts()
    assert [verdict.void for verdict in verdicts] == [False, True]


# --- how what is left is scored ----------------------------------------------------------------


def turing_trial(log, packets, result, label_of_trial=1):
    return log.truth(block=0, label=label_of_trial).packet(16).packets(packets).report(result)


def test_turing_n_and_l_are_those_of_the_trials_that_are_not_void(new_log):
    log = new_log("turing")
    for result in (1, 2, 1, 1, 2):  # 3 of 5 right: N = 4 is not reached
        turing_trial(log, 25, result)
    assert log.score() == 0
    assert log.void(0, 1).score() == 0  # 3 of 4 right, N = 4
    assert log.void(0, 4).score() == pytest.approx(200 * 3 / 3)


def test_mi_the_shares_are_over_the_trials_that_are_not_void(new_log):
    log = new_log("mi").truth(blocks=[[1, 1, 1, 1]])
    for number in range(4):
        log.packet(200).packet()
        for _ in range(3):
            log.report(1 if number else 2)
        log.packet(241)
    without = new_log("mi").truth(blocks=[[1, 1, 1]])
    for _ in range(3):
        without.packet(200).packet().report(1).report(1).report(1).packet(241)
    assert log.void(0, 0).score() == without.score() > 0


def test_erp_share_and_mean_time_are_over_the_trials_that_are_not_void(new_log):
    log = new_log("erp").truth(blocks=[["A", "A", "A"]])
    for number in range(3):
        log.packet(101).packet(1, 2, 3)
        if number:
            log.report("A")
        log.packet(241)
    without = new_log("erp").truth(blocks=[["A", "A"]])
    for _ in range(2):
        without.packet(101).packet(1, 2, 3).report("A").packet(241)
    assert log.outage(2, 2).score() == without.score() > log.score() - 1e-9


def test_a_block_with_nothing_left_is_left_out_of_the_mean(new_log):
    log = new_log("turing").truth(blocks=[[1], [1]])
    log.packet(242, 16).packets(25).report(1).packet(242, 16).packets(25).report(2)
    assert log.score() == pytest.approx(100)
    assert log.void(1).score() == pytest.approx(200)


def test_a_session_with_nothing_left_is_left_out_of_the_mean(new_log):
    log = new_log("turing").truth(blocks=[[1]]).packet(16).packets(25).report(1)
    log.session("S02").truth(blocks=[[1]]).packet(16).packets(25).report(2).end()
    result = log.void(0, session=1).run().result()
    assert result["score"] == pytest.approx(200)
    assert [session["score"] for session in result["sessions"]] == [pytest.approx(200), None]
    assert "void" not in result
    assert log.run().standing().score == pytest.approx(200)


@pytest.mark.parametrize("track", TRIAL_TRACKS)
def test_a_run_with_nothing_left_scores_0_and_is_flagged(new_log, track):
    log = new_log(track).truth(blocks=[[1]]).packet(TRIAL_TRACKS[track]).packet().report(1)
    result = log.outage(0, 0).end().run().result()
    assert (result["score"], result["void"]) == (0, True)
    assert result["sessions"][0]["score"] is None


def test_a_session_without_labels_is_not_void(new_log):
    result = new_log("mi").packet(200).packet().outage(0, 9).void(0, 0).end().run().result()
    assert result["sessions"][0]["score"] == 0
    assert "void" not in result


@pytest.mark.parametrize("reason", ["timeout", "disqualified"])
def test_a_run_that_scores_0_by_its_end_does_so_whatever_is_void_without_the_flag(new_log, reason):
    log = new_log("turing").truth(blocks=[[1]]).packet(16).packets(25).report(1)
    run = log.void(0).end(reason).run()
    assert [session["score"] for session in run.result()["sessions"]] == [0.0]
    assert (run.result()["score"], run.standing().score) == (0, 0)
    assert "void" not in run.result()


@pytest.mark.parametrize("reason", ["crashed", "stopped"])
def test_another_end_is_scored_without_what_is_void(new_log, reason):
    log = new_log("turing").truth(blocks=[[1, 1]]).packet(16).packets(25).report(1)
    assert log.end(reason).score() == 0
    assert log.void(0, 1).score() == pytest.approx(200)


def test_reports_of_a_void_trial_are_used_up_and_charge_nothing(new_log):
    """The second trial's report on its own packet is not the first one's, void or not."""
    log = new_log("turing").truth(blocks=[[1, 2]])
    log.packet(16).packets(5).report(1).packet(16).packets(10).report(2).end()
    verdicts = log.void(0, 0).run().verdicts()
    assert (verdicts[0].void, verdicts[0].charged_s, verdicts[0].right) == (True, None, ())
    assert [answer.right for answer in verdicts[0].answers] == [None]
    assert (verdicts[1].charged_s, verdicts[1].right) == (0.4, (True,))


# --- the lines -----------------------------------------------------------------------------------


def one_trial_each(new_log, track, rules=None):
    begin = TRIAL_TRACKS[track]
    log = new_log(track, rules=rules).truth(blocks=[[1], [1, 1]]).packet(242)
    log.packet(begin).packet().report(1).packet(241).packet(243).packet(242)
    return log.packet(begin).packet().report(1).packet(241).packet(243)


@pytest.mark.parametrize(
    "lines",
    [
        lambda log: log.outage(0, 0),
        lambda log: log.outage(1, 3, session=1),
        lambda log: log.outage(1, 3, session=-1),
        lambda log: log.outage(10, 999),
        lambda log: log.outage(3, 1),
        lambda log: log.outage(-9, 0),
        lambda log: log.void(2),
        lambda log: log.void(0, 1),
        lambda log: log.void(1, 2),
        lambda log: log.void(-1),
        lambda log: log.void(0, -1),
        lambda log: log.void(0, session=7),
        lambda log: log.void(0, session=-1),
    ],
)
def test_a_line_that_names_what_is_not_there_has_no_effect(new_log, lines):
    log = one_trial_each(new_log, "mi")
    assert lines(copy.deepcopy(log)).end().run().result() == log.end().run().result()


@pytest.mark.parametrize(("track", "begin"), TRIAL_TRACKS.items())
def test_a_trigger_without_a_label_stays_unscored(new_log, track, begin):
    log = new_log(track).truth(blocks=[[1]]).packet(begin).packet().report(1).packet(241)
    log.packet(begin).packet().packet(241).end()
    verdicts = log.outage(3, 9).void(0, 1).run().verdicts()
    assert [verdict.void for verdict in verdicts] == [track == "turing", False]
    assert describe(verdicts[1].reasons) == "no label: not scored"


@pytest.mark.parametrize("track", TRIAL_TRACKS)
def test_where_outages_stand_their_lines_have_no_effect(new_log, track):
    stands = one_trial_each(new_log, track, rules={"outage": "stand"})
    plain = stands.run().result()
    assert plain["sessions"][0]["void"] == 0
    assert stands.outage(0, 99).run().result() == plain
    assert stands.void(0).run().result()["sessions"][0]["void"] == 1
    voids = one_trial_each(new_log, track, rules={"outage": "void"}).outage(0, 99)
    assert voids.run().result()["sessions"][0]["void"] == 2


def test_a_void_line_without_a_trial_voids_the_block(new_log):
    verdicts = one_trial_each(new_log, "mi").void(1).end().run().verdicts()
    assert [(v.key, v.void) for v in verdicts] == [
        ((0, 0), False),
        ((1, 0), True),
        ((1, 1), True),
    ]


def test_a_trial_that_is_null_is_left_out(new_log):
    log = one_trial_each(new_log, "mi").add("void", session=0, block=1, trial=None)
    assert [verdict.void for verdict in log.run().verdicts()] == [False, True, True]


@pytest.mark.parametrize("place", range(12))
def test_where_in_the_log_a_line_stands_does_not_matter(new_log, place):
    log = new_log("turing").truth(blocks=[[1]]).packet(16).packet().report(1).packet(16)
    log.session("S02").truth(blocks=[[1, 1]]).packet(16).packet().report(1).packet(16).end()
    expected = copy.deepcopy(log).outage(0, 0, session=0).void(0, 1, session=1).run().result()
    for kind, fields in (
        ("outage", {"session": 0, "from": 0, "to": 0, "cause": ""}),
        ("void", {"session": 1, "block": 0, "trial": 1, "reason": ""}),
    ):
        log.events.insert(1 + place, {"kind": kind, **fields})
    assert log.run().result() == expected


GOOD = {"session": 0, "from": 1, "to": 2, "block": 0, "trial": 0}


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("outage", "session"),
        ("outage", "from"),
        ("outage", "to"),
        ("void", "session"),
        ("void", "block"),
        ("void", "trial"),
    ],
)
@pytest.mark.parametrize("value", ["1", 1.5, True, [1], {}])
def test_a_field_that_is_no_whole_number_is_refused_by_name(new_log, kind, name, value):
    with pytest.raises(RuleError, match=rf"`{name}` must be a whole number; got"):
        new_log("mi").add(kind, **{**GOOD, name: value}).run()


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("outage", "session"),
        ("outage", "from"),
        ("outage", "to"),
        ("void", "session"),
        ("void", "block"),
    ],
)
def test_a_field_that_is_missing_is_named(new_log, kind, name):
    fields = {key: value for key, value in GOOD.items() if key != name}
    with pytest.raises(RuleError, match=rf"a {kind} line needs the field `{name}`"):
        new_log("mi").add(kind, **fields).run()


def test_where_outages_stand_a_broken_line_is_still_refused(new_log):
    with pytest.raises(RuleError, match="`from` must be a whole number"):
        new_log("mi", rules={"outage": "stand"}).add("outage", **{**GOOD, "from": "x"}).run()


def test_a_line_before_the_run_line_is_refused():
    with pytest.raises(RuleError, match="run line must come first; got a void line"):
        Run().feed({"kind": "void", "session": 0, "block": 0})


@pytest.mark.parametrize(("cause", "shown"), [("link {down}", "link {down}"), ("", "–"), (3, "3")])
def test_the_cause_is_shown_and_no_rule_reads_it(new_log, cause, shown):
    verdicts = one_trial_each(new_log, "mi").outage(1, 1, cause=cause).run().verdicts()
    assert describe(verdicts[0].reasons) == f"void: outage ({shown})"
    assert describe(verdicts[0].reasons, "zh") == f"作废：主办方故障（{shown}）"


def test_a_cause_and_a_reason_may_be_left_out(new_log):
    log = one_trial_each(new_log, "mi").add("outage", **{"session": 0, "from": 1, "to": 1})
    log.add("void", session=0, block=1)
    words = [describe(verdict.reasons) for verdict in log.run().verdicts()]
    assert words == ["void: outage (–)", *["void: decided by the organiser (–)"] * 2]


def test_an_operators_reason_is_shown_before_an_outage(new_log):
    verdicts = one_trial_each(new_log, "mi").outage(1, 1).void(0, 0).run().verdicts()
    assert describe(verdicts[0].reasons) == "void: decided by the organiser (wrong cue)"
    assert describe(verdicts[0].reasons, "zh") == "作废：主办方裁定（wrong cue）"


# --- emotion -------------------------------------------------------------------------------------


def emotion(new_log, clips, rules=None):
    truth = [{"block": b, "start": s, "end": e, "label": 0} for b, s, e in clips]
    return new_log("emotion", rules=rules).truth(clips=truth)


def void_seconds(log):
    """Second -> the packets in which an outage makes it void, of the first clip (from second 0)."""
    found = {}
    for packet in range(packets_of(log)):
        verdict = copy.deepcopy(log).outage(packet, packet).run().verdicts()[0]
        for second, answer in enumerate(verdict.answers):
            if answer.right is None:
                found.setdefault(second, []).append(packet)
    return found


def test_emotion_a_second_occupies_its_packets_up_to_the_one_that_completes_the_next(new_log):
    log = emotion(new_log, [(0, -250, 1500)]).packet(242).packets(40)  # seconds 0-3 count
    assert void_seconds(log.end()) == {
        second: list(range(1 + 5 * second, 11 + 5 * second)) for second in range(4)
    }


@pytest.mark.parametrize("packets", [10, 11, 13, 14])
def test_emotion_at_the_end_of_a_block_it_occupies_up_to_the_blocks_last_packet(new_log, packets):
    log = emotion(new_log, [(0, -250, 1500)]).packet(242).packets(packets - 1).packet(243)
    last = packets
    expected = {0: list(range(1, 11)), 1: list(range(6, last + 1))}
    if packets > 10:
        expected[2] = list(range(11, last + 1))
    assert void_seconds(log.packets(12).end()) == expected


def test_emotion_a_second_of_which_no_packet_came_occupies_nothing(new_log):
    log = emotion(new_log, [(0, -250, 1500)]).packet(242).packets(6).end()
    run = log.outage(0, 99).run()
    verdict = run.verdicts()[0]
    assert [answer.right for answer in verdict.answers] == [None, None, False, False]
    assert (verdict.void, verdict.void_parts, verdict.share) == (False, 2, 0.0)
    assert run.result()["sessions"][0]["void_seconds"] == 2


def test_emotion_the_block_ends_where_start_goes_back(new_log):
    log = emotion(new_log, [(0, -250, 1500)]).packet(242).packets(7)
    log.position = 0
    log.packets(12).end()
    assert void_seconds(log) == {0: list(range(1, 8)), 1: [6, 7]}


def test_emotion_the_packet_with_the_next_242_is_the_last_of_the_block_before(new_log):
    log = emotion(new_log, [(0, -250, 1500)]).packet(242).packets(6).packet(242).packets(12).end()
    assert void_seconds(log) == {0: list(range(1, 8)), 1: [6, 7]}


def test_emotion_where_the_packet_with_243_is_no_part_of_the_block_it_is_not_occupied(new_log):
    log = emotion(new_log, [(0, -250, 1500)], rules={"end_packet_counts": False})
    log.packet(242).packets(6).packet(243).packets(4).end()
    assert void_seconds(log) == {0: list(range(1, 7)), 1: [6]}


def test_emotion_blocks_that_begin_in_one_packet_have_no_packets(new_log):
    log = emotion(new_log, [(0, -250, 1500), (1, -250, 1500)])
    log.packet((0, 242), (9, 242)).packets(12).end()
    assert void_seconds(log) == {}
    assert log.outage(0, 99).run().verdicts()[1].void_parts == 3


def test_emotion_a_void_second_is_left_out_above_and_below_the_line(new_log):
    log = emotion(new_log, [(0, -250, 1500)]).packet(242)
    for result in (0, 1, 0, 1):
        log.packets(5).report(result)
    log.packets(5).end()
    assert log.score() == 0.5
    assert log.outage(1, 1).score() == pytest.approx(1 / 3)
    words = describe(log.run().verdicts()[0].reasons)
    assert words.startswith("1 of 3 seconds right; second 0: void: outage (x);")


def test_emotion_a_clip_with_no_second_left_is_left_out(new_log):
    log = emotion(new_log, [(0, -250, 750), (0, 1000, 2000)]).packet(242)
    for result in (1, 1, 1, 1, 0, 0, 0):
        log.packets(5).report(result)
    assert log.end().score() == 0.5
    run = log.outage(5, 6).run()
    assert run.result()["score"] == 1
    assert (run.verdicts()[0].void, run.verdicts()[0].void_parts) == (True, 1)


def test_emotion_clips_are_counted_in_order_of_start(new_log):
    clips = [(0, 2000, 3000), (1, 0, 2000), (0, 0, 1000), (0, 1000, 2000)]
    log = emotion(new_log, clips).packet(242).packets(90).end()
    by_trial = {}
    for trial in range(4):
        verdicts = copy.deepcopy(log).void(0, trial).run().verdicts()
        by_trial[trial] = [(v.block, v.trial) for v in verdicts if v.void]
    assert by_trial == {0: [(0, 1)], 1: [(0, 2)], 2: [(0, 0)], 3: []}


def test_emotion_a_clip_that_comes_later_may_move_the_place_that_a_line_names(new_log):
    log = emotion(new_log, [(0, 1000, 2000)]).void(0, 0).packet(242).packets(60)
    run = log.run()
    assert [verdict.void for verdict in run.sessions[0].given] == [True]
    clip = {"block": 0, "start": 0, "end": 900, "label": 0}
    given = run.feed({"kind": "truth", "clips": [clip]})
    assert {verdict.trial: verdict.void for verdict in given} == {0: False, 1: True}


def test_emotion_a_clip_of_a_block_that_never_began_can_be_voided_by_a_line_only(new_log):
    log = emotion(new_log, [(0, 0, 1500), (1, 0, 1500)]).packet(242).packets(30).end()
    assert [v.void for v in log.outage(0, 99).run().verdicts()] == [True, False]
    assert [v.void for v in log.void(1, 0).run().verdicts()] == [True, True]


def test_emotion_a_clip_without_a_whole_second_has_nothing_to_void(new_log):
    run = emotion(new_log, [(0, 0, 500)]).packet(242).packets(9).void(0).end().run()
    assert not run.verdicts()[0].void
    assert run.result()["sessions"][0]["score"] == 0


# --- ecog ----------------------------------------------------------------------------------------

TRUTH = np.random.default_rng(3).normal(size=(200, 8))
GUESS = TRUTH + np.random.default_rng(4).normal(size=TRUTH.shape)


def ecog(new_log, trials=(), packets=25, n=40, rows=200):
    """Packets of n samples; a row is 5 samples."""
    log = new_log("ecog", n=n).truth(angles=TRUTH[:rows].tolist())
    log.truth(trials=[{"block": b, "start": s, "end": e} for b, s, e in trials])
    for packet in range(packets):
        first, stop = packet * n // 5, (packet + 1) * n // 5
        log.packet()
        if stop > first:
            log.report(GUESS[first:stop].tolist())
    return log


def points(rows):
    """The score of a trial of these rows."""
    x, y = TRUTH[rows], GUESS[rows]
    nrmse = np.sqrt(np.mean((x - y) ** 2, axis=0)) / np.ptp(x, axis=0)
    corr = [np.corrcoef(x[:, j], y[:, j])[0, 1] for j in range(8)]
    return 50 * (1 - nrmse.mean()) + 50 * np.mean(corr)


def test_ecog_rows_of_a_packet_in_an_outage_are_left_out_of_both_sequences(new_log):
    log = ecog(new_log).end()
    assert log.score() == pytest.approx(points(np.arange(200)))
    run = log.outage(3, 4).run()
    kept = np.r_[0:24, 40:200]
    assert run.result()["score"] == pytest.approx(points(kept), abs=1e-9)
    assert run.result()["sessions"][0]["void_rows"] == 16
    assert "16 of 200 rows left out: void: outage (x)" in describe(run.verdicts()[0].reasons)


def test_ecog_the_rows_of_a_packet_are_those_of_its_samples(new_log):
    """Packets of 13 samples: packet k holds the rows from floor(13 k / 5) on."""
    log = ecog(new_log, n=13, packets=60, rows=150).end()
    for packet in (0, 1, 2, 7, 59):
        kept = [row for row in range(150) if not packet * 13 // 5 <= row < (packet + 1) * 13 // 5]
        assert copy.deepcopy(log).outage(packet, packet).score() == pytest.approx(
            points(kept), abs=1e-9
        )


def test_ecog_a_packet_without_a_row_voids_none(new_log):
    log = ecog(new_log, n=3, packets=60, rows=36).end()
    assert log.outage(0, 0).run().result()["sessions"][0]["void_rows"] == 0


def test_ecog_rows_that_were_never_received_can_not_be_voided_by_an_outage(new_log):
    log = ecog(new_log, packets=20).end().outage(0, 99)
    result = log.run().result()
    assert result["sessions"][0]["void_rows"] == 160
    assert result["sessions"][0]["trials"] == 1
    assert log.void(0, 0).run().result()["void"] is True


@pytest.mark.parametrize(("end", "left_out"), [(17, True), (18, False)])
def test_ecog_a_trial_with_fewer_than_2_rows_left_is_left_out(new_log, end, left_out):
    log = ecog(new_log, trials=[(0, 8, end), (0, 100, 200)]).end().outage(1, 1)
    verdicts = log.run().verdicts()
    assert [verdict.void for verdict in verdicts] == [left_out, False]
    if left_out:
        assert log.score() == pytest.approx(points(np.arange(100, 200)), abs=1e-9)


def test_ecog_a_trial_of_one_row_that_no_outage_touches_is_scored_as_before(new_log):
    log = ecog(new_log, trials=[(0, 8, 9), (0, 100, 200)]).end()
    assert log.outage(20, 20).run().result()["sessions"][0]["trials"] == 2


def test_ecog_a_line_names_a_trial_by_its_place_in_its_block(new_log):
    trials = [(1, 100, 150), (0, 0, 50), (1, 60, 90), (0, 50, 60)]
    log = ecog(new_log, trials=trials).end().void(1, 1)
    assert [(v.block, v.trial) for v in log.run().verdicts() if v.void] == [(1, 1)]
    assert log.run().verdicts()[2].label == "rows 60-89"
    assert log.void(0, 1).score() == pytest.approx(
        (points(np.arange(100, 150)) + points(np.arange(50))) / 2, abs=1e-9
    )


def test_ecog_without_trials_all_rows_are_trial_0_of_block_0(new_log):
    assert ecog(new_log).void(0, 0).end().run().result()["void"] is True
    assert ecog(new_log).void(0).end().run().result()["void"] is True
    assert "void" not in ecog(new_log).void(0, 1).end().run().result()


def test_ecog_reports_in_an_outage_are_still_held(new_log):
    """The value that is held after the outage is the one that was reported in it."""
    log = new_log("ecog").truth(angles=TRUTH[:24].tolist())
    log.packet().report([[7.0] * 8]).packet().packet().end()
    run = log.outage(0, 0).run()
    assert run.sessions[0].referee._predicted.rows[8:].tolist() == [[7.0] * 8] * 16
    assert "16 of 16 rows without a report" in describe(run.verdicts()[0].reasons)


def test_ecog_the_running_score_leaves_void_rows_out(new_log):
    log = ecog(new_log, packets=21)  # the last packet's rows may still change
    assert log.run().standing().score == pytest.approx(points(np.arange(160)), abs=1e-6)
    log.outage(3, 4)
    kept = np.r_[0:24, 40:160]
    assert log.run().standing().score == pytest.approx(points(kept), abs=1e-6)
    run = ecog(new_log, packets=21).run()
    assert run.standing().score == pytest.approx(points(np.arange(160)), abs=1e-6)
    run.feed(log.events[-1])  # the same line, after the rows were measured
    assert run.standing().score == pytest.approx(points(kept), abs=1e-6)
    run.feed({"kind": "void", "session": 0, "block": 0})
    assert run.standing().score == 0


# --- live ----------------------------------------------------------------------------------------


def feed(run, kind, **fields):
    return run.feed({"kind": kind, "session": 0, **fields})


def test_a_line_after_the_verdict_revises_it(new_log):
    log = new_log("turing").truth(blocks=[[1, 1]])
    run = log.packet(16).packets(25).report(1).packet(16).packets(5).run()
    assert (run.standing().trials, run.standing().right) == (1, 1)
    (revised,) = feed(run, "outage", **{"from": 3, "to": 3, "cause": "link down"})
    assert (revised.key, revised.void, revised.scored) == ((0, 0), True, False)
    assert describe(revised.reasons) == "void: outage (link down)"
    standing = run.standing()
    assert (standing.trials, standing.right, standing.mean_used) == (0, 0, None)
    assert [verdict.void for verdict in standing.last] == [True]
    assert feed(run, "outage", **{"from": 4, "to": 4, "cause": "again"}) == []
    (revised,) = feed(run, "void", block=0, reason="wrong cue")
    assert describe(revised.reasons) == "void: decided by the organiser (wrong cue)"


def test_a_line_on_an_open_trial_gives_no_verdict_until_the_trial_is_over(new_log):
    log = new_log("turing").truth(blocks=[[1, 1]]).packet(16).packets(3).report(1)
    run = log.run()
    assert feed(run, "void", block=0, trial=0) == []
    run.feed({"kind": "packet", "start": 0, "n": 10, "triggers": [[0, 16]]})
    (verdict,) = run.feed({"kind": "packet", "start": 0, "n": 10, "triggers": []})
    assert (verdict.key, verdict.void) == ((0, 0), True)


def test_a_line_on_an_earlier_session_revises_its_verdicts(new_log):
    log = new_log("turing").truth(blocks=[[1]]).packet(16).packets(25).report(1)
    run = log.session("S01").truth(blocks=[[1]]).packet(16).packets(50).report(1).end().run()
    assert run.standing().score == pytest.approx(150)
    (revised,) = feed(run, "void", block=0)
    assert (revised.session, revised.key) == (0, (0, 0))
    assert run.standing().score == run.result()["score"] == pytest.approx(100)
    assert [(v.session, v.void) for v in run.standing().last] == [(0, True), (1, False)]


def test_turing_a_packet_in_a_known_outage_revises_a_verdict_that_came_early(new_log):
    """With its 241 and a report a trial has its verdict, but it occupies packets up to 5 s."""
    log = new_log("turing", n=250).truth(blocks=[[1]]).outage(4, 4)
    run = log.packet(16).packet().report(1).packet(241).packet().run()
    assert [verdict.void for verdict in run.sessions[0].given] == [False]
    (revised,) = run.feed({"kind": "packet", "start": 0, "n": 250, "triggers": []})
    assert revised.void
    assert run.feed({"kind": "packet", "start": 0, "n": 250, "triggers": []}) == []
    assert run.standing().trials == 0


def test_emotion_a_line_revises_the_share_of_a_clip(new_log):
    log = emotion(new_log, [(0, -250, 1500)]).packet(242)
    for result in (0, 1, 0, 1):
        log.packets(5).report(result)
    run = log.packets(5).run()
    assert run.standing().score == 0.5
    (revised,) = feed(run, "outage", **{"from": 1, "to": 1})
    assert (revised.void, revised.share) == (False, pytest.approx(1 / 3))
    assert run.standing().score == pytest.approx(1 / 3)
    assert (run.standing().right, run.standing().answers) == (1, 3)


def test_ecog_a_line_revises_a_trial(new_log):
    run = ecog(new_log, trials=[(0, 0, 80), (0, 80, 160)]).run()
    before = [verdict.share for verdict in run.sessions[0].given]
    (revised,) = feed(run, "outage", **{"from": 10, "to": 10})
    assert (revised.trial, revised.void_parts) == (1, 8)
    assert [verdict.share for verdict in run.sessions[0].given] == [before[0], revised.share]
    assert revised.share == pytest.approx(points(np.r_[88:160]), abs=1e-9)


@pytest.mark.parametrize("track", TRACKS)
def test_a_line_that_changes_no_verdict_returns_none(new_log, track):
    log = new_log(track).truth(blocks=[[1, 1]], clips=[], angles=TRUTH.tolist())
    run = log.packet(242).packets(30).run()
    assert feed(run, "outage", **{"from": 2, "to": 3}) == []
    assert feed(run, "void", block=5) == []


def test_the_result_counts_what_is_void(new_log):
    result = one_trial_each(new_log, "mi").void(1).end().run().result()
    (session,) = result["sessions"]
    assert (session["void"], session["trials"], session["answers"]) == (2, 1, 3)
    assert not [name for name in session if name.startswith("void_")]


def test_verdicts_are_given_in_the_order_of_their_trials(new_log):
    log = one_trial_each(new_log, "erp")
    run = log.run()
    given = feed(run, "outage", **{"from": 0, "to": 99})
    assert all(a.key < b.key for a, b in pairwise(given))
    assert [verdict.key for verdict in given] == [(0, 0), (1, 0)]
