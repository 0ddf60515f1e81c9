"""What the console shows: replays, how they arrive, the teams that are here, and those that are missing."""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bci_stream.judge.judge import Judge
from bci_stream.judge.session.replay_session import ReplaySession
from bci_stream.judge.session.team_run import TeamRun
from tracks.common.reasons import Reason
from tracks.common.words import describe


def describe_contest(judge: Judge) -> dict[str, Any]:
    """replays: one entry each; teams: one entry for each team and track, `track` empty before any replay."""
    sessions = [session for session in judge.sessions if session.offer is not None]
    teams = [entry for session in sessions for entry in _teams(judge, session)]
    if not sessions:
        teams = [_missing(judge, team, "") for team in judge.presence.names()]
    return {
        "contest": judge.contest.name,
        "replays": [_replay(judge, session) for session in sessions],
        "teams": teams,
        "dropped": dict(judge.dropped),
    }


def _replay(judge: Judge, session: ReplaySession) -> dict[str, Any]:
    assert session.offer is not None
    return {
        "name": session.name,
        "track": session.track,
        "pace": session.offer.pace,
        "live": session.is_live,
        "state": _state(session),
        "health": session.health.summary(judge.now()),
        "problems": dict(session.problems),
    }


def _state(session: ReplaySession) -> str:
    if session.is_over:
        return "over"
    if session.is_paused:
        return "paused"
    return "running" if session.has_started else "waiting"


def _teams(judge: Judge, session: ReplaySession) -> list[dict[str, Any]]:
    entries = [_of_run(judge, session, run) for run in session.teams.values()]
    waiting = [team for team in session.present_teams if team not in session.teams]
    entries += [_entry(judge, team, session.track, "ready", None) for team in waiting]
    here = {entry["team"] for entry in entries}
    missing = [team for team in judge.presence.names() if team not in here]
    return entries + [_missing(judge, team, session.track) for team in missing]


def _of_run(judge: Judge, session: ReplaySession, run: TeamRun) -> dict[str, Any]:
    if run.ended is not None:
        return _entry(judge, run.team, session.track, run.ended, run.why, run.detail)
    if run.forfeited is not None:
        why = Reason("forfeited", reason=run.forfeited)
        return _entry(judge, run.team, session.track, "forfeited", why)
    state = "running" if judge.presence.is_here(run.team) else "gone"
    return _entry(judge, run.team, session.track, state, judge.presence.remark(run.team))


def _missing(judge: Judge, team: str, track: str) -> dict[str, Any]:
    out = judge.kept_out.get((track, team))
    if out is not None:
        return _entry(judge, team, track, "out", out)
    state = "joining" if judge.presence.is_here(team) else "missing"
    return _entry(judge, team, track, state, judge.presence.remark(team))


def _entry(
    judge: Judge, team: str, track: str, state: str, why: Reason | None, detail: str = ""
) -> dict[str, Any]:
    return {
        "team": team,
        "track": track,
        "state": state,
        "reason": describe(why) if why is not None else detail,
        "reasons": [why.to_json()] if why is not None else [],
        "software": judge.presence.software_of(team),
    }


def render_overview(state: dict[str, Any]) -> RenderableType:
    """The same for a terminal: a table of the replays and one of the teams."""
    replays = Table(title=f"Replays of {state['contest']}", title_justify="left")
    for heading in (
        "replay",
        "track",
        "pace",
        "state",
        "late",
        "link",
        "jitter",
        "offset",
        "missing",
    ):
        replays.add_column(heading)
    for replay in state["replays"]:
        health = replay["health"]
        replays.add_row(
            Text(replay["name"]), replay["track"], replay["pace"], replay["state"],
            _ms(health["sending"]["lag_s"]), _ms(health["link"]["lag_s"]),
            _ms(health["link"]["jitter_s"]), _ms(health["offset_s"]), str(health["missing"]),
        )  # fmt: skip
    teams = Table(title="Teams", title_justify="left")
    for heading in ("team", "track", "state", "why", "software"):
        teams.add_column(heading, overflow="fold")
    for team in state["teams"]:
        cells = (
            team["team"],
            team["track"] or "-",
            team["state"],
            team["reason"],
            team["software"],
        )
        teams.add_row(*map(Text, cells))
    return Group(replays, teams)


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{round(1000 * seconds, 1) + 0.0:.1f} ms"  # never -0.0
