"""The leaderboard: rows, updates and snapshots, alarms and revised verdicts."""

import json
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bci_stream.leaderboard.board import (
    ALARMS_KEPT,
    ALARMS_LOGGED,
    TIMELINES_SHOWN,
    VERDICTS_KEPT,
    Leaderboard,
)
from bci_stream.leaderboard.ranking import Qualifying
from bci_stream.leaderboard.updates import GZIP_HEAD, UPDATES_KEPT, LeaderboardUpdate, deflate
from scripts.simulated_runs import SimulatedRun
from tracks.common.reasons import Reason
from tracks.common.verdicts import Verdict
from tracks.common.words import describe
from tracks.registry import TRACKS
from tracks.run import Run

Snapshot = dict[str, Any]


def apply(state: Snapshot, update: dict[str, Any]) -> None:
    """What the page does with an update (state.js), in Python."""
    state["tracks"] |= update.get("tracks", {})
    rows: dict[tuple[str, str], Any] = {}
    for row in state["rows"] + update.get("rows", []):
        rows.setdefault((row["track"], row["team"]), {}).update(row)
    state["rows"] = list(rows.values())
    state["history"] |= {key: [] for key in update.get("restarted", [])}
    for key, points in update.get("history", {}).items():
        state["history"][key] = state["history"].get(key, []) + points
    for key, timeline in update.get("lanes", {}).items():
        state["lanes"].pop(key, None)
        if timeline is not None:
            state["lanes"][key] = timeline
    state["verdicts"] = state["verdicts"] + update.get("verdicts", [])


def plain(data: Any) -> Any:
    return json.loads(json.dumps(data))


def comparable(snapshot: Snapshot) -> Snapshot:
    kept = {name: snapshot[name] for name in ("tracks", "rows", "history", "lanes")}
    return kept | {"rows": sorted(kept["rows"], key=lambda row: (row["track"], row["order"]))}


@pytest.mark.parametrize("every", [1, 7, 400])
def test_a_snapshot_and_the_updates_after_it_amount_to_the_next_snapshot(every: int) -> None:
    board = Leaderboard()
    runs = [(SimulatedRun("mi", name, trials=3, seed=2).events(), name, Run()) for name in "ab"]
    board.team("c", "erp")
    state = plain(board.snapshot().data)
    cursor = board.snapshot().id
    for number, events in enumerate(zip(*(run[0] for run in runs), strict=True)):
        for event, (_, name, run) in zip(events, runs, strict=True):
            board.event(name, "mi", event, run.feed(event), run)
        if number % every == 0:
            board.tick()
            for message in board.after(cursor) or []:
                apply(state, plain(message.data))
                cursor = message.id
    board.tick()
    for message in board.after(cursor) or []:
        apply(state, plain(message.data))
    final = plain(board.snapshot().data)
    assert comparable(state) == comparable(final)
    assert len(state["verdicts"]) == 6


def test_a_teams_next_run_takes_the_place_of_its_last_one(feed_board: Callable[..., Run]) -> None:
    board = Leaderboard()
    state = plain(board.snapshot().data)
    cursor = board.snapshot().id
    feed_board(board, "a", "mi", SimulatedRun("mi", "a", 1.0, trials=3).events())
    board.tick()
    again = feed_board(board, "a", "mi", SimulatedRun("mi", "a", 0.3, trials=2, seed=8).events())
    board.tick()
    for message in board.after(cursor) or []:
        apply(state, plain(message.data))
    row = board.rows()[0]
    assert (row.trials, row.score) == (2, again.result()["score"])
    assert len(state["history"]["mi/a"]) == 3  # two trials and the end
    assert comparable(state) == comparable(plain(board.snapshot().data))


def test_an_idle_board_makes_no_update() -> None:
    board = Leaderboard()
    board.team("a", "mi")
    assert board.tick() == 1
    assert board.tick() == 1
    board.team("a", "mi")
    assert board.tick() == 1


def test_a_page_goes_on_where_it_left_off_and_is_given_a_snapshot_where_that_is_too_long_ago() -> (
    None
):
    board = Leaderboard()
    board.team("a", "mi")
    first = board.snapshot().id
    assert board.after(first) == []
    for number in range(3):
        board.team("a", "mi", "lagging", lag_s=float(number))
        board.tick()
    missed = board.after(first)
    assert missed is not None
    assert [message.number for message in missed] == [2, 3, 4]
    for number in range(UPDATES_KEPT):
        board.team("a", "mi", "lagging", lag_s=float(number + 10))
        board.tick()
    assert board.after(first) is None


def test_exactly_the_updates_that_are_kept_can_be_caught_up_with() -> None:
    board = Leaderboard()
    boot = board.snapshot().id.partition("-")[0]
    for number in range(UPDATES_KEPT + 5):
        board.team("a", "mi", "lagging", lag_s=float(number))
        last = board.tick()
    for missed in (0, 1, UPDATES_KEPT - 1, UPDATES_KEPT):
        assert len(board.after(f"{boot}-{last - missed}") or []) == missed
    assert board.after(f"{boot}-{last - UPDATES_KEPT - 1}") is None


@pytest.mark.parametrize("cursor", ["", "nonsense", "0badcafe-1", "-", "-1"])
def test_the_cursor_of_another_judge_or_of_no_judge_asks_for_a_snapshot(cursor: str) -> None:
    board = Leaderboard()
    board.team("a", "mi")
    assert board.tick() == 1
    assert board.after(cursor) is None


def test_a_cursor_from_the_future_asks_for_a_snapshot() -> None:
    board = Leaderboard()
    boot = board.snapshot().id.partition("-")[0]
    assert board.after(f"{boot}-99") is None


def test_the_final_score_is_that_of_the_log_bit_for_bit(feed_board: Callable[..., Run]) -> None:
    for track in TRACKS:
        board = Leaderboard()
        simulated = SimulatedRun(track, "a", 0.7, subjects=2, trials=2, seed=5)
        run = feed_board(board, "a", track, simulated.events())
        row = board.rows()[0]
        assert row.score == run.result()["score"]
        assert row.status == "finished"
        assert row.rank == 1


def test_at_the_end_the_running_score_gives_way_to_the_final_one(
    feed_board: Callable[..., Run],
) -> None:
    """A turing block that never gets enough right runs above 0 and ends with 0."""
    board = Leaderboard()
    feed_board(board, "a", "turing", SimulatedRun("turing", "a", 0.5, trials=8, seed=2).events())
    detail = board.detail("a", "turing")
    assert detail is not None
    assert max(score for _, score in detail["history"][:-1]) > 0
    assert detail["history"][-1][1] == board.rows()[0].score == 0.0


def test_a_verdict_and_the_score_appear_together_when_the_trial_is_closed() -> None:
    board, run = Leaderboard(), Run()
    for event in SimulatedRun("erp", "a", 1.0, trials=1, seed=1).events():
        verdicts = run.feed(event)
        board.event("a", "erp", event, verdicts, run)
        row = board.rows()[0]
        shown = board.snapshot().data["verdicts"]
        assert len(shown) == row.trials == len(board.detail("a", "erp")["trials"])  # type: ignore[index]
    assert row.trials == 1


def angles_of(board: Leaderboard, team: str) -> Any:
    detail = board.detail(team, "ecog")
    return detail and detail["angles"]


def test_an_ecog_run_that_ends_before_a_trial_is_closed_shows_no_angles(
    feed_board: Callable[..., Run],
) -> None:
    events = list(SimulatedRun("ecog", "a", trials=1).events())
    board = Leaderboard()
    feed_board(board, "a", "ecog", [*events[:20], events[-1]])
    assert angles_of(board, "a") is None


def test_an_update_says_of_a_row_only_what_changed(feed_board: Callable[..., Run]) -> None:
    board = Leaderboard()
    feed_board(board, "a", "mi", SimulatedRun("mi", "a", trials=1).events())
    cursor = board.snapshot().id
    board.team("a", "mi", "lagging", lag_s=2.0)
    board.tick()
    (update,) = board.after(cursor) or []
    assert update.data["rows"] == [{"team": "a", "track": "mi", "status": "lagging", "lag_s": 2.0}]


def test_an_update_carries_no_more_verdicts_than_a_page_keeps(
    feed_board: Callable[..., Run],
) -> None:
    board = Leaderboard()
    cursor = board.snapshot().id
    for track in ("mi", "erp"):
        events = SimulatedRun(track, "a", trials=VERDICTS_KEPT + 5).events()
        feed_board(board, "a", track, events)
    board.tick()
    (update,) = board.after(cursor) or []
    sent = [(item["track"], item["trial"]) for item in update.data["verdicts"]]
    kept = range(5, VERDICTS_KEPT + 5)
    assert sent == [(track, trial) for track in ("mi", "erp") for trial in kept]


def test_teams_of_the_same_name_on_two_tracks_are_two_rows() -> None:
    board = Leaderboard()
    board.team("a", "mi")
    board.team("a", "erp", "running")
    assert {(row.track, row.status) for row in board.rows()} == {
        ("mi", "waiting"),
        ("erp", "running"),
    }
    assert [row.track for row in board.rows("mi")] == ["mi"]


def test_the_snapshot_announces_the_tie_rule_and_the_line() -> None:
    contest = Leaderboard("Finals", Qualifying(top=3)).snapshot().data["contest"]
    assert contest["name"] == "Finals"
    assert "share the rank" in contest["tie_rule"]
    assert contest["qualifying"] == {"top": 3, "least_score": None}


def test_a_page_gets_the_time_lines_of_the_best_teams_only() -> None:
    board = Leaderboard()
    for number in range(TIMELINES_SHOWN + 5):
        board.team(f"t{number}", "mi", "running")
    assert len(board.snapshot().data["lanes"]) == TIMELINES_SHOWN


def test_a_time_line_goes_when_its_run_ends(feed_board: Callable[..., Run]) -> None:
    board = Leaderboard()
    board.team("a", "mi", "running")
    assert "mi/a" in board.snapshot().data["lanes"]
    feed_board(board, "a", "mi", SimulatedRun("mi", "a", trials=1).events())
    assert board.snapshot().data["lanes"] == {}


def test_an_unknown_team_has_no_detail() -> None:
    assert Leaderboard().detail("unknown", "mi") is None


def test_why_a_run_ended_is_shown(feed_board: Callable[..., Run]) -> None:
    board = Leaderboard()
    simulated = SimulatedRun("mi", "a", trials=1, end="crashed", detail="exit code 3")
    feed_board(board, "a", "mi", simulated.events())
    assert (board.rows()[0].status, board.rows()[0].reason) == ("crashed", "exit code 3")


def test_an_ending_that_the_judge_gave_is_shown_in_words_and_as_a_code() -> None:
    board, why = Leaderboard(), Reason("left_early")
    run = Run()
    for event in SimulatedRun("mi", "a", trials=1, end="stopped", detail=describe(why)).events():
        if event["kind"] == "end":
            event["why"] = why.to_json()
        board.event("a", "mi", event, run.feed(event), run)
    row = board.rows()[0]
    assert (row.reason, row.reasons) == (describe(why), [why.to_json()])
    board.team("a", "mi", "stopped", Reason("judge_stopped"))
    assert board.rows()[0].reasons == [Reason("judge_stopped").to_json()]
    board.team("a", "mi", "crashed", "exit code 3")
    assert board.rows()[0].reasons == []


@given(st.lists(st.binary(max_size=200)))
def test_pieces_that_are_compressed_separately_make_one_gzip_stream(texts: list[bytes]) -> None:
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    read = reader.decompress(GZIP_HEAD)
    for text in texts:
        piece = reader.decompress(deflate(text))
        assert piece == text  # at once: nothing waits for the next piece
        read += piece
    assert read == b"".join(texts)


def test_an_update_is_one_event_with_its_id_in_both_forms() -> None:
    message = LeaderboardUpdate("boot", 7, "update", {"rows": ["é\n"]})
    assert message.encoded == 'id: boot-7\nevent: update\ndata: {"rows":["é\\n"]}\n\n'.encode()
    assert zlib.decompress(GZIP_HEAD + message.deflated + gzip_end(message), 31)


def gzip_end(message: LeaderboardUpdate) -> bytes:
    """What a gzip stream ends with: an empty last block, a checksum, a length."""
    size = len(message.encoded)
    return (
        b"\x03\x00" + zlib.crc32(message.encoded).to_bytes(4, "little") + size.to_bytes(4, "little")
    )


def test_an_alarm_is_shown_once_with_its_count() -> None:
    board = Leaderboard()
    cursor = board.snapshot().id
    for code in (1, 2, 1):
        board.alarm(Reason("page_ended", exit_code=code))
    board.tick()
    (update,) = board.after(cursor) or []
    shown = [(alarm["reason"], alarm["count"]) for alarm in update.data["alarms"]]
    words = "the page's process ended (exit code {}) and was started again"
    assert shown == [(words.format(2), 1), (words.format(1), 2)]  # the newest last
    assert board.snapshot().data["alarms"] == update.data["alarms"]
    number = board.tick()
    board.team("a", "mi")
    assert board.tick() == number + 1
    assert "alarms" not in (board.after(update.id) or [])[0].data


def test_alarms_are_bounded_in_number_and_length() -> None:
    board = Leaderboard()
    for number in range(10 * ALARMS_LOGGED):
        board.alarm(Reason("replay_failed", detail=f"{number}\x1b" + 1000 * "x"))
    alarms = board.snapshot().data["alarms"]
    assert len(alarms) == ALARMS_KEPT
    assert len(json.dumps(alarms)) < ALARMS_KEPT * 1000
    assert "\x1b" not in alarms[-1]["reason"]
    assert "\x1b" not in alarms[-1]["reasons"][0]["parameters"]["detail"]


def judged(board: Leaderboard, track: str = "mi", trials: int = 3) -> tuple[Run, list[Verdict]]:
    """A team's whole run, all of it right, and its verdicts."""
    run, given = Run(), []
    for event in SimulatedRun(track, "a", 1.0, trials=trials, seed=3).events():
        verdicts = run.feed(event)
        board.event("a", track, event, verdicts, run)
        given += verdicts
    return run, given


def test_a_revised_verdict_replaces_the_earlier_one() -> None:
    board = Leaderboard()
    run, given = judged(board)
    before = board.detail("a", "mi")
    assert before is not None
    void = replace(given[1], scored=False, reasons=(Reason("judge_stopped"),))
    board.event("a", "mi", {"kind": "void", "t": 99.0}, [void], run)
    detail = board.detail("a", "mi")
    assert detail is not None
    assert [trial["mark"] for trial in detail["trials"]] == ["right", "unscored", "right"]
    assert detail["trials"][1]["reason"] == "the judge was stopped"
    counts = [sum(map(sum, shown["confusion"]["counts"])) for shown in (before, detail)]
    assert counts[0] - counts[1] == len(given[1].answers) > 0
    feed = board.snapshot().data["verdicts"]
    assert [(row["trial"], row["mark"]) for row in feed] == [
        (0, "right"), (2, "right"), (1, "unscored"),
    ]  # fmt: skip
    assert detail["history"][-1][0] == 99.0


def test_two_sessions_of_one_subject_are_not_revisions_of_each_other() -> None:
    board, run = Leaderboard(), Run()
    for event in SimulatedRun("mi", "a", 1.0, subjects=2, trials=2, seed=3).events():
        if event["kind"] == "session":
            event["subject"] = "S1"
        board.event("a", "mi", event, run.feed(event), run)
    detail = board.detail("a", "mi")
    assert detail is not None
    places = [(trial["session"], trial["trial"]) for trial in detail["trials"]]
    assert places == [(1, 0), (1, 1), (2, 0), (2, 1)]
    assert len(board.snapshot().data["verdicts"]) == 4
