"""Commands of `bci-replay` for recordings and devices: record, prepare, devices, emulate, mark."""

import logging
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import FrameType

import click

from bci_stream.cli import (
    SecondsType,
    TrackName,
    open_contest,
    require_posix,
    stop_on_signals,
    stop_signals,
    wait_option,
    wire_options,
)
from tracks.common.codes import MAX_CODE

logger = logging.getLogger(__name__)


@click.command("record")
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option("--name", "names", multiple=True, help="A stream of this name; repeatable.")
@click.option("--type", "kinds", multiple=True, help="All streams of this type; repeatable.")
@click.option(
    "--seconds",
    "duration_s",
    type=SecondsType(min=0, min_open=True),
    help="Duration (default: until Ctrl-C).",
)
@click.option("--overwrite", is_flag=True, help="Replace OUT (or the BIDS run) if it exists.")
@wait_option(30.0, "the named streams")
@click.option(
    "--from",
    "earlier",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Record nothing: take this XDF file, and save what is whole of one that is cut off.",
)
@click.option(
    "--bids",
    "bids_root",
    type=click.Path(path_type=Path, file_okay=False),
    help="Also write a run of this BIDS dataset (needs bci-stream[bids]).",
)
@click.option("--subject", help="BIDS: the subject's label, such as 01.")
@click.option("--task", help="BIDS: the task's label, such as mi.")
@click.option("--session", "bids_session", help="BIDS: the session's label.")
@click.option("--run", "bids_run", type=click.IntRange(1), help="BIDS: the number of the run.")
@click.option(
    "--run-log",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="BIDS: a run log of the judge, for the results of the trials.",
)
@click.option(
    "--line-hz",
    type=click.Choice(["50", "60"]),
    help="BIDS: the power line's frequency (default: as it is found in the signal).",
)
@wire_options
def record_command(
    out: Path | None,
    names: tuple[str, ...],
    kinds: tuple[str, ...],
    duration_s: float | None,
    overwrite: bool,
    wait_s: float,
    earlier: Path | None,
    bids_root: Path | None,
    subject: str | None,
    task: str | None,
    bids_session: str | None,
    bids_run: int | None,
    run_log: Path | None,
    line_hz: str | None,
    scope: str,
    lsl_session: str,
    **_: object,
) -> None:
    """Write LSL streams to OUT, an XDF file; all streams, if none is named.

    Streams that come later are not recorded.
    Waits until every named stream is there. With --bids, OUT may be left away: the XDF file is then in the
    dataset's sourcedata.
    """
    require_posix("bci-replay record", "record with LabRecorder's own window")
    from bci_stream.wire.network import config
    from replay.tools.bids.run import BidsName, write_bids_run
    from replay.tools.record import query, record, take_earlier

    run: BidsName | None = None
    if bids_root is not None:
        if not subject or not task:
            raise click.UsageError("--bids needs --subject and --task: --subject 01 --task mi")
        run = BidsName(bids_root, subject, task, bids_session, bids_run)
        run.check(overwrite)
    elif subject or task or bids_session or bids_run or run_log or line_hz:
        raise click.UsageError(
            "--subject, --task, --session, --run, --run-log and --line-hz belong to --bids"
        )
    path = out or (run.xdf_path if run else None)
    if path is None:
        raise click.UsageError("name the XDF file: bci-replay record OUT.xdf")
    if run is not None and path == run.xdf_path:
        path.parent.mkdir(parents=True, exist_ok=True)  # of the dataset
    if earlier is not None:
        click.echo(take_earlier(earlier, path, overwrite))
    else:
        queries = [query(name=name) for name in names] + [query(kind=kind) for kind in kinds]
        done = record(
            path,
            queries,
            stop=stop_on_signals(),
            duration_s=duration_s,
            lsl_config=config(scope, lsl_session),  # type: ignore[arg-type]
            overwrite=overwrite,
            wait_s=wait_s,
            on_start=lambda: logger.info("recording; Ctrl-C ends it"),
        )
        click.echo(f"{done.path}: {done.n_bytes} bytes, {len(done.streams)} streams")
        for count in done.counts:
            click.echo(f"  {count}")
    if run is not None:
        hertz = float(line_hz) if line_hz else None
        for line in write_bids_run(path, run, run_log, overwrite, hertz):
            click.echo(line)


@click.command("prepare")
@click.argument("recordings", nargs=-1, required=True)
@click.option("--track", type=TrackName(), required=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True)
@click.option("--events", default=None, help="Names to codes: T1=11,T2=21.")
@click.option(
    "--train-blocks",
    type=int,
    default=0,
    help="Number of first blocks of each subject for training.",
)
@click.option(
    "--train-persons",
    type=int,
    default=0,
    help="Number of persons for training, chosen by the key.",
)
@click.option("--overwrite", is_flag=True, help="Remove sets that are in OUT.")
@wire_options
def prepare_command(
    recordings: tuple[str, ...],
    track: str,
    out: Path,
    events: str | None,
    train_blocks: int,
    train_persons: int,
    overwrite: bool,
    contest_path: Path | None,
    room: str,
    **_: object,
) -> None:
    """Make a contest's sets (train, test, organiser) from labelled RECORDINGS, under its key."""
    from replay.model.options import SourceOptions
    from replay.tools.prepare import prepare
    from replay.tools.set_writer import Split

    if train_blocks and train_persons:
        raise click.UsageError("split by blocks or by persons: give one of the two")
    split = Split("block", train_blocks) if train_blocks else Split()
    split = Split("person", train_persons) if train_persons else split
    contest = open_contest(contest_path, room)
    with _removing_draft_on_signals():
        made = prepare(
            track,
            recordings,
            out,
            contest.keys.contest_key(),
            rules=contest.rules(track),
            split=split,
            options=SourceOptions().with_params({"events": events} if events else {}),
            overwrite=overwrite,
        )
    for path in made:
        click.echo(str(path))


class _StoppedError(SystemExit):
    """A signal was received; the exit code is 128 and its number, as in a shell."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.name = signal.Signals(number).name


@contextmanager
def _removing_draft_on_signals() -> Iterator[None]:
    """Raise an error on Ctrl-C and SIGTERM, so that the unfinished sets are removed."""
    before = {number: signal.signal(number, _leave) for number in stop_signals()}
    try:
        yield
    except _StoppedError as stopped:
        logger.info("stopped by %s: the unfinished sets were removed", stopped.name)
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, _: FrameType | None) -> None:
    for each in stop_signals():  # a second signal must not leave labels behind
        signal.signal(each, signal.SIG_IGN)
    raise _StoppedError(number)


PROTOCOL_NAMES = ("raw", "raw-uint", "heeg", "jellyfish", "jellyfish-modules")


@click.command("devices")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def devices_command(as_json: bool) -> None:
    """List the devices that can be put on the wire, with what each one needs."""
    from replay.devices.registry import print_devices

    print_devices(as_json)


class FaultOption(click.Option):
    """An option whose help lists the faults; loaded when the help is shown, because it needs numpy."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from replay.devices.emulator.amplifier import FAULTS

        self.help = (
            "Make a fault: KIND, KIND@SECONDS or KIND@SECONDS:VALUE; repeatable. "
            + " ".join(
                f"{name}: {kind.about}"
                f"{f' ({kind.value}, default {kind.default:g})' if kind.value else ''}."
                for name, kind in FAULTS.items()
            )
        )
        return super().get_help_record(ctx)


@click.command("emulate")
@click.argument("device", type=click.Choice(["neuracle"]), expose_value=False)
@click.argument("source")
@click.option("--protocol", type=click.Choice(PROTOCOL_NAMES), default="raw", show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True, help="0.0.0.0: for other machines.")
@click.option("--port", type=click.IntRange(0, 65535), default=8712, show_default=True)
@click.option("--subject", help="Which subject of SOURCE to play; the first one by default.")
@click.option(
    "--lead-in",
    default="0",
    show_default=True,
    help="Seconds of quiet before the recording begins; `ask`: until you press Enter.",
)
@click.option(
    "--tail",
    "tail_s",
    type=SecondsType(min=0),
    default=5.0,
    show_default=True,
    help="Seconds of quiet after it.",
)
@click.option("--fault", "faults", multiple=True, metavar="FAULT", cls=FaultOption)
def emulate_command(
    source: str,
    protocol: str,
    host: str,
    port: int,
    subject: str | None,
    lead_in: str,
    tail_s: float,
    faults: tuple[str, ...],
) -> None:
    """Serve SOURCE (any recording) over TCP as an amplifier would, to rehearse without hardware."""
    from replay.devices.emulator.amplifier import EmulatedAmplifier, parse_fault
    from replay.devices.emulator.emulator import Emulator, choose_session, client_uri, read_lead_in
    from replay.devices.emulator.encoders import EmulatedSignal
    from replay.sources import open_source

    parsed = [parse_fault(fault) for fault in faults]
    with closing(open_source(source)) as opened:
        session = choose_session(opened, subject)
        signal = EmulatedSignal(session, read_lead_in(lead_in, sys.stdin), tail_s=tail_s)
        emulator = Emulator(EmulatedAmplifier(signal, protocol, parsed), host, port)
        stop = stop_on_signals()
        if lead_in == "ask":
            click.echo(
                "press Enter to begin the recording; until then the amplifier sends noise of shorted "
                "inputs"
            )
        uri = client_uri(host, emulator.port, protocol, session)
        click.echo(
            f"an amplifier ({protocol}) with {len(session.leads)} leads at {session.rate:g} Hz waits "
            f"for a client at {host}:{emulator.port}; connect to it with bci-replay start '{uri}'"
        )
        if protocol == "raw":
            click.echo(
                "its trigger words are float32, as MetaBCI reads them; the vendor's own API reads uint32: "
                "--protocol raw-uint"
            )
        emulator.serve(stop)
    click.echo("the amplifier is off")


@click.command("mark")
@click.argument("code", type=click.IntRange(1, MAX_CODE))
@click.option(
    "--to", metavar="NAME", help="Which replay (its --name); needed where several play a device."
)
@click.option(
    "--trigger-box", metavar="PORT", help="Send it through a TriggerBox on this serial port."
)
@click.option(
    "--parallel-port",
    metavar="PORT",
    help="Send it as a pulse on this parallel port (needs pyparallel): 0, /dev/parport0.",
)
def mark_command(
    code: int, to: str | None, trigger_box: str | None, parallel_port: str | None
) -> None:
    """Set a trigger on a running device, on its next sample."""
    if sum(given is not None for given in (to, trigger_box, parallel_port)) > 1:
        raise click.UsageError("--to, --trigger-box and --parallel-port: give one of them")
    if parallel_port is not None:
        from replay.devices.manual_triggers import open_parallel_port, send_pulse

        send_pulse(open_parallel_port(parallel_port), code)
        click.echo(f"{code} sent to the parallel port {parallel_port}")
        return
    if trigger_box is not None:
        from replay.devices.manual_triggers import open_port, send_to_trigger_box

        with closing(open_port(trigger_box)) as port:
            send_to_trigger_box(port, code)
        click.echo(f"{code} sent to the TriggerBox at {trigger_box}")
        return
    require_posix("bci-replay mark without --trigger-box", "give --trigger-box PORT")
    from replay.devices.manual_triggers import send_trigger

    click.echo(f"{code} set on {send_trigger(code, to)}")
