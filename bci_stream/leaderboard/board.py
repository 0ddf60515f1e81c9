"""The leaderboard of a contest: the judge adds events, displays read rows and numbered updates.

The judge's threads call `team`, `event` and `alarm`. A display calls `tick` a few times a second and
takes the updates that `after` returns. Updates are numbered, so a display that missed some continues
after its last update; if that is not possible (it is new, or the update is too old), it takes a
snapshot.
"""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any, Final

from bci_stream.leaderboard.embargo import ClosedTrials, Embargo, TeamKey
from bci_stream.leaderboard.ranking import (
    COLUMNS,
    IN_PLAY,
    TIE_RULE,
    LeaderboardRow,
    Qualifying,
    rank,
)
from bci_stream.leaderboard.standing import standing
from bci_stream.leaderboard.team_view import DetailMark, TeamView
from bci_stream.leaderboard.updates import LeaderboardUpdate, UpdateLog
from bci_stream.leaderboard.verdict_rows import LONGEST_REASON, short_text
from tracks.common.reasons import Reason
from tracks.common.verdicts import Verdict
from tracks.common.words import describe
from tracks.registry import TRACKS
from tracks.run import Run

logger = logging.getLogger(__name__)

VERDICTS_KEPT: Final = 40
"""Verdicts of each track in a snapshot, and at most in an update."""
TIMELINES_SHOWN: Final = 12
"""Time lines of the best running teams of each track; a page has no room for more."""
ALARMS_KEPT: Final = 12
ALARMS_LOGGED: Final = 200
LONGEST_ANNOUNCEMENT: Final = 200

HELD_BACK: Final = Reason("trials_held_back")

VerdictRows = dict[tuple[Any, ...], dict[str, Any]]
"""Rows of verdicts by team and trial, the newest last."""


class Leaderboard:
    """Everything that is shown of a contest. All methods may be called from any thread.

    A closed trial is shown when no other team may still be asked the same (see `embargo`).
    teams: the contest's list; empty if anyone may take part. In lockstep each of them may still be
    asked every trial of its track until its run has ended, or until `close`. teams_of: the list of a track,
    where each has its own. display_name: of a team; empty if it has none.
    """

    def __init__(
        self,
        contest: str = "BCI contest",
        qualifying: Qualifying | None = None,
        teams: Collection[str] = (),
        *,
        teams_of: Callable[[str], Collection[str]] | None = None,
        display_name: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._contest = contest
        listed = tuple(teams)
        self._teams_of = teams_of or (lambda _: listed)
        self._display_name = display_name
        self._closed = False
        self._embargo = Embargo()
        self._qualifying = qualifying or Qualifying()
        self._lock = threading.Lock()
        self._log = UpdateLog()
        self._views: dict[TeamKey, TeamView] = {}
        self._rows: dict[TeamKey, LeaderboardRow] = {}
        self._sent_rows: dict[TeamKey, tuple[int, LeaderboardRow]] = {}
        self._rows_changed = False
        self._standing: list[dict[str, Any]] = []
        self._verdicts: dict[str, VerdictRows] = {}
        self._alarms: dict[str, dict[str, Any]] = {}  # by their text, the newest last
        self._alarms_logged = 0
        self._timelines: dict[TeamKey, dict[str, Any]] = {}
        # Since the last update:
        self._changed: set[TeamKey] = set()
        self._moved: set[TeamKey] = set()
        self._new_points: dict[str, list[tuple[float, float]]] = {}
        self._new_verdicts: dict[str, VerdictRows] = {}
        self._alarms_changed = False
        self._announcement = self._sent_announcement = ""
        self._restarted: list[str] = []

    # --- called by the judge ------------------------------------------------------------------

    def team(
        self,
        name: str,
        track: str,
        status: str = "waiting",
        reason: str | Reason = "",
        lag_s: float = 0.0,
    ) -> None:
        """Add a team, or set its status. reason: a code, or free text."""
        with self._lock:
            self._view(name, track).set_status(status, reason, lag_s)
            self._changed.add((track, name))
            self._release()

    def event(
        self, team: str, track: str, event: dict[str, Any], verdicts: Sequence[Verdict], run: Run
    ) -> None:
        """Add a line of the run log after it was written, with what `run.feed(event)` returned."""
        with self._lock:
            key = (track, team)
            if event["kind"] == "run":
                self._begin_run(key)
            closed = self._view(team, track).add_event(event, verdicts, run)
            self._moved.add(key)
            if event["kind"] != "packet":
                self._changed.add(key)
            elif self._embargo.holds(key):
                self._embargo.packet_received(key)
                self._release()
            if closed is not None:
                self._embargo.add(key, closed)
                self._release()

    def measured(self, team: str, track: str, figures: dict[str, float]) -> None:
        """Show what the host measured of a team's submission, see `measured.MEASURES`."""
        with self._lock:
            self._view(team, track).measured = figures
            self._changed.add((track, team))

    def alarm(self, reason: Reason) -> None:
        """Show a disturbance that is no team's fault; the last ALARMS_KEPT are shown, with their counts."""
        row = _alarm_row(reason, 1)
        text = row["reason"]
        with self._lock:
            row["count"] += self._alarms.pop(text, {"count": 0})["count"]
            self._alarms[text] = row
            if len(self._alarms) > ALARMS_KEPT:
                del self._alarms[next(iter(self._alarms))]
            self._alarms_changed = True
            is_logged = row["count"] == 1 and self._alarms_logged < ALARMS_LOGGED
            self._alarms_logged += is_logged
        if is_logged:
            logger.warning("%s", text)

    def announce(self, text: str) -> None:
        """Show the organiser's line of text; empty removes it."""
        with self._lock:
            self._announcement = short_text(text, LONGEST_ANNOUNCEMENT)

    @property
    def announcement(self) -> str:
        with self._lock:
            return self._announcement

    def close(self) -> None:
        """The contest has ended: nothing is held back any more, also for teams that never began."""
        with self._lock:
            self._closed = True
            self._release()

    # --- called by displays -------------------------------------------------------------------

    def tick(self) -> int:
        """Make one update of everything that changed since the last; returns its number."""
        with self._lock:
            return self._make_update()

    def after(self, cursor: str) -> list[LeaderboardUpdate] | None:
        """The updates after the one with the id `cursor`; None if a snapshot is needed."""
        with self._lock:
            return self._log.after(cursor)

    def snapshot(self) -> LeaderboardUpdate:
        """Everything that is shown, numbered like the last update."""
        with self._lock:
            self._make_update()
            return self._log.snapshot(self._everything)

    def rows(self, track: str | None = None) -> list[LeaderboardRow]:
        """The ranked rows of one track or of all."""
        with self._lock:
            self._rank()
            return [row for row in self._rows.values() if track is None or row.track == track]

    def detail(self, team: str, track: str) -> dict[str, Any] | None:
        """What a team's own page shows; None for an unknown team."""
        with self._lock:
            view = self._views.get((track, team))
            if view is None:
                return None
            self._rank()
            return {"row": asdict(self._rows[track, team]), **view.detail()}

    def team_keys(self) -> list[TeamKey]:
        with self._lock:
            return list(self._views)

    def detail_after(
        self, key: TeamKey, mark: DetailMark | None, most: int
    ) -> tuple[dict[str, Any], DetailMark] | None:
        """What changed in a team's detail since `mark`, see `TeamView.detail_after`."""
        with self._lock:
            return self._views[key].detail_after(mark, most)

    # --- with the lock held -------------------------------------------------------------------

    def _view(self, team: str, track: str) -> TeamView:
        key = (track, team)
        if key not in self._views:
            self._views[key] = TeamView(team, track, self._display_name(team))
            self._changed.add(key)
        return self._views[key]

    def _begin_run(self, key: TeamKey) -> None:
        """A team's next run replaces its last one."""
        view = self._views.get(key)
        if view is not None and view.history:
            track, team = key
            self._views[key] = TeamView(team, track, self._display_name(team))
            self._embargo.remove_team(key)
            self._new_points.pop(f"{track}/{team}", None)
            self._restarted.append(f"{track}/{team}")

    def _release(self) -> None:
        """Show the closed trials whose labels no other team could still use."""
        for key, closed in self._embargo.release(self._waits_for):
            track, team = key
            view = self._views[key]
            rows = [{"team": team, "track": track} | row for row in view.show_trials(closed)]
            for kept in (self._verdicts, self._new_verdicts):
                add_verdicts(kept.setdefault(track, {}), rows)
            self._new_points.setdefault(f"{track}/{team}", []).append(view.history[-1])
            self._changed.add(key)

    def _waits_for(self, key: TeamKey, closed: ClosedTrials) -> list[TeamKey]:
        """The teams on the same track that may still be asked the same trials."""
        if self._closed:
            return []
        track, lockstep = key[0], self._views[key].pace == "lockstep"
        # A hundred trials may close at once: the condition that is rarely true comes first.
        in_play = [
            other
            for other, view in self._views.items()
            if (lockstep or view.pace == "lockstep" or (closed.ahead and view.pace))
            and other[0] == track
            and other != key
            and view.status in IN_PLAY
        ]
        return in_play + self._not_begun(track) if lockstep else in_play

    def _not_begun(self, track: str) -> list[TeamKey]:
        """The teams of the list that have not come, and may still."""
        listed = [(track, team) for team in self._teams_of(track)]
        return [k for k in listed if k not in self._views or self._views[k].status == "missing"]

    def _make_update(self) -> int:
        if data := self._changes():
            self._log.add(data)
        return self._log.number

    def _everything(self) -> dict[str, Any]:
        contest = {
            "name": self._contest,
            "tie_rule": TIE_RULE,
            "qualifying": asdict(self._qualifying),
        }
        return {
            "contest": contest,
            "tracks": self._track_facts(),
            "rows": [_row_data(order, row) for order, row in self._sent_rows.values()],
            "history": {f"{t}/{n}": list(view.history) for (t, n), view in self._views.items()},
            "lanes": {f"{t}/{n}": drawn for (t, n), drawn in self._timelines.items()},
            "verdicts": _all_tracks(self._verdicts),
            "alarms": list(self._alarms.values()),
            "announcement": self._announcement,
            "standing": self._standing,
        }

    def _changes(self) -> dict[str, Any]:
        """The parts of the snapshot that changed since the last update; empty if none did."""
        known_tracks = {track for track, _ in self._sent_rows}
        points, self._new_points = self._new_points, {}
        verdicts, self._new_verdicts = _all_tracks(self._new_verdicts), {}
        restarted, self._restarted = self._restarted, []
        alarms_changed, self._alarms_changed = self._alarms_changed, False
        rows = self._changed_rows()
        new_track = {row["track"] for row in rows} - known_tracks
        parts = {
            "rows": rows,
            "tracks": self._track_facts() if new_track else None,
            "restarted": restarted,
            "history": points,
            "lanes": self._changed_timelines(),
            "verdicts": verdicts,
            "alarms": list(self._alarms.values()) if alarms_changed else None,
            "standing": self._new_standing() if rows else None,
        }
        changed: dict[str, Any] = {name: part for name, part in parts.items() if part}
        if self._announcement != self._sent_announcement:  # an empty one is sent, too
            self._sent_announcement = changed["announcement"] = self._announcement
        return changed

    def _new_standing(self) -> list[dict[str, Any]]:
        """The standing over all tracks, where there are several, if it has changed; else none."""
        if len({track for track, _ in self._rows}) < 2:
            return []
        before = self._standing
        self._standing = [asdict(row) for row in standing(list(self._rows.values()))]
        return self._standing if self._standing != before else []

    def _track_facts(self) -> dict[str, Any]:
        played = {track for track, _ in self._views}
        facts = [TRACKS[name] for name in TRACKS if name in played]
        return {t.name: {"title": t.title, "unit": t.unit, "names": t.names} for t in facts}

    def _rank(self) -> None:
        """Rank the rows again if one changed; only changed rows are computed."""
        if self._changed:
            rows = self._rows | {key: self._row(key) for key in self._changed}
            self._changed.clear()
            ranked = rank(rows.values(), self._qualifying)
            self._rows = {(row.track, row.team): row for row in ranked}
            self._rows_changed = True

    def _row(self, key: TeamKey) -> LeaderboardRow:
        row = self._views[key].row()
        if row.status != "finished" or not self._embargo.holds(key):
            return row
        reasons = [HELD_BACK.to_json()]
        return replace(row, status="running", reason=describe(HELD_BACK), reasons=reasons)

    def _changed_rows(self) -> list[dict[str, Any]]:
        """Of each changed row the fields that changed: the end of a trial changes all rows at once."""
        self._rank()
        if not self._rows_changed:
            return []
        self._rows_changed = False
        changed = []
        for _, rows in groupby(self._rows.values(), key=lambda row: row.track):
            for order, row in enumerate(rows):
                key, now = (row.track, row.team), (order, row)
                before = self._sent_rows.get(key)
                if before != now:
                    self._sent_rows[key] = now
                    changed.append(_row_data(*now) if before is None else _new_data(before, now))
        return changed

    def _changed_timelines(self) -> dict[str, Any]:
        """The time lines to draw; None for one that is not shown any more."""
        best = self._best_running()
        moved, self._moved = self._moved & best, set()
        to_draw = moved | (best - self._timelines.keys())
        drawn = {key: self._views[key].timeline.view() for key in to_draw}
        gone = self._timelines.keys() - best
        self._timelines = {k: line for k, line in self._timelines.items() if k in best} | drawn
        changed: dict[TeamKey, Any] = drawn | dict.fromkeys(gone)
        return {f"{track}/{team}": line for (track, team), line in changed.items()}

    def _best_running(self) -> set[TeamKey]:
        best: dict[str, list[TeamKey]] = {}
        for key, row in self._rows.items():
            if row.status in ("running", "lagging"):
                best.setdefault(row.track, []).append(key)
        return {key for keys in best.values() for key in keys[:TIMELINES_SHOWN]}


def _row_data(order: int, row: LeaderboardRow) -> dict[str, Any]:
    """order: position of the row in the table of its track, also for teams without a rank."""
    return {name: getattr(row, name) for name in COLUMNS} | {"order": order}


def _new_data(
    before: tuple[int, LeaderboardRow], now: tuple[int, LeaderboardRow]
) -> dict[str, Any]:
    """Team and track of a row, and the fields that changed."""
    old, new = _row_data(*before), _row_data(*now)
    changed = {name: value for name, value in new.items() if old[name] != value}
    return {"team": new["team"], "track": new["track"]} | changed


def _all_tracks(verdicts: Mapping[str, VerdictRows]) -> list[dict[str, Any]]:
    return [row for rows in verdicts.values() for row in rows.values()]


def add_verdicts(kept: VerdictRows, rows: Sequence[dict[str, Any]]) -> None:
    """Add rows of one track; a row replaces the one of the same team and trial. Keeps VERDICTS_KEPT."""
    for row in rows:
        key = tuple(row[name] for name in ("team", "subject", "session", "block", "trial"))
        kept.pop(key, None)
        kept[key] = row
    for key in list(kept)[: max(0, len(kept) - VERDICTS_KEPT)]:
        del kept[key]


def _alarm_row(reason: Reason, count: int) -> dict[str, Any]:
    """Texts are shortened: an alarm may quote what anyone on the network has sent."""
    coded = reason.to_json()
    given = coded["parameters"].items()
    coded["parameters"] = {name: short_text(v) if isinstance(v, str) else v for name, v in given}
    text = short_text(describe(reason), LONGEST_REASON)
    return {"reason": text, "reasons": [coded], "count": count}
