"""What the page's process knows of a contest: only what the judge's process published to it.

The judge's process sends feed messages: a snapshot in parts, then updates and the details of teams.
Labels under embargo are in none of them. The page adds the live signal, and numbers the updates that it
sends to browsers itself.
"""

import struct
from typing import Any, Final, TypeAlias

import msgspec

from bci_stream.leaderboard.board import VerdictRows, add_verdicts
from bci_stream.leaderboard.embargo import TeamKey
from bci_stream.leaderboard.ranking import COLUMNS, LeaderboardRow
from bci_stream.leaderboard.team_view import Point, with_point
from bci_stream.leaderboard.updates import LeaderboardUpdate, UpdateLog
from bci_stream.leaderboard.web.signal_view import LiveSignals

MOST_FEED_BYTES: Final = 1 << 28
LENGTH: Final = struct.Struct("!I")
"""A feed message is its length in bytes, then MessagePack."""


class PageLimits(msgspec.Struct, frozen=True):
    """Limits on the connections of the page.

    connections: open at a time, of all clients. per_address: of one client address. head_s: to send a
    request. idle_s: between requests, and to read an answer. answer_s: to make an answer. unsent_s: how
    long a page of events may have unread bytes. request_bytes: of a request.
    """

    connections: int = 2000
    per_address: int = 1000
    head_s: float = 10.0
    idle_s: float = 20.0
    answer_s: float = 30.0
    unsent_s: float = 20.0
    request_bytes: int = 1 << 15


class SignalSource(msgspec.Struct, frozen=True):
    """Where the page finds signal streams: the contest's name, and the settings of LSL."""

    contest: str
    scope: str
    lsl_session: str


class PageSettings(msgspec.Struct, frozen=True, tag=True):
    """The first message. period_s: between updates. store: of past runs; empty for none.

    console, metrics: the judge's local socket, for the operator's console and for `/metrics`; empty for none.
    """

    period_s: float
    store: str
    limits: PageLimits
    signal: SignalSource | None
    log_level: int
    console: str = ""
    metrics: str = ""


class PublishedSnapshot(msgspec.Struct, frozen=True, tag=True):
    """All that is shown, without the teams' histories and details, which follow one by one."""

    data: dict[str, Any]


class PublishedHistory(msgspec.Struct, frozen=True, tag=True):
    """A team's history in a snapshot. team: track/name."""

    team: str
    points: list[Point]


class SnapshotComplete(msgspec.Struct, frozen=True, tag=True):
    """All parts of a snapshot have been sent: it replaces what is shown."""


class PublishedUpdate(msgspec.Struct, frozen=True, tag=True):
    data: dict[str, Any]


class PublishedDetail(msgspec.Struct, frozen=True, tag=True):
    """What changed in a team's detail, see `TeamView.detail_after`."""

    track: str
    team: str
    detail: dict[str, Any]


FeedMessage: TypeAlias = (
    PageSettings
    | PublishedSnapshot
    | PublishedHistory
    | SnapshotComplete
    | PublishedUpdate
    | PublishedDetail
)
_DECODER: Final[msgspec.msgpack.Decoder[FeedMessage]] = msgspec.msgpack.Decoder(FeedMessage)


def encode_message(message: FeedMessage) -> bytes:
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body


def decode_message(body: bytes) -> FeedMessage:
    return _DECODER.decode(body)


class PublishedState:
    """A snapshot, and the updates after it folded into it."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.contest: dict[str, Any] = data["contest"]
        self.tracks: dict[str, Any] = dict(data["tracks"])
        self.rows: dict[TeamKey, dict[str, Any]] = {}
        self.history: dict[str, list[Point]] = {}
        self._timelines: dict[str, Any] = dict(data["lanes"])
        self._verdicts: dict[str, VerdictRows] = {}
        self._alarms: list[dict[str, Any]] = data["alarms"]
        self._announcement: str = data.get("announcement", "")
        self._standing: list[dict[str, Any]] = data.get("standing", [])
        self._take_rows(data["rows"])
        self._take_verdicts(data["verdicts"])

    def apply(self, update: dict[str, Any]) -> None:
        """The same as the page does in the browser (`state.js`)."""
        self.tracks |= update.get("tracks", {})
        self._take_rows(update.get("rows", ()))
        for key in update.get("restarted", ()):
            self.history[key] = []
        for key, points in update.get("history", {}).items():
            for seconds, score in points:
                point = (seconds, score)
                self.history[key] = with_point(self.history.get(key, []), point)
        for key, timeline in update.get("lanes", {}).items():
            self._timelines.pop(key, None)
            if timeline is not None:
                self._timelines[key] = timeline
        self._take_verdicts(update.get("verdicts", ()))
        self._alarms = update.get("alarms", self._alarms)
        self._announcement = update.get("announcement", self._announcement)
        self._standing = update.get("standing", self._standing)

    def everything(self) -> dict[str, Any]:
        return {
            "contest": self.contest,
            "tracks": self.tracks,
            "rows": list(self.rows.values()),
            "history": self.history,
            "lanes": self._timelines,
            "verdicts": [row for rows in self._verdicts.values() for row in rows.values()],
            "alarms": self._alarms,
            "announcement": self._announcement,
            "standing": self._standing,
        }

    def _take_rows(self, rows: Any) -> None:
        for row in rows:
            self.rows.setdefault((row["track"], row["team"]), {}).update(row)

    def _take_verdicts(self, rows: Any) -> None:
        for row in rows:
            add_verdicts(self._verdicts.setdefault(row["track"], {}), [row])


class PublishedBoard:
    """The page's copy of the leaderboard; used by one thread, except for `signals`."""

    def __init__(self) -> None:
        self.signals = LiveSignals()
        self.is_complete = False
        self._state = self._next = PublishedState(NOTHING)
        self._details: dict[TeamKey, dict[str, Any]] = {}
        self._log = UpdateLog()
        self._unsent: list[dict[str, Any]] = []

    def take(self, message: FeedMessage) -> None:
        """Fold one message of the feed."""
        match message:
            case PublishedSnapshot(data):
                self._next = PublishedState(data)
            case PublishedHistory(team, points):
                self._next.history[team] = points
            case SnapshotComplete():
                self._state, self._unsent = self._next, []
                self._log.restart()
                self.is_complete = True
            case PublishedUpdate(data):
                self._state.apply(data)
                self._unsent.append(data)
            case PublishedDetail(track, team, detail):
                self._take_detail((track, team), dict(detail))
            case PageSettings():
                pass

    def _take_detail(self, key: TeamKey, detail: dict[str, Any]) -> None:
        first = detail.pop("first")
        known = self._details.setdefault(key, {"trials": []})
        trials = [*known["trials"][:first], *detail.pop("trials")]
        self._details[key] = detail | {"trials": trials}

    def tick(self) -> int:
        """Number the updates since the last call, and the new signal; returns the last number."""
        unsent, self._unsent = self._unsent, []
        if signal := self.signals.take_new():
            unsent = [*unsent[:-1], (unsent[-1] if unsent else {}) | {"signal": signal}]
        for data in unsent:
            self._log.add(data)
        return self._log.number

    def after(self, cursor: str) -> list[LeaderboardUpdate] | None:
        """The updates after the one with the id `cursor`; None if a snapshot is needed."""
        return self._log.after(cursor)

    def snapshot(self) -> LeaderboardUpdate:
        """Everything that is shown, numbered like the last update."""
        self.tick()
        return self._log.snapshot(
            lambda: self._state.everything() | {"signal": self.signals.view()}
        )

    def contest(self) -> dict[str, Any]:
        everything = self._state.everything()
        shown = ("contest", "tracks", "alarms", "announcement", "standing")
        return {name: everything[name] for name in shown}

    def rows(self, track: str | None = None) -> list[LeaderboardRow]:
        """The ranked rows of one track or of all."""
        rows = [row for row in self._state.rows.values() if track in (None, row["track"])]
        rows.sort(key=lambda row: (row["track"], row["order"]))
        return [LeaderboardRow(**{name: row[name] for name in COLUMNS}) for row in rows]

    def detail(self, team: str, track: str) -> dict[str, Any] | None:
        """What a team's own page shows; None for an unknown team."""
        row = self._state.rows.get((track, team))
        if row is None:
            return None
        return {
            "row": {name: row[name] for name in COLUMNS},
            "history": self._state.history.get(f"{track}/{team}", []),
            **NO_DETAIL,
            **self._details.get((track, team), {}),
        }


NOTHING: Final[dict[str, Any]] = {
    "contest": {},
    "tracks": {},
    "rows": [],
    "lanes": {},
    "verdicts": [],
    "alarms": [],
    "announcement": "",
    "standing": [],
}
NO_DETAIL: Final[dict[str, Any]] = {
    "trials": [],
    "confusion": None,
    "angles": None,
    "sessions": [],
}
