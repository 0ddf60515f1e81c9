"""The devices' part of `bci-replay`: devices, emulate, mark."""

import sys

import click

from bci_stream.cli import Seconds
from replay.devices.faults import FAULTS

PROTOCOL_NAMES = ("raw", "raw-uint", "heeg", "jellyfish", "jellyfish-modules")


@click.command("devices")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def devices_command(as_json: bool) -> None:
    """List the devices that can be put on the wire, with what each one needs."""
    from replay.devices.listing import print_devices

    print_devices(as_json)


def _fault_help() -> str:
    return "Make a fault: KIND, KIND@SECONDS or KIND@SECONDS:VALUE; repeatable. " + " ".join(
        f"{name}: {kind.about}{f' ({kind.value}, default {kind.default:g})' if kind.value else ''}."
        for name, kind in FAULTS.items()
    )


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
    type=Seconds(min=0),
    default=5.0,
    show_default=True,
    help="Seconds of quiet after it.",
)
@click.option("--fault", "faults", multiple=True, metavar="FAULT", help=_fault_help())
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
    from replay.devices.rehearsal import Rehearsal, emulate

    plan = Rehearsal(source, protocol, host, port, subject, lead_in, tail_s, faults)
    emulate(plan, click.echo, sys.stdin)


@click.command("mark")
@click.argument("code", type=click.IntRange(1, 0xFFFF))
@click.option("--to", metavar="NAME", help="Which running device; needed where there are several.")
@click.option(
    "--trigger-box", metavar="PORT", help="Send it through a TriggerBox on this serial port."
)
def mark_command(code: int, to: str | None, trigger_box: str | None) -> None:
    """Set a mark on a running device: it lands as a trigger on the next sample."""
    if trigger_box is not None:
        from replay.devices.trigger_box import TriggerBox, open_port

        box = TriggerBox(open_port(trigger_box))
        try:
            box.emit(code)
        finally:
            box.close()
        click.echo(f"{code} sent to the TriggerBox at {trigger_box}")
        return
    from replay.devices.marks import send_mark

    click.echo(f"{code} set on {send_mark(code, to)}")
