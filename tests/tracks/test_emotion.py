"""emotion, rule by rule."""

import pytest

from tracks import emotion
from tracks.common.seconds import SecondGrid
from tracks.common.words import describe
from tracks.emotion import CLIPS
from tracks.errors import RuleError
from tracks.run import Run

S = 250  # samples a second


def clip(start_s, end_s, label=0, block=0):
    return {"block": block, "start": int(start_s * S), "end": int(end_s * S), "label": label}


def seconds(log, *results, block_start=True):
    """A block: a packet with 242, then five packets and a report a second (None: no report)."""
    if block_start:
        log.packet(242)
    for result in results:
        log.packets(5)
        if result is not None:
            log.report(result)
    return log


def right(log, number=0):
    return log.run().verdicts()[number].right


def test_a_second_is_right_where_its_report_is(new_log):
    # The grid begins at 0.2 s; seconds 1-3 lie at 1.2-4.2 s: the clip less a second at each end.
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 5.2)]), 5, 0, 1, 0, 5)
    assert right(log) == (True, False, True)
    assert log.score() == pytest.approx(2 / 3)


def test_the_grid_begins_where_the_packet_with_242_ends(new_log):
    log = new_log("emotion").truth(clips=[clip(2.2, 4.2)]).packets(5).packet((49, 242))
    seconds(log, 5, 5, 5, block_start=False)  # seconds at 1.2-2.2-3.2-4.2 s
    assert right(log) == ()
    log = new_log("emotion").truth(clips=[clip(1.2, 4.2)]).packets(5).packet((0, 242))
    seconds(log, 5, 0, 5, block_start=False)
    assert right(log) == (True,)


@pytest.mark.parametrize(
    ("start", "end", "n"),
    [(50, 800, 1), (51, 800, 0), (50, 799, 0), (50, 1049, 1), (50, 1050, 2), (0, 1100, 2)],
)
def test_a_second_counts_iff_wholly_inside_less_a_second_at_each_end(new_log, start, end, n):
    truth = {"block": 0, "start": start, "end": end, "label": 0}
    assert len(right(seconds(new_log("emotion").truth(clips=[truth]), 0, 0, 0))) == n


def test_a_verdict_falls_when_its_clips_last_second_can_take_no_more(new_log):
    # The clips' seconds are 1, and 4 to 6: no more can be said of them once 2, and 7, are complete.
    log = new_log("emotion").truth(clips=[clip(0.2, 3.2), clip(3.2, 8.2)])
    run, packets, fallen = Run(), 0, []
    for event in seconds(log, *[0] * 9).events:
        packets += event["kind"] == "packet"
        fallen += [(verdict.trial, packets) for verdict in run.feed(event)]
    assert fallen == [(0, 1 + 3 * 5), (1, 1 + 8 * 5)]


def test_seconds_before_the_grid_do_not_exist(new_log):
    log = new_log("emotion").truth(clips=[clip(0, 8)]).packets(19).packet(242)  # from 4 s on
    assert right(seconds(log, 0, 0, 0, block_start=False)) == (True, True, True)


def test_a_second_never_received_or_never_reported_is_wrong(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 7.2)]), 0, 0, None, 0)
    assert right(log) == (True, False, True, False, False)


def test_a_clip_without_such_a_second_is_left_out(new_log):
    log = new_log("emotion").truth(clips=[clip(0.2, 2.2), clip(0.2, 3.2)])
    assert seconds(log, 0, 0, 0).score() == 1
    assert [v.scored for v in log.run().verdicts()] == [False, True]


def test_a_clip_of_a_block_that_never_began_is_0(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 3.2), clip(0, 1, block=1)]), 0, 0, 0)
    assert log.score() == 0.5


def test_clips_are_averaged_not_seconds(new_log):
    log = new_log("emotion").truth(clips=[clip(0.2, 3.2, 0), clip(3.2, 8.2, 1)])
    assert seconds(log, 5, 0, 5, 5, 1, 0, 0, 0).score() == pytest.approx((1 + 1 / 3) / 2)


def test_subjects_are_averaged(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 3.2)]), 0, 0, 0)
    seconds(log.session("S02").truth(clips=[clip(0.2, 3.2)]), 1, 1, 1)
    assert log.score() == 0.5


def test_before_a_blocks_first_second_there_is_none_to_report_on(new_log):
    log = new_log("emotion").truth(clips=[clip(0.2, 3.2)]).report(0).packet(242).report(0)
    log.packets(4).report(0).packet().report(5)
    assert {describe(r.reason) for r in log.run().refusals()} == {
        "no second of a block is complete"
    }
    assert [r.after_packet for r in log.run().refusals()] == [0, 1, 5]
    assert right(seconds(log, 0, 0, block_start=False)) == (True,)


def test_a_report_belongs_to_the_last_completed_second_until_the_next_one(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 5.2)]), 5, None)
    log.packets(4).report(0).packet().report(0)
    assert right(log) == (True, True, False)


def test_the_first_report_of_a_second_counts(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 3.2)]), 5, 1).report(0)
    assert right(log) == (False,)


@pytest.mark.parametrize("bad", ["0", 0.0, False, None, [0], 9, -1, {}])
def test_anything_but_an_int_of_0_to_8_uses_the_second_up(new_log, bad):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 4.2)]), 5).packets(5).report(bad)
    seconds(log.report(0), 0, block_start=False)
    assert right(log) == (False, True)


def test_the_packet_with_243_still_belongs_to_the_block(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 4.2)]), 5, 0).packets(4).packet(243)
    assert right(log.report(0)) == (True, True)


def test_after_243_no_second_is_completed(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 4.2)]), 5, 0).packets(3).packet(243)
    assert right(log.packet().report(0)) == (True, False)


def test_after_243_a_report_is_still_the_last_seconds(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 4.2)]), 5, None).packet(243).packets(9)
    assert right(log.report(0)) == (True, False)


def test_without_a_243_the_block_ends_where_start_goes_back(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 4.2)]), 5, 0).packets(4)
    log.position = 0
    assert right(log.packet().report(0)) == (True, False)


def test_a_start_that_jumps_forward_does_not_end_a_block(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 4.2)]), 5, 0).packets(4)
    log.position += 1000
    assert right(log.packet().report(0)) == (True, True)


def test_the_next_242_begins_a_new_grid(new_log):
    log = new_log("emotion").truth(clips=[clip(0.2, 4.2), clip(4.2, 8.2, block=1)])
    seconds(log, 5, 0, 0)  # ends at 3.2 s
    seconds(log.packets(4), 5, 0, 0)  # 242 in the packet 4.0-4.2 s
    assert [v.right for v in log.run().verdicts()] == [(True, True), (True, True)]
    assert [v.key for v in log.run().verdicts()] == [(0, 0), (1, 0)]


def test_a_242_takes_away_the_second_before_it(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 3.2)]), 5, None).packet(242).report(0)
    assert right(log) == (False,)
    assert len(log.run().refusals()) == 1


def test_five_packets_complete_a_second_however_short_they_are(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 3.2)]), 5).packet(n=3)
    assert right(log.packets(4).report(0)) == (True,)


def test_another_rate_has_its_own_grid(new_log):
    log = new_log("emotion", rate=256.0, n=51).truth(
        clips=[{"block": 0, "start": 51, "end": 51 + 768, "label": 0}]
    )
    assert right(seconds(log, 5, 0)) == (True,)
    log = new_log("emotion", rate=256.0, n=51).truth(
        clips=[{"block": 0, "start": 51, "end": 51 + 767, "label": 0}]
    )
    assert right(seconds(log, 5, 0)) == ()


@pytest.mark.parametrize(
    ("elapsed", "counts"),
    [(0.5, True), (0.51, False), (0, True), (None, True), ("slow", True), (1, False)],
)
def test_a_decision_later_than_the_limit_is_skipped(new_log, elapsed, counts):
    log = new_log("emotion", rules={"decision_limit_s": 0.5}).truth(clips=[clip(0.2, 3.2)])
    seconds(log, 5).packets(5).report(0, elapsed_s=elapsed).report(0, elapsed_s=0.1)
    assert right(log) == (counts,)


def test_a_decision_without_a_time_is_in_time(new_log):
    log = new_log("emotion", rules={"decision_limit_s": 0.5}).truth(clips=[clip(0.2, 3.2)])
    assert right(seconds(log, 5, 0)) == (True,)


@pytest.mark.parametrize("rules", [{}, {"decision_limit_s": None}])
def test_the_limit_is_off_by_default(new_log, rules):
    log = new_log("emotion", rules=rules).truth(clips=[clip(0.2, 3.2)])
    assert right(seconds(log, 5).packets(5).report(0, elapsed_s=99)) == (True,)


def test_labels_are_read_like_results(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 3.2, "0")]), 0, 0, 0)
    assert right(log) == (False,)


def test_clips_may_come_late_and_one_by_one(new_log):
    log = seconds(new_log("emotion"), 5, 0, 0, 1).truth(clips=[clip(0.2, 4.2)])
    assert right(log) == (True, True)
    assert [v.right for v in log.run().sessions[0].given] == [(True, True)]


def test_a_verdict_falls_once_its_last_second_can_take_no_decision(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 3.2)]), 5, 0)
    assert log.run().sessions[0].given == []
    assert len(log.packets(5).run().sessions[0].given) == 1


def test_it_asks_after_every_fifth_packet_of_a_block_only(new_log):
    run, asked = new_log("emotion").packets(6).run(), []
    for code in (242, *[0] * 10, 243, *[0] * 10):
        start = 50 * (6 + len(asked))
        run.feed(
            {"kind": "packet", "start": start, "n": 50, "triggers": [[0, code]] if code else []}
        )
        asked.append(run.decision_due)
    assert [i for i, ask in enumerate(asked) if ask] == [5, 10]


@pytest.mark.parametrize("clips", [3, [3], [{"block": 0, "start": 1, "label": 2}]])
def test_broken_clips_are_refused(new_log, clips):
    with pytest.raises(RuleError):
        new_log("emotion").truth(clips=clips).run()


def test_clips_of_the_document():
    assert list(CLIPS) == list(range(1, 29))
    lengths = [81, 63, 73, 78, 69, 90, 56, 60, 81, 45, 60, 81, 35, 44, 38, 43, 55, 69, 73, 129]
    lengths += [77, 83, 34, 37, 67, 63, 83, 77]
    assert [length for length, _ in CLIPS.values()] == lengths
    counts = {0: 3, 1: 3, 2: 3, 3: 3, 4: 4, 5: 3, 6: 3, 7: 3, 8: 3}
    in_order = [label for label, count in counts.items() for _ in range(count)]
    assert [label for _, label in CLIPS.values()] == in_order


def test_facts_of_the_document():
    track = emotion.TRACK
    assert (track.rate, track.packet_samples, len(track.leads)) == (250, 50, 32)
    assert list(track.classes) == list(range(9))
    names = "anger disgust fear sadness neutral amusement inspiration joy tenderness"
    assert " ".join(track.classes.values()) == names
    assert (emotion.BLOCKS, emotion.CLIPS_A_BLOCK, emotion.CLIP_NUMBER_LEAD_S) == (7, 4, 0.1)
    assert track.rules["decision_limit_s"] is None


def test_two_242_in_a_packet_begin_two_blocks():
    grid = SecondGrid(250, emotion.DEFAULTS)
    grid.packet(0, 50, [(1, 242), (3, 242)])
    assert grid.block == 1
    assert grid.began(0)
    assert grid.began(1)


def test_the_open_second_is_shown_without_its_label(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 9)]), 0)
    standing = log.packets(5).run().standing()
    assert (standing.open.block, standing.open.trial) == (0, 1)
    assert (standing.open.used_s, standing.open.reports) == (2.0, 0)
    assert log.report(0).run().standing().open.reports == 1
    assert log.packet(243).run().standing().open is None
    assert new_log("emotion").packet(242).run().standing().open is None


def test_each_second_says_why_it_is_wrong(new_log):
    log = new_log("emotion", rules={"decision_limit_s": 0.5}).truth(clips=[clip(0.2, 7.2)])
    seconds(log, 0, 0, 1, "0", None).packets(5).report(0, elapsed_s=0.7)
    verdict = log.run().verdicts()[0]
    assert [describe(answer.reason) for answer in verdict.answers] == [
        "",
        "disgust instead of anger",
        "'0' is no int of 0-8",
        "no report",
        "took 0.7 s, limit 0.5 s",
    ]
    assert describe(verdict.reasons) == (
        "1 of 5 seconds right; second 2: disgust instead of anger; second 3: '0' is no int of 0-8; "
        "second 4: no report; second 5: took 0.7 s, limit 0.5 s"
    )
    assert [answer.class_name for answer in verdict.answers] == [
        "anger",
        "disgust",
        None,
        None,
        None,
    ]
    assert [answer.when for answer in verdict.answers] == [1, 2, 3, None, 5]


def test_clips_that_score_nothing_say_why(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 2), clip(0, 9, block=1)]), 0)
    assert [describe(verdict.reasons) for verdict in log.run().verdicts()] == [
        "no second lies wholly inside it: left out",
        "its block never began",
    ]


def test_a_whole_clip_right_says_so(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 4.2, "x"), clip(0.2, 4.2)]), 0, 0, 0)
    first, second = log.run().verdicts()
    assert (first.label, first.trial, second.trial) == ("'x'", 0, 1)
    assert describe(second.reasons) == "2 of 2 seconds right"


def test_without_a_242_there_is_nothing_to_decide_on(new_log):
    assert not new_log("emotion").run().decision_due
    log = new_log("emotion").packets(5)
    assert not log.run().decision_due
    assert len(log.report(0).run().refusals()) == 1


@pytest.mark.parametrize(
    ("wrong", "named"), [(2, "seconds 1, 2"), (4, "seconds 1, 2, 3, 4"), (5, "5 seconds")]
)
def test_seconds_that_are_wrong_alike_are_named_together(new_log, wrong, named):
    log = seconds(
        new_log("emotion").truth(clips=[clip(0.2, 8.2)]), 0, *[1] * wrong, *[0] * (6 - wrong)
    )
    reason = describe(log.run().verdicts()[0].reasons)
    assert reason == f"{6 - wrong} of 6 seconds right; {named}: disgust instead of anger"


def test_the_score_is_explained(new_log):
    log = seconds(new_log("emotion").truth(clips=[clip(0.2, 4.2), clip(0.2, 2)]), 0)
    assert emotion.explain(log.run().verdicts()) == ["the mean of 1 clips"]


@pytest.mark.parametrize("off", ["off", None])
def test_the_limit_can_be_said_to_be_off(new_log, off):
    log = new_log("emotion", rules={"decision_limit_s": off}).truth(clips=[clip(0.2, 3.2)])
    assert right(seconds(log, 5).packets(5).report(0, elapsed_s=99)) == (True,)
