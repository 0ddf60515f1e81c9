"""A hearing: one run of one replay before the judge, with all its teams."""

from collections.abc import Callable
from typing import Any

from msgspec import structs

from bci_stream.contest.contest import Contest
from bci_stream.judge.docket import Docket
from bci_stream.judge.roll import Roll, Sink
from bci_stream.judge.team_run import TeamRun
from bci_stream.judge.testimony import Testimony
from bci_stream.wire.ear import Ear
from bci_stream.wire.messages import (
    Behind,
    Catch,
    Closed,
    ControlMessage,
    Done,
    Go,
    Message,
    Next,
    Offer,
    PacketNote,
    Ready,
    Recall,
    Report,
    ResultsMessage,
    RetoldAll,
    Said,
    Seated,
    Sent,
    Status,
    Stopped,
    Told,
    TruthComplete,
    TruthMessage,
    TruthNote,
    TruthProbe,
    Welcome,
)
from bci_stream.wire.transport import Found, Transport
from tracks.registry import TRACKS

SAY_EVERY_S = 0.25
SILENCE_S = 30.0

GO_AGAIN_S = 1.0
"""How long a judge that was started again says go, so that a replay that held back hears it."""


class Hearing:
    """Follows a replay from its first offer to the end of its last team."""

    def __init__(
        self,
        transport: Transport,
        contest: Contest,
        control: Found,
        truth: Found,
        say: Callable[[Message], None],
        sink: Sink,
        expected: Callable[[list[str]], bool],
        rules: Callable[[str], dict[str, Any]],
    ) -> None:
        self._now = transport.now
        self._contest = contest
        self._say = say
        self._sink = sink
        self._expected = expected
        self._rules = rules
        self._testimony = Testimony(transport, control, truth, contest.keys.contest_key())
        self.complaints = self._testimony.complaints
        self.name = self._testimony.replay
        self.offer: Offer | None = None
        self.over = False
        self._docket = Docket()
        self._ear: Ear | None = None
        self._scribe: Ear | None = None  # lockstep: for what the replay wrote down
        self._roll: Roll | None = None
        self._truth_heard = False
        self._welcomed: set[str] = set()  # "" is this judge
        self._truth_complete = False
        self._started = False
        self._finished_at: float | None = None
        self._said_at = 0.0
        # A judge that was started again: what comes before it has caught up waits here.
        self._catching_up = False
        self._go_until = 0.0
        self._held_results: list[tuple[str, float]] = []
        self._held: list[Sent] = []
        self._early: list[Sent] = []

    @property
    def run(self) -> str:
        return self.offer.run if self.offer else ""

    @property
    def _lockstep(self) -> bool:
        return self.offer is not None and self.offer.lockstep

    @property
    def _hears_all(self) -> bool:
        """Whether both of the replay's streams have been proven."""
        return "" in self._welcomed and self._truth_heard

    @property
    def times_arrivals(self) -> bool:
        """Whether it matters when a message arrives here, as it does in real time."""
        return self.offer is not None and not self._lockstep and not self.over

    @property
    def teams(self) -> dict[str, TeamRun]:
        return self._roll.runs if self._roll else {}

    @property
    def dropped(self) -> dict[str, int]:
        return dict(self._ear.dropped) if self._ear else {}

    # --- one round ----------------------------------------------------------------------------

    def attend(self, results: list[tuple[str, float]], gone: list[str]) -> None:
        """Take what has come: the teams' signed texts with their arrival times, and who has gone."""
        self._held_results += results
        self._take_truth()
        self._take_results()
        for message, stamp in self._testimony.words():
            self._take_word(message, stamp)
        if self._testimony.gone:
            self._stop_all(f"replay {self.name!r} is gone")
        now = self._now()
        if self._roll is not None:
            self._roll.settle(gone, self._finished_at, now)
        if now - self._testimony.heard_at > SILENCE_S:
            self._stop_all(f"no word from replay {self.name!r} for {SILENCE_S:g} s")
        self._speak(now)

    def _take_results(self) -> None:
        """What the teams said; one that said it before the offer says it again."""
        if self._catching_up:
            return
        held, self._held_results = self._held_results, []
        if self._ear is None or self._roll is None:
            return
        for text, at in held:
            message = self._ear.hear(text)
            if message is not None:
                self._take_message(self._roll, message, at)

    def _take_message(self, roll: Roll, message: ResultsMessage, at: float) -> None:
        team = message.team
        if isinstance(message, Ready) and team not in roll.runs:
            if self._lockstep and team not in self._welcomed:
                return  # a lockstep replay is one team's
            roll.arrive(team)
            if self._started:
                roll.open(team)
        elif isinstance(message, Behind):
            roll.lag(team, message.seconds)
        elif isinstance(message, Next | Report | Done) and not self._lockstep:
            roll.message(message, at)

    def _take_truth(self) -> None:
        for message in self._testimony.truth(self.run):
            self._take_sealed(message)
        if self._truth_complete and self._early:
            early, self._early = self._early, []
            for sent in early:
                self._take_sent(sent)

    def _take_sealed(self, message: TruthMessage) -> None:
        if isinstance(message, TruthProbe):
            self._truth_heard = True
        elif isinstance(message, TruthNote):
            self._docket.add(message)
        elif isinstance(message, TruthComplete):
            self._truth_complete = True
        elif isinstance(message, Told):
            for number, event in enumerate(message.events, message.first):
                self._take_event(message.team, number, event)
        elif isinstance(message, RetoldAll):
            self._caught_up(message.gone_at + self._testimony.offset_s)

    def _take_word(self, message: ControlMessage, stamp: float) -> None:
        if isinstance(message, Offer) and self.offer is None:
            self._take_offer(message)
        elif isinstance(message, Welcome):
            self._welcomed.add(message.team)
        elif isinstance(message, PacketNote) and (self._catching_up or self.offer is None):
            self._held.append(Sent(message, stamp, stamp))  # those that were missed come first
        elif isinstance(message, PacketNote):
            self._take_sent(Sent(message, stamp, stamp))
        elif isinstance(message, Stopped):
            self._stop_all(f"the replay stopped: {message.reason}")
        elif isinstance(message, Status) and message.state != "alive" and self._roll is not None:
            self._roll.remark(message, stamp + self._testimony.offset_s)

    def _take_offer(self, offer: Offer) -> None:
        if offer.track not in TRACKS:
            why = f"track {offer.track!r}, which has no rules" if offer.track else "no track"
            self.complaints[f"not judged: it plays {why}; tracks are {', '.join(TRACKS)}"] += 1
            self.over = True
            return
        self.offer = offer
        self._ear = Ear(self._contest.name, offer.run, self._contest.token)
        if self._lockstep:
            self._scribe = Ear(self._contest.name, offer.run, self._contest.token)
        self._roll = Roll(self._contest, offer, self._docket, self._sink,
                          self._rules(offer.track), self._now)  # fmt: skip
        self._take_up_earlier(self._roll)
        if not self._catching_up:
            self._take_held()

    def _take_sent(self, sent: Sent) -> None:
        if not self._truth_complete or self._roll is None:
            self._early.append(sent)  # two streams: truth goes first
            return
        if not self._started:
            self._started = True
            self._roll.open_all()
        self._roll.note(sent.note, sent.stamp + self._testimony.offset_s)
        if sent.note.finish:
            self._finished_at = self._now()

    def _take_event(self, team: str, number: int, event: Sent | Said) -> None:
        """What the replay tells; in lockstep it is the scribe of what the team asked for and said."""
        if isinstance(event, Sent):
            self._take_sent(event)
        if self._scribe is None or self._roll is None:
            return
        at = event.at + self._testimony.offset_s
        if isinstance(event, Sent):
            self._roll.asked(team, event.note.i, number, at)
        else:
            message = self._scribe.hear(event.text)
            if isinstance(message, Report | Done) and message.team == team:
                self._roll.message(structs.replace(message, n=number), at)

    # --- a judge that was started again -------------------------------------------------------

    def _take_up_earlier(self, roll: Roll) -> None:
        roll.take_up_earlier()
        self._started = bool(roll.runs)
        self._catching_up = any(team_run.ended is None for team_run in roll.runs.values())
        if self._started and not self._catching_up:
            self._finished_at = self._now()

    def _caught_up(self, gone_at: float) -> None:
        """What the teams said while no judge was there counts as said when the last one was."""
        self._catching_up = False
        self._go_until = self._now() + GO_AGAIN_S
        self._held_results = [(text, min(at, gone_at)) for text, at in self._held_results]
        self._take_held()

    def _take_held(self) -> None:
        held, self._held = self._held, []
        for sent in held:
            self._take_sent(sent)

    # --- what the judge says ------------------------------------------------------------------

    def _speak(self, now: float) -> None:
        if now - self._said_at < SAY_EVERY_S:
            return
        self._said_at = now
        if self._roll is None:
            self._say(Seated(self._contest.name, self.run, []))
            return
        self._speak_to_teams(self._roll, now)
        if self._catching_up or now < self._go_until:
            self._speak_again(self._roll.teams)
        elif not self._started:
            self._speak_first(self._roll.teams)
        elif self._roll.all_heard_their_end(now):
            # In real time others may still join, until the last packet; a lockstep replay is one team's.
            self.over = self._finished_at is not None or self._lockstep

    def _speak_to_teams(self, roll: Roll, now: float) -> None:
        contest = self._contest.name
        for team, ending in roll.closed.items():
            self._say(Closed(contest, self.run, team, ending))
        for team_run in roll.runs.values() if not self._lockstep else ():
            if self._catching_up or (team_run.ended is None and team_run.inbox.misses(now)):
                self._say(Recall(contest, self.run, team_run.team, team_run.inbox.expected))

    def _speak_first(self, teams: list[str]) -> None:
        ready = self._hears_all
        self._say(Seated(self._contest.name, self.run, teams, ready))
        if ready and self._expected(teams):
            self._say(Go(self._contest.name, self.run))

    def _speak_again(self, teams: list[str]) -> None:
        """Until the replay has told all that was missed; then that it may go on."""
        if not self._catching_up:
            self._say(Go(self._contest.name, self.run))
            return
        ready = self._hears_all
        self._say(Seated(self._contest.name, self.run, teams, ready))
        if ready:
            self._say(Catch(self._contest.name, self.run))

    # --- the end ------------------------------------------------------------------------------

    def _stop_all(self, why: str) -> None:
        """The replay has ended; the teams still have to hear that their runs are closed."""
        if self._roll is not None:
            self._roll.stop(why)
        self._finished_at = self._finished_at or self._now()
        self.over = self.over or not self.teams

    def close(self) -> None:
        self._stop_all("the judge was stopped")
        self._testimony.close()
