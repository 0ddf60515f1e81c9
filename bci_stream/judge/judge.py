"""The judge: finds the replays of a contest, verifies the teams' messages, and judges each run to its end.

One thread owns all of this state: it polls every stream and folds every event itself.
"""

import threading
from collections import Counter
from collections.abc import Callable

from bci_stream.contest.contest import Contest
from bci_stream.errors import LogError, NotFoundError
from bci_stream.judge.replay_session import ReplaySession, Sink
from bci_stream.judge.team_run import TeamRun
from bci_stream.wire import names
from bci_stream.wire.crypto import sign
from bci_stream.wire.groups import StreamGroup
from bci_stream.wire.messages import Done, Message, ReportMessage, encode
from bci_stream.wire.transport import FoundStream, Transport
from bci_stream.wire.verify import MessageVerifier

POLL_S = 0.002
"""Pause between polls in real time: it bounds the error of arrival times, and leaves the CPU to the
decoders. All that arrived meanwhile is handled in one poll."""

LOCKSTEP_POLL_S = 0.02
"""The same in lockstep, where the replay logs the times."""

DISCOVER_EVERY_S = 0.25


class Judge:
    """Judges any number of replays and teams of one contest.

    may_start: whether a run may begin with these teams.
    """

    def __init__(
        self,
        transport: Transport,
        contest: Contest,
        sink: Sink,
        *,
        stop: threading.Event,
        may_start: Callable[[list[str]], bool],
    ) -> None:
        self._transport = transport
        self._contest = contest
        self._sink = sink
        self._stop = stop
        self._may_start = may_start
        self._outlet = transport.text_outlet(names.text_stream(contest.name, "judge", "judge"))
        self._results = StreamGroup(transport, contest.name, "results")
        self._controls = transport.watch(names.prefix(contest.name, "control"))
        self._truths = transport.watch(names.prefix(contest.name, "truth"))
        self._known_uids: set[str] = set()
        self._discovered_at = 0.0
        self._by_run: dict[str, ReplaySession] = {}
        self._verifier = MessageVerifier(contest.name, self._by_run.keys(), contest.token)
        self.sessions: list[ReplaySession] = []

    @property
    def dropped(self) -> Counter[str]:
        """Messages of teams that were rejected, by reason."""
        return self._verifier.dropped

    @property
    def runs(self) -> list[TeamRun]:
        return [run for session in self.sessions for run in session.teams.values()]

    def judge(self, until: Callable[["Judge"], bool], wait_s: float) -> list[TeamRun]:
        """Judge until `until` returns True or the judge is stopped; returns the runs.

        Raises NotFoundError if no replay appears within wait_s, LogError if a log can't be written.
        """
        begun = self._transport.now()
        try:
            while not self._stop.is_set() and not until(self):
                self.poll()
                if not self.sessions and self._transport.now() - begun > wait_s:
                    raise NotFoundError(
                        f"waited {wait_s:g} s for a replay of contest {self._contest.name!r}, which "
                        "never came; start one: bci-replay start SOURCE --track T"
                    )
                timed = any(session.times_arrivals for session in self.sessions)
                self._stop.wait(POLL_S if timed else LOCKSTEP_POLL_S)
        except LogError:
            self._close_streams()  # without ending a run: the next judge continues its log
            raise
        except BaseException:
            self.close()
            raise
        self.close()
        return self.runs

    def poll(self) -> None:
        """Handle all that has arrived."""
        now = self._transport.now()
        if now - self._discovered_at > DISCOVER_EVERY_S:
            self._discovered_at = now
            self._discover()
        texts = self._results.pull()
        at = self._transport.now()
        for _, text, _ in texts:
            self._route(text, at)
        gone = [team for team in self._results.gone if team not in self._results.owners]
        for session in self.sessions:
            if not session.is_over:
                session.poll(gone)
            if session.run:
                self._by_run[session.run] = session

    def _route(self, text: str, at: float) -> None:
        """Verify a team's message and hand it to the session of its run."""
        message = self._verifier.decode(text)
        if message is None:
            return
        session = self._by_run.get(message.run)
        if session is not None:
            if session.takes_from_team(message) and self._verifier.accepts(message, text):
                session.receive(message, at)
        elif isinstance(message, ReportMessage | Done) and all(
            s.run or s.is_over for s in self.sessions
        ):
            self._verifier.accepts(message, text)  # counts it: no replay here has this run

    def all_over(self) -> bool:
        return bool(self.sessions) and all(session.is_over for session in self.sessions)

    def _discover(self) -> None:
        self._results.look()
        truths = {names.owner(found.source_id): found for found in self._truths.found()}
        for control in self._controls.found():
            truth = truths.get(names.owner(control.source_id))
            if control.uid not in self._known_uids and truth is not None:
                self._open(control, truth)

    def _open(self, control: FoundStream, truth: FoundStream) -> None:
        try:
            session = ReplaySession(
                self._transport,
                self._contest,
                control,
                truth,
                self._verifier,
                self._sink,
                send=self._send,
                may_start=self._may_start,
            )
        except NotFoundError:
            return  # it ended just after it was discovered
        self._known_uids.add(control.uid)
        self.sessions.append(session)

    def _send(self, message: Message) -> None:
        self._outlet.push(sign(encode(message), self._contest.keys.contest_key()))

    def close(self) -> None:
        """End all runs and close the streams."""
        for session in self.sessions:
            session.close()
        self._close_streams()

    def _close_streams(self) -> None:
        self._results.close()
        self._controls.close()
        self._truths.close()
        self._outlet.close()
