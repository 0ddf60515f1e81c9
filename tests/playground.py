"""A whole contest in one process: replay, teams and judge in threads, on any transport."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bci_stream.clock import Clock, RealClock
from bci_stream.contest.contest import Contest
from bci_stream.judge.judge import Judge
from bci_stream.judge.session.team_run import TeamRun
from bci_stream.packet import Lead, Packet, SignalInfo
from bci_stream.wire.client import TeamClient
from bci_stream.wire.transport import Transport
from decoders.decoder import Decoder
from decoders.worker import Worker
from replay.model.recording import ArrayBlock, Recording
from replay.model.source import Session
from replay.player.plan import PlaybackPlan, make_plan
from replay.player.player import Player, parse_pace
from tracks.common.reasons import Reason
from tracks.common.words import describe
from tracks.registry import TRACKS

WAIT_S = 30.0


@contextmanager
def logged_lines(*packages: str) -> Iterator[list[str]]:
    """The messages, from INFO on, that these packages log meanwhile, whatever was configured before."""
    lines: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler = Collect()
    loggers = [logging.getLogger(package) for package in packages or ("replay",)]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)


class CounterSource:
    """Recordings whose first lead counts its samples, so that any packet proves its place."""

    live = False
    device = None

    def __init__(self, track: str, sessions: Sequence[Session]) -> None:
        self.track = track
        self.uri = f"counter:{track}"
        self._sessions = sessions

    def sessions(self) -> Any:
        return iter(self._sessions)

    def close(self) -> None:
        pass


def counter_recording(
    track: str,
    blocks: Sequence[tuple[int, tuple[tuple[int, int], ...]]],
    subject: str = "S01",
    angles: Any = None,
) -> Recording:
    """blocks: (samples, labelled triggers). Lead k holds k * 1e5 + the sample's number in its block."""
    facts = TRACKS[track]
    leads = tuple(Lead(name, facts.lead_kinds.get(name, "EEG")) for name in facts.leads)
    made = []
    for n_samples, triggers in blocks:
        counter = np.arange(n_samples, dtype=np.float32)[:, None]
        data = counter + np.arange(len(leads), dtype=np.float32) * 1e5
        made.append(ArrayBlock(data.astype(np.float32), triggers))
    return Recording(subject, float(facts.rate), leads, made, angles)


def erp_recording(labels: Sequence[int] = (105, 120), subject: str = "S01") -> Recording:
    """A short erp block: each trial has two sequences of three flashes; 157 samples are no multiple of 10."""
    triggers = [(3, 242)]
    at = 20
    for label in labels:
        triggers.append((at, label))
        for sequence in range(2):
            triggers += [(at + 15 + sequence * 60 + 12 * k, k + 1) for k in range(3)]
            triggers.append((at + 55 + sequence * 60, 200))
        triggers.append((at + 130, 241))
        at += 150
    triggers.append((at, 243))
    return counter_recording("erp", [(at + 7, tuple(triggers))], subject)


def program(track: str, *sessions: Session) -> PlaybackPlan:
    return make_plan(CounterSource(track, sessions), track)


@dataclass
class Recorder:
    """A decoder that keeps its packets, and reports what `answer` returns for the packet's number."""

    answer: Callable[[int, Packet], list[object]] = lambda number, packet: []
    infos: list[SignalInfo] = field(default_factory=list)
    packets: list[Packet] = field(default_factory=list)

    def start(self, info: SignalInfo) -> None:
        self.infos.append(info)

    def step(self, packet: Packet) -> list[object]:
        self.packets.append(packet)
        return self.answer(len(self.packets) - 1, packet)

    def choose(self, info: SignalInfo, count: int) -> list[int]:
        return list(range(1, count + 1))


class Quiet:
    """A leaderboard sink that keeps the team states it receives."""

    def __init__(self) -> None:
        self.states: list[tuple[str, str, str]] = []
        self.shown: list[dict[str, Any]] = []
        self.alarms: list[Reason] = []

    def team(
        self, name: str, track: str, status: str = "", reason: str | Reason = "", lag_s: float = 0
    ) -> None:
        self.states.append((name, status, describe(reason)))

    def alarm(self, reason: Reason) -> None:
        self.alarms.append(reason)

    def event(self, team: str, track: str, event: dict[str, Any], verdicts: Any, run: Any) -> None:
        self.shown.append(event)


@dataclass
class Played:
    runs: dict[str, TeamRun]
    errors: dict[str, BaseException]
    logged: list[str]
    sink: Quiet
    judge: Judge


def play(
    transport: Transport,
    contest: Contest,
    what: PlaybackPlan,
    teams: dict[str, Decoder],
    *,
    pace: str = "lockstep",
    clock: Clock | None = None,
    track: str | None = None,
    expected: int | None = None,
    around: Callable[[Player, threading.Event], None] = lambda player, stop: None,
    tokens: Callable[[str], bytes] | None = None,
    prepare: Callable[[Judge, Quiet], None] = lambda judge, sink: None,
) -> Played:
    """Run it to the end. In lockstep there is one team; in real time any number.

    prepare: called with the judge before anything starts.
    """
    stop = threading.Event()
    sink = Quiet()
    errors: dict[str, BaseException] = {}
    wanted = len(teams) if expected is None else expected
    judge = Judge(transport, contest, sink, stop=stop, may_start=lambda t: len(t) >= wanted)
    prepare(judge, sink)
    player = Player(
        transport,
        clock or RealClock(transport.now),
        contest,
        what,
        name="r",
        pace=parse_pace(pace),
        start_on="judge",
        stop=stop,
        wait_s=WAIT_S,
    )

    def guarded(name: str, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - kept for the test to look at
                errors[name] = error

        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def team(name: str, decoder: Decoder) -> Callable[[], None]:
        token = (tokens or contest.keys.token)(name)
        client = TeamClient(
            transport,
            contest.name,
            name,
            token,
            stop=stop,
            public_key=contest.keys.public_key(),
            sealed=contest.sealed,
        )
        return Worker(client, decoder, track=track or what.track_name, join_s=WAIT_S, stop=stop).run

    with logged_lines("bci_stream", "replay") as lines:
        threads = [guarded("replay", player.play)]
        threads += [guarded(name, team(name, decoder)) for name, decoder in teams.items()]
        try:
            around(player, stop)

            def is_over(judge: Judge) -> bool:
                """By itself the judge goes on for a while, for teams that have not received `closed` yet."""
                if teams and set(errors) >= set(teams):
                    return True
                left = [
                    r.ended is not None and not judge.presence.is_here(r.team) for r in judge.runs
                ]
                all_left = bool(left) and all(left) and not any(t.is_alive() for t in threads)
                return all_left or judge.all_over()

            judge.judge(is_over, WAIT_S)
        finally:
            stop.set()
            for thread in threads:
                thread.join(WAIT_S)
    return Played({run.team: run for run in judge.runs}, errors, lines, sink, judge)
