"""A team's run: whatever a team says, and whenever, the judge lives and the log can be scored."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bci_stream.contest.contest import Limits
from bci_stream.judge.ordering import LockstepOrder, RealtimeOrder
from bci_stream.judge.team_run import SessionPlan, TeamRun
from bci_stream.runlog import RunLog, read_log, score_run
from bci_stream.wire.messages import Done, PacketNote, PacketRequest, ReportMessage, TruthNote
from tracks.registry import TRACKS

TRUTH = {
    "mi": {"blocks": [[1]]},
    "turing": {"blocks": [[1]]},
    "erp": {"blocks": [["A"]]},
    "emotion": {"clips": [{"block": 0, "start": 0, "end": 900, "label": 3}]},
    "ecog": {"angles": [[0.0] * 8, [1.0] * 8]},
}


def docket(track: str) -> SessionPlan:
    made = SessionPlan()
    made.add(TruthNote(0, "S01", 0, 250.0, 8, 10, 100, TRUTH[track]))
    return made


def team_run(track: str, path: Path, known: SessionPlan, lockstep: bool = False) -> TeamRun:
    order = LockstepOrder() if lockstep else RealtimeOrder(0.04)
    return TeamRun("t", track, {}, Limits(), known, order, RunLog(path), 0.0)


def report(result: object) -> ReportMessage:
    return ReportMessage("c", "r", "t", 0, result=result)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


@pytest.mark.parametrize("track", TRACKS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(results=st.lists(JSON, min_size=1, max_size=6))
def test_any_result_can_be_reported_and_the_log_is_scored_alike(track, tmp_path, results) -> None:
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
    run = team_run(track, path, docket(track))
    for i, result in enumerate(results):
        run.note(PacketNote(i, 0, 0, i * 10, 10, [(0, 242)] if i == 0 else []), i * 0.04)
        run.message(report(result), i * 0.04 + 0.05)
        run.settle(i * 0.04 + 0.05)
    run.end("stopped", "", 9.0)
    assert score_run(path).result() == run.run.result()


def test_a_report_before_the_run_has_begun_is_no_harm(tmp_path: Path) -> None:
    run = team_run("erp", tmp_path / "a.jsonl", SessionPlan())
    run.message(report("A"), 0.0)
    run.settle(0.1)
    assert run.run.sessions == []
    run.end("stopped", "", 1.0)


def test_a_report_within_the_grace_of_the_first_packet_is_logged_and_refused(
    tmp_path: Path,
) -> None:
    run = team_run("erp", tmp_path / "a.jsonl", docket("erp"))
    run.note(PacketNote(0, 0, 0, 0, 10), 1.00)
    run.message(report("A"), 1.01)
    run.settle(1.01)
    assert len(list(run.run.refusals())) == 1
    run.end("stopped", "", 2.0)


def test_compute_time_is_measured_from_request_to_request(tmp_path: Path) -> None:
    run = team_run("erp", tmp_path / "a.jsonl", docket("erp"), lockstep=True)
    for i, at in enumerate((1.0, 1.5, 3.0)):
        run.note(PacketNote(i, 0, 0, i * 10, 10), 0.0)
        run.message(PacketRequest("c", "r", "t", i, packet=i), at)
        run.settle(at)
    run.message(Done("c", "r", "t", 9), 3.25)
    run.settle(3.25)
    assert run.compute_s == 2.25
    run.end("stopped", "", 4.0)


def test_a_team_that_falls_silent_ends_as_timeout_with_the_limit_named(tmp_path: Path) -> None:
    run = team_run("erp", tmp_path / "a.jsonl", docket("erp"), lockstep=True)
    run.note(PacketNote(0, 0, 0, 0, 10), 0.0)
    run.message(PacketRequest("c", "r", "t", 0, packet=0), 1.0)
    run.settle(1.0)
    run.settle(1.0 + Limits().silence_s + 0.1)
    assert run.ended == "timeout"
    assert "limits.silence_s" in run.detail


def test_a_team_that_says_it_has_finished_too_early_has_stopped(tmp_path: Path) -> None:
    run = team_run("erp", tmp_path / "a.jsonl", docket("erp"))
    run.message(Done("c", "r", "t", 9), 1.0)
    run.settle(1.0)
    assert run.ended is None  # the last packets' notes may still be under way
    run.settle(4.0)
    assert (run.ended, run.run.end_reason) == ("stopped", "stopped")


def test_a_judge_that_was_started_again_goes_on_counting_compute_time(tmp_path) -> None:
    """Lockstep: 2 s of work before the restart and 3 s after it are over a limit of 4 s together."""
    path = tmp_path / "run.jsonl"
    limits = Limits(compute_factor=0.0, compute_extra_s=4.0)
    known = docket("erp")

    def asked(run: TeamRun, packet: int, at: float) -> None:
        run.note(PacketNote(packet, 0, 0, packet * 10, 10), at)
        run.message(PacketRequest("c", "r", "t", 0, packet=packet, n=packet), at)
        run.settle(at)

    run = TeamRun("t", "erp", {}, limits, known, LockstepOrder(), RunLog(path), 100.0)
    asked(run, 0, 101.0)
    asked(run, 1, 103.0)
    run._log._file.close()  # as a kill leaves it
    past = [event for _, event in read_log(path)]
    log = RunLog(path, go_on=True)
    run = TeamRun("t", "erp", {}, limits, known, LockstepOrder(2), log, 200.0, past=past)
    asked(run, 2, 210.0)
    assert run.compute_s == pytest.approx(2.0)
    asked(run, 3, 213.0)
    assert run.ended == "timeout"
    assert "limits.compute_factor" in run.detail


def test_a_team_that_hangs_while_the_judge_is_started_again_still_ends(tmp_path) -> None:
    known, path = docket("erp"), tmp_path / "run.jsonl"
    run = team_run("erp", path, known, lockstep=True)
    run.note(PacketNote(0, 0, 0, 0, 10), 0.0)
    run.message(PacketRequest("c", "r", "t", 0, packet=0), 1.0)
    run.settle(1.0)
    run._log._file.close()
    past = [event for _, event in read_log(path)]
    log = RunLog(path, go_on=True)
    run = TeamRun("t", "erp", {}, Limits(), known, LockstepOrder(1), log, 200.0, past=past)
    run.settle(200.0 + Limits().silence_s - 0.1)
    assert run.ended is None
    run.settle(200.0 + Limits().silence_s + 0.1)
    assert run.ended == "timeout"
    assert "limits.silence_s" in run.detail


def test_what_came_while_the_judge_was_away_has_no_latency(tmp_path) -> None:
    """Real time: the gap is the judge's, and may not make a decision late."""
    known, path = docket("emotion"), tmp_path / "run.jsonl"
    rules = {"decision_limit_s": 0.5}

    def packets(run: TeamRun, first: int, stop: int, last_at: float) -> None:
        for i in range(first, stop):
            triggers = [(0, 242)] if i == 0 else []
            at = last_at - (stop - 1 - i) * 0.2
            run.note(PacketNote(i, 0, 0, i * 50, 50, triggers), at)

    def judge(at: float, past: list[dict[str, object]]) -> TeamRun:
        log = RunLog(path, go_on=bool(past))
        return TeamRun(
            "t", "emotion", rules, Limits(), known, RealtimeOrder(0.0), log, at, past=past
        )

    run = judge(100.0, [])
    packets(run, 0, 6, 101.2)  # a second is complete, and the judge dies
    run.settle(101.3)
    run._log._file.close()
    run = judge(110.0, [event for _, event in read_log(path)])
    packets(run, 6, 11, 108.0)  # the next second was complete while it was away
    run.message(report(3), 110.1)
    run.settle(110.2)
    packets(run, 11, 16, 110.4)
    run.message(ReportMessage("c", "r", "t", 1, result=3), 110.5)
    run.settle(110.6)
    reports = [event for _, event in read_log(path) if event["kind"] == "report"]
    assert [event.get("elapsed_s") for event in reports] == [None, pytest.approx(0.1)]
    right = run.run.verdicts()[0].right
    run.end("stopped", "", 111.0)
    assert right == (True,)
