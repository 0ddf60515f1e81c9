"""How `bci-replay status` shows the daemons."""

import json
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from replay.daemon import OVER, DaemonState

TITLES = ("replay", "state", "track", "pace", "played", "consumers", "late (worst)", "source")


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
    return "\n".join([capture.get().rstrip(), *details])


def _device(state: DaemonState) -> str:
    device = state.device
    words = f"{device['device']} {'was' if state.state in OVER else 'is'} {device['state']}"
    words += f" ({device['detail']})" if device["detail"] else ""
    if not device["samples"]:
        return words
    about = "" if device["lost_exact"] else "about "
    return (
        f"{words}: {device['samples']} samples, "
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
        " ".join(state.sources),
    )


def _played(at: dict[str, Any], rate: float) -> str:
    """12% (0:07 of 1:00); of a live device, which has no end, 0:07."""
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
