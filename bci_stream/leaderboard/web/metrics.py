"""`/metrics` for Prometheus: teams, replays, signals and the judge, as gauges. Needs the extra `metrics`."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from bci_stream.contest.actions import ReadState
from bci_stream.contest.control_socket import ask_judge
from bci_stream.errors import ContestError
from bci_stream.leaderboard.ranking import LeaderboardRow
from bci_stream.leaderboard.web.published import PublishedBoard

KEPT_S: Final = 1.0
"""How long an answer is used again: many scrapers cost the judge no more than one."""

TEAM: Final = {
    "score": "Score in the track's unit",
    "trials": "Trials judged so far",
    "right": "Right answers so far",
    "lag_s": "How far the team's decoder is behind the stream, in seconds",
    "latency_p50_s": "Median latency of the team's reports, in seconds",
    "latency_p99_s": "99th percentile of the latency, in seconds",
}
SIGNAL: Final = {
    "lag_s": "Median time from a sample's stamp to its arrival at the page, in seconds",
    "jitter_s": "Standard deviation of that time, in seconds",
    "offset_s": "Clock offset of the sender, in seconds",
    "silent_s": "Seconds since the last sample",
    "samples": "Samples received",
    "gaps": "Gaps between two samples",
    "lost": "Samples missing in gaps",
}


class Metrics:
    """Serves the metrics. socket: the judge's."""

    def __init__(self, socket: str, board: PublishedBoard) -> None:
        self._socket = Path(socket)
        self._board = board
        self._made_at = float("-inf")
        self._text = b""
        self._lock = asyncio.Lock()

    async def show(self, _: web.Request) -> web.StreamResponse:
        from prometheus_client import CONTENT_TYPE_LATEST

        async with self._lock:
            if time.monotonic() - self._made_at > KEPT_S:
                self._text = render_metrics(
                    self._board.rows(), self._board.signals.health(), await self._judge_state()
                )
                self._made_at = time.monotonic()
        return web.Response(body=self._text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _judge_state(self) -> dict[str, Any] | None:
        """None while the judge does not answer."""
        try:
            return (await asyncio.to_thread(ask_judge, self._socket, ReadState(), "metrics")).state
        except ContestError:
            return None


def render_metrics(
    rows: Iterable[LeaderboardRow],
    signals: Mapping[str, Mapping[str, Any]],
    state: Mapping[str, Any] | None,
) -> bytes:
    """The text of `/metrics`. rows: what everyone may see. state: the judge's; None if it does not answer."""
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()

    def gauge(name: str, about: str, *labels: str) -> Gauge:
        return Gauge(f"bci_{name}", about, labels, registry=registry)

    team = {name: gauge(f"team_{_unit(name)}", TEAM[name], "track", "team") for name in TEAM}
    status = gauge("team_status", "1 for the team's present status", "track", "team", "status")
    for row in rows:
        status.labels(row.track, row.team, row.status).set(1)
        for name, each in team.items():
            _set(each, (row.track, row.team), getattr(row, name))
    signal = {name: gauge(f"signal_{_unit(name)}", SIGNAL[name], "track") for name in SIGNAL}
    for track, health in signals.items():
        for name, each in signal.items():
            _set(each, (track,), health.get(name))
    gauge("judge_up", "1 if the judge answers").set(0 if state is None else 1)
    if state is not None:
        _add_state(state, gauge)
    return bytes(generate_latest(registry))


def _add_state(state: Mapping[str, Any], gauge: Any) -> None:
    present = gauge("teams", "Teams by state", "state")
    for entry in state["teams"]:
        present.labels(entry["state"]).inc()
    dropped = gauge("dropped_messages", "Messages of teams that were rejected", "reason")
    for reason, count in state["dropped"].items():
        dropped.labels(reason).set(count)
    labels = ("replay", "track")
    up = gauge("replay_state", "1 for the replay's present state", *labels, "state")
    values = {
        "packets": gauge("replay_packets", "Packets that the judge has received", *labels),
        "missing": gauge("replay_missing_messages", "Sealed messages that never came", *labels),
        "offset_s": gauge("replay_offset_seconds", "Clock offset to the judge", *labels),
        "silent_s": gauge("replay_silent_seconds", "Since the last message", *labels),
    }
    delays = {
        ("sending", "lag_s"): gauge("replay_late_seconds", "Packets leave late by", *labels),
        ("sending", "worst_s"): gauge("replay_worst_late_seconds", "The same, at worst", *labels),
        ("link", "lag_s"): gauge("replay_link_seconds", "From leaving to the judge", *labels),
        ("link", "jitter_s"): gauge("replay_link_jitter_seconds", "Its deviation", *labels),
    }
    for replay in state["replays"]:
        of = (replay["name"], replay["track"])
        up.labels(*of, replay["state"]).set(1)
        for name, each in values.items():
            _set(each, of, replay["health"][name])
        for (part, name), each in delays.items():
            _set(each, of, replay["health"][part][name])


def _unit(name: str) -> str:
    """Prometheus names end with the unit in full."""
    return f"{name.removesuffix('_s')}_seconds" if name.endswith("_s") else name


def _set(gauge: Any, labels: tuple[str, ...], value: float | None) -> None:
    if value is not None:
        gauge.labels(*labels).set(value)
