"""A hunter of labels: it hears all that a replay lets anybody hear, and finds where two replays differ.

Two sessions that differ in their labels only must look the same to whoever has no key. Where they do not,
`differences` says in which channel and at which fact: there a label can be read.
"""

import dataclasses
import json
import re
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from playground import CounterSource, Recorder, play

from bci_stream.clock import ManualClock
from bci_stream.contest.contest import Contest
from bci_stream.wire.crypto import SIGNATURE_LENGTH, unseal
from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.transport import StreamSpec
from replay.model.source import RawPacket, Session
from replay.player.plan import PlaybackPlan, make_plan
from replay.player.player import Player, parse_pace
from replay.tools.prepare.prepare import prepare

Seen: TypeAlias = dict[str, list[Any]]
"""What was seen in each channel, in order."""

FAR_AHEAD_S = 1e9
"""Stamps of a manual clock that the machine's own never reaches: so nothing is ever late."""


class Spy(MemoryTransport):
    """A network on which somebody hears every stream, every text, every sample, and how they are cut."""

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        super().__init__(now) if now else super().__init__()
        self.streams: list[StreamSpec] = []
        self.heard: list[tuple[str, Any, Any]] = []

    def text_outlet(self, spec: StreamSpec) -> Any:
        return self._tapped(spec, super().text_outlet(spec))

    def sample_outlet(self, spec: StreamSpec) -> Any:
        return self._tapped(spec, super().sample_outlet(spec))

    def _tapped(self, spec: StreamSpec, outlet: Any) -> Any:
        self.streams.append(spec)
        role = spec.source_id.split("/")[2]
        push = outlet.push

        def heard(what: Any, stamp: Any = 0.0) -> float | None:
            shown = (what.shape, what.dtype.str, what.tobytes()) if role in SAMPLES else what
            self.heard.append(
                (role, shown, stamp)
            )  # before it is pushed: what it causes comes later
            return push(what, stamp)

        outlet.push = heard
        outlet.has_consumers = lambda: True  # the spy
        return outlet


SAMPLES = ("signal", "codes", "asks")


def hear_lockstep(contest: Contest, program: PlaybackPlan) -> Seen:
    """A whole contest in lockstep: replay, judge, and a team that reports now and then."""
    spy, decoder = Spy(), Recorder(lambda number, packet: [1] if number % 7 == 3 else [])
    clock = ManualClock(FAR_AHEAD_S)
    played = play(spy, contest, program, {"alice": decoder}, clock=clock)
    assert played.errors == {}
    assert played.runs["alice"].ended == "finished"
    packets = [
        (p.samples.shape, p.samples.tobytes(), p.triggers, p.start, p.block, p.subject, p.finish)
        for p in decoder.packets
    ]
    return {**_overheard(spy, contest), "decoder": [*decoder.infos, *packets], "said": played.said}


def hear_realtime(contest: Contest, program: PlaybackPlan) -> Seen:
    """A replay to whoever listens, on a clock that jumps from deadline to deadline."""
    clock = ManualClock(FAR_AHEAD_S)
    spy = Spy(clock.now)
    said: list[str] = []
    player = Player(
        spy,
        clock,
        contest,
        program,
        name="r",
        pace=parse_pace("realtime"),
        start_on="now",
        stop=threading.Event(),
        say=said.append,
    )
    player.play()
    status = [dataclasses.asdict(player.progress)]
    return {**_overheard(spy, contest), "status": status, "said": said}


def hear_live(contest: Contest, program: PlaybackPlan) -> Seen:
    """The same from an amplifier: no truth is known beforehand, each trial's is told as it comes."""
    sessions = tuple(LiveSession(session) for session in program.sessions)
    unknown = (None,) * len(sessions)
    live = dataclasses.replace(program, sessions=sessions, truths=unknown, live=True)
    return hear_realtime(contest, live)


def _overheard(spy: Spy, contest: Contest) -> Seen:
    run = next(spec.meta["run"] for spec in spy.streams if "run" in spec.meta)
    heard = [(role, _any_run(what, run), stamp) for role, what, stamp in spy.heard]
    begun = next(k for k, (role, what, _) in enumerate(heard) if _kind(role, what) == "session")
    seen: Seen = {
        "streams": sorted(_any_run(str(spec), run) for spec in spy.streams),
        "truth": list(_sealed(spy, begun, contest.keys.contest_key(), run)),
    }
    for role in ("control", "signal", "markers", "codes"):
        seen[role] = [(what, stamp) for r, what, stamp in heard[begun:] if r == role]
    seen["control"] = list(_once(seen["control"]))
    # A handshake repeats itself as often as it has to wait: what counts is what was said.
    seen["handshake"] = sorted({what for role, what, _ in heard[:begun] if role == "control"})
    seen["results"] = sorted({what for role, what, _ in heard if role == "results"})
    # Who is seated is said while it changes: what counts is what was said last.
    judge = {json.loads(what)["kind"]: what for role, what, _ in heard if role == "judge"}
    seen["judge"] = list(judge.values())
    return seen


def _once(control: list[tuple[str, float]]) -> Iterator[tuple[str, float]]:
    """Without signs of life, and what is said again to who says hello again."""
    handshake = {"offer", "welcome", "session"}
    said = set()
    for text, stamp in control:
        kind = _kind("control", text)
        if kind != "status alive" and not (kind in handshake and text in said):
            said.add(text)
            yield text, stamp


def _any_run(what: Any, run: str) -> Any:
    """Without what differs from one run to the next: its id, what is signed with it, running numbers."""
    if not isinstance(what, str):
        return what
    plain = re.sub(rf" [0-9a-f]{{{SIGNATURE_LENGTH}}}$", "", what.replace(run, "RUN"))
    return re.sub(r'"(seq|proof)":("\w+"|\d+)', r'"\1":0', plain)


def _sealed(spy: Spy, begun: int, key: bytes, run: str) -> Iterator[tuple[int, int]]:
    """After how many packets each sealed text came, and how long it was: so much can anybody see.

    Left out is what comes as often as somebody waits: probes of the handshake, and, in lockstep, the lots
    in which the judge is told of packets.
    """
    packets = 0
    for number, (role, what, _) in enumerate(spy.heard):
        packets += number > begun and role == "signal"
        if role == "truth":
            kind = json.loads(unseal(what, key, run))["kind"]
            if kind != "told" and (kind != "probe" or number > begun):
                yield packets, len(what)


def _kind(role: str, what: Any) -> str:
    if role != "control":
        return ""
    message = json.loads(what)
    return f"status {message['state']}" if message["kind"] == "status" else str(message["kind"])


class LiveSession:
    """A recording that comes as if from a device: stamped, and nothing of it known beforehand."""

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


def hear_prepared(sources: list[Path], track: str, out: Path, key: bytes) -> Seen:
    """What `bci-replay prepare` hands to contestants: every public file, its name, place, mode and bytes."""
    said: list[str] = []
    written = prepare(track, [str(source) for source in sources], out, key, say=said.append)
    public = [path for path in written if stat.S_IMODE(path.stat().st_mode) & 0o077]
    found = {path for path in out.rglob("*") if path.is_file() and path.parent.name != "organiser"}
    assert set(public) == found
    return {
        "file names": [str(path.relative_to(out)) for path in public],
        "file bytes": [path.read_bytes() for path in public if path.suffix == ".npz"],
        "manifest": [path.read_bytes() for path in public if path.suffix == ".json"],
        "metadata": [_facts(path) for path in public if path.suffix == ".npz"],
        "said": said,
    }


def _facts(path: Path) -> list[Any]:
    with np.load(path, allow_pickle=False) as file:
        return [(name, file[name].tolist()) for name in sorted(file.files) if name != "data"]


def differences(first: Seen, second: Seen) -> dict[str, str]:
    """The channels in which the two can be told apart, and by what."""
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
