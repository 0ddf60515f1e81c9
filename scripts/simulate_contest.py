"""Show the leaderboard with simulated runs, to try a projector or the page before there are teams.

python scripts/simulate_contest.py --track erp --track mi --teams 8 --speed 20
"""

import os
import time
from collections.abc import Iterable, Iterator
from itertools import count

import click
import numpy as np

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.ranking import Qualifying
from bci_stream.leaderboard.web.published import SignalSource
from bci_stream.packet import Lead
from bci_stream.wire import names
from bci_stream.wire.lsl import LslTransport
from bci_stream.wire.transport import SampleOutlet
from scripts.simulated_runs import LogLine, SimulatedRun
from tracks.registry import TRACKS
from tracks.run import Run

NAMES = (
    "Alpha Waves", "清华脑机一队", "Riemann's Children", "Kalman & Sons", "静息态", "Mu Rhythm",
    "Cortex Crew", "P300 Express", "Null Hypothesis", "Berger 1924", "Delta Force", "Theta Phi",
)  # fmt: skip
ENDS = (
    ("finished", ""),
    ("finished", ""),
    ("finished", ""),
    ("crashed", "exit code 1: ValueError"),
)


def simulated_runs(track: str, teams: int, seed: int) -> list[SimulatedRun]:
    """Teams of one track with the same trials and decreasing skill."""
    names = [NAMES[i] if i < len(NAMES) else f"Team {i + 1}" for i in range(teams)]
    return [
        SimulatedRun(
            track, name, skill=max(0.35, 0.95 - 0.06 * i), blocks=2, trials=12, seed=seed,
            latency_s=0.008 * (1 + i), end=ENDS[i % len(ENDS)][0], detail=ENDS[i % len(ENDS)][1],
        )
        for i, name in enumerate(names)
    ]  # fmt: skip


class Player:
    """Adds one team's simulated log to the board, up to a time of the log's own clock."""

    def __init__(self, board: Leaderboard, simulated: SimulatedRun) -> None:
        self._board = board
        self._team, self._track = simulated.team, simulated.track
        self._events = simulated.events()
        self._run = Run()
        self._next: LogLine | None = next(self._events)

    @property
    def done(self) -> bool:
        return self._next is None

    def play_until(self, t: float) -> None:
        while self._next is not None and self._next.get("t", 0.0) <= t:
            event = self._next
            self._board.event(self._team, self._track, event, self._run.feed(event), self._run)
            self._next = next(self._events, None)


SIGNAL_S = 0.2
"""Of a packet of the signal."""


def signal(rate: int, leads: int, seed: int) -> Iterator[np.ndarray]:
    """EEG-like noise with a 10 Hz rhythm, in packets of SIGNAL_S."""
    random = np.random.default_rng(seed)
    level, n = np.zeros(leads), round(SIGNAL_S * rate)
    for packet in count():
        steps = random.normal(0, 4, (n, leads)).cumsum(axis=0) + level
        level = 0.8 * steps[-1]
        t = (packet * n + np.arange(n))[:, None] / rate
        yield (steps + 12 * np.sin(2 * np.pi * 10 * t + np.arange(leads))).astype(np.float32)


class SimulatedSignals:
    """A signal stream for each track, on LSL as in a contest, where the page finds it."""

    def __init__(self, tracks: Iterable[str]) -> None:
        self.source = SignalSource("simulated", "machine", f"simulated-{os.getpid()}")
        self._transport = LslTransport("machine", self.source.lsl_session)
        self._signals = {t: signal(TRACKS[t].rate, len(TRACKS[t].leads), 1) for t in tracks}
        self._outlets = {track: self._outlet(track) for track in self._signals}

    def _outlet(self, track: str) -> SampleOutlet:
        leads = tuple(map(Lead, TRACKS[track].leads))
        return self._transport.sample_outlet(
            names.signal_stream("simulated", track, TRACKS[track].rate, leads, track=track)
        )

    def push(self) -> None:
        """Send the next packet of each signal."""
        for track, outlet in self._outlets.items():
            samples = next(self._signals[track])
            no_triggers = np.zeros((len(samples), 1), np.float32)
            outlet.push(np.hstack([samples, no_triggers]), self._transport.now())


def play(
    board: Leaderboard,
    signals: SimulatedSignals,
    runs: dict[str, list[SimulatedRun]],
    speed: float,
    until_s: float,
) -> None:
    """Play all runs and signals at `speed` times real time."""
    players = [Player(board, run) for of_track in runs.values() for run in of_track]
    start = time.monotonic()
    for tick in count():
        t = SIGNAL_S * tick
        for player in players:
            player.play_until(t * speed)
        signals.push()
        if t * speed > until_s or all(player.done for player in players):
            return
        time.sleep(max(0.0, start + t - time.monotonic()))


@click.command()
@click.option("--track", "tracks", multiple=True, default=("erp",), type=click.Choice(list(TRACKS)))
@click.option("--teams", default=8, show_default=True, help="Teams on each track.")
@click.option("--speed", default=10.0, show_default=True, help="Times real time.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True)
@click.option("--seed", default=1, show_default=True)
def main(
    tracks: tuple[str, ...], teams: int, speed: float, host: str, port: int, seed: int
) -> None:
    """Show a simulated contest in the terminal and on a page, until Ctrl-C."""
    from bci_stream.errors import BciError
    from bci_stream.leaderboard.terminal import live_tables
    from bci_stream.leaderboard.web.process import WebBoard

    board = Leaderboard("Simulated contest", Qualifying(top=3))
    signals = SimulatedSignals(tracks)
    page = WebBoard(board, host, port, signal=signals.source)
    try:
        page.start()
    except BciError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"The page is at {page.url}")
    try:
        with live_tables(board):
            play(
                board,
                signals,
                {track: simulated_runs(track, teams, seed) for track in tracks},
                speed,
                float("inf"),
            )
        click.echo("All runs have ended; the page is served until Ctrl-C.")
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        click.echo("stopped")
    finally:
        page.stop()


if __name__ == "__main__":
    main()
