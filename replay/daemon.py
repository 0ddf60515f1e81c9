"""A daemon's state file: what it plays, where it stands, and whether its process still lives."""

import json
import os
import signal
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bci_stream.errors import SourceError
from bci_stream.home import home
from bci_stream.wire.names import checked_name


@dataclass
class DaemonState:
    """What `bci-replay status` shows. `born` tells a living daemon from a process that has its old pid."""

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


def folder() -> Path:
    path = home() / "replays"
    path.mkdir(exist_ok=True, mode=0o700)  # what a device says may quote a label
    return path


def state_path(name: str) -> Path:
    return folder() / f"{checked_name(name, 'replay')}.json"


def log_path(name: str) -> Path:
    return folder() / f"{checked_name(name, 'replay')}.log"


def born(pid: int) -> str:
    """When a process began, as the system counts it; empty where there is no such process."""
    fields = _stat(pid)
    if not fields:
        return _born_elsewhere(pid)
    return "" if fields[0] == "Z" else fields[19]  # a zombie has ended, only nobody has asked how


def is_suspended(pid: int) -> bool:
    """Whether a process was stopped (Ctrl-Z, SIGSTOP, a debugger) and could go on."""
    return _stat(pid)[:1] in (["T"], ["t"])


def _stat(pid: int) -> list[str]:
    """What the system says of a process, its state first; nothing where it says nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return []


def _born_elsewhere(pid: int) -> str:
    """Systems without /proc: only whether it lives."""
    if Path("/proc/self/stat").exists():
        return ""
    try:
        os.kill(pid, 0)
    except OSError:
        return ""
    return "alive"


def write_state(state: DaemonState) -> None:
    path = state_path(state.name)
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(asdict(state)))
    draft.replace(path)


def read_state(name: str) -> DaemonState | None:
    """A daemon's last word; where it has none its state is `crashed`, or `suspended`."""
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


OVER = ("finished", "stopped", "failed", "crashed")


def has_process(state: DaemonState) -> bool:
    return bool(state.born) and born(state.pid) == state.born


def alive(state: DaemonState | None) -> bool:
    return state is not None and state.state not in OVER


LATELY_S = 24 * 3600.0


def was_lately(state: DaemonState) -> bool:
    """Whether a replay runs, or said its last word within a day."""
    if alive(state):
        return True
    try:
        return time.time() - state_path(state.name).stat().st_mtime < LATELY_S
    except FileNotFoundError:
        return False


def all_states() -> list[DaemonState]:
    states = [read_state(path.stem) for path in sorted(folder().glob("*.json"))]
    return [state for state in states if state is not None]


def send(name: str, number: signal.Signals) -> DaemonState:
    """Signal a daemon; never a process that merely has its old pid."""
    state = read_state(name)
    if state is None:
        known = ", ".join(s.name for s in all_states()) or "none"
        raise SourceError(f"there is no replay {name!r}; known: {known}")
    if not alive(state):
        raise SourceError(f"replay {name!r} is not running: {state.state} {state.detail}".rstrip())
    os.kill(state.pid, number)
    return state
