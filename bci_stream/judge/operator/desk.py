"""Does what the operator asks for, on the judge's thread: the same for the console and the commands.

Whatever changes a score becomes a line of the run log. Every request but `state` is written to the journal.
"""

import hmac
import logging
from collections.abc import Callable
from typing import Any

from bci_stream.contest.actions import (
    Announce,
    AnyAction,
    DisqualifyTeam,
    ForfeitTeam,
    GiveGo,
    LogIn,
    OperatorAnswer,
    OperatorRequest,
    PauseRuns,
    PlayBlockAgain,
    ReadmitTeam,
    ReadState,
    ResumeRuns,
    StopRuns,
    VoidTrials,
)
from bci_stream.errors import BciError, ContestError, LogError
from bci_stream.judge.judge import Judge
from bci_stream.judge.operator.journal import OperatorJournal
from bci_stream.judge.operator.overview import describe_contest
from bci_stream.judge.session.replay_session import ReplaySession
from bci_stream.judge.session.sink import Sink
from bci_stream.judge.session.team_run import TeamRun
from tracks.common.reasons import Reason

logger = logging.getLogger(__name__)


class OperatorDesk:
    """Executes requests on a judge.

    announce: shows a line on the leaderboard. token: the organiser's, for the console; empty: none logs in.
    """

    def __init__(
        self,
        judge: Judge,
        sink: Sink,
        journal: OperatorJournal,
        *,
        announce: Callable[[str], None],
        token: str = "",
    ) -> None:
        self._judge = judge
        self._sink = sink
        self._journal = journal
        self._announce = announce
        self._token = token
        self._announced = ""
        self._actions: dict[type[Any], Callable[[Any], str]] = {
            GiveGo: self._go,
            PauseRuns: self._pause,
            ResumeRuns: self._resume,
            StopRuns: self._stop,
            ForfeitTeam: self._forfeit,
            ReadmitTeam: self._readmit,
            DisqualifyTeam: self._disqualify,
            VoidTrials: self._void,
            PlayBlockAgain: self._play_block_again,
            Announce: self._show,
            LogIn: self._log_in,
        }

    def handle(self, request: OperatorRequest) -> OperatorAnswer:
        """Execute a request; what can't be done is an answer, not an error.

        Raises LogError if a run log can't be written.
        """
        if isinstance(request.do, ReadState):
            state = describe_contest(self._judge) | {"announced": self._announced}
            return OperatorAnswer(True, state=state)
        track = getattr(request.do, "track", None)
        runs = [s.run for s in self._judge.sessions if not s.is_over and track in ("", s.track)]
        answer = self._answer(request.do)
        self._journal.add(request, answer, runs)
        if not isinstance(request.do, LogIn):
            outcome = "done" if answer.done else "not done"
            logger.info("operator (%s): %s: %s", request.by, outcome, answer.text)
        return answer

    def _answer(self, action: AnyAction) -> OperatorAnswer:
        try:
            return OperatorAnswer(True, self._actions[type(action)](action))
        except LogError:
            raise
        except BciError as error:
            return OperatorAnswer(False, str(error))

    def restore(self, session: ReplaySession) -> None:
        """Do again what the journal has on a run that began under an earlier judge.

        What is in the run logs (a forfeit of a team whose run has begun, what is void) is not done again.
        """
        paused = False
        for action in self._journal.decisions(session.run):
            if isinstance(action, GiveGo):
                session.go_given = True
            elif isinstance(action, PauseRuns | ResumeRuns):
                paused = isinstance(action, PauseRuns)
            elif isinstance(action, PlayBlockAgain):
                session.play_again(action.session - 1, action.block - 1)
            elif isinstance(action, ReadmitTeam):
                self._judge.kept_out.pop((session.track, action.team), None)
            elif isinstance(action, ForfeitTeam) and action.team not in session.teams:
                why = Reason("forfeited", reason=action.reason)
                self._keep_out(action.team, [session.track], why, "stopped")
            elif isinstance(action, DisqualifyTeam) and action.team not in session.teams:
                why = Reason("operator_disqualified", reason=action.reason)
                self._keep_out(action.team, [session.track], why, "disqualified")
        if paused:
            session.set_paused(True)
            logger.info("%s is still paused by the operator: bci-judge resume", session.track)

    # --- runs ---------------------------------------------------------------------------------

    def _sessions(self, track: str) -> list[ReplaySession]:
        """The replays of a track that are not over; raises ContestError if there are none."""
        found = [s for s in self._judge.sessions if not s.is_over and track in ("", s.track)]
        if not found:
            of_track = f" of track {track!r}" if track else ""
            raise ContestError(f"no replay{of_track} is here; start one: bci-replay start SOURCE")
        return found

    def _go(self, action: GiveGo) -> str:
        self._sessions(action.track)
        waiting = [s for s in self._judge.give_go(action.track or None) if s.offer is not None]
        if not waiting:
            raise ContestError("every run has begun already")
        return "; ".join(
            f"{s.track}: begins with {', '.join(s.present_teams)}"
            if s.present_teams
            else f"{s.track}: begins as soon as a team is ready"
            for s in waiting
        )

    def _pause(self, action: PauseRuns) -> str:
        sessions = self._sessions(action.track)
        if live := [s for s in sessions if s.is_live]:
            raise ContestError(
                f"{live[0].track} plays a live device, which can't be paused; stop the run, or void the "
                "trials that were disturbed"
            )
        for session in sessions:
            session.set_paused(True)
            self._note(session, "paused by the operator", action.reason)
        return f"paused: {', '.join(s.track for s in sessions)}"

    def _resume(self, action: ResumeRuns) -> str:
        sessions = [s for s in self._sessions(action.track) if s.is_paused]
        if not sessions:
            raise ContestError("nothing is paused by the operator")
        for session in sessions:
            session.set_paused(False)
            self._note(session, "resumed by the operator", "")
        return f"goes on: {', '.join(s.track for s in sessions)}"

    def _note(self, session: ReplaySession, what: str, reason: str) -> None:
        """Write to the teams' logs that the run was held; no rule reads it."""
        for run in session.teams.values():
            run.note(what, reason, self._judge.now())

    def _stop(self, action: StopRuns) -> str:
        sessions = self._sessions(action.track)
        for session in sessions:
            session.stop_runs(Reason("operator_stopped", reason=action.reason))
        return f"ended: {', '.join(s.track or s.name for s in sessions)}"

    # --- teams --------------------------------------------------------------------------------

    def _tracks(self, track: str) -> list[str]:
        """The track, or all of the contest."""
        known = {*self._judge.contest.tracks, *(s.track for s in self._judge.sessions if s.track)}
        if track and track not in known:
            raise ContestError(f"no track {track!r} is played here; there are {_listed(known)}")
        if not known:
            raise ContestError("no replay is here yet; name the track with --track")
        return [track] if track else sorted(known)

    def _check_team(self, team: str) -> None:
        known = {*self._judge.presence.names(), *(run.team for run in self._judge.runs)}
        if team not in known:
            raise ContestError(f"there is no team {team!r}; there are {_listed(known)}")

    def _runs(self, team: str, track: str) -> list[tuple[ReplaySession, TeamRun]]:
        return [
            (session, run)
            for session in self._judge.sessions
            if track in ("", session.track)
            for run in session.teams.values()
            if team in ("", run.team)
        ]

    def _forfeit(self, action: ForfeitTeam) -> str:
        self._check_team(action.team)
        tracks = self._tracks(action.track)
        why = Reason("forfeited", reason=action.reason)
        done = []
        for session, run in self._runs(action.team, action.track):
            if run.ended is None and run.forfeited is None:
                run.forfeit(action.reason, self._judge.now())
                self._sink.team(action.team, session.track, run.ended or "gone", why)
                done.append(session.track)
        begun = {session.track for session, _ in self._runs(action.team, action.track)}
        done += self._keep_out(action.team, [t for t in tracks if t not in begun], why, "stopped")
        if not done:
            raise ContestError(
                f"the runs of team {action.team!r} are over, or it has forfeited already"
            )
        return f"{action.team} forfeits: {', '.join(done)}"

    def _keep_out(self, team: str, tracks: list[str], why: Reason, status: str) -> list[str]:
        for track in tracks:
            self._judge.kept_out[track, team] = why
            self._sink.team(team, track, status, why)
            for session in self._judge.sessions:
                if session.track == track:
                    session.keep_out(team)
        return tracks

    def _readmit(self, action: ReadmitTeam) -> str:
        self._check_team(action.team)
        done = []
        for session, run in self._runs(action.team, action.track):
            if run.ended is None and run.forfeited is not None:
                run.readmit(self._judge.now())
                self._sink.team(action.team, session.track, "running", Reason("readmitted"))
                done.append(session.track)
        for track, team in list(self._judge.kept_out):
            if team == action.team and action.track in ("", track):
                del self._judge.kept_out[track, team]
                self._sink.team(team, track, "waiting", Reason("readmitted"))
                for session in self._judge.sessions:
                    if session.track == track and not session.is_over:
                        session.let_in(team)
                done.append(track)
        if not done:
            raise ContestError(
                f"team {action.team!r} is not kept out; a run that has ended can't be begun again, and a "
                "worker that crashed may join again by itself"
            )
        return f"{action.team} is let back in: {', '.join(done)}"

    def _disqualify(self, action: DisqualifyTeam) -> str:
        self._check_team(action.team)
        tracks = self._tracks(action.track)
        why = Reason("operator_disqualified", reason=action.reason)
        done = []
        runs = self._runs(action.team, action.track)
        for session, run in runs:
            if run.ended != "disqualified":
                run.disqualify(why, self._judge.now())
                self._sink.team(action.team, session.track, "disqualified", why)
                done.append(session.track)
        begun = {session.track for session, _ in runs}
        done += self._keep_out(
            action.team, [t for t in tracks if t not in begun], why, "disqualified"
        )
        if not done:
            raise ContestError(f"team {action.team!r} is disqualified already")
        return f"{action.team} is disqualified: {', '.join(done)}"

    def _void(self, action: VoidTrials) -> str:
        if action.team:
            self._check_team(action.team)
        runs = self._runs(action.team, action.track)
        if len({session.track for session, _ in runs}) > 1:
            raise ContestError("several tracks are played here; name the track with --track")
        if not runs:
            raise ContestError(
                "no such run is here; for the log of an earlier one: bci-judge void LOG"
            )
        for _, run in runs:  # before any of them is changed
            run.void_line(action.session, action.block, action.trial, action.reason)
        for _, run in runs:
            run.void(action.session, action.block, action.trial, action.reason, self._judge.now())
        what = f"session {action.session}, block {action.block}"
        what += f", trial {action.trial}" if action.trial is not None else ""
        return f"void: {what} of {', '.join(run.team for _, run in runs)}"

    def _play_block_again(self, action: PlayBlockAgain) -> str:
        sessions = [s for s in self._sessions(action.track) if s.has_started]
        if action.team:
            self._check_team(action.team)
            sessions = [s for s in sessions if action.team in s.teams]
        if not sessions:
            raise ContestError("no run has begun of which a block could be played again")
        if len({s.track for s in sessions}) > 1:
            raise ContestError("several tracks are played here; name the track with --track")
        session, block = action.session - 1, action.block - 1
        for replay in sessions:  # before any of them is changed
            self._check_block(replay, action)
        for replay in sessions:
            for run in replay.teams.values():
                again = run.ended is None
                run.void(
                    action.session,
                    action.block,
                    None,
                    action.reason,
                    self._judge.now(),
                    again=again,
                )
            replay.play_again(session, block)
        teams = ", ".join(sorted(team for replay in sessions for team in replay.teams))
        return (
            f"block {action.block} of session {action.session} is void, and is played again at the end of "
            f"the session: {teams}"
        )

    def _check_block(self, replay: ReplaySession, action: PlayBlockAgain) -> None:
        """Raise ContestError if the block can't be played again, or be void."""
        if replay.is_live:
            raise ContestError(
                f"{replay.track} plays a live device, which can't play a block again"
            )
        if action.team and not replay.lockstep:
            raise ContestError(
                f"in real time all teams receive one replay, so that a block is played again for all of "
                f"them: leave the team ({action.team}) out"
            )
        replay.repeats.check(action.session - 1, action.block - 1)
        for run in replay.teams.values():
            run.void_line(action.session, action.block, None, action.reason)

    # --- the console --------------------------------------------------------------------------

    def _show(self, action: Announce) -> str:
        self._announced = action.text.strip()
        self._announce(self._announced)
        return f"shown: {self._announced}" if self._announced else "the line is removed"

    def _log_in(self, action: LogIn) -> str:
        if not self._token or not hmac.compare_digest(action.token.encode(), self._token.encode()):
            raise ContestError("this is not the organiser's token")
        return "logged in"


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"
