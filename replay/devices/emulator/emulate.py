"""A rehearsal: a recording served by an emulated amplifier until it ends or Ctrl-C is pressed."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TextIO

from bci_stream.errors import SourceError
from replay.devices.emulator.amplifier import Amplifier, parse_fault
from replay.devices.emulator.emulator import Emulator
from replay.devices.emulator.encoders import EmulatedSignal
from replay.devices.neuracle.connection import host_and_port
from replay.model.source import Session, Source
from replay.sources import open_source


@dataclass(frozen=True)
class EmulationSettings:
    """What is served, where and how. lead_in: seconds of quiet before it, or `ask`."""

    uri: str
    protocol: str = "raw"
    host: str = "127.0.0.1"
    port: int = 8712
    subject: str | None = None
    lead_in: str = "0"
    tail_s: float = 5.0
    faults: tuple[str, ...] = ()


def emulate(plan: EmulationSettings, said: Callable[[str], None], keyboard: TextIO) -> None:
    """Serve until the recording ends; SIGINT and SIGTERM end it cleanly."""
    faults = [parse_fault(fault) for fault in plan.faults]
    source = open_source(plan.uri)
    try:
        session = choose_session(source, plan.subject)
        tape = EmulatedSignal(
            session, quiet_until(plan.lead_in, said, keyboard), tail_s=plan.tail_s
        )
        amplifier = Amplifier(tape, plan.protocol, faults)
        emulator = Emulator(amplifier, plan.host, plan.port, said=said)
        uri = client_uri(plan.host, emulator.port, plan.protocol, session)
        with _ended_by_signals(emulator):
            said(
                f"an amplifier ({plan.protocol}) with {len(session.leads)} leads at "
                f"{session.rate:g} Hz waits for a client at {plan.host}:{emulator.port}; take it "
                f"with bci-replay start '{uri}'"
            )
            emulator.run()
        said("the amplifier is off")
    finally:
        source.close()


@contextmanager
def _ended_by_signals(emulator: Emulator) -> Iterator[None]:
    """SIGINT and SIGTERM end the emulator; only the main thread may set that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_: int, __: FrameType | None) -> None:
        # In a thread: the main one, on which this runs, may hold the lock that closing needs.
        threading.Thread(target=emulator.close, daemon=True).start()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def choose_session(source: Source, subject: str | None) -> Session:
    if source.live:
        raise SourceError(f"{source.uri} is a device itself; an emulator plays recordings")
    seen = []
    for session in source.sessions():
        if subject in (None, session.subject):
            return session
        seen.append(session.subject)
    raise SourceError(
        f"{source.uri} has no subject {subject!r}; it has {', '.join(seen) or 'none at all'}"
    )


def client_uri(host: str, port: int, protocol: str, session: Session) -> str:
    """What to give to `bci-replay start` for this emulator."""
    from tracks.registry import available_tracks

    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    name = protocol.partition("-")[0]
    uri = f"neuracle://{host_and_port(here, port)}?protocol={name}"
    names = tuple(lead.name for lead in session.leads)
    tracks = [track.name for track in available_tracks() if track.leads == names]
    montage = tracks[0] if tracks else ",".join(names)
    if name == "raw":
        uri += f"&channels={len(session.leads)}&rate={session.rate:g}"
    return uri if name == "jellyfish" else f"{uri}&montage={montage}"


def quiet_until(
    lead_in: str, said: Callable[[str], None], keyboard: TextIO
) -> Callable[[float], bool]:
    """A number of seconds, or `ask`: until a line is typed."""
    if lead_in != "ask":
        seconds = _seconds(lead_in)
        return lambda played_s: played_s < seconds
    pressed = threading.Event()

    def wait_for_enter() -> None:
        keyboard.readline()
        pressed.set()
        said("the recording begins")

    said("press Enter to begin the recording; until then the amplifier sends its quiet inputs")
    threading.Thread(target=wait_for_enter, name="keyboard", daemon=True).start()
    return lambda _: not pressed.is_set()


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86_400:
        raise SourceError(f"--lead-in must be seconds from 0 to 86400, or `ask`, got {text!r}")
    return seconds
