"""A replay as a process: opens its sources, plays until their end or a stop, and keeps the state file."""

import gc
import logging
import os
import signal
import sys
import threading
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from urllib.parse import parse_qsl, urlencode

from bci_stream.clock import RealClock, thread_beside
from bci_stream.contest.contest import Contest
from bci_stream.contest.start import Pace
from bci_stream.errors import SourceError
from bci_stream.wire.transport import Transport
from replay.daemon import OVER, DaemonState, start_time, write_state
from replay.model.options import SourceOptions, profile_rate, track_named
from replay.model.source import LiveDevice, Source, SourceStatus
from replay.player.handshake import StartOn
from replay.player.journal import PlaybackProgress
from replay.player.plan import PlaybackPlan, make_plan
from replay.player.player import Player, check_live_pace
from replay.sources import concatenate_sources, is_device, open_source

logger = logging.getLogger(__name__)

STATE_EVERY_S = 0.5
SWITCH_S = 0.0002
"""Python's thread switch interval, 5 ms by default: a packet that is due must not wait so long."""


def secret_seed(uri: str, contest: Contest) -> str:
    """In a contest with keys a synthetic recording is made from the contest's key.

    Everyone can make a recording from a public seed, and so would know its labels.
    """
    address, _, query = uri.partition("?")
    if not contest.sealed or not address.startswith("synthetic:"):
        return uri
    params = dict(parse_qsl(query, keep_blank_values=True))
    params["seed"] = str(contest.keys.recording_seed(params.get("seed", "1")))
    return f"{address}?{urlencode(params)}"


@dataclass(kw_only=True)
class Service:
    """One replay, from opening its sources to its last state.

    The thread that calls `run` plays. Beside it the thread "state" writes the state file, and the thread
    "close-on-stop" closes a live device after a stop. Both only read what the playing thread writes.
    """

    transport: Transport
    contest: Contest
    name: str
    uris: tuple[str, ...]
    options: SourceOptions
    track: str | None
    pace: Pace
    start_on: StartOn
    team: str
    wait_s: float
    loop: bool
    stop: threading.Event

    def __post_init__(self) -> None:
        self._rate = 0.0
        self._born = start_time(os.getpid())
        self._device: LiveDevice | None = None
        self.player: Player | None = None

    def run(self) -> None:
        """Play; the last state is written whatever happens."""
        sys.setswitchinterval(SWITCH_S)
        self._write_state("starting")
        try:
            source = concatenate_sources(
                [
                    open_source(
                        secret_seed(uri, self.contest), self._fitted_options(uri), self.transport
                    )
                    for uri in self.uris
                ]
            )
            with closing(source), thread_beside(self._keep_state, "state"):
                self._play(source)
        except Exception as error:
            self._write_state("failed", str(error) or type(error).__name__)
            raise
        self._write_state("stopped" if self.stop.is_set() else "finished")

    def _fitted_options(self, uri: str) -> SourceOptions:
        """The options, at the rate of the profile that the contest's rules choose; a device keeps its own."""
        if not self.track or self.options.resample or is_device(uri):
            return self.options
        track = track_named(self.track).under(self.contest.rules(self.track))
        return replace(self.options, resample=profile_rate(track))

    # --- playing ------------------------------------------------------------------------------

    def _play(self, source: Source) -> None:
        if source.device is not None:
            self._watch(source.device)
        track = self.track or source.track
        try:
            plan = make_plan(source, track, self.contest.rules(track or ""))
        except SourceError:
            if self._device is not None and self.stop.is_set():
                return  # the search for the device was stopped: no error
            raise
        for session in plan.sessions:
            for note in session.notes:
                logger.info("%s: %s", session.subject, note)
        self.track, self._rate = plan.track_name, plan.rate
        while not self.stop.is_set():
            self._play_once(plan)
            if not self.loop:
                break

    def _play_once(self, plan: PlaybackPlan) -> None:
        player = Player(
            self.transport,
            RealClock(self.transport.now),
            self.contest,
            plan,
            name=self.name,
            pace=self.pace,
            start_on=self.start_on,
            stop=self.stop,
            team=self.team,
            # Without teams, --loop is one run without end, because streams that close and open again lose
            # samples. With teams each round is a run of its own, with its own log.
            endless=self.loop and self.start_on in ("consumer", "now") and not plan.live,
            wait_s=self.wait_s,
        )
        self.player = player
        if self._device is not None:
            self._announce(self._device.status)
        # What was loaded stays, so the garbage collector need not visit it while packets are due.
        gc.collect()
        gc.freeze()
        player.play()
        logger.info("%s", describe(player.progress))

    # --- a live device ------------------------------------------------------------------------

    def _watch(self, device: LiveDevice) -> None:
        """Subscribe to its status and to a stop before it is connected, because that can take minutes."""
        check_live_pace(device.uri, self.pace)
        self._device = device
        device.replay_name = self.name
        logger.info("%s", device.status)
        device.listen(self._take_status)
        threading.Thread(
            target=self._close_on_stop, args=(device,), name="close-on-stop", daemon=True
        ).start()

    def _take_status(self, status: SourceStatus) -> None:
        """Log a device's status, and send the public part of it to everyone."""
        logger.info("%s", status)
        self._announce(status)

    def _announce(self, status: SourceStatus) -> None:
        if self.player is not None:
            self.player.announce(status.state, status.public)

    def _close_on_stop(self, device: LiveDevice) -> None:
        self.stop.wait()
        device.close()

    # --- the state file -----------------------------------------------------------------------

    def _keep_state(self, over: threading.Event) -> None:
        reported = False
        while not over.wait(STATE_EVERY_S):
            state = self.player.progress.state if self.player is not None else "starting"
            if state in OVER:
                continue  # `run` writes those, when everything is closed
            try:
                self._write_state(state)
            except OSError as error:  # such as a full disk, which is tried again and stops nothing
                if not reported:
                    logger.warning("`bci-replay status` shows an old state: %s", error)
                reported = True

    def _write_state(self, state: str, detail: str = "") -> None:
        write_state(
            DaemonState(
                name=self.name,
                pid=os.getpid(),
                born=self._born,
                sources=list(self.uris),
                track=self.track or "",
                pace=str(self.pace),
                contest=self.contest.name,
                state=state,
                detail=detail,
                rate=self._rate,
                progress=asdict(self.player.progress) if self.player is not None else {},
                device=self._device.status.as_dict() if self._device is not None else {},
                clocks=self.player.clocks if self.player is not None else {},
            )
        )

    # --- pause and resume ---------------------------------------------------------------------

    def handle_pause_signals(self) -> None:
        """SIGUSR1 pauses, SIGUSR2 resumes; `bci-replay pause` and `resume` send them.

        Windows has neither signal, and neither command.
        """
        for name, paused in (("SIGUSR1", True), ("SIGUSR2", False)):
            if hasattr(signal, name):
                signal.signal(signal.Signals[name], lambda *_, p=paused: self._pause(p))

    def _pause(self, paused: bool) -> None:
        if self.player is not None and paused:
            self.player.paused.set()
        elif self.player is not None:
            self.player.paused.clear()


def progress_line(service: Service) -> AbstractContextManager[None]:
    """Show the progress on a terminal, on a thread of its own; nothing in a pipe."""
    if sys.stderr is None or not sys.stderr.isatty():  # None: it was closed (`2>&-`)
        return nullcontext()
    return thread_beside(partial(_show_progress, service), "progress")


def _show_progress(service: Service, over: threading.Event) -> None:
    from rich.console import Console
    from rich.status import Status

    with Status("opening and checking the sources", console=Console(stderr=True)) as line:
        while not over.wait(STATE_EVERY_S):
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
        return ""  # lockstep has no deadlines
    last_ms, worst_ms = 1000 * max(at.late_s, 0.0), 1000 * at.worst_late_s
    return f", last packet {last_ms:.1f} ms late, at worst {worst_ms:.1f} ms"
