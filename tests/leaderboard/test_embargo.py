"""Nothing that is shown depends on a label while a team may still be asked for it."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.ranking import to_csv
from scripts.simulated_runs import SimulatedRun
from tracks.common.verdicts import Verdict
from tracks.registry import TRACKS
from tracks.run import Run

pytestmark = pytest.mark.slow

Event = dict[str, Any]
Story = list[tuple[str, Event]]
"""(team, line of its log) in the order in which the judge writes them."""


def lockstep(events: Iterable[Event]) -> Iterator[Event]:
    """The same run with a replay of its own."""
    for event in events:
        yield event | {"pace": "lockstep"} if event["kind"] == "run" else event


def alone(track: str, seed: int = 1) -> Story:
    return [("a", event) for event in SimulatedRun(track, "a", 1.0, trials=3, seed=seed).events()]


def truth_first(track: str) -> Story:
    """As in a log that is judged again: all labels are known from the beginning."""
    story = alone(track)
    return [*story[:2], *sorted(story[2:], key=lambda line: line[1]["kind"] != "truth")]


def one_leaves(track: str) -> Story:
    """Two teams receive one replay; in its second trial one leaves, and is judged on all that it missed."""
    events = [event for _, event in alone(track)]
    packets = [n for n, event in enumerate(events) if event["kind"] == "packet"]
    leaves = packets[len(packets) // 2]
    missed = [event for event in events[leaves:] if event["kind"] == "truth"]
    end = {"kind": "end", "reason": "crashed", "detail": "gone"}
    story: Story = []
    for number, event in enumerate(events):
        story.append(("a", event))  # first: what a packet closes it closes for both
        if number < leaves:
            story.append(("b", event | {"team": "b"} if event["kind"] == "run" else event))
        elif number == leaves:
            story += [("b", line) for line in [*missed, end]]
    return story


def one_is_fast(track: str) -> Story:
    """Lockstep: the fast team has ended before the slow one begins."""
    fast = SimulatedRun(track, "b", 1.0, trials=3, seed=1).events()
    slow = SimulatedRun(track, "a", 1.0, trials=3, seed=1).events()
    story = [("b", event) for event in lockstep(fast)]
    return [("a", {"kind": "joins"}), *story, *(("a", event) for event in lockstep(slow))]


def one_has_not_begun(track: str) -> Story:
    """The same, and the judge learns of the slow team when it begins: it is on the contest's list."""
    return one_is_fast(track)[1:]


STORIES = [alone, truth_first, one_leaves, one_is_fast, one_has_not_begun]
LISTED = ("a", "b")


OPEN_TRIALS = [(track, nth) for track in TRACKS for nth in ((1,) if track == "ecog" else (0, 1, 2))]
"""(track, trial); ecog has a report for each packet, so one trial of it costs as much as all others."""


@pytest.mark.parametrize("make_story", STORIES)
@pytest.mark.parametrize(("track", "nth"), OPEN_TRIALS)
def test_nothing_that_is_shown_changes_with_the_label_of_an_open_trial(
    track: str, make_story: Callable[[str], Story], nth: int
) -> None:
    """Runs whose labels differ from the n-th trial on look the same until team `a` has closed it."""
    shown = [list(shown_until(track, make_story(track), nth, swap)) for swap in (False, True)]
    assert shown[0] == shown[1]
    assert len(shown[0]) > 3


@pytest.mark.parametrize("make_story", STORIES)
@pytest.mark.parametrize("track", list(TRACKS))
def test_in_the_end_everything_is_shown(track: str, make_story: Callable[[str], Story]) -> None:
    board = Leaderboard(teams=LISTED)
    runs = play(board, track, make_story(track))
    for team, run in runs.items():
        detail = board.detail(team, track)
        assert detail is not None
        assert len(detail["trials"]) == len(run.verdicts()) >= 3
        assert detail["row"]["score"] == run.result()["score"]


def play(board: Leaderboard, track: str, story: Story) -> dict[str, Run]:
    runs: dict[str, Run] = {}
    for team, event in story:
        add_to_board(board, track, team, event, runs)
    return runs


def add_to_board(
    board: Leaderboard, track: str, team: str, event: Event, runs: dict[str, Run]
) -> list[Verdict]:
    if event["kind"] == "joins":
        board.team(team, track)
        return []
    run = runs.setdefault(team, Run())
    verdicts = run.feed(event)
    board.event(team, track, event, verdicts, run)
    return verdicts


def shown_until(track: str, story: Story, nth: int, swap: bool) -> Iterator[object]:
    """All that was shown after each line, up to team a's verdict on the n-th trial."""
    board, runs, closed = Leaderboard(teams=LISTED), dict[str, Run](), 0
    truths = {"a": 0, "b": 0}
    board._log.boot = "same"
    cursor = board.snapshot().id
    for team, event in story:
        truths[team] += event["kind"] == "truth"
        line = other_truth(event) if swap and truths[team] > nth else event
        verdicts = add_to_board(board, track, team, line, runs)
        closed += len(verdicts) if team == "a" else 0
        if closed > nth:
            return
        if event["kind"] != "packet" or verdicts:
            yield everything(board, track, cursor)
            cursor = board.snapshot().id
    raise AssertionError("no trial was closed")


def everything(board: Leaderboard, track: str, cursor: str) -> object:
    """What a page, a terminal, and a program that asks the API can know."""
    board.tick()
    updates = [message.encoded for message in board.after(cursor) or []]
    details = [json.dumps(board.detail(team, track)) for team in ("a", "b")]
    return updates, board.snapshot().encoded, details, to_csv(board.rows())


def other_truth(event: Event) -> Event:
    """The same log line with other labels."""
    if event["kind"] != "truth":
        return event
    if "label" in event:
        return event | {"label": 1 if event["label"] != 1 else 2}
    if "clips" in event:
        return event | {"clips": [c | {"label": (c["label"] + 1) % 9} for c in event["clips"]]}
    return event | {"angles": (np.array(event["angles"]) + 1).tolist()}


def test_in_lockstep_verdicts_wait_for_the_slowest_team_in_play(
    feed_board: Callable[..., Run],
) -> None:
    board = Leaderboard()
    board.team("slow", "mi", "running")
    feed_board(board, "fast", "mi", lockstep(SimulatedRun("mi", "fast", trials=3, seed=1).events()))
    fast = board.rows()[0]
    assert (fast.trials, fast.score, fast.rank) == (0, 0.0, None)
    assert "has ended" in fast.reason
    run = Run()
    seen = []
    for event in lockstep(SimulatedRun("mi", "slow", trials=3, seed=1).events()):
        board.event("slow", "mi", event, run.feed(event), run)
        counts = {row.team: row.trials for row in board.rows()}
        assert counts["fast"] <= counts["slow"]
        seen.append(counts["fast"])
    assert sorted(set(seen)) == [0, 1, 2, 3]
    assert {row.status for row in board.rows()} == {"finished"}


def test_in_real_time_no_team_waits_for_one_that_is_late_or_has_another_round_before_it(
    feed_board: Callable[..., Run],
) -> None:
    board = Leaderboard()
    board.team("next round", "mi", "waiting")
    late = list(SimulatedRun("mi", "late", trials=3, seed=1).events())
    feed_board(board, "late", "mi", late[:3])
    feed_board(board, "a", "mi", list(SimulatedRun("mi", "a", trials=3, seed=1).events())[:-1])
    assert {row.team: row.trials for row in board.rows()}["a"] == 3


def test_held_back_angles_are_those_of_the_trial_that_is_shown(
    feed_board: Callable[..., Run],
) -> None:
    board = Leaderboard()
    board.team("slow", "ecog", "running")
    fast = list(SimulatedRun("ecog", "fast", trials=2, seed=1).events())
    feed_board(board, "fast", "ecog", lockstep(fast))
    assert angles_of(board, "fast") is None
    run, seen = Run(), []
    for event in lockstep(SimulatedRun("ecog", "slow", trials=2, seed=1).events()):
        board.event("slow", "ecog", event, run.feed(event), run)
        if (angles := angles_of(board, "fast")) is not None and angles not in seen:
            seen.append(angles)
    by_itself = Leaderboard()
    feed_board(by_itself, "fast", "ecog", fast)
    assert len(seen) == 2
    assert seen[-1] == angles_of(by_itself, "fast")


def angles_of(board: Leaderboard, team: str) -> Any:
    detail = board.detail(team, "ecog")
    return detail and detail["angles"]


@pytest.mark.parametrize("status", ["gone", "crashed", "disqualified", "timeout"])
def test_a_team_that_is_out_holds_nothing_back(status: str, feed_board: Callable[..., Run]) -> None:
    board = Leaderboard()
    board.team("slow", "mi", "waiting")
    feed_board(board, "fast", "mi", lockstep(SimulatedRun("mi", "fast", trials=2).events()))
    assert board.rows()[0].trials == 0
    board.team("slow", "mi", status)
    assert {row.team: row.trials for row in board.rows()}["fast"] == 2


def trials_of(board: Leaderboard, track: str = "mi") -> dict[str, int]:
    return {row.team: row.trials for row in board.rows(track)}


def test_in_lockstep_verdicts_wait_for_listed_teams_that_have_not_begun(
    feed_board: Callable[..., Run],
) -> None:
    board = Leaderboard(teams=("alice", "bob"))
    feed_board(board, "alice", "mi", lockstep(SimulatedRun("mi", "alice", trials=3).events()))
    assert trials_of(board) == {"alice": 0}
    assert "has ended" in board.rows()[0].reason
    run, seen = Run(), set()
    for event in lockstep(SimulatedRun("mi", "bob", trials=3).events()):
        board.event("bob", "mi", event, run.feed(event), run)
        shown = trials_of(board)
        assert shown["alice"] <= shown["bob"]
        seen.add(shown["alice"])
    assert seen == {0, 1, 2, 3}


def test_an_unlisted_team_waits_for_the_listed_ones_too(feed_board: Callable[..., Run]) -> None:
    board = Leaderboard(teams=("bob",))
    feed_board(board, "guest", "mi", lockstep(SimulatedRun("mi", "guest", trials=2).events()))
    assert trials_of(board) == {"guest": 0}
    board.team("bob", "mi", "disqualified")
    assert trials_of(board)["guest"] == 2


def test_a_team_that_has_begun_on_another_track_only_has_not_begun_on_this_one(
    feed_board: Callable[..., Run],
) -> None:
    board = Leaderboard(teams=("alice", "bob"))
    board.team("bob", "erp", "crashed")
    feed_board(board, "alice", "mi", lockstep(SimulatedRun("mi", "alice", trials=2).events()))
    assert trials_of(board) == {"alice": 0}


def test_what_waits_for_a_team_that_never_comes_is_shown_when_the_contest_closes(
    feed_board: Callable[..., Run],
) -> None:
    board = Leaderboard(teams=("alice", "bob"))
    run = feed_board(board, "alice", "mi", lockstep(SimulatedRun("mi", "alice", trials=3).events()))
    assert trials_of(board) == {"alice": 0}
    board.close()
    (row,) = board.rows()
    assert (row.trials, row.score, row.status) == (3, run.result()["score"], "finished")


def test_in_real_time_no_team_waits_for_listed_teams_that_have_not_begun(
    feed_board: Callable[..., Run],
) -> None:
    board = Leaderboard(teams=("alice", "bob"))
    feed_board(board, "alice", "mi", SimulatedRun("mi", "alice", trials=3).events())
    assert trials_of(board) == {"alice": 3}
