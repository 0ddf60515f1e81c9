"""A run: sessions, endings, standings, and lines that can't be right."""

import sys

import pytest

from tracks.errors import RuleError
from tracks.registry import TRACKS
from tracks.run import Run

RUN = {"kind": "run", "v": 1, "track": "turing", "team": "t", "rules": {}}
SESSION = {"kind": "session", "subject": "S01", "rate": 250}


def right_trial(log):
    return log.truth(blocks=[[1]]).packet(16).packets(25).report(1)


@pytest.mark.parametrize("reason", ["timeout", "disqualified"])
def test_a_run_that_was_stopped_by_the_rules_scores_nothing(new_log, reason):
    result = right_trial(new_log("turing")).end(reason).run().result()
    assert result["score"] == 0
    assert [s["score"] for s in result["sessions"]] == [0]


@pytest.mark.parametrize("reason", ["finished", "crashed", "stopped", "a reason of tomorrow"])
def test_any_other_end_is_scored(new_log, reason):
    assert right_trial(new_log("turing")).end(reason).score() == pytest.approx(200)


def test_without_an_end_it_is_scored_as_it_stands(new_log):
    assert right_trial(new_log("turing")).score() == pytest.approx(200)


def test_the_standing_of_a_void_run_is_0(new_log):
    assert right_trial(new_log("turing")).end("timeout").run().standing().score == 0


def test_which_ends_score_nothing_is_a_rule_of_the_contest(new_log):
    rules = {"void_reasons": ["crashed"]}
    assert right_trial(new_log("turing", rules=rules)).end("timeout").score() == pytest.approx(200)
    assert right_trial(new_log("turing", rules=rules)).end("crashed").score() == 0


def test_a_session_without_truth_scores_0(new_log):
    log = right_trial(new_log("turing")).session("S02").packet(16).packet().report(1)
    assert [s["score"] for s in log.run().result()["sessions"]] == [pytest.approx(200), 0]


def test_sessions_of_one_subject_are_scored_each(new_log):
    log = right_trial(right_trial(new_log("turing")).session("S01"))
    assert [s["subject"] for s in log.run().result()["sessions"]] == ["S01", "S01"]


def test_a_subject_is_given_back_as_it_was_written(new_log):
    assert new_log("turing").session(7).run().result()["sessions"][1]["subject"] == 7


def test_unknown_kinds_fields_and_rules_are_passed_over(new_log):
    log = new_log("turing", rules={"tomorrow": "x"}).add("note", text="?", n=-1)
    log.truth(blocks=[[1]], seen=True).packet(16)
    log.events[-1]["t"] = 0.1
    log.packets(25).report(1, sequence=3).add("status").end()
    assert log.score() == pytest.approx(200)


def test_truth_fields_of_another_track_are_passed_over(new_log):
    log = right_trial(new_log("turing")).truth(clips=[{"nonsense": 1}], angles="x")
    assert log.score() == pytest.approx(200)


def test_a_rule_that_is_null_is_the_default(new_log):
    log = right_trial(new_log("turing", rules={"missing_trial_s": None}))
    assert log.score() == pytest.approx(200)


BROKEN = [
    ([{"kind": "session", "subject": "S", "rate": 250}], "run line must come first"),
    ([{"v": 1}], "field `kind`"),
    ([{"kind": 3}], "`kind` must be a string"),
    ([{"kind": ["run"]}], "`kind` must be a string"),
    ([RUN, RUN], "second run line"),
    ([{**RUN, "v": 3}], "log version 3"),
    ([{**RUN, "track": "chess"}], "'chess' is none of mi, turing"),
    ([{**RUN, "track": ["mi"]}], "is none of mi, turing"),
    ([{"kind": "run"}], "field `track`"),
    ([{**RUN, "rules": [1]}], "`rules` must be an object"),
    ([{**RUN, "rules": {"missing_trial_s": "5"}}], "missing_trial_s must be a number, got '5'"),
    ([{**RUN, "rules": {"missing_trial_s": True}}], "missing_trial_s must be a number"),
    ([{**RUN, "rules": {"missing_trial_s": float("nan")}}], "must be a finite number"),
    ([{**RUN, "rules": {"void_reasons": "timeout"}}], "void_reasons must be a list"),
    ([{**RUN, "rules": {"void_reasons": ["timeout", 1]}}], "void_reasons must be a list"),
    ([{**RUN, "rules": {"limit_inclusive": 1}}], "limit_inclusive must be true or false, got 1"),
    ([{**RUN, "rules": {"missing_trial_s": "off"}}], "missing_trial_s must be a number, got 'off'"),
    ([RUN, {"kind": "session", "rate": 250}], "field `subject`"),
    ([RUN, {"kind": "session", "subject": "S"}], "field `rate`"),
    ([RUN, {**SESSION, "rate": 0}], "rate must be above 0 Hz"),
    ([RUN, {**SESSION, "rate": "250"}], "rate must be a number"),
    ([RUN, {**SESSION, "rate": float("inf")}], "rate must be a finite number"),
    ([RUN, {"kind": "packet", "start": 0, "n": 1, "triggers": []}], "before any session"),
    ([RUN, {"kind": "report", "result": 1}], "before any session"),
    ([RUN, {"kind": "truth", "blocks": [[1]]}], "before any session"),
    ([RUN, SESSION, {"kind": "packet", "start": 0, "triggers": []}], "field `n`"),
    ([RUN, SESSION, {"kind": "packet", "start": 0, "n": -1, "triggers": []}], "`n` must be 0"),
    (
        [RUN, SESSION, {"kind": "packet", "start": 0, "n": "9", "triggers": []}],
        "`n` must be a whole",
    ),
    (
        [RUN, SESSION, {"kind": "packet", "start": 0, "n": 1.5, "triggers": []}],
        "`n` must be a whole",
    ),
    ([RUN, SESSION, {"kind": "packet", "start": 0, "n": True, "triggers": []}], "`n` must be"),
    ([RUN, SESSION, {"kind": "packet", "start": 0, "n": 1}], "field `triggers`"),
    ([RUN, SESSION, {"kind": "packet", "start": 0, "n": 1, "triggers": 3}], "`triggers` must"),
    ([RUN, SESSION, {"kind": "packet", "start": 0, "n": 1, "triggers": [3]}], r"\[offset, code\]"),
    (
        [RUN, SESSION, {"kind": "packet", "start": 0, "n": 1, "triggers": [[1]]}],
        r"\[offset, code\]",
    ),
    ([RUN, SESSION, {"kind": "packet", "start": 0, "n": 1, "triggers": {}}], "`triggers` must"),
    ([RUN, SESSION, {"kind": "end"}], "field `reason`"),
]


@pytest.mark.parametrize(("events", "message"), BROKEN)
def test_what_cannot_be_right_is_refused_with_its_name(events, message):
    run = Run()
    for event in events[:-1]:
        run.feed(event)
    with pytest.raises(RuleError, match=message):
        run.feed(events[-1])


def test_a_run_without_a_run_line_has_no_result():
    with pytest.raises(RuleError, match="no run line"):
        Run().result()


def test_a_whole_number_may_be_written_as_a_float(new_log):
    log = new_log("turing").truth(blocks=[[1]]).packet(16).packet(n=10.0).report(1)
    assert log.run().verdicts()[0].charged_s == 0.04


def test_the_standing_tells_no_label_of_an_open_trial(new_log):
    run = new_log("turing").truth(blocks=[[3]]).packet(242, 16).packets(5).report(3).run()
    standing = run.standing()
    assert (standing.trials, standing.right, standing.last) == (0, 0, ())
    assert (standing.open.block, standing.open.trial) == (0, 0)
    assert (standing.open.used_s, standing.open.reports) == (0.2, 1)
    assert standing.accuracy is None


def test_the_standing_counts_what_is_over(new_log):
    log = new_log("turing").truth(blocks=[[1, 1, 1]])
    for packets, result in [(25, 1), (75, 2), (1, 1)]:
        log.packet(16).packets(packets).report(result)
    standing = log.run().standing()
    assert (standing.trials, standing.right, standing.answers) == (2, 1, 2)
    assert standing.mean_used == pytest.approx(2.0)
    assert (standing.unit, standing.used_unit, standing.subject) == ("points", "s", "S01")
    assert [v.trial for v in standing.last] == [0, 1]


def test_the_standing_shows_the_last_five_verdicts(new_log):
    log = new_log("turing").truth(blocks=[[1] * 8])
    for _ in range(8):
        log.packet(16).packet().report(1)
    assert [v.trial for v in log.end().run().standing().last] == [3, 4, 5, 6, 7]


def test_before_any_session_the_standing_is_empty():
    run = Run()
    run.feed(RUN)
    assert (run.standing().score, run.standing().open, run.decision_due) == (0, None, False)


def test_rules_of_a_track_are_its_defaults_and_what_a_contest_changes():
    track = TRACKS["erp"]
    assert track.under({"sequence_s": 2, "x": 1}).rules == {**track.rules, "sequence_s": 2}
    assert track.rules["void_reasons"] == ("timeout", "disqualified")


@pytest.mark.parametrize(
    ("track", "rate", "samples"),
    [("mi", 1000, 40), ("mi", 160, 6), ("erp", 256, 10), ("emotion", 256, 51), ("mi", 10, 1)],
)
def test_a_packet_is_as_long_in_time_at_another_rate(track, rate, samples):
    assert TRACKS[track].packet_samples_at(rate) == samples


@pytest.mark.parametrize("track", TRACKS)
def test_a_packet_costs_the_same_however_long_the_run_has_been(new_log, track):
    """Counted in calls of functions, with a look at the standing after every packet.

    Where a verdict falls, the score is computed anew, from the verdicts: once a trial.
    """
    trial = {"mi": (200, 241), "turing": (16, 241), "erp": (101, 241), "emotion": (), "ecog": ()}
    log = new_log(track).truth(
        blocks=[[1] * 500],
        clips=[
            {"block": 0, "start": 9000 * k, "end": 9000 * k + 4000, "label": 1} for k in range(9)
        ],
        angles=[[float(k % 7 + j) for j in range(8)] for k in range(9000)],
    )
    log.packet(242)
    for number in range(1000):
        codes = trial[track]
        log.packet(*([codes[number % 2]] if codes and number % 3 == 0 else []))
        log.report(1 if track != "ecog" else [[1.0 * number] * 8])
    run, calls = Run(), []
    for event in log.events:
        given = []
        cost = _calls(lambda event=event, given=given: given.extend(run.feed(event)))
        cost += _calls(run.standing)
        if not given:
            calls.append(cost)
    quiet = [sorted(part)[len(part) // 2] for part in (calls[100:500], calls[-500:-100])]
    assert quiet[1] <= quiet[0] + 2


def _calls(work):
    """How many functions a piece of work calls."""
    count = 0

    def see(frame, kind, argument):
        nonlocal count
        count += kind == "call"

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("track", TRACKS)
def test_without_a_label_a_session_of_any_track_scores_0(new_log, track):
    run = new_log(track).packets(3).report(1).run()
    assert run.result()["score"] == 0
    assert run.standing().score == 0


def test_a_rate_may_be_as_low_as_it_likes(new_log):
    log = new_log("turing", rate=0.5).truth(blocks=[[1]]).packet(16).packet(n=2).report(1)
    assert log.run().verdicts()[0].charged_s == 4.0


@pytest.mark.parametrize(
    ("track", "truth"),
    [
        ("turing", {"blocks": [[1]]}),
        ("turing", {"block": 0, "label": 1}),
        ("emotion", {"clips": []}),
        ("ecog", {"angles": [[0.0] * 8]}),
        ("ecog", {"trials": []}),
    ],
)
def test_any_kind_of_truth_makes_a_log_one_that_can_be_scored(new_log, track, truth):
    assert not new_log(track).run().has_truth
    assert not new_log(track).truth(note="none").run().has_truth
    assert new_log(track).truth(**truth).truth(note="none").run().has_truth


def test_what_is_shown_live_is_of_the_last_session(new_log):
    log = new_log("emotion").packet(242).packets(5)
    assert log.run().decision_due
    log.session("S02")
    assert (log.run().standing().subject, log.run().standing().open) == ("S02", None)
    assert not log.run().decision_due
    assert log.packet(242).packets(10).run().decision_due
    assert log.run().standing().open.trial == 1
