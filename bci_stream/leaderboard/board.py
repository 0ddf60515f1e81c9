"""The board is what the judge publishes and the displays consume: rows, lanes, verdicts, signal.

The judge's threads call `team`, `event` and `signal`; a display calls `tick` a few times a second
and sends what `after` gives. Every update has a number, so that a display which lost its link goes
on where it left off, and one that can't (the judge was restarted) is given a snapshot instead.
"""

import secrets
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import groupby, islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bci_stream.leaderboard.embargo import Embargo, Key, Settled
from bci_stream.leaderboard.ranking import IN_PLAY, TIE_RULE, LeaderboardRow, Qualifying, rank
from bci_stream.leaderboard.team_view import TeamView
from bci_stream.leaderboard.updates import LeaderboardUpdate, as_sent, changed_fields, flat
from tracks.common.reasons import Reason
from tracks.common.verdicts import Verdict
from tracks.common.words import describe
from tracks.registry import TRACKS
from tracks.run import Run

SHOWN_LEADS: Final = 8
SHOWN_RATE: Final = 50.0
SHOWN_S: Final = 6.0


class Monitor:
    """Takes samples (n, leads) of any chunking; gives columns at about SHOWN_RATE."""

    def __init__(self, rate: float, leads: tuple[str, ...]) -> None:
        self._source = (rate, leads)
        self._every = max(1, round(rate / SHOWN_RATE))
        self.rate = rate / self._every
        self._picked = np.unique(np.linspace(0, len(leads) - 1, SHOWN_LEADS).round().astype(int))
        self.leads = tuple(leads[i] for i in self._picked)
        self._rest = np.empty((0, len(self._picked)), dtype=np.float32)
        self._columns: deque[list[float]] = deque(maxlen=round(SHOWN_S * self.rate))
        self._unsent: list[list[float]] = []

    def fits(self, rate: float, leads: tuple[str, ...]) -> bool:
        return self._source == (rate, leads)

    def add(self, samples: NDArray[np.float32]) -> None:
        """Average each run of samples into one column, so that nothing fast is aliased badly."""
        whole = np.concatenate([self._rest, samples[:, self._picked]])
        n = len(whole) // self._every
        self._rest = whole[n * self._every :]
        if n == 0:
            return
        means = whole[: n * self._every].reshape(n, self._every, -1).mean(axis=1)
        columns: list[list[float]] = np.nan_to_num(means, posinf=0, neginf=0).round(2).tolist()
        self._columns.extend(columns)
        self._unsent.extend(columns)
        del self._unsent[: -(self._columns.maxlen or 1)]

    def whole(self) -> dict[str, Any]:
        return self._piece(list(self._columns))

    def news(self) -> dict[str, Any] | None:
        """What was added since the last call; None where nothing was."""
        columns, self._unsent = self._unsent, []
        return self._piece(columns) if columns else None

    def _piece(self, columns: list[list[float]]) -> dict[str, Any]:
        return {"rate": self.rate, "leads": self.leads, "columns": columns}


UPDATES_KEPT: Final = 600
VERDICTS_KEPT: Final = 40
"""Of each track, for a page that is opened later; an update carries no more of them either."""
LANES_SHOWN: Final = 12
"""Lanes of the best teams of each track; a page of a hundred lanes could not be read anyway."""

HELD: Final = Reason("trials_held_back")


class Leaderboard:
    """Everything that is shown of a contest. All methods may be called from any thread.

    A trial is shown when no team that may still be asked the same has it before it (see settled.py).
    """

    def __init__(self, contest: str = "BCI contest", qualifying: Qualifying | None = None) -> None:
        self._contest = contest
        self._embargo = Embargo()
        self._qualifying = qualifying or Qualifying()
        self._lock = threading.Lock()
        self._boot = secrets.token_hex(4)
        self._number = 0
        self._snapshot: LeaderboardUpdate | None = None
        self._updates: deque[LeaderboardUpdate] = deque(maxlen=UPDATES_KEPT)
        self._views: dict[Key, TeamView] = {}
        self._shown: dict[Key, tuple[int, LeaderboardRow]] = {}
        self._rows: dict[Key, LeaderboardRow] = {}
        self._stale = False
        self._verdicts: dict[str, deque[dict[str, Any]]] = {}
        self._monitors: dict[str, Monitor] = {}
        self._changed: set[Key] = set()
        self._moved: set[Key] = set()
        self._lanes: dict[Key, dict[str, Any]] = {}
        self._new_points: dict[str, list[tuple[float, float]]] = {}
        self._new_verdicts: dict[str, deque[dict[str, Any]]] = {}
        self._restarted: list[str] = []

    # What the judge calls

    def team(
        self,
        name: str,
        track: str,
        status: str = "waiting",
        reason: str | Reason = "",
        lag_s: float = 0.0,
    ) -> None:
        """A team appears, or what it is doing changes."""
        with self._lock:
            self._view(name, track).set_status(status, reason, lag_s)
            self._changed.add((track, name))
            self._release()

    def event(
        self, team: str, track: str, event: dict[str, Any], verdicts: Sequence[Verdict], run: Run
    ) -> None:
        """The run-log line that was just synced, what Run.feed said to it, and that run."""
        with self._lock:
            key = (track, team)
            if event["kind"] == "run":
                self._begin_run(key)
            settled = self._view(team, track).take(event, verdicts, run)
            self._moved.add(key)
            if event["kind"] != "packet":
                self._changed.add(key)
            elif self._embargo.holds(key):
                self._embargo.pass_by(key)
                self._release()
            if settled is not None:
                self._embargo.add(key, settled)
                self._release()

    def signal(
        self, track: str, samples: NDArray[np.float32], rate: float, leads: tuple[str, ...]
    ) -> None:
        """Samples (n, leads) as they went over the wire, for the small live view."""
        with self._lock:
            monitor = self._monitors.get(track)
            if monitor is None or not monitor.fits(rate, leads):
                monitor = self._monitors[track] = Monitor(rate, leads)
            monitor.add(samples)

    # What the displays call

    def tick(self) -> int:
        """Gather what changed since the last tick into one update; gives the last one's number."""
        with self._lock:
            return self._tick()

    def after(self, cursor: str) -> list[LeaderboardUpdate] | None:
        """The updates after the one named `cursor`; None where a snapshot is needed."""
        with self._lock:
            boot, _, number = cursor.partition("-")
            if boot != self._boot or not number.isdecimal() or int(number) > self._number:
                return None
            missed = self._number - int(number)
            if missed > len(self._updates):
                return None
            return list(islice(self._updates, len(self._updates) - missed, None))

    def snapshot(self) -> LeaderboardUpdate:
        """All that the updates so far amount to, under the number of the last one."""
        with self._lock:
            number = self._tick()
            if self._snapshot is None or self._snapshot.number != number:
                self._snapshot = LeaderboardUpdate(
                    self._boot, number, "snapshot", self._everything()
                )
            return self._snapshot

    def rows(self, track: str | None = None) -> list[LeaderboardRow]:
        """The ranked rows, of one track or of all."""
        with self._lock:
            self._rank()
            return [row for row in self._rows.values() if track is None or row.track == track]

    def detail(self, team: str, track: str) -> dict[str, Any] | None:
        """What a team's own page shows; None for a team that is not here."""
        with self._lock:
            view = self._views.get((track, team))
            if view is None:
                return None
            self._rank()
            return {"row": asdict(self._rows[track, team]), **view.detail()}

    # Gathering; the lock is held

    def _view(self, team: str, track: str) -> TeamView:
        key = (track, team)
        if key not in self._views:
            self._views[key] = TeamView(team, track)
            self._changed.add(key)
        return self._views[key]

    def _begin_run(self, key: Key) -> None:
        """A team's second run (the next round) takes the place of its first one."""
        view = self._views.get(key)
        if view is not None and view.history:
            track, team = key
            self._views[key] = TeamView(team, track)
            self._embargo.forget(key)
            self._new_points.pop(f"{track}/{team}", None)
            self._restarted.append(f"{track}/{team}")

    def _release(self) -> None:
        """Show what is settled, unless a team could still learn a label from it."""
        for key, settled in self._embargo.release(self._waits_for):
            self._show(key, settled)

    def _waits_for(self, key: Key, settled: Settled) -> list[Key]:
        """The teams on the same track that may still be asked what this one was."""
        lockstep = self._views[key].pace == "lockstep"
        # A hundred trials may close at once: what is rarely so is asked for first.
        return [
            other
            for other, view in self._views.items()
            if (lockstep or view.pace == "lockstep" or (settled.ahead and view.pace))
            and other[0] == key[0]
            and other != key
            and view.status in IN_PLAY
        ]

    def _show(self, key: Key, settled: Settled) -> None:
        track, team = key
        view = self._views[key]
        records = [{"team": team, "track": track} | item for item in view.show(settled)]
        for kept in (self._verdicts, self._new_verdicts):
            kept.setdefault(track, deque(maxlen=VERDICTS_KEPT)).extend(records)
        self._new_points.setdefault(f"{track}/{team}", []).append(view.history[-1])
        self._changed.add(key)

    def _tick(self) -> int:
        if data := self._gather():
            self._number += 1
            self._updates.append(LeaderboardUpdate(self._boot, self._number, "update", data))
        return self._number

    def _everything(self) -> dict[str, Any]:
        contest = {
            "name": self._contest,
            "tie_rule": TIE_RULE,
            "qualifying": asdict(self._qualifying),
        }
        return {
            "contest": contest,
            "tracks": self._tracks(),
            "rows": [as_sent(order, row) for order, row in self._shown.values()],
            "history": {f"{t}/{n}": list(view.history) for (t, n), view in self._views.items()},
            "lanes": {f"{t}/{n}": lane for (t, n), lane in self._lanes.items()},
            "verdicts": flat(self._verdicts),
            "signal": {track: monitor.whole() for track, monitor in self._monitors.items()},
        }

    def _gather(self) -> dict[str, Any]:
        """The parts that changed; an empty dict where none did."""
        known_tracks = {track for track, _ in self._shown}
        points, self._new_points = self._new_points, {}
        verdicts, self._new_verdicts = flat(self._new_verdicts), {}
        restarted, self._restarted = self._restarted, []
        rows = self._changed_rows()
        parts = {
            "rows": rows,
            "tracks": self._tracks() if {row["track"] for row in rows} - known_tracks else None,
            "restarted": restarted,
            "history": points,
            "lanes": self._changed_lanes(),
            "verdicts": verdicts,
            "signal": self._new_signal(),
        }
        return {name: part for name, part in parts.items() if part}

    def _tracks(self) -> dict[str, Any]:
        played = {track for track, _ in self._views}
        facts = [TRACKS[name] for name in TRACKS if name in played]
        return {t.name: {"title": t.title, "unit": t.unit, "names": t.names} for t in facts}

    def _rank(self) -> None:
        """Ranks anew where a row changed; only that row is asked for anew."""
        if self._changed:
            rows = self._rows | {key: self._row(key) for key in self._changed}
            self._changed.clear()
            ranked = rank(rows.values(), self._qualifying)
            self._rows = {(row.track, row.team): row for row in ranked}
            self._stale = True

    def _row(self, key: Key) -> LeaderboardRow:
        row = self._views[key].row()
        if row.status == "finished" and self._embargo.holds(key):
            reasons = [HELD.to_json()]
            return replace(row, status="running", reason=describe(HELD), reasons=reasons)
        return row

    def _changed_rows(self) -> list[dict[str, Any]]:
        """Of each row that changed, the fields that did: a trial's end moves all teams at once."""
        self._rank()
        if not self._stale:
            return []
        self._stale = False
        changed = []
        for _, rows in groupby(self._rows.values(), key=lambda row: row.track):
            for order, row in enumerate(rows):
                key, now = (row.track, row.team), (order, row)
                before = self._shown.get(key)
                if before != now:
                    self._shown[key] = now
                    changed.append(as_sent(*now) if before is None else changed_fields(before, now))
        return changed

    def _changed_lanes(self) -> dict[str, Any]:
        """None for a lane that is shown no more."""
        best = self._best_running()
        moved, self._moved = self._moved & best, set()
        drawn = {key: self._views[key].lane.view() for key in moved | (best - self._lanes.keys())}
        gone = self._lanes.keys() - best
        self._lanes = {key: lane for key, lane in self._lanes.items() if key in best} | drawn
        names: dict[Key, Any] = drawn | dict.fromkeys(gone)
        return {f"{track}/{team}": lane for (track, team), lane in names.items()}

    def _best_running(self) -> set[Key]:
        best: dict[str, list[Key]] = {}
        for key, row in self._rows.items():
            if row.status in ("running", "lagging"):
                best.setdefault(row.track, []).append(key)
        return {key for keys in best.values() for key in keys[:LANES_SHOWN]}

    def _new_signal(self) -> dict[str, Any]:
        pieces = {track: monitor.news() for track, monitor in self._monitors.items()}
        return {track: piece for track, piece in pieces.items() if piece is not None}
