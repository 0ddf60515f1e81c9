"""Plays sources in this process until they end or are stopped, and keeps the daemon's state file true."""

import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Protocol

from bci_stream.clock import RealClock
from bci_stream.contest.contest import Contest
from bci_stream.errors import SourceError
from bci_stream.wire.transport import Transport
from replay.daemon import OVER, DaemonState, born, write_state
from replay.model.options import SourceOptions
from replay.model.source import LiveDevice, Source, SourceStatus
from replay.player.handshake import StartOn
from replay.player.journal import PlaybackProgress
from replay.player.plan import PlaybackPlan, make_plan
from replay.player.player import Pace, Player, check_live_pace
from replay.sources import concatenate_sources, open_source

EVERY_S = 0.5


class Playing(Protocol):
    player: Player | None


@contextmanager
def progress_line(service: Playing) -> Iterator[None]:
    if sys.stderr is None or not sys.stderr.isatty():  # None: it was closed (`2>&-`)
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_show, args=(service, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _show(service: Playing, over: threading.Event) -> None:
    from rich.console import Console
    from rich.status import Status

    with Status("opening and checking the sources", console=Console(stderr=True)) as line:
        while not over.wait(EVERY_S):
            if service.player is not None:
                line.update(describe(service.player.progress))


def describe(at: PlaybackProgress) -> str:
    """playing S01: 12% played, teams: a, b, last packet 0.1 ms late, at worst 0.4 ms."""
    share = f"{at.played / at.total:.0%} played" if at.total else f"{at.played} samples played"
    teams = f", teams: {', '.join(at.teams)}" if at.teams else ""
    again = f", round {at.round + 1}" if at.round else ""
    return f"{at.state} {at.subject}: {share}{again}{teams}{_lateness(at)}"


def _lateness(at: PlaybackProgress) -> str:
    if not at.worst_late_s:
        return ""  # in lockstep nothing is late
    last_ms, worst_ms = 1000 * max(at.late_s, 0.0), 1000 * at.worst_late_s
    return f", last packet {last_ms:.1f} ms late, at worst {worst_ms:.1f} ms"


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
        self._device: LiveDevice | None = None
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
            source = concatenate_sources(
                [open_source(uri, self._options, self._transport) for uri in self._uris]
            )
            with contextlib.closing(source), self._state_kept():
                self._play(source)
        except Exception as error:
            self._write("failed", str(error) or type(error).__name__)
            raise
        self._write("stopped" if self._stop.is_set() else "finished")

    def _play(self, source: Source) -> None:
        if source.device is not None:
            self._watch(source.device)
        track = self._track or source.track
        try:
            program = make_plan(source, track, self._contest.rules(track or ""))
        except SourceError:
            if self._device is not None and self._stop.is_set():
                return  # a search that was interrupted is a stop, and no error
            raise
        for session in program.sessions:
            for note in session.notes:
                self._say(f"{session.subject}: {note}")
        self.state.track, self.state.rate = program.track_name, program.rate
        while not self._stop.is_set():
            self._play_once(program)
            if not self._loop:
                break

    def _watch(self, device: LiveDevice) -> None:
        """Before it is looked for, since that can take long: its word is heard, and a stop is heeded."""
        check_live_pace(device.uri, self._pace)
        self._device = device
        self._say(str(device.status))
        device.listen(self._take_status)
        threading.Thread(target=self._close_on_stop, args=(device,), daemon=True).start()

    def _take_status(self, status: SourceStatus) -> None:
        """All that a device tells goes to the terminal; its numbers alone go to everyone on the wire."""
        self._say(str(status))
        self._announce(status)

    def _announce(self, status: SourceStatus) -> None:
        if self.player is not None:
            self.player.announce(status.state, status.public)

    def _close_on_stop(self, device: LiveDevice) -> None:
        self._stop.wait()
        device.close()

    def _play_once(self, program: PlaybackPlan) -> None:
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
            # To anybody one run without an end: streams that come and go would lose what lies between. Teams
            # and a judge begin anew, each time with a log of its own.
            endless=self._loop and self._start_on in ("consumer", "now") and not program.live,
            wait_s=self._wait_s,
            say=self._say,
        )
        self.player = player
        if self._device is not None:
            self._announce(self._device.status)
        # What was loaded stays: the collector need not look through it again and again while packets are due.
        gc.collect()
        gc.freeze()
        player.play()
        self._say(describe(player.progress))

    @contextlib.contextmanager
    def _state_kept(self) -> Iterator[None]:
        over = threading.Event()
        writer = threading.Thread(target=self._keep_state, args=(over,), daemon=True)
        writer.start()
        try:
            yield
        finally:
            over.set()
            writer.join()

    def _keep_state(self, over: threading.Event) -> None:
        while not over.wait(STATE_EVERY_S):
            state = self.player.progress.state if self.player is not None else "starting"
            if state not in OVER:  # that is said by `run`, when all is closed
                self._write(state)

    def _write(self, state: str, detail: str = "") -> None:
        if self.player is not None:
            self.state.progress = asdict(self.player.progress)
        if self._device is not None:
            self.state.device = self._device.status.as_dict()
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
