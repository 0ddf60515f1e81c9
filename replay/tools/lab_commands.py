"""Commands of `bci-replay` on running streams: measure, look."""

import json
from pathlib import Path

import click

from bci_stream.cli import SecondsType, open_wire, stop_on_signals, wait_option, wire_options


@click.command("measure")
@click.argument("stream", required=False)
@click.option(
    "--markers",
    help="The marker stream to compare with the trigger channel (default: the replay's own).",
)
@click.option(
    "--channel",
    help="The channel that shows the triggers: a photodiode or a loop-back (default: TRIGGER).",
)
@click.option(
    "--seconds",
    type=SecondsType(min=1),
    default=60.0,
    show_default=True,
    help="How long to measure.",
)
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw it as a PNG.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
@wait_option(20.0, "the stream")
@wire_options
def measure_command(
    stream: str | None,
    markers: str | None,
    channel: str | None,
    seconds: float,
    plot: Path | None,
    as_json: bool,
    wait_s: float,
    scope: str,
    lsl_session: str,
    **_: object,
) -> None:
    """Measure the timing of a running LSL STREAM (default: the only one of type EEG).

    Latency and jitter of samples, triggers against samples, drift and losses, and whether that is good enough
    for event-related potentials.
    """
    from rich.console import Console

    from replay.devices.lsl_streams import MarkerStream
    from replay.tools import measure
    from replay.tools.measure_timing import measure_timing

    stop = stop_on_signals()
    transport = open_wire(scope, lsl_session)
    inlet, found = measure.find_inlet(stream, transport, stop, wait_s)
    marker_name = markers or measure.default_markers(found.source_id)
    beside = None
    try:
        line = measure.line_of(inlet.spec.leads, channel)
        if marker_name is not None and line is not None:
            beside = MarkerStream(marker_name, transport, measure.DIAL_S, lambda _: None)
            beside.wait(stop)
        click.echo(f"measuring {inlet.spec.name} for {seconds:g} s", err=True)
        received = measure.receive(inlet, transport, line, beside, seconds, stop)
    finally:
        if beside is not None:
            beside.close()
        inlet.close()
    try:
        timing = measure_timing(received)
    except ValueError:
        raise click.ClickException(
            f"{len(received.stamps)} samples came: too few to measure; measure for longer"
        ) from None
    if as_json:
        click.echo(json.dumps(measure.as_json(timing)))
    else:
        Console().print(measure.render(timing, inlet.spec.name))
    if plot is not None:
        measure.plot(received, timing, plot)
        click.echo(f"drawn: {plot}", err=True)


@click.command("look")
@click.argument("source")
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0: for other machines.")
@click.option("--port", type=click.IntRange(0, 65535), default=8730, show_default=True)
@click.option("--browser/--no-browser", default=True, help="Open the page in a browser here.")
@wire_options
def look_command(
    source: str, host: str, port: int, browser: bool, scope: str, lsl_session: str, **_: object
) -> None:
    """Show the live signal of SOURCE on a page: a recording, a device, or a stream (lsl:NAME).

    Scale, filters, spectrum, power line, faults of leads, triggers, lag and gaps.
    """
    import asyncio
    import threading
    import webbrowser
    from contextlib import closing

    from bci_stream.page_server import listen
    from replay.devices.boards import ask_resistance
    from replay.sources import open_source
    from replay.tools.look.live import LiveView, read_source
    from replay.tools.look.server import serve

    stop = stop_on_signals()
    transport = open_wire(scope, lsl_session)
    with (
        closing(open_source(ask_resistance(source), None, transport)) as opened,
        closing(listen(host, port)) as page,
    ):

        def close_when_stopped() -> None:  # a device may be searched for many seconds
            stop.wait()
            opened.close()

        threading.Thread(target=close_when_stopped, daemon=True).start()
        session = next(iter(opened.sessions()))
        for note in session.notes:
            click.echo(f"note: {note}", err=True)
        name = source.partition("?")[0].rstrip("/").rpartition("/")[2]
        view = LiveView(session, transport.now, name)
        thread = threading.Thread(target=read_source, args=(opened, session, view, stop))
        thread.start()
        url = f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{page.getsockname()[1]}/"
        click.echo(f"{len(view.leads)} leads at {session.rate:g} Hz: {url} (Ctrl-C ends it)")
        if browser:
            webbrowser.open(url)
        try:
            asyncio.run(serve(view, page, stop))
        finally:
            stop.set()
            opened.close()
            thread.join()
