"""The judge: finds the replays of a contest, hears every team, and judges each run until it is over."""

import threading
from collections.abc import Callable
from typing import Any

from bci_stream.contest.contest import Contest
from bci_stream.errors import LogError, NotFoundError
from bci_stream.judge.replay_session import ReplaySession, Sink
from bci_stream.judge.team_run import TeamRun
from bci_stream.wire import names
from bci_stream.wire.crypto import sign
from bci_stream.wire.groups import StreamGroup
from bci_stream.wire.messages import Message, encode
from bci_stream.wire.transport import FoundStream, Transport

POLL_S = 0.002
"""How long the judge rests between rounds: it bounds how exactly an arrival is timed, and leaves the
machine to the decoders. Everything that came meanwhile is taken in one round."""

LOCKSTEP_POLL_S = 0.02
"""In lockstep nothing is timed by its arrival here: the replay writes down when it was."""

LOOK_EVERY_S = 0.25


class Judge:
    """Any number of replays and teams of one contest.

    expected: may this run begin with these teams? rules: what the contest changes on a track.
    """

    def __init__(
        self,
        transport: Transport,
        contest: Contest,
        sink: Sink,
        *,
        stop: threading.Event,
        expected: Callable[[list[str]], bool],
        rules: Callable[[str], dict[str, Any]] | None = None,
        owner: str = "judge",
    ) -> None:
        self._transport = transport
        self._contest = contest
        self._sink = sink
        self._stop = stop
        self._expected = expected
        self._rules = rules or contest.rules
        self._key = contest.keys.contest_key()
        self._outlet = transport.text_outlet(names.text_stream(contest.name, "judge", owner))
        self._teams = StreamGroup(transport, contest.name, "results")
        self._controls = transport.watch(names.prefix(contest.name, "control"))
        self._truths = transport.watch(names.prefix(contest.name, "truth"))
        self._known: set[str] = set()
        self._looked_at = 0.0
        self.hearings: list[ReplaySession] = []

    def judge(self, until: Callable[["Judge"], bool], wait_s: float) -> list[TeamRun]:
        """Judge until `until` says so; gives up where no replay is seen for wait_s."""
        begun = self._transport.now()
        try:
            while not self._stop.is_set() and not until(self):
                self.attend()
                if not self.hearings and self._transport.now() - begun > wait_s:
                    raise NotFoundError(
                        f"waited {wait_s:g} s for a replay of contest {self._contest.name!r}, which "
                        "never came; start one: bci-replay start SOURCE --track T"
                    )
                self._stop.wait(self._rest_s())
        except LogError:
            self.abandon()
            raise
        except BaseException:
            self.close()
            raise
        self.close()
        return self.runs()

    def _rest_s(self) -> float:
        timed = any(hearing.times_arrivals for hearing in self.hearings)
        return POLL_S if timed else LOCKSTEP_POLL_S

    def attend(self) -> None:
        """One round: take all that has come."""
        now = self._transport.now()
        if now - self._looked_at > LOOK_EVERY_S:
            self._looked_at = now
            self._look()
        heard = self._teams.pull()
        at = self._transport.now()
        texts = [(text, at) for _, text, _ in heard]
        gone = [owner for owner in self._teams.gone if owner not in self._teams.owners]
        for hearing in self.hearings:
            if not hearing.over:
                hearing.attend(texts, gone)

    def runs(self) -> list[TeamRun]:
        return [run for hearing in self.hearings for run in hearing.teams.values()]

    def all_over(self) -> bool:
        return bool(self.hearings) and all(hearing.over for hearing in self.hearings)

    def _look(self) -> None:
        self._teams.look()
        truths = {names.owner(found.source_id): found for found in self._truths.found()}
        for control in self._controls.found():
            truth = truths.get(names.owner(control.source_id))
            if control.uid not in self._known and truth is not None:
                self._open(control, truth)

    def _open(self, control: FoundStream, truth: FoundStream) -> None:
        try:
            hearing = ReplaySession(
                self._transport,
                self._contest,
                control,
                truth,
                self._say,
                self._sink,
                self._expected,
                self._rules,
            )
        except NotFoundError:
            return  # it ended as it was seen
        self._known.add(control.uid)
        self.hearings.append(hearing)

    def _say(self, message: Message) -> None:
        self._outlet.push(sign(encode(message), self._key))

    def abandon(self) -> None:
        """Leave without ending a run: its log stays open for the judge that goes on with it."""
        self._leave()

    def close(self) -> None:
        for hearing in self.hearings:
            hearing.close()
        self._leave()

    def _leave(self) -> None:
        self._teams.close()
        self._controls.close()
        self._truths.close()
        self._outlet.close()
