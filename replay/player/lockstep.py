"""Lockstep: a packet leaves when its team asks for it.

What costs most on a round trip is a text on LSL, so most packets go without one: the replay announces how
many of the coming packets are plain, the team then waits for samples alone, and the judge is told in lots.
"""

import threading
from collections import deque
from collections.abc import Iterator

from bci_stream.clock import Clock
from bci_stream.errors import BciError
from bci_stream.packet import column_triggers
from bci_stream.wire.messages import Stopped, UnannouncedPackets
from replay.player.handshake import HandshakeServer
from replay.player.journal import RunJournal
from replay.player.outlets import ReplayOutlets
from replay.player.plan import PlaybackPlan
from replay.transform.masking import MaskedPacket

LOT = 100
"""How many packets are announced at once: four seconds of the future's bounds, and nothing of its signal."""

LOT_S = 0.05
"""How long the judge may wait for word of a packet."""


class Lockstep:
    """Plays a program to one team, as fast as the team asks for it."""

    def __init__(
        self,
        stage: ReplayOutlets,
        reception: HandshakeServer,
        telling: RunJournal,
        program: PlaybackPlan,
        clock: Clock,
        wait_s: float,
        stop: threading.Event,
    ) -> None:
        self._stage = stage
        self._reception = reception
        self._telling = telling
        self._program = program
        self._clock = clock
        self._wait_s = wait_s
        self._stop = stop
        self._packet_samples = program.packet_samples
        self._announced = 0
        self._by_ask = False
        self._judge_told_at = 0.0

    def play(self) -> None:
        self._telling.team = next(iter(self._reception.lobby.guests))  # lockstep has one
        self._telling.progress.teams = (self._telling.team,)
        self._telling.begin_session(0)
        stamp = self._clock.now()
        coming: deque[MaskedPacket] = deque()
        for shown in _with_coming(self._program.packets(), coming):
            note = self._telling.note(shown)  # all that can be done before it is asked for is
            stamp += shown.n / self._program.rate
            if not self._asked():
                break
            self._telling.begin_session(shown.session)
            self._telling.tell_truth(shown)
            self._telling.show(note, shown, stamp, noted=self._announced == 0)
            self._announced = max(0, self._announced - 1)
            self._by_ask = self._announced > 0
            self._announce(shown, coming)
            self._tell_judge()
        self._telling.tell_judge()

    def _announce(self, last: MaskedPacket, coming: deque[MaskedPacket]) -> None:
        """The last packet of a lot is out: how many of those that follow it are plain?"""
        if self._announced or not self._reception.lobby.all_plain():
            return
        for shown in coming:
            if not self._is_plain(last, shown):
                break
            self._announced += 1
            last = shown
        if self._announced:
            self._stage.say(UnannouncedPackets(self._telling.next_packet, self._announced))

    def _is_plain(self, before: MaskedPacket, shown: MaskedPacket) -> bool:
        return (
            (shown.session, shown.block, shown.start)
            == (before.session, before.block, before.start + before.n)
            and shown.n == self._packet_samples
            and not shown.finish
            and (not shown.triggers or shown.triggers == column_triggers(shown.samples))
        )

    def _tell_judge(self) -> None:
        now = self._clock.now()
        if self._telling.behind >= LOT or now - self._judge_told_at > LOT_S:
            self._judge_told_at = now
            self._telling.tell_judge()

    def _asked(self) -> bool:
        """Wait for the team to ask for the next packet; False where nobody will ask any more."""
        checked = self._clock.now()
        asked = False
        while not self._stop.is_set():
            if not asked:
                wait_s = LOT_S if self._telling.behind else 0.25
                wanted = self._telling.next_packet
                asked = self._reception.asked(wanted, wait_s, by_ask=self._by_ask)
            if asked and not self._reception.judge_is_away:
                return True
            now = self._clock.now()
            if self._telling.behind:
                self._telling.tell_judge()
            if asked:
                self._stop.wait(0.02)
                self._reception.give_up_on_judge(now, self._wait_s)
            if now - checked > 0.2:
                checked = now
                self._reception.attend()
                if self._reception.everyone_left():
                    return False
            self._stage.say_alive()
        self._stage.say(Stopped("the replay was stopped"))
        return False


def _with_coming(
    packets: Iterator[MaskedPacket], coming: deque[MaskedPacket]
) -> Iterator[MaskedPacket]:
    """Each packet, while `coming` holds the LOT ones that follow it."""
    try:
        for shown in packets:
            coming.append(shown)
            if len(coming) > LOT:
                yield coming.popleft()
    except BciError:  # a packet that can't be read takes none with it that can
        yield from _emptied(coming)
        raise
    yield from _emptied(coming)


def _emptied(coming: deque[MaskedPacket]) -> Iterator[MaskedPacket]:
    while coming:
        yield coming.popleft()
