"""Real time: a packet leaves at its own deadline, t0 + samples / rate, however late the one before it was.

Lateness never adds up, and no packet is dropped: a stall is reported, and what was due then follows at once.
"""

import threading
from collections.abc import Callable
from functools import partial

from bci_stream.clock import Clock
from bci_stream.wire.messages import Status, Stopped
from replay.player.handshake import HandshakeServer
from replay.player.journal import RunJournal
from replay.player.outlets import ReplayOutlets, Wait, no_wait
from replay.player.plan import PlaybackPlan
from replay.player.prefetch import ahead

LATE_S = 0.25
"""A packet that leaves later than this is in a stall."""


class StallReporter:
    """A stall is told when it begins, and again each time its lateness has doubled: not at every packet."""

    def __init__(self) -> None:
        self._tell_above_s = LATE_S

    def to_be_told(self, late_s: float) -> bool:
        """Takes the next packet's lateness."""
        if late_s <= LATE_S:
            self._tell_above_s = LATE_S
        if late_s <= self._tell_above_s:
            return False
        self._tell_above_s = 2 * late_s
        return True


LEAD_IN_S, FIRST_LISTENERS_S = 0.25, 1.0
"""Between the first packet's being there and the first deadline, so that it is not late. Whoever listens has
opened the signal, and gets the time to open the markers as well: LSL tells nobody what was said before."""

DOOR_S = 0.02
"""How often a real-time replay looks who is at its door, and whether the judge is still there."""

QUIET_DOOR_S = 1.0
"""The same where no team is let in: there is only to be said that the replay lives."""

FIRST_LEAD_S, MOST_LEAD_S = 0.00001, 0.0001
LEAD_STEP_S = 0.0000002
"""A wait ends as much earlier as it takes from its end to the push, some 10 us. That is learned, by steps of
this size up or down, and so comes to rest at the median."""


class Realtime:
    """Plays a program to anybody, at `speed` times its own pace. `paused` holds packets back.

    endless: begins again at the end, without a pause.
    """

    def __init__(
        self,
        stage: ReplayOutlets,
        reception: HandshakeServer,
        telling: RunJournal,
        program: PlaybackPlan,
        clock: Clock,
        *,
        speed: float,
        endless: bool,
        for_teams: bool,
        wait_s: float,
        paused: threading.Event,
        stop: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        self._stage = stage
        self._reception = reception
        self._telling = telling
        self._program = program
        self._clock = clock
        self._rate = program.rate * speed
        self._endless = endless
        self._for_teams = for_teams
        self._wait_s = wait_s
        self._paused = paused
        self._stop = stop
        self._say = say
        self._stalls = StallReporter()

    def play(self) -> None:
        over = threading.Event()
        door = threading.Thread(target=self._keep_door, args=(over,), name="door", daemon=True)
        door.start()
        try:
            self._pace_packets()
        finally:
            over.set()
            door.join()

    def _pace_packets(self) -> None:
        origin: float | None = None
        sent = 0
        lead_s = FIRST_LEAD_S
        self._telling.begin_session(0)
        packets = self._program.packets(endless=self._endless)
        if not self._program.live:
            packets = ahead(packets, self._stop)
        for shown in packets:
            if origin is None:  # not before: a source may need seconds to make its first packet
                origin = self._clock.now() + self._lead_in_s()
            origin += self._held_back()
            self._telling.begin_session(shown.session, shown.round)
            sent += shown.n
            deadline = shown.stamp if shown.stamp is not None else origin + sent / self._rate
            self._telling.tell_truth(shown)
            wait: Wait = no_wait
            if shown.stamp is None:
                wait = partial(self._clock.wait_until, deadline - lead_s, self._stop)
            left_at = self._telling.show(self._telling.note(shown), shown, deadline, wait)
            if left_at is None:
                break
            lead_s = adjusted_lead(lead_s, left_at - deadline)
            self._note_lateness(left_at - deadline)
            if self._stop.is_set():
                break
        if self._stop.is_set():
            self._stage.say(Stopped("the replay was stopped"))

    def _lead_in_s(self) -> float:
        is_heard = not self._for_teams and self._stage.has_consumers()
        return FIRST_LISTENERS_S if is_heard else LEAD_IN_S

    def _held_back(self) -> float:
        """How long a pause lasted; deadlines move by as much."""
        if not (self._paused.is_set() or self._reception.judge_is_away):
            return 0.0
        begun = self._clock.now()
        self._telling.progress.state = "paused"
        self._stage.say(Status("paused"))
        while self._paused.is_set() or self._reception.judge_is_away:
            if self._stop.wait(0.02):
                break
            if self._reception.judge_is_away:
                self._reception.give_up_on_judge(self._clock.now(), self._wait_s)
        self._telling.progress.state = "playing"
        self._stage.say(Status("resumed"))
        return self._clock.now() - begun

    def _note_lateness(self, late_s: float) -> None:
        progress = self._telling.progress
        progress.late_s = late_s
        progress.worst_late_s = max(progress.worst_late_s, late_s)
        if not self._program.live and self._stalls.to_be_told(late_s):
            self._say(f"stalled: a packet leaves {late_s:.2f} s late; none is dropped")
            self._stage.say(Status("late", f"{late_s:.3f} s"))

    def _keep_door(self, over: threading.Event) -> None:
        """Let in who comes late, and say once a second that the replay is alive."""
        while not over.wait(DOOR_S if self._for_teams else QUIET_DOOR_S):
            if self._for_teams:
                self._reception.attend()
                self._telling.progress.teams = tuple(self._reception.lobby.guests)
            self._telling.progress.heard = self._stage.has_consumers()
            self._stage.say_alive()


def adjusted_lead(lead_s: float, late_s: float) -> float:
    """The lead after one more packet was so late; a stall, which no lead would help, teaches nothing."""
    if late_s > MOST_LEAD_S:
        return lead_s
    step_s = LEAD_STEP_S if late_s > 0 else -LEAD_STEP_S
    return min(max(lead_s + step_s, 0.0), MOST_LEAD_S)
