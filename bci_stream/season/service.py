"""What teams may do and see in a season; the owner of the server's connection to the store.

All methods are called by one thread. `now` is in seconds since 1970.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bci_stream.contest.contest import Contest
from bci_stream.contest.phases import Phase
from bci_stream.leaderboard.ranking import LeaderboardRow
from bci_stream.season.actions import apply_for, claimed, dated_phases, overview, perform
from bci_stream.season.queue import PENDING, QueuePlaces
from bci_stream.season.standing import (
    advancing,
    at_time,
    choose_phase,
    entry_refusal,
    quota_left,
    quota_refusal,
    shown_result,
    standings,
)
from bci_stream.season.storage.records import Announcement, Application
from bci_stream.season.storage.schema import RUN, Submission, UnitState
from bci_stream.season.storage.store import SeasonStore
from bci_stream.season.units.jobs import UnitJob, read_progress
from bci_stream.season.uploads import HOUR_S, ReceivedFile, UploadRefused, Uploads
from tracks.common.reasons import Reason

NAME_CHARACTERS: Final = 120
STANDINGS_S: Final = 2.0
"""How long a leaderboard or a place in the queue is shown before it is looked up again."""


@dataclass(frozen=True, slots=True)
class PhaseView:
    """A phase for a page: times in its own zone; left: quota of today and in all, if there is one."""

    name: str
    track: str
    opens: str
    closes: str
    is_open: bool
    shows: str
    counts: str
    left: tuple[int | None, int | None]


_Shown = tuple[float, object, list[LeaderboardRow]]
"""When a leaderboard was made or found unchanged, the version of its results, and its rows."""


class SeasonService:
    """Takes uploads, and answers what may be seen of the submissions. work: folder of units in progress."""

    def __init__(self, contest: Contest, store: SeasonStore, uploads: Uploads, work: Path) -> None:
        self.contest = contest
        self._dated: tuple[float, Sequence[Phase]] = (0.0, ())
        self._store = store
        self._uploads = uploads
        self._work = work
        self._standings: dict[tuple[str, str], _Shown] = {}
        self._announced: tuple[float, list[Announcement]] = (0.0, [])
        self._places = (0.0, QueuePlaces([]))

    def close(self) -> None:
        self._store.close()

    @property
    def phases(self) -> Sequence[Phase]:
        """With the dates that the organiser changed, at most STANDINGS_S ago."""
        made_at, phases = self._dated
        if not phases or time.monotonic() - made_at > STANDINGS_S:
            phases = dated_phases(self.contest, self._store.phase_dates())
            self._dated = (time.monotonic(), phases)
        return phases

    # --- the organiser and applicants ---------------------------------------------------------

    def announcements(self) -> list[Announcement]:
        """What all pages show, at most STANDINGS_S old."""
        made_at, lines = self._announced
        if time.monotonic() - made_at > STANDINGS_S:
            lines = self._store.announcements()
            self._announced = (time.monotonic(), lines)
        return lines

    def overview(self, now: float) -> dict[str, Any]:
        return overview(self.contest, self._store, now)

    def perform(self, action: str, fields: dict[str, str], who: str, now: float) -> Reason:
        """Do an action of the organiser. Raises ContestError or StoreError."""
        done = perform(self.contest, self._store, action, fields, who, now)
        self._dated = (0.0, ())
        self._announced = (0.0, [])
        return done

    def apply_for(self, fields: dict[str, str], now: float) -> str:
        return apply_for(self.contest, self._store, fields, now)

    def claimed(self, code: str) -> tuple[Application, bytes | None]:
        return claimed(self.contest, self._store, code)

    @property
    def tracks(self) -> Sequence[str]:
        return list(self.contest.tracks)

    # --- uploads ------------------------------------------------------------------------------

    def may_submit(self, team: str, track: str, phase: str, now: float) -> Phase:
        """The phase that an upload goes to. Raises UploadRefused."""
        if track not in self.contest.tracks:
            known = ", ".join(self.tracks)
            raise UploadRefused(400, Reason("upload_track", track=track[:40], known=known))
        found, why = choose_phase(self.phases, track, phase, at_time(now))
        if found is None:
            assert why is not None
            raise UploadRefused(409, why)
        gone_on = advancing(self._ranked(found.after, track)) if found.after else ()
        if why := entry_refusal(found, team, gone_on):
            raise UploadRefused(403, why)
        self._admit(found, track, self._store.submissions(team=team), now)
        return found

    def _admit(self, phase: Phase, track: str, of_team: Sequence[Submission], now: float) -> None:
        limit = self._uploads.limits.an_hour
        if sum(submission.received > now - HOUR_S for submission in of_team) >= limit:
            raise UploadRefused(429, Reason("upload_rate", limit=limit))
        if why := quota_refusal(phase, track, of_team, at_time(now)):
            raise UploadRefused(409, why)

    def submit(
        self, team: str, track: str, phase: str, name: str, received: ReceivedFile, now: float
    ) -> Submission:
        """Add a submission whose file has arrived. Raises UploadRefused, and removes the file then."""
        try:
            chosen = self.may_submit(team, track, phase, now)

            def make(number: int) -> Submission:
                self._uploads.keep(received, number)
                size, digest = received.bytes, received.sha256
                return Submission(
                    number, team, track, chosen.name, shown_name(name), size, digest, now
                )

            return self._store.add(make, lambda made: self._admit(chosen, track, made, now), team)
        finally:
            self._uploads.discard(received)

    def choose(self, team: str, number: int) -> bool:
        """Let a submission count, where the phase lets teams choose; False if it is not the team's."""
        found = self._store.submission(number)
        if found is None or found.team != team:
            return False
        self._store.choose(number)
        return True

    # --- views --------------------------------------------------------------------------------

    def phase_views(self, team: str | None, now: float) -> list[PhaseView]:
        """Each phase on each of its tracks, with what is left of the team's quota."""
        of_team = self._store.submissions(team=team) if team is not None else []
        at = at_time(now)
        return [
            PhaseView(
                phase.name,
                track,
                phase.shown_time(phase.opens),
                phase.shown_time(phase.closes),
                phase.is_open(at),
                phase.shows,
                phase.counts,
                quota_left(phase, track, of_team, at),
            )
            for phase in self.phases
            for track in self.tracks
            if phase.has_track(track)
        ]

    def standings(self, phase: str, track: str) -> list[LeaderboardRow] | None:
        """What everyone may see; None if the phase shows nothing, or there is no such phase or track."""
        shown = {each.name for each in self.phases if each.shows != "nothing"}
        return self._ranked(phase, track) if phase in shown and track in self.tracks else None

    def _ranked(self, phase: str, track: str) -> list[LeaderboardRow]:
        """The leaderboard of a phase, at most STANDINGS_S old; made again if a result has changed."""
        made_at, version, rows = self._standings.get((phase, track), (0.0, None, []))
        if time.monotonic() - made_at > STANDINGS_S:
            present = self._store.results_version(phase, track)
            if present != version:
                (found,) = (each for each in self.phases if each.name == phase)
                results = self._store.results(phase, track)
                rows = standings(found, track, results, self.contest.display_name)
            self._standings[phase, track] = (time.monotonic(), present, rows)
        return rows

    def list_views(self, team: str) -> list[dict[str, Any]]:
        """A team's submissions, the latest first, without their reports."""
        made = reversed(self._store.submissions(team=team))
        return [self._view(submission, with_report=False) for submission in made]

    def view(self, team: str, number: int) -> dict[str, Any] | None:
        """A submission of the team; None if there is none of this number that is the team's own."""
        found = self._store.submission(number)
        if found is None or found.team != team:
            return None
        return self._view(found, with_report=True)

    def _view(self, submission: Submission, *, with_report: bool) -> dict[str, Any]:
        phase = next((p for p in self.phases if p.name == submission.phase), None)
        view: dict[str, Any] = {
            "id": submission.id,
            "team": submission.team,
            "track": submission.track,
            "phase": submission.phase,
            "name": submission.name,
            "bytes": submission.bytes,
            "sha256": submission.sha256,
            "received": submission.received,
            "ended": submission.ended,
            "stage": submission.stage,
            "fault": submission.fault,
            "reason": submission.reason,
            "chosen": submission.chosen,
            "may_choose": phase is not None and phase.counts == "chosen",
            **(shown_result(phase, submission) if phase else {"score": None, "subjects": []}),
            "unit": submission.row.get("unit", ""),
        }
        if with_report:
            units = self._store.units(submission.id)
            view |= {"report": submission.report, "logs": [], "attempts": 0}
            view |= {"ahead": None, "percent": None, "subject": 0, "run": 0, "runs": 0}
            if submission.stage in PENDING:
                view |= self._progress(submission, units)
            else:
                view["logs"] = [
                    {"log": Path(unit.log).name, "sha256": unit.log_sha256}
                    for unit in units
                    if unit.log
                ]
            view["attempts"] = max(unit.attempt for unit in units)
        return view

    def _progress(self, submission: Submission, units: Sequence[UnitState]) -> dict[str, Any]:
        """How far it is: units ahead of it in the queue, or the share of its runs that is played.

        run: the one that is played, from 1, of `runs`.
        """
        present = [unit for unit in units if unit.number >= RUN] or list(units)
        if not any(unit.state == "leased" for unit in present):
            return {"ahead": self._ahead(submission)}
        done = sum(unit.state == "done" for unit in present)
        shares, subject = float(done), 0
        for unit in present:
            if unit.state == "leased":
                job = UnitJob(submission.id, unit.number, unit.attempt, "", "", [])
                progress = read_progress(self._work / job.name)
                shares += progress.done / progress.total if progress.total else 0.0
                subject = subject or progress.subject
        percent = int(100 * shares / len(present)) if subject or done else None
        return {"percent": percent, "subject": subject, "run": done + 1, "runs": len(present)}

    def _ahead(self, submission: Submission) -> int | None:
        made_at, places = self._places
        if time.monotonic() - made_at > STANDINGS_S:
            places = QueuePlaces(self._store.queues())
            self._places = (time.monotonic(), places)
        return places.units_ahead(submission.team, self._store.waiting_before(submission))


def shown_name(name: str) -> str:
    """A file's name as it is shown: its last part, printable, bounded; never used as a path."""
    last = name.replace("\\", "/").rpartition("/")[2]
    return "".join(c if c.isprintable() else "?" for c in last)[:NAME_CHARACTERS] or "unnamed"
