"""Spawning: a replay started in the background, and seen to come up."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from replay.daemon import alive, log_path, read_state

START_S = 90.0
LOOK_EVERY_S = 0.05


def check_free(name: str) -> None:
    """One replay has one name."""
    running = read_state(name)
    if running is not None and alive(running):
        raise click.ClickException(
            f"replay {name!r} is running already (pid {running.pid}); `bci-replay stop {name}`, or "
            "choose --name"
        )


def spawn(name: str, say: Callable[[str], None]) -> None:
    """Start the same command again in the background, in a session of its own, and see it come up."""
    check_free(name)
    arguments = [*sys.argv[1:], "--foreground", "--name", name]
    with log_path(name).open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "replay", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        _see_it_start(name, child, say)
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        click.echo(f"replay {name!r} has stopped")
        return
    state = read_state(name)
    if state is None or state.pid != child.pid:
        raise click.ClickException(f"replay {name!r} did not start: {_last_line(log_path(name))}")
    if not (alive(state) or state.state == "finished"):
        raise click.ClickException(f"replay {name!r} did not start: {state.detail or state.state}")
    click.echo(f"replay {name!r} is {state.state} (pid {child.pid}); log: {log_path(name)}")


def _see_it_start(name: str, child: "subprocess.Popen[bytes]", say: Callable[[str], None]) -> None:
    """Until it has started or ended; what its device says meanwhile is said here too."""
    deadline = time.monotonic() + START_S
    told = ""
    while time.monotonic() < deadline and child.poll() is None:
        state = read_state(name)
        if state is not None and state.pid == child.pid:
            if state.state != "starting":
                return
            news = " ".join(state.device.get(part, "") for part in ("state", "detail")).strip()
            if news != told:
                told = news
                say(f"{name}: {news}")
        time.sleep(LOOK_EVERY_S)


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("Error: ") if lines else "it said nothing"
