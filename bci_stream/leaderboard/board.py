"""The leaderboard of a contest: the judge adds events, displays read rows and numbered updates.

The judge's threads call `team`, `event` and `signal`. A display calls `tick` a few times a second and
sends the updates that `after` returns. Updates are numbered, so a display that lost its connection
continues after its last update; if that is not possible (the judge was restarted, or the update is too
old), it gets a snapshot.
"""

import secrets
import threading
import zlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from itertools import groupby, islice
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from bci_stream.leaderboard.embargo import ClosedTrials, Embargo, TeamKey
from bci_stream.leaderboard.ranking import (
    COLUMNS,
    IN_PLAY,
    TIE_RULE,
    LeaderboardRow,
    Qualifying,
    rank,
)
from bci_stream.leaderboard.team_view import TeamView
from tracks.common.reasons import Reason
from tracks.common.verdicts import Verdict
from tracks.common.words import describe
from tracks.registry import TRACKS
from tracks.run import Run

UPDATES_KEPT: Final = 600
VERDICTS_KEPT: Final = 40
"""Verdicts of each track in a snapshot, and at most in an update."""
TIMELINES_SHOWN: Final = 12
"""Time lines of the best running teams of each track; a page has no room for more."""

SHOWN_LEADS: Final = 8
SHOWN_RATE: Final = 50.0
SHOWN_S: Final = 6.0
"""Of the live signal: leads, columns per second, seconds."""

HELD_BACK: Final = Reason("trials_held_back")

GZIP_HEAD: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""The header of a gzip stream; any number of `deflate`d pieces may follow."""


class Leaderboard:
    """Everything that is shown of a contest. All methods may be called from any thread.

    A closed trial is shown when no other team may still be asked the same (see `embargo`).
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
        self._views: dict[TeamKey, TeamView] = {}
        self._rows: dict[TeamKey, LeaderboardRow] = {}
        self._sent_rows: dict[TeamKey, tuple[int, LeaderboardRow]] = {}
        self._rows_changed = False
        self._verdicts: dict[str, deque[dict[str, Any]]] = {}
        self._monitors: dict[str, SignalMonitor] = {}
        self._timelines: dict[TeamKey, dict[str, Any]] = {}
        # Since the last update:
        self._changed: set[TeamKey] = set()
        self._moved: set[TeamKey] = set()
        self._new_points: dict[str, list[tuple[float, float]]] = {}
        self._new_verdicts: dict[str, deque[dict[str, Any]]] = {}
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

    def signal(
        self, track: str, samples: NDArray[np.float32], rate: float, leads: tuple[str, ...]
    ) -> None:
        """Add samples (n, leads) in uV for the live signal view."""
        with self._lock:
            monitor = self._monitors.get(track)
            if monitor is None or not monitor.fits(rate, leads):
                monitor = self._monitors[track] = SignalMonitor(rate, leads)
            monitor.add(samples)

    # --- called by displays -------------------------------------------------------------------

    def tick(self) -> int:
        """Make one update of everything that changed since the last; returns its number."""
        with self._lock:
            return self._make_update()

    def after(self, cursor: str) -> "list[LeaderboardUpdate] | None":
        """The updates after the one with the id `cursor`; None if a snapshot is needed."""
        with self._lock:
            boot, _, number = cursor.partition("-")
            if boot != self._boot or not number.isdecimal() or int(number) > self._number:
                return None
            missed = self._number - int(number)
            if missed > len(self._updates):
                return None
            return list(islice(self._updates, len(self._updates) - missed, None))

    def snapshot(self) -> "LeaderboardUpdate":
        """Everything that is shown, numbered like the last update."""
        with self._lock:
            number = self._make_update()
            if self._snapshot is None or self._snapshot.number != number:
                data = self._everything()
                self._snapshot = LeaderboardUpdate(self._boot, number, "snapshot", data)
            return self._snapshot

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

    # --- with the lock held -------------------------------------------------------------------

    def _view(self, team: str, track: str) -> TeamView:
        key = (track, team)
        if key not in self._views:
            self._views[key] = TeamView(team, track)
            self._changed.add(key)
        return self._views[key]

    def _begin_run(self, key: TeamKey) -> None:
        """A team's next run replaces its last one."""
        view = self._views.get(key)
        if view is not None and view.history:
            track, team = key
            self._views[key] = TeamView(team, track)
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
                kept.setdefault(track, deque(maxlen=VERDICTS_KEPT)).extend(rows)
            self._new_points.setdefault(f"{track}/{team}", []).append(view.history[-1])
            self._changed.add(key)

    def _waits_for(self, key: TeamKey, closed: ClosedTrials) -> list[TeamKey]:
        """The teams on the same track that may still be asked the same trials."""
        lockstep = self._views[key].pace == "lockstep"
        # A hundred trials may close at once: the condition that is rarely true comes first.
        return [
            other
            for other, view in self._views.items()
            if (lockstep or view.pace == "lockstep" or (closed.ahead and view.pace))
            and other[0] == key[0]
            and other != key
            and view.status in IN_PLAY
        ]

    def _make_update(self) -> int:
        if data := self._changes():
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
            "tracks": self._track_facts(),
            "rows": [_row_data(order, row) for order, row in self._sent_rows.values()],
            "history": {f"{t}/{n}": list(view.history) for (t, n), view in self._views.items()},
            "lanes": {f"{t}/{n}": drawn for (t, n), drawn in self._timelines.items()},
            "verdicts": _all_tracks(self._verdicts),
            "signal": {track: monitor.view() for track, monitor in self._monitors.items()},
        }

    def _changes(self) -> dict[str, Any]:
        """The parts of the snapshot that changed since the last update; empty if none did."""
        known_tracks = {track for track, _ in self._sent_rows}
        points, self._new_points = self._new_points, {}
        verdicts, self._new_verdicts = _all_tracks(self._new_verdicts), {}
        restarted, self._restarted = self._restarted, []
        signals = {track: monitor.take_new() for track, monitor in self._monitors.items()}
        rows = self._changed_rows()
        new_track = {row["track"] for row in rows} - known_tracks
        parts = {
            "rows": rows,
            "tracks": self._track_facts() if new_track else None,
            "restarted": restarted,
            "history": points,
            "lanes": self._changed_timelines(),
            "verdicts": verdicts,
            "signal": {track: piece for track, piece in signals.items() if piece is not None},
        }
        return {name: part for name, part in parts.items() if part}

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


def _all_tracks(verdicts: Mapping[str, Iterable[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [row for rows in verdicts.values() for row in rows]


class LeaderboardUpdate:
    """A numbered update or snapshot. boot: tells the leaderboards of two judges apart."""

    def __init__(self, boot: str, number: int, event: str, data: dict[str, Any]) -> None:
        self.number = number
        self.id = f"{boot}-{number}"
        self.event = event
        self.data = data

    @cached_property
    def encoded(self) -> bytes:
        """As a server-sent event; encoded once for all pages."""
        head = f"id: {self.id}\nevent: {self.event}\ndata: ".encode()
        return head + msgspec.json.encode(self.data) + b"\n\n"

    @cached_property
    def deflated(self) -> bytes:
        """The same for pages that accept gzip; compressed once for all pages."""
        return deflate(self.encoded)


def deflate(text: bytes) -> bytes:
    """A piece of a gzip stream that refers to no other piece, so that all pages can share it."""
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(text) + compressor.flush(zlib.Z_FULL_FLUSH)


class SignalMonitor:
    """The last SHOWN_S seconds of a signal, averaged to columns at about SHOWN_RATE."""

    def __init__(self, rate: float, leads: tuple[str, ...]) -> None:
        self._source = (rate, leads)
        self._samples_per_column = max(1, round(rate / SHOWN_RATE))
        self._rate = rate / self._samples_per_column
        self._picked = np.unique(np.linspace(0, len(leads) - 1, SHOWN_LEADS).round().astype(int))
        self._leads = tuple(leads[i] for i in self._picked)
        self._rest = np.empty((0, len(self._picked)), dtype=np.float32)
        self._columns: deque[list[float]] = deque(maxlen=round(SHOWN_S * self._rate))
        self._new: deque[list[float]] = deque(maxlen=self._columns.maxlen)

    def fits(self, rate: float, leads: tuple[str, ...]) -> bool:
        return self._source == (rate, leads)

    def add(self, samples: NDArray[np.float32]) -> None:
        """Add samples (n, leads); the result does not depend on how they are divided into calls."""
        samples = np.concatenate([self._rest, samples[:, self._picked]])
        n = len(samples) // self._samples_per_column
        complete = samples[: n * self._samples_per_column]
        self._rest = samples[len(complete) :]
        if n == 0:
            return
        means = complete.reshape(n, self._samples_per_column, -1).mean(axis=1)
        columns: list[list[float]] = np.nan_to_num(means, posinf=0, neginf=0).round(2).tolist()
        self._columns.extend(columns)
        self._new.extend(columns)

    def view(self) -> dict[str, Any]:
        return self._data(list(self._columns))

    def take_new(self) -> dict[str, Any] | None:
        """The columns since the last call; None if there are none."""
        columns = list(self._new)
        self._new.clear()
        return self._data(columns) if columns else None

    def _data(self, columns: list[list[float]]) -> dict[str, Any]:
        return {"rate": self._rate, "leads": self._leads, "columns": columns}
