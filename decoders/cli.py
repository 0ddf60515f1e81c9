"""bci-decode: one team's algorithm, on the wire."""

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bci_stream.cli import (
    TRACK_NAMES,
    Commands,
    open_contest,
    open_wire,
    say,
    stop_on_signals,
    wire_options,
)

if TYPE_CHECKING:
    from decoders.decoder import Decoder

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""A worker's matrices are small: with two BLAS threads a covariance takes 7 times longer (measured)."""

track_option = click.option("--track", type=click.Choice(TRACK_NAMES), help="Which track.")
decoder_option = click.option("--decoder", default=None, help="A name of `list`, or module:Class.")
model_option = click.option("--model", type=click.Path(path_type=Path), help="A trained model.")
submission_option = click.option(
    "--submission", type=click.Path(path_type=Path), help="A contestant's folder, .zip or .tar.gz."
)
interface_option = click.option(
    "--interface", default=None, help="Force a submission's interface (g1, g2, g3, g4, ...)."
)
seed_option = click.option("--seed", default=0, show_default=True)


@click.group(cls=Commands, invoke_without_command=True)
@track_option
@decoder_option
@model_option
@submission_option
@interface_option
@click.option("--team", default=None, help="Your team's name (default: the decoder's).")
@click.option("--token", type=click.Path(path_type=Path), help="Your team's token file.")
@seed_option
@click.option(
    "--wait", "wait_s", default=60.0, show_default=True, help="Seconds to wait for a replay."
)
@wire_options
@click.pass_context
def main(context: click.Context, /, track: str | None, **options: Any) -> None:
    """Take part in a run: feed packets to a decoder, and report what it finds."""
    os.environ.update(ONE_THREAD)
    if context.invoked_subcommand is not None:
        return
    if track is None:
        raise click.UsageError("say which track: --track " + "|".join(TRACK_NAMES))
    _work(track, **options)


def _work(
    track: str,
    decoder: str | None,
    model: Path | None,
    submission: Path | None,
    interface: str | None,
    team: str | None,
    token: Path | None,
    seed: int,
    wait_s: float,
    contest_path: Path | None,
    room: str,
    scope: str,
    lsl_session: str,
) -> None:
    from bci_stream.contest.keys import read_key
    from bci_stream.wire.seat import Seat
    from decoders.registry import default_of
    from decoders.worker import Worker

    stop = stop_on_signals()
    made = _make(track, decoder, model, submission, interface, seed, stop)
    contest = open_contest(contest_path, room)
    name = team or (submission.stem if submission else decoder or default_of(track))
    name = name.replace(":", ".")
    key = read_key(token) if token else contest.keys.token(name)
    seat = Seat(open_wire(scope, lsl_session), contest.name, name, key, stop=stop, say=say)
    worker = Worker(seat, made, track=track, join_s=wait_s, stop=stop)
    say(f"team {name}: waiting for a replay of track {track}")
    try:
        worker.run()
    finally:
        if callable(close := getattr(made, "close", None)):
            close()
    say(f"team {name}: the run is over, {worker.reports} reports sent")


def _make(
    track: str,
    decoder: str | None,
    model: Path | None,
    submission: Path | None,
    interface: str | None,
    seed: int,
    stop: threading.Event,
) -> "Decoder":
    if submission is not None:
        if decoder is not None:
            raise click.UsageError("give --decoder or --submission, not both")
        from decoders.host.open import open_submission

        return open_submission(submission, track, interface=interface, stop=stop, say=say)
    from decoders.registry import load

    return load(decoder, track, model, seed)


@main.command("list")
@track_option
def list_command(track: str | None) -> None:
    """The decoders that are shipped; the first of a track is its default."""
    from decoders.registry import DECODERS, DEFAULTS

    for name, entry in DECODERS.items():
        if track in (None, entry.track):
            mark = "*" if DEFAULTS[entry.track] == name else " "
            click.echo(f"{mark} {name:<16} {entry.track:<8} {entry.about}")


@main.command()
@click.argument("recordings", nargs=-1, required=True)
@track_option
@decoder_option
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="The model file to write."
)
@seed_option
@click.option("--no-validation", is_flag=True, help="Skip the cross-validated figure.")
def train(
    recordings: tuple[str, ...],
    track: str | None,
    decoder: str | None,
    out: Path,
    seed: int,
    no_validation: bool,
) -> None:
    """Train a decoder on labelled RECORDINGS, with its figure by the track's own score."""
    if track is None:
        raise click.UsageError("say which track: --track " + "|".join(TRACK_NAMES))
    from decoders.train_command import train_with_progress

    train_with_progress(track, recordings, decoder, out, seed, validate=not no_validation)


@main.command()
@track_option
@decoder_option
@model_option
@submission_option
@interface_option
@seed_option
def check(
    track: str | None,
    decoder: str | None,
    model: Path | None,
    submission: Path | None,
    interface: str | None,
    seed: int,
) -> None:
    """Check a decoder against the laws that every decoder keeps, or dry-run a submission."""
    if track is None:
        raise click.UsageError("say which track: --track " + "|".join(TRACK_NAMES))
    if submission is not None:
        from decoders.host.check import check_submission

        report = check_submission(submission, track, interface=interface)
        click.echo(report.text)
        if not report.ok:
            raise SystemExit(1)
        return
    from decoders.check_command import check_decoder

    if not check_decoder(track, decoder, model, seed):
        raise SystemExit(1)
