"""What the phases of a season make of its submissions: who may submit, what counts, who goes on.

Pure functions of the phases, the time and the submissions.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any

from bci_stream.contest.contest import Contest, TrackPlan
from bci_stream.contest.phases import ALWAYS, Phase, PhaseTrack
from bci_stream.leaderboard.ranking import LeaderboardRow, Qualifying, rank
from bci_stream.season.queue import PENDING
from bci_stream.season.storage.schema import Submission
from tracks.common.reasons import Reason


def phases_of(contest: Contest) -> Sequence[Phase]:
    """The contest's phases; one that is always open for a contest whose file has none."""
    if contest.phases:
        return contest.phases
    return [replace_line(ALWAYS, contest.qualify.top, contest.qualify.least_score)]


def replace_line(phase: Phase, top: int | None, least_score: float | None) -> Phase:
    """The phase with another line above which teams go on."""
    return Phase(**{**_plain(phase), "top": top, "least_score": least_score})


def _plain(phase: Phase) -> dict[str, Any]:
    return {name: getattr(phase, name) for name in phase.__struct_fields__}


def plan_of(contest: Contest, phase: Phase, track: str) -> TrackPlan:
    """The recordings and rules of a track in a phase."""
    given, changed = contest.tracks.get(track, TrackPlan()), phase.tracks.get(track, PhaseTrack())
    return TrackPlan(
        changed.recordings or given.recordings,
        rules=given.rules | changed.rules,
        calibration=[_recording_place(contest, text) for text in given.calibration],
        split=given.split,
    )


def run_recordings(contest: Contest, plan: TrackPlan, track: str) -> list[list[str]]:
    """The recordings of each run of a submission: all in one, or each in its own if the track is split."""
    placed = [_recording_place(contest, text) for text in plan.recordings]
    played = placed or [f"synthetic:{track}?set=test"]
    return [[each] for each in played] if plan.split == "subject" else [played]


def _recording_place(contest: Contest, text: str) -> str:
    """A recording of the contest file: a path in the contest's folder is made absolute."""
    place = contest.folder / text
    return str(place) if place.exists() else text


def at_time(seconds: float) -> datetime:
    """Seconds since 1970 as a time with a zone."""
    return datetime.fromtimestamp(seconds, UTC)


# --- may a team submit? -----------------------------------------------------------------------


def choose_phase(
    phases: Sequence[Phase], track: str, wanted: str, now: datetime
) -> tuple[Phase | None, Reason | None]:
    """The phase that a submission goes to, or why there is none. wanted: its name; empty for the open one."""
    if wanted:
        found = next((phase for phase in phases if phase.name == wanted), None)
        if found is None:
            known = ", ".join(phase.name for phase in phases)
            return None, Reason("phase_unknown", phase=wanted, known=known)
        return (found, None) if not (why := _closed(found, track, now)) else (None, why)
    able = [phase for phase in phases if phase.has_track(track) and phase.is_open(now)]
    if len(able) == 1:
        return able[0], None
    if able:
        return None, Reason("phases_open", known=", ".join(phase.name for phase in able))
    next_one = [p for p in phases if p.has_track(track) and not p.has_begun(now)]
    if next_one:
        return None, _closed(next_one[0], track, now)
    return None, Reason("no_phase_open", track=track)


def _closed(phase: Phase, track: str, now: datetime) -> Reason | None:
    if not phase.has_track(track):
        return Reason("phase_track", phase=phase.name, track=track)
    if not phase.has_begun(now):
        opens = phase.shown_time(phase.opens)
        return Reason("phase_not_begun", phase=phase.name, opens=opens)
    if phase.has_ended(now):
        return Reason("phase_over", phase=phase.name, closes=phase.shown_time(phase.closes))
    return None


def is_charged(submission: Submission) -> bool:
    """Whether it uses up quota: unless its check failed, or its run through the organiser's side."""
    return submission.stage in PENDING or submission.stage in ("judged", "disqualified") or (
        submission.stage == "failed" and submission.fault == "team"
    )  # fmt: skip


def quota_left(
    phase: Phase, track: str, of_team: Iterable[Submission], now: datetime
) -> tuple[int | None, int | None]:
    """(today, in all): how many more submissions a team has on a track; None for no limit."""
    charged = [s for s in of_team if (s.phase, s.track) == (phase.name, track) and is_charged(s)]
    today = now.astimezone(phase.zone).date()
    of_today = [s for s in charged if at_time(s.received).astimezone(phase.zone).date() == today]
    return (
        None if phase.quota_a_day is None else max(0, phase.quota_a_day - len(of_today)),
        None if phase.quota is None else max(0, phase.quota - len(charged)),
    )


def quota_refusal(
    phase: Phase, track: str, of_team: Iterable[Submission], now: datetime
) -> Reason | None:
    """Why a team's quota does not allow another submission; None if it does."""
    today, in_all = quota_left(phase, track, of_team, now)
    if in_all == 0:
        assert phase.quota is not None
        return Reason("quota_in_all", quota=phase.quota, phase=phase.name)
    if today == 0:
        assert phase.quota_a_day is not None
        tomorrow = now.astimezone(phase.zone).date() + timedelta(days=1)
        next_day = phase.shown_time(datetime.combine(tomorrow, time()))
        return Reason("quota_a_day", quota=phase.quota_a_day, phase=phase.name, next_day=next_day)
    return None


def entry_refusal(phase: Phase, team: str, gone_on: Container[str]) -> Reason | None:
    """Why a team may not take part in a phase; gone_on: the teams that went on from the one before."""
    if not phase.after or team in gone_on:
        return None
    return Reason("not_gone_on", after=phase.after, phase=phase.name)


# --- what counts ------------------------------------------------------------------------------


def counted(phase: Phase, track: str, submissions: Iterable[Submission]) -> dict[str, Submission]:
    """The submission of each team that counts in a phase on a track."""
    by_team: dict[str, list[Submission]] = {}
    for submission in submissions:
        mine = (submission.phase, submission.track) == (phase.name, track)
        if mine and submission.score is not None and submission.stage in ("judged", "failed"):
            by_team.setdefault(submission.team, []).append(submission)
    return {team: _counting(phase, made) for team, made in by_team.items()}


def _counting(phase: Phase, made: Sequence[Submission]) -> Submission:
    """Of one team's submissions, in the order of arrival."""
    if len(made) == 1:
        return made[0]
    if phase.counts == "best":
        rows = [_row(submission) for submission in made]
        best = rank(rows)[0]
        return made[[replace(row, rank=best.rank) for row in rows].index(best)]
    chosen = [s for s in made if s.chosen] if phase.counts == "chosen" else []
    return (chosen or made)[-1]


def _row(submission: Submission) -> LeaderboardRow:
    return LeaderboardRow(**{**submission.row, "rank": None, "qualifies": None})


def standings(
    phase: Phase,
    track: str,
    submissions: Iterable[Submission],
    display_name: Callable[[str], str] = lambda _team: "",
) -> list[LeaderboardRow]:
    """The leaderboard of a phase on a track, whatever the phase shows."""
    rows = [
        replace(_row(each), name=display_name(team))
        for team, each in counted(phase, track, submissions).items()
    ]
    return rank(rows, Qualifying(phase.top, phase.least_score))


def advancing(rows: Iterable[LeaderboardRow]) -> set[str]:
    """The teams that go on, by the leaderboard of a phase."""
    return {row.team for row in rows if row.qualifies}


def shown_result(phase: Phase, submission: Submission) -> dict[str, Any]:
    """What its own team may see of a submission's result: `score` and `subjects` as the phase allows."""
    if phase.shows == "nothing" or submission.score is None:
        return {"score": None, "subjects": []}
    subjects = submission.sessions if phase.shows == "subjects" else []
    named = [{"subject": s.get("subject"), "score": s.get("score")} for s in subjects]
    return {"score": submission.score, "subjects": named}
