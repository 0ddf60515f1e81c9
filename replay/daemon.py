"""Replays in the background: starting one, its state file, sending it signals, and the table of `status`."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import psutil
from rich.console import Console
from rich.table import Table

from bci_stream.cli import DAEMON_LOG
from bci_stream.errors import SourceError
from bci_stream.files import atomic_write, state_dir
from bci_stream.wire.names import checked_name
from replay.player.clocks import describe_clocks

logger = logging.getLogger(__name__)

OVER = ("finished", "stopped", "failed", "crashed")
RECENT_S = 24 * 3600.0
START_S = 90.0
POLL_S = 0.05


@dataclass
class DaemonState:
    """What `bci-replay status` shows.

    born: when its process started (`start_time`), because another process may get its pid later.
    clocks: of the judge's and the teams' hosts, see `replay.player.clocks.HostClocks`.
    """

    name: str
    pid: int
    born: str
    sources: list[str]
    track: str
    pace: str
    contest: str
    state: str = "starting"
    detail: str = ""
    rate: float = 0.0
    progress: dict[str, Any] = field(default_factory=dict)
    device: dict[str, Any] = field(default_factory=dict)
    clocks: dict[str, dict[str, Any]] = field(default_factory=dict)


def folder() -> Path:
    path = state_dir() / "replays"
    path.mkdir(exist_ok=True, mode=0o700)  # a device's messages may quote a label
    return path


def state_path(name: str) -> Path:
    return folder() / f"{checked_name(name, 'replay')}.json"


def log_path(name: str) -> Path:
    return folder() / f"{checked_name(name, 'replay')}.log"


def start_time(pid: int) -> str:
    """When a process started, in 1/100 s since boot (as in /proc/PID/stat); empty if there is none."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return ""
        # Since boot, because both times change when the system's clock is set.
        return f"{(process.create_time() - psutil.boot_time()) * 100:.0f}"
    except psutil.Error:
        return ""


def is_suspended(pid: int) -> bool:
    """Whether a process was stopped (Ctrl-Z, SIGSTOP, a debugger) and could go on."""
    try:
        return psutil.Process(pid).status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    except psutil.Error:
        return False


def write_state(state: DaemonState) -> None:
    path = state_path(state.name)
    text = json.dumps(asdict(state)).encode()
    atomic_write(path, lambda file: file.write(text))


def read_state(name: str) -> DaemonState | None:
    """The state that a daemon last wrote; `crashed` or `suspended` where its process is gone or stopped."""
    try:
        state = DaemonState(**json.loads(state_path(name).read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise SourceError(
            f"the state file {state_path(name)} can't be read ({error}); delete it"
        ) from error
    if state.state not in OVER and not has_process(state):
        state.state = "crashed"
        log = log_path(name)  # in the foreground there is none
        state.detail = f"its process {state.pid} is gone" + (f"; see {log}" if log.exists() else "")
    elif state.state not in OVER and is_suspended(state.pid):
        state.state = "suspended"
        state.detail = f"its process does not run; `kill -CONT {state.pid}` lets it go on"
    return state


def has_process(state: DaemonState) -> bool:
    return bool(state.born) and start_time(state.pid) == state.born


def alive(state: DaemonState | None) -> bool:
    return state is not None and state.state not in OVER


def is_recent(state: DaemonState) -> bool:
    """Whether a replay is running, or ended within a day."""
    if alive(state):
        return True
    try:
        return time.time() - state_path(state.name).stat().st_mtime < RECENT_S
    except FileNotFoundError:
        return False


def all_states() -> list[DaemonState]:
    states = [read_state(path.stem) for path in sorted(folder().glob("*.json"))]
    return [state for state in states if state is not None]


def send(name: str, number: signal.Signals) -> DaemonState:
    """Send a signal to a daemon, never to another process that has got its pid."""
    state = read_state(name)
    if state is None:
        known = ", ".join(s.name for s in all_states()) or "none"
        raise SourceError(f"there is no replay {name!r}; known: {known}")
    if not alive(state):
        raise SourceError(f"replay {name!r} is not running: {state.state} {state.detail}".rstrip())
    os.kill(state.pid, number)
    return state


def check_free(name: str) -> None:
    """Raise ClickException where a replay of this name is running."""
    running = read_state(name)
    if running is not None and alive(running):
        raise click.ClickException(
            f"replay {name!r} is running already (pid {running.pid}); `bci-replay stop {name}`, or "
            "choose --name"
        )


def spawn(name: str) -> None:
    """Run this command again in the background, in a session of its own, and wait until it has started."""
    check_free(name)
    _check_room()
    arguments = [*sys.argv[1:], "--foreground", "--name", name]
    with log_path(name).open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", "replay", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, DAEMON_LOG: "1"},
        )
    try:
        _wait_for_start(name, child)
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        click.echo(f"replay {name!r} has stopped")
        return
    state = read_state(name)
    if state is None or state.pid != child.pid:
        _check_room()  # a process on a full disk can't log why it ends
        raise click.ClickException(f"replay {name!r} did not start: {_last_line(log_path(name))}")
    if not (alive(state) or state.state == "finished"):
        raise click.ClickException(f"replay {name!r} did not start: {state.detail or state.state}")
    click.echo(f"replay {name!r} is {state.state} (pid {child.pid}); log: {log_path(name)}")


LEAST_ROOM = 1 << 16
"""Bytes that the state and the log of a replay need at its start."""


def _check_room() -> None:
    """Raise OSError if the folder of the states has no room."""
    path = folder() / f"{os.getpid()}.room"
    try:
        atomic_write(path, lambda file: file.write(bytes(LEAST_ROOM)))
    finally:
        path.unlink(missing_ok=True)


def _wait_for_start(name: str, child: "subprocess.Popen[bytes]") -> None:
    """Wait until it has started or ended; log its device's status here too meanwhile."""
    deadline = time.monotonic() + START_S
    logged = ""
    while time.monotonic() < deadline and child.poll() is None:
        state = read_state(name)
        if state is not None and state.pid == child.pid:
            if state.state != "starting":
                return
            status = " ".join(state.device.get(part, "") for part in ("state", "detail")).strip()
            if status != logged:
                logged = status
                logger.info("%s: %s", name, status)
        time.sleep(POLL_S)


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("Error: ") if lines else "its log is empty"


TITLES = (
    "replay",
    "state",
    "track",
    "pace",
    "played",
    "consumers",
    "late (worst)",
    "jitter",
    "source",
)


def render_states(states: list[DaemonState], *, as_json: bool) -> str:
    if as_json:
        return json.dumps([asdict(state) for state in states], indent=2)
    if not states:
        return "no replay has been started"
    table = Table(box=None, pad_edge=False)
    for title in TITLES:
        table.add_column(title)
    for state in states:
        table.add_row(*_row(state))
    console = Console(width=140)
    with console.capture() as capture:
        console.print(table)
    details = [f"{state.name}: {state.detail}" for state in states if state.detail]
    details += [f"{state.name}: {_device(state)}" for state in states if state.device]
    details += [
        f"{state.name}: clocks, compared with this host's: {describe_clocks(state.clocks)}"
        for state in states
        if state.clocks and state.state not in OVER
    ]
    return "\n".join([capture.get().rstrip(), *details])


def _device(state: DaemonState) -> str:
    device = state.device
    line = f"{device['device']} {'was' if state.state in OVER else 'is'} {device['state']}"
    line += f" ({device['detail']})" if device["detail"] else ""
    if not device["samples"]:
        return line
    about = "" if device["lost_exact"] else "about "
    return (
        f"{line}: {device['samples']} samples, "
        f"{about}{device['samples_lost']} lost in {device['gaps']} gaps, {device['reconnects']} reconnects, "
        f"offset {device['offset_s']:.3f} s, drift {device['drift_ppm']:+.1f} ppm"
    )


def _row(state: DaemonState) -> tuple[str, ...]:
    at = state.progress
    return (
        state.name,
        state.state,
        state.track or "-",
        state.pace,
        _played(state.progress, state.rate),
        ", ".join(at.get("teams", ())) or ("others" if at.get("heard") else "-"),
        f"{_ms(at.get('late_s', 0.0))} ({_ms(at.get('worst_late_s', 0.0))}) ms",
        f"{_ms(at.get('jitter_s', 0.0))} ms",
        " ".join(state.sources),
    )


def _played(at: dict[str, Any], rate: float) -> str:
    """12% (0:07 of 1:00); for a live device, whose length is not known, 0:07."""
    played, total = at.get("played", 0), at.get("total")
    if not rate:
        return "-"
    so_far = _minutes(played / rate)
    again = f", round {at['round'] + 1}" if at.get("round") else ""
    return (
        f"{played / total:.0%} ({so_far} of {_minutes(total / rate)}{again})" if total else so_far
    )


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _ms(seconds: float) -> str:
    return f"{max(seconds, 0.0) * 1000:.1f}"


WATCH_EVERY_S = 1.0


def watch_states(
    choose: Callable[[], list[DaemonState]], stop: threading.Event, as_json: bool
) -> None:
    """Show the replays again every WATCH_EVERY_S until `stop` is set.

    On a terminal one table is redrawn; in a pipe each is printed, and with as_json each is one line.
    """
    if as_json or not sys.stdout.isatty():
        while not stop.is_set():
            states = choose()
            line = json.dumps([asdict(state) for state in states])
            click.echo(line if as_json else render_states(states, as_json=False))
            stop.wait(WATCH_EVERY_S)
        return
    from rich.live import Live
    from rich.text import Text

    with Live(console=Console(), auto_refresh=False, screen=True) as live:
        while not stop.is_set():
            table = render_states(choose(), as_json=False)
            live.update(Text(f"{table}\n\nCtrl-C ends this; the replays go on."), refresh=True)
            stop.wait(WATCH_EVERY_S)
