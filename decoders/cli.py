"""bci-decode: runs one team's decoder, trains and checks decoders."""

import json
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bci_stream.cli import (
    Commands,
    TrackName,
    open_contest,
    open_wire,
    stop_on_signals,
    wait_option,
    wire_options,
)
from bci_stream.errors import HOST_FAILED
from tracks.registry import TRACKS

if TYPE_CHECKING:
    from bci_stream.contest.contest import Contest
    from bci_stream.wire.crypto import PublicKey
    from decoders.decoder import Decoder
    from decoders.host.submission import SubmissionDecoder

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""A worker's matrices are small: with two BLAS threads a covariance takes 7 times longer (measured)."""

track_option = click.option("--track", type=TrackName(), help="Which track.")
decoder_option = click.option("--decoder", default=None, help="A name of `list`, or module:Class.")
model_option = click.option("--model", type=click.Path(path_type=Path), help="A trained model.")
seed_option = click.option("--seed", default=0, show_default=True)


def submission_options(command: F) -> F:
    """Options of a submission."""
    options = [
        click.option("--submission", type=click.Path(path_type=Path),
                     help="A contestant's folder, .zip or .tar.gz."),
        click.option("--interface", help="Force its interface (g1, g2, g2-online, g3, g4, ...)."),
        click.option("--python", metavar="VERSION",
                     help="Run it by this Python (3.8, ...), not the one it requests."),
        click.option("--positions", type=click.Choice(["block", "continuous"]),
                     help="How start positions count (default: as its interface does)."),
        click.option("--calibration", multiple=True, metavar="RECORDING",
                     help="Labelled recordings for a submission of 2026; repeatable."),
        click.option("--strength", type=click.Choice(["auto", "bubblewrap", "limits"]),
                     help="How it must be contained (default: the contest's limits.strength)."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.group(cls=Commands, invoke_without_command=True)
@track_option
@decoder_option
@model_option
@submission_options
@click.option("--team", default=None, help="Your team's name (default: the decoder's).")
@click.option(
    "--team-file",
    type=click.Path(path_type=Path),
    help="Your team's file, from the organiser: contest, team, token and public key.",
)
@click.option(
    "--token", type=click.Path(path_type=Path), help="Your team's token file, in an open contest."
)
@click.option(
    "--receipt",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the judge's receipt of the run (see `bci-judge verify`).",
)
@click.option(
    "--measured",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write what was measured of a submission: leads, calibration, size, reaction.",
)
@seed_option
@wait_option(60.0, "a replay")
@wire_options
@click.pass_context
def main(context: click.Context, /, track: str | None, **options: Any) -> None:
    """Take part in a run: feed packets to a decoder, and send its reports."""
    os.environ.update(ONE_THREAD)
    if context.invoked_subcommand is not None:
        return
    if track is None:
        raise _missing_track()
    _work(track, **options)


def _missing_track() -> click.UsageError:
    return click.UsageError("say which track: --track " + "|".join(TRACKS))


def _work(
    track: str,
    team: str | None,
    team_file: Path | None,
    token: Path | None,
    receipt: Path | None,
    measured: Path | None,
    wait_s: float,
    contest_path: Path | None,
    room: str,
    scope: str,
    lsl_session: str,
    **chosen: Any,
) -> None:
    from bci_stream.wire.client import TeamClient
    from decoders.decoder import Closeable, HasNotice
    from decoders.registry import default_of
    from decoders.worker import Worker

    stop = stop_on_signals()
    contest = open_contest(contest_path, room)
    made = _make(track, contest, stop, **chosen)
    submission, decoder = chosen["submission"], chosen["decoder"]
    name = team or (submission.stem if submission else decoder or default_of(track))
    access = _access(contest, contest_path, room, name.replace(":", "."), team, team_file, token)
    name = access.team
    client = TeamClient(
        open_wire(scope, lsl_session),
        access.contest,
        name,
        access.token,
        stop=stop,
        public_key=access.public_key,
        sealed=access.sealed,
    )
    worker = Worker(client, made, track=track, join_s=wait_s, stop=stop)
    logger.info("team %s: waiting for a replay of track %s", name, track)
    if isinstance(made, HasNotice) and made.notice:
        logger.warning("team %s: %s", name, made.notice)
    try:
        worker.run()
    finally:
        if isinstance(made, Closeable):
            made.close()
        if measured is not None and submission is not None:
            _write_measured(made, measured)
        if receipt is not None and client.receipt:
            receipt.write_text(client.receipt + "\n")
            logger.info("team %s: receipt %s", name, receipt)
    logger.info("team %s: the run is over, %s reports sent", name, worker.reports)


def _write_measured(submission: Any, path: Path) -> None:
    """The figures of a submission of 2026; other ones have none."""
    if submission.prepared.entry.interface == "g5":
        path.write_text(json.dumps(submission.measured.figures()))


@dataclass(frozen=True)
class _Access:
    """What a team needs to take part; without a public key the organiser's messages are not verified."""

    contest: str
    team: str
    token: bytes
    public_key: "PublicKey | None"
    sealed: bool


def _access(
    contest: "Contest",
    contest_path: Path | None,
    room: str,
    name: str,
    team: str | None,
    team_file: Path | None,
    token: Path | None,
) -> _Access:
    """From the team file; or from the contest's folder, if its keys are here; or from a token file."""
    from bci_stream.contest.keys import read_key, read_team_file
    from bci_stream.wire.crypto import PublicKey

    if team_file is not None:
        if token or contest_path or team:
            raise click.UsageError(
                "--team-file has it all: leave --team, --token and --contest away"
            )
        file = read_team_file(team_file)
        place = f"{file.contest}.{room}" if room else file.contest
        public_key = PublicKey(bytes.fromhex(file.public_key))
        return _Access(place, file.team, file.token_bytes, public_key, file.results == "sealed")
    has_keys = token is None or contest.keys.exist()
    key = contest.keys.token(name) if token is None else read_key(token)
    if not has_keys:
        logger.warning("without --team-file the replay and the judge are not verified")
    found = contest.keys.public_key() if has_keys else None
    return _Access(contest.name, name, key, found, contest.sealed)


def _make(
    track: str,
    contest: "Contest",
    stop: threading.Event,
    *,
    decoder: str | None,
    model: Path | None,
    seed: int,
    submission: Path | None,
    **how: Any,
) -> "Decoder":
    if submission is not None:
        if decoder is not None:
            raise click.UsageError("give --decoder or --submission, not both")
        how["calibration"] = played_persons(how["calibration"], contest)
        opened = _open_submission(submission, track, granted=contest.limits, stop=stop, **how)
        logger.info("submission %s", opened.title)
        logger.info("its output goes to %s", opened.log)
        return opened
    _refuse_without_submission(how)
    from decoders.registry import load

    return load(decoder, track, model, seed)


def played_persons(uris: tuple[str, ...], contest: "Contest") -> tuple[str, ...]:
    """Synthetic training sets of the persons that a replay of this contest plays.

    In a contest with keys these are made from the contest's key, as far as it is here.
    """
    if not uris or not contest.keys.exist():
        return uris
    from replay.service import secret_seed

    return tuple(secret_seed(uri, contest) for uri in uris)


class _HostFailed(click.ClickException):
    """A failure of this machine, not of the submission: the judge tries it again."""

    exit_code = HOST_FAILED


def _open_submission(submission: Path, track: str, **options: Any) -> "SubmissionDecoder":
    from decoders.host.limits import SubmissionError
    from decoders.host.submission import open_submission

    try:
        return open_submission(submission, track, **options)
    except SubmissionError as error:
        if error.ending == "stopped":
            raise _HostFailed(str(error)) from error
        raise


def _refuse_without_submission(how: dict[str, Any]) -> None:
    if useless := [f"--{name}" for name, value in how.items() if value not in (None, ())]:
        raise click.UsageError(f"{', '.join(useless)} is for a --submission only")


@main.command("list")
@track_option
def list_command(track: str | None) -> None:
    """The decoders, shipped and installed; * marks the default of a track."""
    from decoders.registry import default_of, entries

    for name, entry in entries().items():
        if track in (None, entry.track):
            mark = "*" if default_of(entry.track) == name else " "
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
    """Train a decoder on labelled RECORDINGS, and cross-validate it by the track's score."""
    if track is None:
        raise _missing_track()
    from decoders.train import train_with_progress

    train_with_progress(track, recordings, decoder, out, seed, validate=not no_validation)


@main.command()
@track_option
@decoder_option
@model_option
@submission_options
@click.option(
    "--contest",
    "contest_path",
    type=click.Path(path_type=Path),
    help="Under this contest's limits (contest.toml or its folder).",
)
@seed_option
def check(
    track: str | None,
    decoder: str | None,
    model: Path | None,
    submission: Path | None,
    contest_path: Path | None,
    seed: int,
    **how: Any,
) -> None:
    """Check a decoder against the rules for all decoders, or dry-run a submission."""
    if track is None:
        raise _missing_track()
    if submission is not None:
        from decoders.host.check import check_submission, dry_run_calibration

        granted = open_contest(contest_path, "").limits
        stop = stop_on_signals()
        how["calibration"] = how["calibration"] or dry_run_calibration(track)
        opened = _open_submission(submission, track, granted=granted, stop=stop, **how)
        report = check_submission(opened, track)
        click.echo(report.text)
        if not report.ok:
            raise SystemExit(1)
        return
    _refuse_without_submission(how)
    from decoders.checks import check_decoder

    if not check_decoder(track, decoder, model, seed):
        raise SystemExit(1)


@main.command()
@track_option
@submission_options
def prepare(track: str | None, submission: Path | None, **how: Any) -> None:
    """Read a submission and make its environment, before a run: that may take minutes."""
    if track is None:
        raise _missing_track()
    if submission is None:
        raise click.UsageError("say which submission: --submission PATH")
    opened = _open_submission(submission, track, stop=stop_on_signals(), **how)
    opened.close()
    click.echo(opened.title)


@main.command()
@click.option("--prune", is_flag=True, help="Remove those that were not used for --days.")
@click.option("--days", default=30.0, show_default=True, help="With --prune; 0: all.")
def cache(prune: bool, days: float) -> None:
    """List the environments that were made for submissions, or remove old ones."""
    from decoders.host import venv

    for made in venv.cached_environments():
        old = made.unused_s is None or made.unused_s >= days * 86400
        removed = prune and old and venv.prune(made)
        used = "incomplete" if made.unused_s is None else f"used {made.unused_s / 86400:.0f} d ago"
        shown = f"{made.folder.name:<20} {made.size_bytes >> 20:>6} MiB  {used:<15} {made.title}"
        click.echo(("removed  " if removed else "") + shown)
