"""Plays sources in this process until they end or are stopped, and keeps the daemon's state file true."""

import gc
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict

from bci_stream.clock import RealClock
from bci_stream.contest.contest import Contest
from bci_stream.errors import BciError
from bci_stream.wire.transport import Transport
from replay.daemon import DaemonState, born, write_state
from replay.devices.live import LiveSource
from replay.devices.status import DeviceStatus
from replay.joined import join_sources
from replay.options import SourceOptions
from replay.pace import Pace
from replay.player import Player
from replay.program import Program, make_program
from replay.reception import StartOn
from replay.source import Source
from replay.uri import open_source

STATE_EVERY_S = 0.5
SWITCH_S = 0.0002


class Service:
    """One replay, from opening its sources to its last state."""

    def __init__(
        self,
        transport: Transport,
        contest: Contest,
        *,
        name: str,
        uris: tuple[str, ...],
        options: SourceOptions,
        track: str | None,
        pace: Pace,
        start_on: StartOn,
        team: str,
        wait_s: float,
        loop: bool,
        stop: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        self._transport = transport
        self._contest = contest
        self._uris = uris
        self._options = options
        self._track = track
        self._pace = pace
        self._start_on: StartOn = start_on
        self._team = team
        self._wait_s = wait_s
        self._loop = loop
        self._stop = stop
        self._say = say
        self.player: Player | None = None
        pid = os.getpid()
        self.state = DaemonState(
            name, pid, born(pid), list(uris), track or "", str(pace), contest.name
        )

    def run(self) -> None:
        """Play; whatever happens, the state file has the last word."""
        # A packet that is due must not wait for another thread's turn, which lasts 5 ms by default.
        sys.setswitchinterval(SWITCH_S)
        self._write("starting")
        try:
            source = join_sources(
                [open_source(uri, self._options, self._transport) for uri in self._uris]
            )
            try:
                self._play(source)
            finally:
                source.close()
        except BciError as error:
            self._write("failed", str(error))
            raise
        self._write("stopped" if self._stop.is_set() else "finished")

    def _play(self, source: Source) -> None:
        track = self._track or source.track
        program = make_program(source, track, self._contest.rules(track or ""))
        for session in program.sessions:
            for note in getattr(session, "notes", ()):
                self._say(f"{session.subject}: {note}")
        self.state.track, self.state.rate = program.track_name, program.rate
        if source.live and isinstance(source, LiveSource):
            source.listen(self._take_status)
        if source.live:
            threading.Thread(target=self._close_on_stop, args=(source,), daemon=True).start()
        while not self._stop.is_set():
            self._play_once(program)
            if not self._loop:
                break

    def _take_status(self, status: DeviceStatus) -> None:
        """What a device tells goes into the state file, to the terminal and to everyone on the wire."""
        self.state.device = status.as_dict()
        self._say(str(status))
        if self.player is not None:
            self.player.announce(status.state, status.detail or str(status))

    def _close_on_stop(self, source: Source) -> None:
        self._stop.wait()
        source.close()

    def _play_once(self, program: Program) -> None:
        player = Player(
            self._transport,
            RealClock(self._transport.now),
            self._contest,
            program,
            name=self.state.name,
            pace=self._pace,
            start_on=self._start_on,
            stop=self._stop,
            team=self._team,
            wait_s=self._wait_s,
            say=self._say,
        )
        self.player = player
        # What was loaded stays: the collector need not look through it again and again while packets are due.
        gc.collect()
        gc.freeze()
        over = threading.Event()
        writer = threading.Thread(target=self._keep_state, args=(player, over), daemon=True)
        writer.start()
        try:
            player.play()
        finally:
            over.set()
            writer.join()

    def _keep_state(self, player: Player, over: threading.Event) -> None:
        while not over.wait(STATE_EVERY_S):
            self.state.progress = asdict(player.progress)
            self._write(player.progress.state)

    def _write(self, state: str, detail: str = "") -> None:
        if self.player is not None:
            self.state.progress = asdict(self.player.progress)
        self.state.state, self.state.detail = state, detail
        write_state(self.state)

    def listen_to_signals(self) -> None:
        """SIGUSR1 pauses, SIGUSR2 goes on; `bci-replay pause` and `resume` send them."""
        signal.signal(signal.SIGUSR1, lambda *_: self._pause(True))
        signal.signal(signal.SIGUSR2, lambda *_: self._pause(False))

    def _pause(self, held: bool) -> None:
        if self.player is not None and held:
            self.player.paused.set()
        elif self.player is not None:
            self.player.paused.clear()
