"""A team's run: any message at any time leaves a log that can be scored, and limits are enforced."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bci_stream.amendments import log_seal
from bci_stream.contest.contest import Limits
from bci_stream.judge.session.ordering import (
    PacketReceived,
    RealtimeOrder,
    ReportReceived,
    TeamDone,
)
from bci_stream.judge.session.plan import SessionPlan, add_truth
from bci_stream.judge.session.team_run import FLUSH_EVERY_S, TeamRun
from bci_stream.runlog import RunLog, read_log, score_run
from bci_stream.wire.crypto import SigningKey
from bci_stream.wire.messages import Done, PacketNote, ReportMessage, TruthNote
from tracks.registry import TRACKS

TRUTH = {
    "mi": {"blocks": [[1]]},
    "turing": {"blocks": [[1]]},
    "erp": {"blocks": [["A"]]},
    "emotion": {"clips": [{"block": 0, "start": 0, "end": 900, "label": 3}]},
    "ecog": {"angles": [[0.0] * 8, [1.0] * 8]},
}


def session_plan(track: str) -> SessionPlan:
    plan: SessionPlan = {}
    add_truth(plan, TruthNote(0, "S01", 0, 250.0, 8, 10, 100, TRUTH[track]))
    return plan


def realtime_run(track: str, path: Path, plan: SessionPlan) -> TeamRun:
    order = RealtimeOrder(0.04)
    return TeamRun("t", track, {}, Limits(), plan, RunLog(path), 0.0, order=order)


KEY = SigningKey(bytes(range(32)))
SEAL = log_seal(KEY, "c", "r1", "t")


def lockstep_run(path: Path, limits: Limits, begun: float) -> TeamRun:
    """A new run, or a resumed one if its log exists."""
    past = [event for _, event in read_log(path)] if path.exists() else []
    log = RunLog(path, append=bool(past))
    plan = session_plan("erp")
    return TeamRun("t", "erp", {}, limits, plan, log, begun, past=past, seal=SEAL)


def fold_packet(run: TeamRun, i: int, at: float) -> None:
    run.fold(PacketReceived(PacketNote(i, 0, 0, i * 10, 10), at))
    run.settle(at)


def kill_judge(run: TeamRun) -> None:
    """The judge dies after what it has folded was given to the operating system."""
    run._log.flush()
    run._log._file.close()


def report(result: object, seq: int = 0) -> ReportMessage:
    return ReportMessage("c", "r", "t", seq, result=result)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=9) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=20,
)


@pytest.mark.parametrize("track", TRACKS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(results=st.lists(JSON, min_size=1, max_size=6))
def test_any_result_can_be_reported_and_the_log_is_scored_alike(track, tmp_path, results) -> None:
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
    run = realtime_run(track, path, session_plan(track))
    for i, result in enumerate(results):
        run.order.add_note(PacketNote(i, 0, 0, i * 10, 10, [(0, 242)] if i == 0 else []), i * 0.04)
        run.order.messages.put(report(result), i * 0.04 + 0.05)
        run.settle(i * 0.04 + 0.05)
    run.end("stopped", "", 9.0)
    assert score_run(path).result() == run.run.result()


def test_a_report_before_the_run_has_begun_is_ignored(tmp_path: Path) -> None:
    run = realtime_run("erp", tmp_path / "a.jsonl", {})
    run.order.messages.put(report("A"), 0.0)
    run.settle(0.1)
    assert run.run.sessions == []
    run.end("stopped", "", 1.0)


def test_a_report_within_the_grace_of_the_first_packet_is_logged_and_refused(
    tmp_path: Path,
) -> None:
    run = realtime_run("erp", tmp_path / "a.jsonl", session_plan("erp"))
    run.order.add_note(PacketNote(0, 0, 0, 0, 10), 1.00)
    run.order.messages.put(report("A"), 1.01)
    run.settle(1.01)
    assert len(list(run.run.refusals())) == 1
    run.end("stopped", "", 2.0)


def test_a_report_that_is_read_late_stands_before_the_packets_it_arrived_before(
    tmp_path: Path,
) -> None:
    run = realtime_run("erp", tmp_path / "a.jsonl", session_plan("erp"))
    for i in range(2):
        run.order.add_note(PacketNote(i, 0, 0, i * 10, 10), 1.00 + i)
    run.settle(2.06, read_to=2.02)
    run.order.messages.put(report("A"), 2.03)
    run.settle(2.07, read_to=2.06)
    run.end("stopped", "", 3.0)
    kinds = [event["kind"] for _, event in read_log(run.path)]
    assert [kind for kind in kinds if kind in ("packet", "report")] == [
        "packet",
        "report",
        "packet",
    ]


def test_reports_are_written_at_once_and_packets_a_few_times_a_second(tmp_path: Path) -> None:
    run = realtime_run("erp", tmp_path / "a.jsonl", session_plan("erp"))

    def count(kind: str) -> int:
        return run.path.read_text().count(f'"kind":"{kind}"')

    run.order.add_note(PacketNote(0, 0, 0, 0, 10), 0.0)
    run.settle(0.05)
    assert count("packet") == 1  # together with the first line of its session
    run.order.add_note(PacketNote(1, 0, 0, 10, 10), 0.1)
    run.settle(0.2)
    assert count("packet") == 1
    run.settle(FLUSH_EVERY_S)
    assert count("packet") == 2
    run.order.messages.put(report("A"), 0.3)
    run.settle(0.3)
    assert count("report") == 1
    run.end("stopped", "", 1.0)


def test_truth_that_the_replay_repeats_is_written_once(tmp_path: Path) -> None:
    plan = session_plan("erp")
    add_truth(plan, TruthNote(0, "S01", 0, 250.0, 8, 10, 100, TRUTH["erp"]))
    assert len(plan[0].truth) == 1


def test_compute_time_is_measured_from_packet_to_packet(tmp_path: Path) -> None:
    run = lockstep_run(tmp_path / "a.jsonl", Limits(), 0.0)
    for i, at in enumerate((1.0, 1.5, 3.0)):
        fold_packet(run, i, at)
    run.fold(TeamDone("finished", "", 3.25))
    run.settle(3.25)
    assert run.compute.used_s == 2.25
    run.end("stopped", "", 4.0)


def test_a_team_that_falls_silent_ends_as_timeout_with_the_limit_named(tmp_path: Path) -> None:
    run = lockstep_run(tmp_path / "a.jsonl", Limits(), 0.0)
    fold_packet(run, 0, 1.0)
    run.settle(1.0 + Limits().silence_s + 0.1)
    assert run.ended == "timeout"
    assert "limits.silence_s" in run.detail
    end = [event for _, event in read_log(run.path)][-2]
    assert (end["detail"], end["why"]["code"]) == (run.detail, "silent")
    assert end["why"]["parameters"]["limit_s"] == Limits().silence_s


def test_a_team_that_is_finished_before_the_last_packet_has_stopped(tmp_path: Path) -> None:
    run = realtime_run("erp", tmp_path / "a.jsonl", session_plan("erp"))
    run.order.messages.put(Done("c", "r", "t", 9), 1.0)
    run.settle(1.0)
    assert run.ended is None  # the last packets' notes may still be under way
    run.settle(4.0)
    assert (run.ended, run.run.end_reason) == ("stopped", "stopped")


def test_a_restarted_judge_continues_to_count_compute_time(tmp_path: Path) -> None:
    """Lockstep: 2 s of work before the restart and 3 s after it exceed a limit of 4 s."""
    path = tmp_path / "run.jsonl"
    limits = Limits(compute_factor=0.0, compute_extra_s=4.0)
    run = lockstep_run(path, limits, 100.0)
    fold_packet(run, 0, 101.0)
    fold_packet(run, 1, 103.0)
    kill_judge(run)
    run = lockstep_run(path, limits, 200.0)
    assert run.in_log == 2
    fold_packet(run, 2, 210.0)
    assert run.compute.used_s == pytest.approx(2.0)
    fold_packet(run, 3, 213.0)
    assert run.ended == "timeout"
    assert "limits.compute_factor" in run.detail


def test_a_team_that_hangs_while_the_judge_restarts_still_ends(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    run = lockstep_run(path, Limits(), 0.0)
    fold_packet(run, 0, 1.0)
    kill_judge(run)
    run = lockstep_run(path, Limits(), 200.0)
    run.settle(200.0 + Limits().silence_s - 0.1)
    assert run.ended is None
    run.settle(200.0 + Limits().silence_s + 0.1)
    assert run.ended == "timeout"
    assert "limits.silence_s" in run.detail


def test_what_came_while_the_judge_was_away_has_no_latency(tmp_path: Path) -> None:
    """Real time: the gap is the judge's, and may not make a decision late."""
    plan, path = session_plan("emotion"), tmp_path / "run.jsonl"
    rules = {"decision_limit_s": 0.5}

    def packets(run: TeamRun, first: int, stop: int, last_at: float) -> None:
        for i in range(first, stop):
            triggers = [(0, 242)] if i == 0 else []
            at = last_at - (stop - 1 - i) * 0.2
            run.order.add_note(PacketNote(i, 0, 0, i * 50, 50, triggers), at)

    def judge(at: float, past: list[dict[str, object]]) -> TeamRun:
        log = RunLog(path, append=bool(past))
        order = RealtimeOrder(0.0)
        return TeamRun("t", "emotion", rules, Limits(), plan, log, at, order=order, past=past)

    run = judge(100.0, [])
    packets(run, 0, 6, 101.2)  # a second is complete, and the judge dies
    run.settle(101.3)
    kill_judge(run)
    run = judge(110.0, [event for _, event in read_log(path)])
    packets(run, 6, 11, 108.0)  # the next second was complete while it was away
    run.order.messages.put(report(3), 110.1)
    run.settle(110.2)
    packets(run, 11, 16, 110.4)
    run.order.messages.put(report(3, seq=1), 110.5)
    run.settle(110.6)
    reports = [event for _, event in read_log(path) if event["kind"] == "report"]
    assert [event.get("elapsed_s") for event in reports] == [None, pytest.approx(0.1)]
    right = run.run.verdicts()[0].right
    run.end("stopped", "", 111.0)
    assert right == (True,)


def times(path: Path) -> list[float]:
    return [event["t"] for _, event in read_log(path) if event["kind"] != "seal"]


def test_time_never_runs_backwards_after_two_restarts(tmp_path: Path) -> None:
    """Lockstep: each new judge receives packets that the team had before the judge was started."""
    path = tmp_path / "run.jsonl"
    packet = 0
    for begun, received in [
        (100.0, (101.0, 103.0)),
        (200.0, (105.0, 107.0)),
        (300.0, (109.0, 113.0)),
    ]:
        run = lockstep_run(path, Limits(), begun)
        for at in received:
            fold_packet(run, packet, at)
            packet += 1
        if begun < 300.0:
            kill_judge(run)
    assert run.compute.used_s == pytest.approx(
        2.0 + 2.0 + 4.0
    )  # without the two gaps between the judges
    run.fold(TeamDone("stopped", "", 114.0))
    run.settle(114.0)
    run.settle(400.0)
    assert run.ended == "stopped"
    assert all(earlier <= later for earlier, later in pairwise(times(path)))
    packets = [event["t"] for _, event in read_log(path) if event["kind"] == "packet"]
    assert packets == pytest.approx([1.0, 3.0, 3.0, 5.0, 5.0, 9.0])


def test_time_never_runs_backwards_in_real_time(tmp_path: Path) -> None:
    """A report within the grace stands before its packet, which has the earlier time stamp."""
    path = tmp_path / "run.jsonl"
    run = realtime_run("erp", path, session_plan("erp"))
    run.order.add_note(PacketNote(0, 0, 0, 0, 10), 1.00)
    run.order.messages.put(report("A"), 1.01)
    run.settle(1.2)
    run.end("stopped", "", 1.1)
    assert all(earlier <= later for earlier, later in pairwise(times(path)))


def test_a_report_line_keeps_the_message_of_the_team_and_its_number(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    run = lockstep_run(path, Limits(), 0.0)
    fold_packet(run, 0, 1.0)
    run.fold(ReportReceived("A", 1.5, "t r1 7 sealed", 3))
    run.end("stopped", "", 2.0)
    (line,) = (event for _, event in read_log(path) if event["kind"] == "report")
    assert (line["message"], line["n"], line["result"]) == ("t r1 7 sealed", 3, "A")


def test_the_log_of_a_run_that_has_ended_is_sealed(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    run = lockstep_run(path, Limits(), 0.0)
    assert (run.head, run.lines) == ("", 0)
    run.end("stopped", "", 1.0)
    *_, end, seal = path.read_text().splitlines()
    assert json.loads(end)["h"] == run.head
    assert len(path.read_text().splitlines()) == run.lines + 1
    signed = seal[: seal.rindex(',"h":"')] + "}"
    text = KEY.public.verified(signed, "log")
    assert text is not None
    assert json.loads(text) == {
        "kind": "seal", "contest": "c", "run": "r1", "team": "t", "head": run.head, "lines": run.lines,
    }  # fmt: skip


def test_a_judge_that_died_before_the_seal_is_followed_by_one_that_writes_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.jsonl"
    run = lockstep_run(path, Limits(), 0.0)
    run.end("stopped", "", 1.0)
    whole = path.read_bytes()
    path.write_bytes(b"".join(whole.splitlines(keepends=True)[:-1]))
    second = lockstep_run(path, Limits(), 50.0)
    assert path.read_bytes() == whole
    third = lockstep_run(path, Limits(), 60.0)
    assert path.read_bytes() == whole
    assert (run.head, run.lines) == (second.head, second.lines) == (third.head, third.lines)


def test_a_log_of_version_1_that_is_continued_has_no_head(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"kind":"run","v":1,"track":"erp","team":"t","rules":{},"t":0.0}\n')
    run = lockstep_run(path, Limits(), 50.0)
    run.end("stopped", "", 51.0)
    assert (run.head, run.lines) == ("", len(path.read_text().splitlines()))
    assert score_run(path).result() == run.run.result()


def test_of_a_run_that_has_ended_nothing_is_kept(tmp_path: Path) -> None:
    """A team that was disqualified may go on sending: it must not fill the judge's memory."""
    run = realtime_run("erp", tmp_path / "run.jsonl", session_plan("erp"))
    for seq in range(500):
        run.receive(report("x", seq), "x" * 100, 0.0)
    assert run.ended == "disqualified"
    kept = dict(run.order.messages._early)
    for seq in range(500):
        run.receive(report("x", 500 + seq), "x" * 100, 0.0)
    assert run.order.messages._early == kept
    assert len(kept) < 200


def test_a_minute_of_messages_is_one_of_data(tmp_path: Path) -> None:
    """A fast decoder in lockstep sends in a second what it sends in real time in a minute."""
    limits = Limits(message_mb_a_minute=1.0)
    run = lockstep_run(tmp_path / "run.jsonl", limits, 0.0)
    for i in range(3000):  # 120 s of data, all at one time; 1.5 MB, of which a minute has 0.75
        fold_packet(run, i, 5.0)
        run.count_message(500, 5.0)
        assert run.ended is None
    for _ in range(600):
        run.count_message(500, 5.0)
    assert run.ended == "disqualified"
