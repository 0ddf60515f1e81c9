"""Records everything that a replay publishes without a key, and finds where two replays differ.

Two sessions that differ in their labels only must look the same without the key. `differences` names each
channel that differs and the first fact in it: there a label can be read.
"""

import dataclasses
import json
import logging
import re
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from playground import CounterSource, Recorder, logged_lines, play

from bci_stream.clock import ManualClock
from bci_stream.contest.contest import Contest
from bci_stream.wire.crypto import MAC_LENGTH, unseal_truth
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.transport import StreamSpec
from replay.model.source import RawPacket, Session
from replay.player.plan import PlaybackPlan, make_plan
from replay.player.player import Player, parse_pace
from replay.tools.prepare import prepare

Seen: TypeAlias = dict[str, list[Any]]
"""What was seen in each channel, in order."""

FAR_AHEAD_S = 1e9
"""Stamps of a manual clock that the machine's own never reaches: so nothing is ever late."""


class ObservedTransport(MemoryTransport):
    """Records every stream, text and sample that is published, and how samples are cut into pieces."""

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        super().__init__(now) if now else super().__init__()
        self.streams: list[StreamSpec] = []
        self.pushed: list[tuple[str, Any, Any]] = []
        self.truth_uid = ""

    def text_outlet(self, spec: StreamSpec) -> Any:
        return self._recorded(spec, super().text_outlet(spec))

    def sample_outlet(self, spec: StreamSpec) -> Any:
        return self._recorded(spec, super().sample_outlet(spec))

    def _recorded(self, spec: StreamSpec, outlet: Any) -> Any:
        self.streams.append(spec)
        role = spec.source_id.split("/")[2]
        push = outlet.push
        if role == "truth":
            self.truth_uid = outlet.uid

        def record_and_push(what: Any, stamp: Any = 0.0) -> float | None:
            shown = (what.shape, what.dtype.str, what.tobytes()) if role in SAMPLES else what
            self.pushed.append(
                (role, shown, stamp)
            )  # before it is pushed, because its effects follow at once
            return push(what, stamp)

        outlet.push = record_and_push
        outlet.has_consumers = lambda: True
        return outlet


SAMPLES = ("signal", "codes", "asks")


def observe_lockstep(contest: Contest, program: PlaybackPlan) -> Seen:
    """A whole contest in lockstep: replay, judge, and a team that reports now and then."""
    observed, decoder = (
        ObservedTransport(),
        Recorder(lambda number, packet: [1] if number % 7 == 3 else []),
    )
    clock = ManualClock(FAR_AHEAD_S)
    played = play(observed, contest, program, {"alice": decoder}, clock=clock)
    assert played.errors == {}
    assert played.runs["alice"].ended == "finished"
    packets = [
        (p.samples.shape, p.samples.tobytes(), p.triggers, p.start, p.block, p.subject, p.finish)
        for p in decoder.packets
    ]
    return {
        **_observations(observed, contest, lockstep=True),
        "decoder": [*decoder.infos, *packets],
        "log": played.logged,
    }


def observe_realtime(contest: Contest, program: PlaybackPlan) -> Seen:
    """A replay that starts without listeners, on a clock that jumps from deadline to deadline."""
    clock = ManualClock(FAR_AHEAD_S)
    observed = ObservedTransport(clock.now)
    player = Player(
        observed,
        clock,
        contest,
        program,
        name="r",
        pace=parse_pace("realtime"),
        start_on="now",
        stop=threading.Event(),
    )
    with logged_lines() as log:
        player.play()
    status = [dataclasses.asdict(player.progress)]
    return {**_observations(observed, contest, lockstep=False), "status": status, "log": log}


def observe_live(contest: Contest, program: PlaybackPlan) -> Seen:
    """The same from an amplifier: no truth is known beforehand; each trial's is sent when it ends."""
    sessions = tuple(LiveSession(session) for session in program.sessions)
    unknown = (None,) * len(sessions)
    live = dataclasses.replace(program, sessions=sessions, truths=unknown, live=True)
    return observe_realtime(contest, live)


def _observations(observed: ObservedTransport, contest: Contest, lockstep: bool) -> Seen:
    run = next(spec.meta["run"] for spec in observed.streams if "run" in spec.meta)
    pushed = [(role, _any_run(what, run), stamp) for role, what, stamp in observed.pushed]
    begun = next(k for k, (role, what, _) in enumerate(pushed) if _kind(role, what) == "session")
    seen: Seen = {
        "streams": sorted(_any_run(str(spec), run) for spec in observed.streams),
        "truth": list(_sealed(observed, begun, contest.keys.truth_key(), lockstep)),
    }
    for role in ("control", "signal", "markers", "codes"):
        seen[role] = [(what, stamp) for r, what, stamp in pushed[begun:] if r == role]
    # Handshake messages are repeated while a peer waits, so only the distinct ones are compared.
    handshake = {what for role, what, _ in pushed[:begun] if role == "control"}
    seen["handshake"] = sorted(handshake)
    seen["control"] = list(_once(seen["control"], handshake))
    seen["results"] = sorted({what for role, what, _ in pushed if role == "results"})
    # The judge repeats its messages, so the last one of each kind is compared; whether it is `seated` before
    # the run begins, or asks for something again, depends on waiting times.
    judge = {json.loads(what)["kind"]: what for role, what, _ in pushed if role == "judge"}
    seen["judge"] = [what for kind, what in judge.items() if kind in ("go", "closed")]
    return seen


def _once(control: list[tuple[str, float]], sent: set[str]) -> Iterator[tuple[str, float]]:
    """Without keep-alive messages, and without answers to a repeated hello: these were sent before."""
    for text, stamp in control:
        kind = _kind("control", text)
        repeated = kind in ("offer", "welcome", "session") and text in sent
        sent.add(text)
        if kind != "status alive" and not repeated:
            yield text, stamp


def _any_run(what: Any, run: str) -> Any:
    """Without what differs from one run to the next: its id, what is signed with it, running numbers."""
    if not isinstance(what, str):
        return what
    plain = re.sub(rf" [0-9a-f]{{{MAC_LENGTH}}}$", "", what.replace(run, "RUN"))
    plain = re.sub(r',"sig":"[0-9a-f]+"', "", plain)
    return re.sub(r'"(seq|proof|nonce|\w+_uid|head)":("[\w-]+"|\d+)', r'"\1":0', plain)


def _sealed(
    observed: ObservedTransport, begun: int, key: bytes, lockstep: bool
) -> Iterator[tuple[int, int]]:
    """After how many packets each sealed text came, and its length: both are visible without the key.

    Texts whose number depends on waiting times are left out: in lockstep the batches of events for the
    judge, and probes that answer its hello; and copies of what is on the control stream. In real time a probe
    is what is sent where there is no truth.
    """
    copied = ("told", "offer", "welcome", "status", "stopped")
    packets = 0
    for number, (role, what, _) in enumerate(observed.pushed):
        packets += number > begun and role == "signal"
        if role == "truth":
            kind = json.loads(unseal_truth(what, key, observed.truth_uid)[1])["message"]["kind"]
            answers_judge = kind == "probe" and (lockstep or number < begun)
            if kind not in copied and not answers_judge:
                yield packets, len(what)


def _kind(role: str, what: Any) -> str:
    if role != "control":
        return ""
    message = json.loads(what)
    return f"status {message['state']}" if message["kind"] == "status" else str(message["kind"])


class LiveSession:
    """A recording as a device delivers it: stamped, and nothing of it known beforehand."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.subject, self.rate, self.leads = session.subject, session.rate, session.leads
        self.n_samples = self.angles = None
        self.notes, self.masked = (), False

    def block_triggers(self) -> None:
        return None

    def packets(self, packet_samples: int) -> Iterator[RawPacket]:
        seconds = FAR_AHEAD_S
        for packet in self._session.packets(packet_samples):
            seconds += len(packet.samples) / self.rate
            yield dataclasses.replace(packet, stamp=seconds)


@contextmanager
def log_messages(name: str) -> Iterator[list[str]]:
    """The messages that the loggers of a package log inside the block."""
    logger, messages = logging.getLogger(name), []
    handler = logging.Handler()
    handler.emit = lambda record: messages.append(record.getMessage())  # type: ignore[method-assign]
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def observe_prepared(sources: list[Path], track: str, out: Path, key: bytes) -> Seen:
    """What `bci-replay prepare` hands to contestants: every public file, its name, place, mode and bytes."""
    with log_messages("replay") as log:
        written = prepare(track, [str(source) for source in sources], out, key)
    public = [path for path in written if stat.S_IMODE(path.stat().st_mode) & 0o077]
    found = {path for path in out.rglob("*") if path.is_file() and path.parent.name != "organiser"}
    assert set(public) == found
    return {
        "file names": [str(path.relative_to(out)) for path in public],
        "file bytes": [path.read_bytes() for path in public if path.suffix == ".npz"],
        "manifest": [path.read_bytes() for path in public if path.suffix == ".json"],
        "metadata": [_facts(path) for path in public if path.suffix == ".npz"],
        "log": log,
    }


def _facts(path: Path) -> list[Any]:
    with np.load(path, allow_pickle=False) as file:
        return [(name, file[name].tolist()) for name in sorted(file.files) if name != "data"]


def differences(first: Seen, second: Seen) -> dict[str, str]:
    """The channels that differ, and the first difference in each."""
    assert first.keys() == second.keys()
    return {
        channel: _first_difference(first[channel], second[channel])
        for channel in first
        if first[channel] != second[channel]
    }


def _first_difference(first: list[Any], second: list[Any]) -> str:
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return f"fact {number}: {str(one)[:300]} and {str(other)[:300]}"
    return f"{len(first)} and {len(second)} facts"


def program_of(track: str, *sessions: Session) -> PlaybackPlan:
    return make_plan(CounterSource(track, sessions), track)
