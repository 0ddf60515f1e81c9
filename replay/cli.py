"""The command bci-replay: plays recordings and amplifiers on Lab Streaming Layer."""

import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bci_stream.cli import (
    Commands,
    TrackName,
    open_contest,
    open_wire,
    require_posix,
    stop_on_signals,
    version_option,
    wait_option,
    wire_options,
)
from replay.tools.commands import (
    devices_command,
    emulate_command,
    mark_command,
    prepare_command,
    record_command,
)
from replay.tools.lab_commands import look_command, measure_command

if TYPE_CHECKING:
    from replay.model.options import SourceOptions


def reading_options(command: Callable[..., None]) -> Callable[..., None]:
    """Options about reading a recording; the same names work as parameters of a URI."""
    options = [
        click.option("--events", help="Names to codes: T1=11,T2=21."),
        click.option("--rename", help="Leads: OLD=NEW,OLD=NEW."),
        click.option("--leads", "select", help="These leads, in this order: C3,Cz,C4."),
        click.option("--resample", help="To this rate in Hz (causal)."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _source_options(track: str | None, reading: Mapping[str, str | None]) -> "SourceOptions":
    from replay.model.options import SourceOptions

    params = {key: value for key, value in reading.items() if value is not None}
    return SourceOptions(track=track).with_params(params)


@click.group(cls=Commands)
@version_option
def main() -> None:
    """Play recordings, or live amplifiers, onto Lab Streaming Layer."""


@main.command()
@click.argument("sources", nargs=-1)
@click.option("--track", type=TrackName(), help="Mask and pack for this track.")
@click.option(
    "--pace",
    default=None,
    help="realtime, a factor like 2.0, or lockstep (a packet when it is asked for); default: as the "
    "contest file says, else realtime.",
)
@click.option(
    "--name", default=None, help="The replay's name (default: the track's, or the file's)."
)
@click.option(
    "--start",
    "start_on",
    type=click.Choice(["judge", "team", "consumer", "now"]),
    default=None,
    help="Who must be there first (default: judge with a track, else consumer).",
)
@click.option("--team", default="", help="Lockstep: the one team that this replay is for.")
@wait_option(600.0, "them")
@click.option("--loop", is_flag=True, help="Begin again at the end.")
@click.option("--foreground", is_flag=True, help="Stay in this terminal, with a progress line.")
@reading_options
@wire_options
def start(foreground: bool, **options: Any) -> None:
    """Play SOURCES: files, folders, or URIs like synthetic:erp?subjects=2.

    Without SOURCES, the recordings that the contest file has for the track are played.

    Runs in the background until it has ended or `bci-replay stop` is called; --foreground stays here.
    """
    options["track"], options["sources"] = _contest_sources(
        options["contest_path"], options["track"], options["sources"]
    )
    options["name"] = options["name"] or default_name(options["track"], options["sources"])
    if not foreground:
        require_posix("bci-replay start in the background", "give --foreground")
    stop = stop_on_signals() if foreground else None
    _check(**options)
    if stop is not None:
        _serve(stop=stop, **options)
    else:
        from replay.daemon import spawn

        spawn(options["name"])


def _contest_sources(
    contest_path: Path | None, track: str | None, sources: tuple[str, ...]
) -> tuple[str | None, tuple[str, ...]]:
    """The sources; without any, the contest file's for this track, or for its only one."""
    if sources:
        return track, sources
    if contest_path is None:
        raise click.UsageError("say what to play: SOURCES, or a --contest that has recordings")
    contest = open_contest(contest_path, "")
    if track is None and len(contest.tracks) == 1:
        (track,) = contest.tracks
    if track is None:
        known = ", ".join(contest.tracks) or "none"
        raise click.UsageError(f"say which track of the contest to play: --track (it has {known})")
    recordings = contest.recordings(track)
    if not recordings:
        raise click.UsageError(
            f"the contest file has no recordings for track {track}: add them under [tracks.{track}], or "
            "name SOURCES"
        )
    return track, tuple(recordings)


def default_name(track: str | None, sources: tuple[str, ...]) -> str:
    """The track's name, a file's without its suffix, or an amplifier's whole address."""
    source = sources[0].partition("?")[0]
    rest = source.partition(":")[2] or source
    called = rest if rest.startswith("//") else Path(rest).stem
    kept = "".join(c if c.isalnum() or c in "_.-" else "-" for c in track or called)
    return (kept.strip("-.") or "replay")[:64]


def _check(
    sources: tuple[str, ...],
    track: str | None,
    pace: str | None,
    name: str,
    start_on: str | None,
    contest_path: Path | None,
    room: str,
    events: str | None,
    rename: str | None,
    select: str | None,
    resample: str | None,
    **_: Any,
) -> None:
    """Raise an error for whatever is wrong with the options, before anything is started or read."""
    from replay.sources import check_source

    for source in sources:
        check_source(source)
    from bci_stream.contest.start import parse_pace
    from replay.daemon import check_free

    check_free(name)
    contest = open_contest(contest_path, room)
    if parse_pace(pace or contest.pace).lockstep and start_on in ("consumer", "now"):
        raise click.UsageError(
            f"--start {start_on} with --pace lockstep: there a packet leaves when a team asks for it; "
            "give --start team, or judge"
        )
    reading = {"events": events, "rename": rename, "select": select, "resample": resample}
    _source_options(track, reading)


def _serve(
    stop: threading.Event,
    sources: tuple[str, ...],
    track: str | None,
    pace: str | None,
    name: str,
    start_on: Any,
    team: str,
    wait_s: float,
    loop: bool,
    contest_path: Path | None,
    room: str,
    scope: str,
    lsl_session: str,
    **reading: str | None,
) -> None:
    from bci_stream.contest.start import parse_pace
    from replay.service import Service, progress_line

    contest = open_contest(contest_path, room)
    played = parse_pace(pace or contest.pace)
    service = Service(
        transport=open_wire(scope, lsl_session),
        contest=contest,
        name=name,
        uris=sources,
        options=_source_options(track, reading),
        track=track,
        pace=played,
        start_on=start_on or ("judge" if track else "team" if played.lockstep else "consumer"),
        team=team,
        wait_s=wait_s,
        loop=loop,
        stop=stop,
    )
    service.handle_pause_signals()
    with progress_line(service):
        service.run()


@main.command()
@click.argument("name", required=False)
@click.option("--all", "old_too", is_flag=True, help="Also those that ended more than a day ago.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.option("--watch", is_flag=True, help="Show it again every second, until Ctrl-C.")
def status(name: str | None, old_too: bool, as_json: bool, watch: bool) -> None:
    """Show the replays: where each stands, how fast, who listens, how late, and a device's state."""
    from replay.daemon import all_states, is_recent, render_states, watch_states

    if watch:
        watch_states(
            lambda: [
                state
                for state in all_states()
                if name in (None, state.name) and (old_too or name or is_recent(state))
            ],
            stop_on_signals(),
            as_json,
        )
        return
    known = [state for state in all_states() if name in (None, state.name)]
    if name is not None and not known:
        raise click.ClickException(f"there is no replay {name!r}")
    shown = [state for state in known if old_too or name or is_recent(state)]
    if shown or as_json or not known:
        click.echo(render_states(shown, as_json=as_json))
    if len(known) > len(shown) and not as_json:
        click.echo(f"{len(known) - len(shown)} more ended over a day ago: bci-replay status --all")


@main.command()
@click.argument("name", required=False)
def stop(name: str | None) -> None:
    """Stop a replay (all of them, if none is named) and wait until it has ended."""
    require_posix("bci-replay stop", "end a replay with Ctrl-C in its own window")
    from replay.daemon import alive, all_states, has_process, send

    names = [name] if name else [state.name for state in all_states() if alive(state)]
    if not names:
        click.echo("no replay is running")
    for each in names:
        send(each, signal.SIGCONT)  # a suspended process would not handle SIGTERM
        stopped = send(each, signal.SIGTERM)
        deadline = time.monotonic() + 15.0
        while has_process(stopped) and time.monotonic() < deadline:
            time.sleep(0.05)
        if has_process(stopped):
            raise click.ClickException(f"replay {each!r} did not stop within 15 s; see its log")
        click.echo(f"replay {each!r} has stopped")


def _signal_command(command_name: str, number_name: str, done: str) -> Any:
    def command(name: str) -> None:
        require_posix(command_name)
        from replay.daemon import send

        send(name, signal.Signals[number_name])
        click.echo(f"replay {name!r} {done}")

    return command


pause = click.command("pause", help="Hold a real-time replay back.")(
    click.argument("name")(_signal_command("bci-replay pause", "SIGUSR1", "is asked to pause"))
)
resume = click.command("resume", help="Let a paused replay go on.")(
    click.argument("name")(_signal_command("bci-replay resume", "SIGUSR2", "is asked to go on"))
)
main.add_command(pause)
main.add_command(resume)


@main.command()
@click.argument("source")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True)
def synth(source: str, out: Path) -> None:
    """Write a synthetic SOURCE (synthetic:mi?subjects=2&set=train) to files."""
    from replay.sources import parse_uri
    from replay.synthetic.registry import open_synthetic, write_recordings

    parts = parse_uri(f"synthetic:{source.removeprefix('synthetic:')}")
    for path in write_recordings(open_synthetic(parts.address, parts.params), out):
        click.echo(str(path))


@main.command()
@click.argument("source")
@click.option("--track", type=TrackName(), help="Check it against this track.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw it as a PNG.")
@reading_options
def inspect(source: str, track: str | None, plot: Path | None, **reading: str | None) -> None:
    """Show what SOURCE is, which track it fits, and what breaks that track's rules."""
    from rich.console import Console

    from replay.tools.inspect import inspect_uri
    from replay.tools.inspect_view import render

    options = _source_options(track, reading)
    Console().print(render(inspect_uri(source, options, track)))
    if plot is not None:
        from replay.tools.inspect_plot import plot_uri

        for drawn in plot_uri(source, options, plot):
            click.echo(f"drawn: {drawn}")


main.add_command(devices_command, "devices")
main.add_command(emulate_command, "emulate")
main.add_command(mark_command, "mark")
main.add_command(record_command, "record")
main.add_command(prepare_command, "prepare")
main.add_command(measure_command, "measure")
main.add_command(look_command, "look")
