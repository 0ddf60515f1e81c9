"""ecog, rule by rule."""

import math

import numpy as np
import pytest

from tracks import ecog
from tracks.common.angles import (
    ANGLE_RATE,
    JOINTS,
    AngleMoments,
    Trace,
    as_rows,
    compare,
    read_rows,
    row_at,
)
from tracks.common.words import describe
from tracks.errors import RuleError

RNG = np.random.default_rng(3)


def truth_rows(n=16):
    return np.round(RNG.normal(50, 10, (n, 8)), 3)


def predicted(log):
    """The prediction of the log's first session, row by row."""
    referee = log.run().sessions[0].referee
    return referee._predicted.filled(len(referee._truth))


def row(value):
    return [float(value)] * 8


def trial_score(truth, rows):
    """Straight from the document, joint by joint."""
    total = []
    for x, y in zip(np.transpose(truth), np.transpose(rows), strict=True):
        nrmse = math.sqrt(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / len(x))
        nrmse /= max(x) - min(x)
        total.append(50 * (1 - nrmse) + 50 * np.corrcoef(x, y)[0, 1])
    return sum(total) / 8


def test_a_perfect_prediction_scores_100(new_log):
    truth = truth_rows().tolist()
    log = new_log("ecog").truth(angles=truth)
    assert log.packet().report(truth[:8]).packet().report(truth[8:]).score() == pytest.approx(100)


def test_the_score_is_that_of_the_document(new_log):
    truth, guess = truth_rows(), truth_rows()
    log = new_log("ecog").truth(angles=truth.tolist())
    log.packet().report(guess[:8].tolist()).packet().report(guess[8:].tolist())
    assert log.score() == pytest.approx(trial_score(truth, guess), abs=1e-9)


def test_fewer_rows_are_held_to_the_packets_end(new_log):
    log = new_log("ecog").truth(angles=truth_rows(8).tolist()).packet().report([row(1), row(2)])
    assert predicted(log)[:, 0].tolist() == [1, 2, 2, 2, 2, 2, 2, 2]


def test_rows_too_many_are_dropped_and_not_held(new_log):
    log = new_log("ecog").truth(angles=truth_rows(16).tolist()).packet()
    log.report([row(i) for i in range(12)]).packet()
    assert predicted(log)[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, *[7] * 8]


def test_a_packet_without_a_report_holds_the_last_value(new_log):
    log = new_log("ecog").truth(angles=truth_rows(24).tolist()).packet().packet()
    log.report([row(5)]).packet()
    assert predicted(log)[:, 0].tolist() == [0] * 8 + [5] * 16


def test_rows_never_received_are_scored_with_the_last_value(new_log):
    log = new_log("ecog").truth(angles=truth_rows(12).tolist()).packet().report([row(4)])
    assert predicted(log)[:, 0].tolist() == [4] * 12


def test_the_value_before_the_first_report_is_a_rule_of_the_contest(new_log):
    log = new_log("ecog", rules={"initial_angle": 90}).truth(angles=truth_rows(8).tolist())
    assert predicted(log.packet())[:, 3].tolist() == [90] * 8


def test_the_first_well_formed_report_of_a_packet_counts(new_log):
    log = new_log("ecog").truth(angles=truth_rows(8).tolist()).packet()
    log.report("x").report([]).report([row(1)]).report([row(2)])
    assert predicted(log)[:, 0].tolist() == [1] * 8
    assert log.run().result()["sessions"][0]["refused"] == 3


def test_a_report_before_any_packet_is_refused(new_log):
    log = new_log("ecog").truth(angles=truth_rows(8).tolist()).report([row(1)]).packet()
    assert predicted(log)[:, 0].tolist() == [0] * 8


@pytest.mark.parametrize(
    "result",
    [
        None,
        5,
        "x",
        [],
        [[]],
        [[1.0] * 7],
        [[1.0] * 9],
        [[1.0] * 8, [1.0] * 7],
        [1.0] * 8,
        [[1.0] * 7 + [True]],
        [[1.0] * 7 + ["1"]],
        [[1.0] * 7 + [None]],
        [[1.0] * 7 + [math.nan]],
        [[1.0] * 7 + [math.inf]],
        [[1.0] * 7 + [1000000.5]],
        [[1.0] * 7 + [-1000001]],
        [[1.0] * 7 + [10**400]],
        {"rows": []},
        np.ones((2, 7)),
        np.ones((2, 8), dtype=bool),
    ],
    ids=repr,
)
def test_malformed_is_refused(result):
    assert read_rows(result) is None


@pytest.mark.parametrize(
    "result",
    [
        [[1, 2.5, -1e6, 1e6, 0, 0, 0, 0]],
        [(1,) * 8],
        ([1] * 8,),
        np.ones((3, 8), dtype=np.float32),
        [np.ones(8)],
        [[np.float32(1)] * 8],
    ],
    ids=repr,
)
def test_rows_of_eight_numbers_are_read(result):
    assert read_rows(result).shape[1] == 8


def test_malformed_uses_up_nothing(new_log):
    log = new_log("ecog").truth(angles=truth_rows(8).tolist()).packet().report([[1.0] * 7])
    assert predicted(log.report([row(3)]))[:, 0].tolist() == [3] * 8


@pytest.mark.parametrize(
    ("sample", "rate", "row_number"),
    [(0, 1000, 0), (4, 1000, 0), (5, 1000, 1), (40, 1000, 8), (57, 1000, 11), (3, 250, 2)],
)
def test_rows_of_a_sample_are_rounded_down(sample, rate, row_number):
    assert row_at(sample, rate) == row_number


def test_short_packets_share_the_rows_out_exactly(new_log):
    log = new_log("ecog").truth(angles=truth_rows(5).tolist()).packet(n=17).report([row(1)])
    log.packet(n=2).report([row(2)]).packet(n=6).report([row(3)])
    # 17 samples: rows 0-2; 19 samples: none more; 25 samples: rows 3-4
    assert predicted(log)[:, 0].tolist() == [1, 1, 1, 3, 3]


def test_a_report_on_a_packet_without_rows_changes_nothing(new_log):
    log = new_log("ecog").truth(angles=truth_rows(4).tolist()).packet(n=10).report([row(1)])
    log.packet(n=2).report([row(2)]).packet(n=8)
    assert predicted(log)[:, 0].tolist() == [1, 1, 1, 1]


def test_another_rate_has_its_own_rows(new_log):
    log = new_log("ecog", rate=1375, n=55).truth(angles=truth_rows(16).tolist())
    log.packet().report([row(1)]).packet().report([row(2)])
    assert predicted(log)[:, 0].tolist() == [1] * 8 + [2] * 8


def test_rows_are_counted_over_the_blocks_of_a_session(new_log):
    log = new_log("ecog").truth(angles=truth_rows(16).tolist()).packet(242).report([row(1)])
    log.position = 0
    assert predicted(log.packet(242).report([row(2)]))[:, 0].tolist() == [1] * 8 + [2] * 8


def test_trials_are_ranges_of_rows_and_blocks_the_mean_of_their_trials(new_log):
    truth, guess = truth_rows(24), truth_rows(24)
    trials = [(0, 0, 8), (0, 8, 13), (1, 14, 24)]
    log = new_log("ecog").truth(
        angles=truth.tolist(), trials=[{"block": b, "start": s, "end": e} for b, s, e in trials]
    )
    for part in range(3):
        log.packet().report(guess[8 * part : 8 * part + 8].tolist())
    first, second, third = (trial_score(truth[s:e], guess[s:e]) for _, s, e in trials)
    assert log.score() == pytest.approx(((first + second) / 2 + third) / 2, abs=1e-9)


def test_angles_and_trials_may_come_piece_by_piece(new_log):
    truth, guess = truth_rows(16), truth_rows(16)
    log = new_log("ecog").packet().report(guess[:8].tolist()).truth(angles=truth[:8].tolist())
    log.packet().report(guess[8:].tolist()).truth(angles=truth[8:].tolist())
    whole = log.score()
    log.truth(trials=[{"block": 0, "start": 0, "end": 16}])
    assert log.score() == whole == pytest.approx(trial_score(truth, guess), abs=1e-9)


def test_a_trial_without_rows_is_left_out(new_log):
    truth = truth_rows(8)
    trials = [{"block": 0, "start": 0, "end": 8}, {"block": 1, "start": 8, "end": 16}]
    log = new_log("ecog").truth(angles=truth.tolist(), trials=trials).packet()
    assert log.report(truth.tolist()).score() == pytest.approx(100)


def test_no_angles_at_all_score_0(new_log):
    assert new_log("ecog").truth(angles=[]).packet().score() == 0


@pytest.mark.parametrize("angles", [[[1] * 7], 3, [[1] * 8, [1] * 7], [["x"] * 8], [None]])
def test_broken_angles_are_refused(new_log, angles):
    with pytest.raises(RuleError, match="angles"):
        new_log("ecog").truth(angles=angles).run()


def test_a_constant_prediction_has_no_correlation():
    truth = truth_rows(50)
    constant = np.full((50, 8), 0.1)  # its mean is not exactly 0.1
    assert compare(truth, constant, 1, 0).corr == 0


def test_a_constant_truth_has_nrmse_1_and_no_correlation():
    found = compare(np.full((50, 8), 0.1), truth_rows(50), 1, 0)
    assert (found.nrmse, found.corr) == (1, 0)


def test_a_variance_of_0_in_double_precision_has_no_correlation():
    tiny = np.zeros((50, 8))
    tiny[3] = 1e-200
    assert compare(truth_rows(50), tiny, 1, 0).corr == 0


def test_a_constant_prediction_is_paid_for_its_nearness_alone(new_log):
    truth = truth_rows(8)
    nrmse = np.sqrt(np.mean(truth**2, axis=0)) / np.ptp(truth, axis=0)
    log = new_log("ecog").truth(angles=truth.tolist()).packet()
    assert log.score() == pytest.approx(50 * (1 - nrmse.mean()))


def test_a_constant_truth_scores_nothing(new_log):
    log = new_log("ecog").truth(angles=[row(1)] * 8).packet()
    assert log.report(truth_rows(8).tolist()).score() == 0


def test_what_a_constant_scores_is_a_rule_of_the_contest(new_log):
    rules = {"constant_corr": 0.5, "constant_nrmse": 0.25}
    log = new_log("ecog", rules=rules).truth(angles=[row(1)] * 8).packet()
    assert log.score() == 50 * 0.75 + 50 * 0.5


def test_a_bad_prediction_may_score_below_0(new_log):
    log = new_log("ecog").truth(angles=truth_rows(8).tolist()).packet().report([row(1e6)])
    assert log.score() < -1000


def test_a_verdict_falls_when_the_next_packet_closes_its_rows(new_log):
    trials = [{"block": 0, "start": 0, "end": 8}]
    log = new_log("ecog").truth(angles=truth_rows(16).tolist(), trials=trials).packet()
    assert log.run().sessions[0].given == []
    assert len(log.report([row(1)]).packet().run().sessions[0].given) == 1


def test_a_verdict_waits_for_the_report_on_its_last_packet(new_log):
    truth = truth_rows(8).tolist()
    log = new_log("ecog").packet().truth(angles=truth, trials=[{"block": 0, "start": 0, "end": 8}])
    given = log.report(truth).packet().run().sessions[0].given
    assert [v.share for v in given] == [pytest.approx(100)]


def test_the_live_score_is_that_of_the_rows_so_far(new_log):
    truth, guess = truth_rows(24), truth_rows(24)
    log = new_log("ecog").truth(angles=truth.tolist())
    for part in range(3):
        log.packet().report(guess[8 * part : 8 * part + 8].tolist())
    assert log.run().standing().score == pytest.approx(trial_score(truth[:16], guess[:16]))


@pytest.mark.parametrize("scale", [1, 1e-4])
def test_moments_agree_with_the_traces_whatever_the_pieces(scale):
    truth, guess = scale * truth_rows(100), scale * truth_rows(100)
    moments = AngleMoments()
    for start, stop in [(0, 1), (1, 8), (8, 50), (50, 100)]:
        moments.add(truth[start:stop], guess[start:stop])
    found, whole = moments.compare(1, 0), compare(truth, guess, 1, 0)
    assert found.nrmse == pytest.approx(whole.nrmse)
    assert found.corr == pytest.approx(whole.corr)


def test_moments_of_constants_are_those_of_the_rule():
    moments = AngleMoments()
    moments.add(np.full((9, 8), 0.1), np.full((9, 8), 0.3))
    found = moments.compare(1, 0)
    assert (found.nrmse, found.corr) == (1, 0)


def test_a_trace_grows_without_losing_rows():
    trace, rows = Trace(), truth_rows(5000)
    for start in range(0, 5000, 500):
        trace.append(rows[start : start + 500])
    assert np.array_equal(trace.rows, rows)


def test_empty_angles_have_no_rows():
    assert as_rows([]).shape == (0, 8)


def test_exactly_24_distinct_channels_of_1_to_32():
    assert ecog.TRACK.check_leads(range(32, 8, -1)) == list(range(32, 8, -1))
    assert ecog.TRACK.check_leads(np.arange(1, 25)) == list(range(1, 25))


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (range(1, 24), "exactly 24 distinct"),
        (range(1, 26), "exactly 24 distinct"),
        ([*range(1, 24), 23], "exactly 24 distinct"),
        (range(24), "1-32; got 0"),
        ([*range(1, 24), 33], "1-32; got 33"),
        ([*range(1, 24), 24.0], "got 24.0"),
        ([*range(1, 24), True], "got True"),
        ([*range(1, 24), "24"], "got '24'"),
        ([], "exactly 24 distinct"),
    ],
    ids=str,
)
def test_any_other_choice_of_channels_is_refused(numbers, message):
    with pytest.raises(RuleError, match=message):
        ecog.TRACK.check_leads(numbers)


def test_facts_of_the_document():
    track = ecog.TRACK
    assert (track.rate, track.packet_samples, track.choose_leads) == (1000, 40, 24)
    assert track.leads == tuple(f"ch{n}" for n in range(1, 33))
    assert set(track.lead_kinds.values()) == {"ECOG"}
    assert JOINTS == ("sho", "elb", "wri", "mcp", "hip", "kne", "ank", "mtp")
    assert ANGLE_RATE == 200
    assert track.read([[1.0] * 8]) is None


def test_the_open_trial_is_shown(new_log):
    log = new_log("ecog")
    assert log.run().standing().open is None
    standing = log.packet(242).packet(242).run().standing()
    assert (standing.open.block, standing.open.trial) == (1, 0)
    assert (standing.open.used_s, standing.open.reports) == (0.08, 2)


def test_a_refusal_says_why(new_log):
    log = new_log("ecog").report([row(1)]).packet().report(5).report([row(1)]).report([row(1)])
    assert [describe(refusal.reason) for refusal in log.run().refusals()] == [
        "no packet",
        "not rows of 8 numbers within +-1e+06",
        "the packet has its report: the first one counts",
    ]
    assert [refusal.after_packet for refusal in log.run().refusals()] == [0, 1, 1]


def test_a_verdict_names_its_rows(new_log):
    trials = [{"block": 0, "start": 2, "end": 8}, {"block": 0, "start": 90, "end": 99}]
    log = new_log("ecog").truth(angles=truth_rows(8).tolist(), trials=trials).packet()
    first, second = log.run().verdicts()
    assert (first.label, first.trial, first.answers[0].when) == ("rows 2-7", 0, 0.03)
    assert (second.scored, second.trial, describe(second.reasons)) == (
        False,
        1,
        "no rows of angles: left out",
    )


def test_without_trials_all_rows_are_one_trial_of_block_0(new_log):
    log = new_log("ecog").truth(angles=truth_rows(8).tolist()).packet(242).packet(242)
    assert [(v.key, v.label) for v in log.run().verdicts()] == [((0, 0), "rows 0-7")]


def test_trials_are_numbered_in_their_block_and_verdicts_fall_in_turn(new_log):
    ranges = [(0, 0, 3), (0, 3, 8), (1, 8, 12), (1, -4, 16)]
    trials = [{"block": b, "start": s, "end": e} for b, s, e in ranges]
    log = new_log("ecog").truth(angles=truth_rows(16).tolist(), trials=trials).packets(2)
    keys = [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [v.key for v in log.run().verdicts()] == keys
    assert [v.key for v in log.run().sessions[0].given] == keys[:2]
    assert [v.key for v in log.packet().run().sessions[0].given] == keys
    assert log.run().verdicts()[3].answers[0].when == 16 / 200


def test_it_asks_after_every_packet_that_has_rows(new_log):
    log = new_log("ecog")
    assert not log.run().decision_due
    assert log.packet(n=40).run().decision_due
    assert not log.packet(n=2).run().decision_due
    assert log.packet(n=3).run().decision_due


def test_the_live_score_knows_the_block_of_the_trial_that_runs(new_log):
    truth, guess = truth_rows(32), truth_rows(32)
    ranges = [(0, 0, 8), (0, 8, 16), (1, 16, 32)]
    trials = [{"block": b, "start": s, "end": e} for b, s, e in ranges]
    log = new_log("ecog").truth(angles=truth.tolist(), trials=trials)
    for part in range(4):
        log.packet().report(guess[8 * part : 8 * part + 8].tolist())
    one, two, three = (trial_score(truth[s : s + 8], guess[s : s + 8]) for s in (0, 8, 16))
    assert log.run().standing().score == pytest.approx(((one + two) / 2 + three) / 2)


def test_in_a_live_run_the_trial_that_runs_is_of_the_last_block_begun(new_log):
    truth, guess = truth_rows(32), truth_rows(32)
    log = new_log("ecog").truth(angles=truth.tolist())
    for part, code in enumerate((242, 0, 242, 0)):
        log.packet(code).report(guess[8 * part : 8 * part + 8].tolist())
    log.truth(trials=[{"block": 0, "start": 0, "end": 8}, {"block": 0, "start": 8, "end": 16}])
    one, two, three = (trial_score(truth[s : s + 8], guess[s : s + 8]) for s in (0, 8, 16))
    assert log.run().standing().score == pytest.approx(((one + two) / 2 + three) / 2)


def test_the_live_score_begins_anew_with_each_trial(new_log):
    truth, guess = truth_rows(24), truth_rows(24)
    trials = [{"block": 0, "start": 0, "end": 8}]
    log = new_log("ecog").truth(angles=truth.tolist(), trials=trials)
    for part in range(3):
        log.packet().report(guess[8 * part : 8 * part + 8].tolist())
    first, second = (trial_score(truth[s:e], guess[s:e]) for s, e in [(0, 8), (8, 16)])
    assert log.run().standing().score == pytest.approx((first + second) / 2)


def test_rows_without_a_report_are_counted_trial_by_trial(new_log):
    truth = truth_rows(40)
    trials = [{"block": 0, "start": a, "end": b} for a, b in ((0, 8), (8, 24), (20, 40))]
    log = new_log("ecog").truth(angles=truth.tolist(), trials=trials)
    log.packet().report(truth[:8].tolist()).packet().report(truth[8:10].tolist())
    log.packet().packet().report([row(1)] * 99)  # the fifth packet never comes
    held = [describe(verdict.reasons).partition("; ")[2] for verdict in log.run().verdicts()]
    assert held == [
        "",
        "14 of 16 rows without a report: the last value held",
        "12 of 20 rows without a report: the last value held",
    ]


def test_the_traces_of_the_trial_judged_last_can_be_shown(new_log):
    truth, guess = truth_rows(32), truth_rows(32)
    trials = [{"block": 0, "start": 0, "end": 6}, {"block": 0, "start": 8, "end": 15}]
    log = new_log("ecog").truth(angles=truth.tolist(), trials=trials).packet()
    log.report(guess[:8].tolist())
    assert log.run().sessions[0].referee.last_traces() is None
    log.packet()
    traces = log.run().sessions[0].referee.last_traces()
    assert (traces.measured.tolist(), traces.reported.tolist()) == (
        truth[:6].tolist(),
        guess[:6].tolist(),
    )
    log.report(guess[8:16].tolist()).packet()
    traces = log.run().sessions[0].referee.last_traces()
    assert (traces.measured.tolist(), traces.reported.tolist()) == (
        truth[8:15].tolist(),
        guess[8:15].tolist(),
    )


def test_the_score_is_explained_block_by_block(new_log):
    truth = truth_rows(32)
    ends = ((0, 0, 8), (0, 8, 16), (1, 16, 32))
    trials = [{"block": block, "start": start, "end": end} for block, start, end in ends]
    log = new_log("ecog").truth(angles=truth.tolist(), trials=trials)
    for at in range(0, 32, 8):
        log.packet().report(truth[at : at + 8].tolist())
    assert ecog.explain(log.run().verdicts()) == [
        "block 1: 100.0000, the mean of 2 trials",
        "block 2: 100.0000, the mean of 1 trial",
    ]


def test_the_trial_that_runs_is_the_first_one_not_judged(new_log):
    truth, guess = truth_rows(40), truth_rows(40)
    ranges = [(0, 0, 8), (1, 8, 16), (1, 16, 32), (2, 32, 40)]
    trials = [{"block": b, "start": s, "end": e} for b, s, e in ranges]
    log = new_log("ecog").truth(angles=truth.tolist(), trials=trials)
    for part in range(4):
        log.packet().report(guess[8 * part : 8 * part + 8].tolist())
    one, two, three = (trial_score(truth[s : s + 8], guess[s : s + 8]) for s in (0, 8, 16))
    assert log.run().standing().score == pytest.approx((one + (two + three) / 2) / 2)


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_one_number_that_is_not_finite_spoils_the_truth(bad):
    rows = truth_rows(3)
    rows[1, 4] = bad
    with pytest.raises(RuleError, match="finite"):
        as_rows(rows.tolist())


def test_the_live_score_is_exact_for_small_movements_about_a_large_angle():
    truth = RNG.normal(9e5, 1, (400, 8))
    guess = truth + RNG.normal(0, 1, (400, 8))
    live = AngleMoments()
    for at in range(0, 400, 8):
        live.add(truth[at : at + 8], guess[at : at + 8])
    found, wanted = live.compare(1, 0), compare(truth, guess, 1, 0)
    assert found.corr == pytest.approx(wanted.corr, abs=1e-6)
    assert found.nrmse == pytest.approx(wanted.nrmse, rel=1e-6)


@pytest.mark.parametrize("tiny", ["truth", "prediction"])
def test_the_live_score_knows_no_correlation_with_a_variance_of_0_in_double_precision(tiny):
    """Squares of 1e-162 are 0, the square of their sum is not: rounding must give no number below 0."""
    moving, still = RNG.normal(50, 10, (1000, 8)), np.full((1000, 8), 1e-162)
    still[0] = 0
    live = AngleMoments()
    live.add(*((still, moving) if tiny == "truth" else (moving, still)))
    assert live.compare(1.0, 0.25).corr == 0.25


def test_no_trial_is_judged_before_its_first_row_has_come(new_log):
    trials = [{"block": 0, "start": 0, "end": 1}]
    log = new_log("ecog").truth(angles=truth_rows(8).tolist(), trials=trials)
    assert log.run().sessions[0].given == []
    assert log.packet().run().sessions[0].given == []
    assert len(log.packet().run().sessions[0].given) == 1


@pytest.mark.parametrize(("start", "end", "shown"), [(-3, 5, 5), (-5, -1, 0), (-5, 0, 0)])
def test_traces_have_no_rows_before_the_first(new_log, start, end, shown):
    truth = truth_rows(16)
    trials = [{"block": 0, "start": start, "end": end}]
    log = new_log("ecog").truth(angles=truth.tolist(), trials=trials).packet().packet()
    traces = log.run().sessions[0].referee.last_traces()
    assert traces.measured.tolist() == truth[:shown].tolist()
    assert len(traces.reported) == shown


@pytest.mark.parametrize(
    ("start", "end", "rows"), [(0, 8, 8), (-3, 5, 5), (-5, 0, 0), (-5, -1, 0), (-5, 1, 1)]
)
def test_a_trial_has_no_rows_before_the_first(new_log, start, end, rows):
    trials = [{"block": 0, "start": start, "end": end}]
    log = new_log("ecog").truth(angles=truth_rows(16).tolist(), trials=trials).packet().packet()
    verdict = log.run().verdicts()[0]
    assert verdict.scored == bool(rows)
    held = f"{rows} of {rows} rows without a report: the last value held"
    assert describe(verdict.reasons).endswith(held if rows else "no rows of angles: left out")
