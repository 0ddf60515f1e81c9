"""The judge: finds the replays of a contest, verifies the teams' messages, and judges each run to its end.

One thread owns all of this state. Another one, `ArrivalReader`, reads the streams and stamps what arrives.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable

from msgspec import structs

from bci_stream.clock import short_turns, thread_beside
from bci_stream.contest.contest import Contest
from bci_stream.contest.refusals import TokenRefusals
from bci_stream.contest.start import StartGate
from bci_stream.errors import LogError, NotFoundError, WireError
from bci_stream.judge.arrivals import Arrival, ArrivalReader, JudgeStall
from bci_stream.judge.operator.presence import PresenceTable
from bci_stream.judge.session.replay_session import ReplaySession
from bci_stream.judge.session.sink import Sink
from bci_stream.judge.session.team_run import TeamRun
from bci_stream.wire import names
from bci_stream.wire.crypto import sign, unseal_truth
from bci_stream.wire.messages import (
    Done,
    FromJudge,
    ReportMessage,
    SealedMessage,
    encode,
    read_sealed,
)
from bci_stream.wire.transport import Transport
from bci_stream.wire.verify import MessageVerifier, TeamText
from tracks.common.reasons import Reason

logger = logging.getLogger(__name__)

MISSING_EVERY_S = 0.25
OUT_OF_SIGHT_S = 3.0
"""A team's stream that LSL does not find any more, and that brings nothing, for so long is shown as gone; LSL
itself forgets a stream 5 s after its last answer."""

POLL_EVERY_S = 0.01
"""Pause between two polls in real time; arrivals have their times by then, so that only the page waits."""

COPIES_EVERY_S, COPY_LASTS_S = 1.0, 5.0
"""How often two streams of one name are looked for, and how long the second one must be there: a replay that
was started again is seen twice for a moment."""


class Judge:
    """Judges any number of replays and teams of one contest.

    may_start: whether a run may begin with these teams. gate: decides that instead, by the contest's start
    policy, and knows which teams are expected; those that are missing are shown. operator: called at each
    poll, on the judge's thread, to do what the operator has asked for.
    """

    def __init__(
        self,
        transport: Transport,
        contest: Contest,
        sink: Sink,
        *,
        stop: threading.Event,
        may_start: Callable[[list[str]], bool] = bool,
        gate: StartGate | None = None,
        operator: Callable[[], None] | None = None,
    ) -> None:
        self.gate = gate
        self.operator = operator
        self.restore: Callable[[ReplaySession], None] = lambda _: None
        """Does again what an operator has decided on a run under an earlier judge."""
        self._transport = transport
        self._contest = contest
        self._sink = sink
        self._stop = stop
        self._may_start = may_start
        self._outlet = transport.text_outlet(names.text_stream(contest.name, "judge", "judge"))
        self._arrivals = ArrivalReader(transport, contest.name, contest.limits)
        self._reads_inline = True
        self._seq = time.time_ns() // 1000  # larger than any of a judge before this one
        self._by_uid: dict[str, ReplaySession] = {}
        self._by_run: dict[str, ReplaySession] = {}
        self._copies = CopyWatch(transport, contest.name)
        self._refusals = TokenRefusals(contest)
        self._missing: dict[tuple[str, str], Reason] = {}
        self._looked_for_missing_at = float("-inf")
        self._verifier = MessageVerifier(
            contest.name, self._by_run.keys(), contest.token, sealed=contest.sealed
        )
        self.sessions: list[ReplaySession] = []
        self.kept_out: dict[tuple[str, str], Reason] = {}
        """By track and team: teams whose runs must not begin, and why; the operator decides."""
        self.presence = PresenceTable(
            contest, transport.now, lambda: list(self._arrivals.results.owners)
        )

    @property
    def contest(self) -> Contest:
        return self._contest

    def now(self) -> float:
        return self._transport.now()

    @property
    def dropped(self) -> Counter[str]:
        """Messages of teams that were rejected, by reason."""
        return self._verifier.dropped

    @property
    def runs(self) -> list[TeamRun]:
        return [run for session in self.sessions for run in session.teams.values()]

    def judge(self, until: Callable[["Judge"], bool], wait_s: float) -> list[TeamRun]:
        """Judge until `until` returns True or the judge is stopped; returns the runs.

        If it ends by an error, no run is ended: the next judge continues the logs.
        Raises NotFoundError if no replay appears within wait_s, LogError if a log can't be written.
        """
        begun = self._transport.now()
        try:
            self._reads_inline = False
            with short_turns(), thread_beside(self._arrivals.read_until, "arrivals"):
                while not self._stop.is_set() and not until(self):
                    self.poll()
                    if not self.sessions and self._transport.now() - begun > wait_s:
                        raise NotFoundError(
                            f"waited {wait_s:g} s for a replay of contest {self._contest.name!r}, "
                            "which never came; start one: bci-replay start SOURCE --track T"
                        )
                    self._stop.wait(max(POLL_EVERY_S, self._arrivals.read_every_s))
                for session in self.sessions:
                    session.close()
        finally:
            self._close_streams()
        return self.runs

    def poll(self) -> None:
        """Handle all that has arrived."""
        if self.operator is not None:
            self.operator()
        if self._reads_inline:
            self._arrivals.read()
        read_to = self._arrivals.take(self._handle)
        for alarm in self._copies.look():
            self._sink.alarm(alarm)
        gone = self._arrivals.teams_gone()
        unseen = self._arrivals.results.out_of_sight(OUT_OF_SIGHT_S)
        open_uids = self._arrivals.truths.uids
        for uid, session in self._by_uid.items():
            if not session.is_over:
                is_gone = uid not in open_uids
                self._guard(
                    session,
                    session.poll,
                    gone,
                    read_to=read_to,
                    unseen=unseen,
                    replay_is_gone=is_gone,
                )
        self._show_missing()
        self._arrivals.follow([s.offer for s in self.sessions if s.offer and not s.is_over])

    def _guard(
        self, session: ReplaySession, call: Callable[..., None], *args: object, **more: object
    ) -> None:
        """Call a session's method; an error ends this session alone, and its logs stay open."""
        try:
            call(*args, **more)
        except LogError:
            raise  # a full disk concerns all runs: the judge ends, and the next one goes on
        except Exception as error:
            logger.exception("replay %s: judging it failed; its logs stay open", session.name)
            session.abandon(error)

    # --- what arrives -------------------------------------------------------------------------

    def _handle(self, arrived: Arrival | JudgeStall) -> None:
        if isinstance(arrived, JudgeStall):
            for session in self.sessions:
                session.judge_stalled(arrived.since, arrived.at)
        elif arrived.role == "truth":
            self._handle_sealed(arrived)
        else:
            self._handle_results(arrived)

    def _handle_sealed(self, arrived: Arrival) -> None:
        try:
            run, text = unseal_truth(arrived.text, self._contest.keys.truth_key(), arrived.uid)
            sealed = read_sealed(text)
        except WireError:
            self._arrivals.truths.reject(arrived.uid)
            self._sink.alarm(Reason("unverified_stream", stream=f"truth/{arrived.owner}"))
            return
        self._arrivals.truths.accept(arrived.uid)
        session = self._session_of(arrived, run)
        if session is not None and not session.is_over:
            self._guard(session, self._pass_on, session, sealed, arrived)

    @staticmethod
    def _pass_on(session: ReplaySession, sealed: SealedMessage, arrived: Arrival) -> None:
        session.receive_sealed(sealed, arrived.at, arrived.offset_s)

    def _session_of(self, arrived: Arrival, run: str) -> ReplaySession | None:
        """The session of a stream; None for a second stream of one run, which is ignored."""
        session = self._by_uid.get(arrived.uid)
        if session is None and run not in self._by_run:
            session = ReplaySession(
                self._transport.now,
                self._contest,
                arrived.owner,
                run,
                self._verifier,
                self._sink,
                send=self._send,
                may_start=self._may_begin,
                kept_out=self.kept_out,
                restore=self.restore,
                refused=self._note_refusal,
            )
            self._by_uid[arrived.uid] = self._by_run[run] = session
            self.sessions.append(session)
        elif session is None:
            self._sink.alarm(Reason("second_stream", stream=f"truth/{arrived.owner}"))
        return session

    def _may_begin(self, session: ReplaySession) -> bool:
        """Whether a run may begin; in lockstep each team has a replay of its own, so that all count.

        No start waits for a team that forfeited before its run.
        """
        here = self._teams_with(session) if session.lockstep else session.present_teams
        out = (team for track, team in self.kept_out if track == session.track)
        teams = sorted({*here, *out})
        if self.gate is None:
            return self._may_start(teams)
        # In lockstep the runs of a track begin together.
        run = session.track if session.lockstep else session.run
        return self.gate.may_start(run, session.track, teams, self._transport.now())

    def _teams_with(self, session: ReplaySession) -> list[str]:
        """The teams of all lockstep runs of the session's track."""
        runs = (s for s in self.sessions if s.lockstep and s.track == session.track)
        return sorted({team for run in runs for team in run.present_teams})

    def _show_missing(self) -> None:
        """Show the expected teams that are not here, and why."""
        now = self._transport.now()
        if self.gate is None or now - self._looked_for_missing_at < MISSING_EVERY_S:
            return
        self._looked_for_missing_at = now
        for track in dict.fromkeys(s.track for s in self.sessions if s.offer is not None):
            sessions = [s for s in self.sessions if s.offer is not None and s.track == track]
            present = {team for session in sessions for team in session.present_teams}
            left = {team: why for session in sessions for team, why in session.left.items()}
            missing = self.gate.missing(track, present)
            for team in missing:
                why = self._refusals.of_team(team) or left.get(team) or Reason("not_seen")
                if self._missing.get((track, team)) != why:
                    self._missing[track, team] = why
                    self._sink.team(team, track, "missing", why)
            for team in present:
                self._missing.pop((track, team), None)

    def give_go(self, track: str | None) -> list[ReplaySession]:
        """Begin with the teams that are ready; None: on all tracks. Returns the replays that may begin."""
        waiting = [
            session
            for session in self.sessions
            if not (session.has_started or session.is_over) and track in (None, session.track)
        ]
        for session in waiting:
            session.go_given = True
        return waiting

    def _handle_results(self, arrived: Arrival) -> None:
        """Verify a team's message and hand it to the session of its run."""
        claimed = self._verifier.read(arrived.text)
        session = None if claimed is None else self._by_run.get(claimed.run)
        if claimed is not None and session is not None and session.ignores_results:
            return
        if claimed is None:
            self._arrivals.results.reject(arrived.uid)
            self.presence.refused(arrived.owner, Reason("team_unreadable"))
            return
        message = self._verifier.authenticate(claimed, arrived.uid, arrived.owner)
        if message is None:
            self._arrivals.results.reject(arrived.uid)
            self._show_refusal(claimed, arrived)
            return
        self._arrivals.results.accept(arrived.uid)
        self._refusals.accept(claimed.team)
        self.presence.verified(message)
        if session is None:
            self._count_unknown(claimed, message)
        elif session.takes(message) and self._verifier.admits(message):
            self._guard(session, session.receive, message, arrived.text, arrived.at)

    def _show_refusal(self, claimed: TeamText, arrived: Arrival) -> None:
        """Show whose token was refused, and why; the run of a revoked team goes on without its reports."""
        why = self._refusals.refuse(claimed, arrived.uid, arrived.at)
        if why is None:
            return
        self._note_refusal(claimed.team, why)
        if arrived.uid in self._arrivals.results.uids:
            for session in self.sessions:
                session.token_refused(claimed.team, why)

    def _note_refusal(self, team: str, why: Reason) -> None:
        """Show that a team's token was refused, here or by a replay."""
        self._refusals.add(team, why)
        self._sink.alarm(why)
        self.presence.refused(team, why)

    def _count_unknown(self, claimed: TeamText, message: object) -> None:
        """Count a report for a run that no replay here has, once all replays are known."""
        if isinstance(message, ReportMessage | Done) and claimed.run:
            self._verifier.dropped["other run"] += 1

    def all_over(self) -> bool:
        return bool(self.sessions) and all(session.is_over for session in self.sessions)

    def _send(self, message: FromJudge) -> None:
        self._seq += 1
        text = encode(structs.replace(message, seq=self._seq, stream=self._outlet.uid))
        signed = self._contest.keys.signing_key().sign(text, "judge")
        self._outlet.push(sign(signed, self._contest.keys.contest_key()))

    def close(self) -> None:
        """End all runs and close the streams."""
        for session in self.sessions:
            session.close()
        self._close_streams()

    def _close_streams(self) -> None:
        self._arrivals.close()
        self._copies.close()
        self._outlet.close()


class CopyWatch:
    """Finds streams that have the name of another one: somebody copies a replay or the judge."""

    def __init__(self, transport: Transport, contest: str) -> None:
        self._now = transport.now
        self._watches = [
            transport.watch(names.prefix(contest, "control")),
            transport.watch(names.prefix(contest, "signal")),
            transport.watch(names.prefix(contest, "judge")),
        ]
        self._looked_at = float("-inf")
        self._since: dict[str, float] = {}
        self._reported: set[str] = set()

    def look(self) -> list[Reason]:
        """An alarm for each name that has had two streams for a while; one for each name."""
        now = self._now()
        if now - self._looked_at < COPIES_EVERY_S:
            return []
        self._looked_at = now
        streams = Counter(found.source_id for watch in self._watches for found in watch.found())
        copied = {source_id for source_id, count in streams.items() if count > 1}
        self._since = {source_id: self._since.get(source_id, now) for source_id in copied}
        due = {s for s, since in self._since.items() if now - since > COPY_LASTS_S}
        new = sorted(due - self._reported)
        self._reported |= due
        return [Reason("second_stream", stream=source_id) for source_id in new]

    def close(self) -> None:
        for watch in self._watches:
            watch.close()
