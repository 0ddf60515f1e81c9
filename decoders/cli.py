"""bci-decode: runs one team's decoder, trains and checks decoders."""

import json
import logging
import os
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
    require_posix,
    run_doctor,
    stay_option,
    stop_on_signals,
    team_wire_options,
    version_option,
    wait_option,
)
from decoders.decoder_options import (
    decoder_option,
    host_failures,
    make_decoder,
    model_option,
    opened_submission,
    pipeline_factory,
    pipeline_options,
    refuse_without_submission,
    seed_option,
    submission_options,
)
from tracks.registry import TRACKS

if TYPE_CHECKING:
    from bci_stream.contest.contest import Contest
    from bci_stream.wire.crypto import PublicKey

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""A worker's matrices are small: with two BLAS threads a covariance takes 7 times longer (measured)."""

track_option = click.option("--track", type=TrackName(), help="Which track.")


@click.group(cls=Commands, invoke_without_command=True)
@track_option
@decoder_option
@model_option
@pipeline_options
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
@team_wire_options
@version_option
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
    stop = stop_on_signals()
    from bci_stream.wire.client import TeamClient
    from decoders.decoder import Closeable, HasNotice
    from decoders.progress import WorkerProgress, describe_closed, shown
    from decoders.registry import default_of
    from decoders.worker import Worker

    contest = open_contest(contest_path, room)
    made = make_decoder(track, contest, stop, **chosen)
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
    progress = WorkerProgress(name)
    worker = Worker(client, made, track=track, join_s=wait_s, stop=stop, progress=progress)
    logger.info("team %s: waiting for a replay of track %s", name, track)
    if isinstance(made, HasNotice) and made.notice:
        logger.warning("team %s: %s", name, made.notice)
    try:
        with shown(progress), host_failures():
            worker.run()
    finally:
        if isinstance(made, Closeable):
            made.close()
        if measured is not None and submission is not None:
            _write_measured(made, measured)
        if receipt is not None and client.receipt:
            receipt.write_text(client.receipt + "\n")
            logger.info("team %s: receipt %s", name, receipt)
    logger.info(
        "team %s: the run is over, %s reports sent; %s",
        name,
        progress.reports,
        describe_closed(client.receipt),
    )


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
    from bci_stream.wire.network import add_peers

    if team_file is not None:
        if token or contest_path or team:
            raise click.UsageError(
                "--team-file has it all: leave --team, --token and --contest away"
            )
        file = read_team_file(team_file)
        add_peers(file.peers)
        place = f"{file.contest}.{room}" if room else file.contest
        public_key = PublicKey(bytes.fromhex(file.public_key))
        return _Access(place, file.team, file.token_bytes, public_key, file.results == "sealed")
    has_keys = token is None or contest.keys.exist()
    key = contest.keys.token(name) if token is None else read_key(token)
    if not has_keys:
        logger.warning("without --team-file the replay and the judge are not verified")
    found = contest.keys.public_key() if has_keys else None
    return _Access(contest.name, name, key, found, contest.sealed)


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
@pipeline_options
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, help="The model file to write."
)
@seed_option
@click.option("--no-validation", is_flag=True, help="Skip the cross-validated figure.")
def train(
    recordings: tuple[str, ...],
    track: str | None,
    decoder: str | None,
    pipeline: str | None,
    online: tuple[str, ...],
    trust: bool,
    out: Path,
    seed: int,
    no_validation: bool,
) -> None:
    """Train a decoder, or your own estimator, on RECORDINGS; cross-validate it by the track's score."""
    if track is None:
        raise _missing_track()
    from decoders.train import pipeline_recipe, train_with_progress

    if pipeline is None and (online or trust):
        raise click.UsageError("--online and --trust are for a --pipeline only")
    if pipeline is not None and decoder is not None:
        raise click.UsageError("give --pipeline or --decoder, not both")
    recipe = None
    if pipeline is not None:
        from decoders.adapters.estimators import load_pipeline
        from decoders.adapters.online import parse_options

        made = load_pipeline(pipeline, trust=trust).with_options(parse_options(online))
        recipe = pipeline_recipe(made, track, trust=trust)
    train_with_progress(
        track, recordings, decoder, out, seed, validate=not no_validation, recipe=recipe
    )


@main.command()
@track_option
@decoder_option
@model_option
@pipeline_options
@submission_options
@click.option(
    "--contest",
    "contest_path",
    type=click.Path(path_type=Path),
    help="Under this contest's limits and rules (contest.toml or its folder).",
)
@seed_option
def check(
    track: str | None,
    decoder: str | None,
    model: Path | None,
    submission: Path | None,
    contest_path: Path | None,
    seed: int,
    pipeline: str | None,
    online: tuple[str, ...],
    trust: bool,
    **how: Any,
) -> None:
    """Check a decoder against the rules for all decoders, or dry-run a submission."""
    if track is None:
        raise _missing_track()
    factory = pipeline_factory(track, decoder, submission, model, pipeline, online, trust)
    contest = open_contest(contest_path, "")
    if submission is not None:
        require_posix("bci-decode check --submission")
        from decoders.host.check import check_submission, dry_run_calibration

        stop = stop_on_signals()
        how["calibration"] = how["calibration"] or dry_run_calibration(track)
        opened = opened_submission(submission, track, granted=contest.limits, stop=stop, **how)
        with host_failures():
            report = check_submission(opened, track, contest.rules(track))
        click.echo(report.text)
        if not report.ok:
            raise SystemExit(1)
        return
    refuse_without_submission(how)
    from decoders.checks import check_decoder

    if not check_decoder(track, pipeline or decoder, model, seed, factory, contest.rules(track)):
        raise SystemExit(1)


@main.command()
@track_option
@click.option("--decoder", "names", multiple=True, help="Check only that it is known; repeatable.")
@submission_options
def prepare(track: str | None, names: tuple[str, ...], submission: Path | None, **how: Any) -> None:
    """Read a submission and make its environment, before a run: that may take minutes."""
    if track is None:
        raise _missing_track()
    if names:
        from decoders.registry import find_class

        for name in names:
            find_class(name, track)
        if submission is None:
            return
    if submission is None:
        raise click.UsageError("say which submission: --submission PATH")
    require_posix("bci-decode prepare --submission")
    opened = opened_submission(submission, track, stop=stop_on_signals(), **how)
    opened.close()
    click.echo(opened.title)


@main.command()
@stay_option
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
@click.option("--submissions-only", is_flag=True, help="Only what concerns submissions.")
@team_wire_options
def doctor(submissions_only: bool, **options: Any) -> None:
    """Check whether a team can take part from here, and what to do where it can't."""
    from decoders.doctor import CHECKS

    if submissions_only:
        from bci_stream.doctor import print_findings

        print_findings((finding for check in CHECKS for finding in check()), options["as_json"])
        return
    run_doctor(**options, more=CHECKS)


@main.command()
@click.option("--prune", is_flag=True, help="Remove those that were not used for --days.")
@click.option("--days", default=30.0, show_default=True, help="With --prune; 0: all.")
@click.option(
    "--max-gb",
    type=click.FloatRange(min=0),
    default=None,
    help="Remove those used longest ago until the rest has at most so many gigabytes.",
)
def cache(prune: bool, days: float, max_gb: float | None) -> None:
    """List the environments that were made for submissions, or remove old ones."""
    require_posix("bci-decode cache")
    from decoders.host import venv

    if max_gb is not None:
        if prune:
            raise click.UsageError("--prune and --max-gb: give one")
        for made in venv.prune_to_size(int(max_gb * 1e9)):
            click.echo(
                f"removed  {made.folder.name:<20} {made.size_bytes >> 20:>6} MiB  {made.title}"
            )
        return
    for made in venv.cached_environments():
        old = made.unused_s is None or made.unused_s >= days * 86400
        removed = prune and old and venv.prune(made)
        used = "incomplete" if made.unused_s is None else f"used {made.unused_s / 86400:.0f} d ago"
        shown = f"{made.folder.name:<20} {made.size_bytes >> 20:>6} MiB  {used:<15} {made.title}"
        click.echo(("removed  " if removed else "") + shown)


def _season_options(command: F) -> F:
    """--server and --team-file of the commands that talk to a season's server."""
    options = [
        click.option("--server", required=True, envvar="BCI_SERVER", metavar="URL",
                     help="The season's address, such as https://cup.example.org."),
        click.option("--team-file", required=True, type=click.Path(path_type=Path),
                     help="Your team's file, from the organiser."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@main.command()
@click.argument("package", type=click.Path(path_type=Path))
@track_option
@_season_options
@click.option("--phase", default="", help="Which phase, where several are open.")
@click.option("--no-wait", is_flag=True, help="Do not wait for the score.")
def submit(
    package: Path, track: str | None, server: str, team_file: Path, phase: str, no_wait: bool
) -> None:
    """Upload PACKAGE (.zip or .tar.gz) to a season's server, and wait for its score."""
    from bci_stream.contest.keys import read_team_file
    from bci_stream.season.client import SeasonClient, submit_and_follow

    if track is None:
        raise _missing_track()
    client = SeasonClient(server, read_team_file(team_file))
    stop = stop_on_signals()
    wait, echo = not no_wait, click.echo
    if not submit_and_follow(client, package, track, phase, wait=wait, echo=echo, stop=stop):
        raise SystemExit(1)


@main.command()
@track_option
@_season_options
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default="data", show_default=True
)
@click.option("--list", "list_only", is_flag=True, help="List the files with their SHA-256 only.")
def download(track: str | None, server: str, team_file: Path, out: Path, list_only: bool) -> None:
    """Download the training and calibration sets that a season offers; goes on where it was interrupted."""
    from bci_stream.contest.keys import read_team_file
    from bci_stream.season.client import SeasonClient, download_all

    client = SeasonClient(server, read_team_file(team_file))
    download_all(client, track, out, list_only=list_only, echo=click.echo)


@main.command()
@click.argument("number", type=int, required=False)
@_season_options
@click.option("--choose", is_flag=True, help="Let submission NUMBER count, where teams choose.")
def submissions(number: int | None, server: str, team_file: Path, choose: bool) -> None:
    """List your team's submissions, or show submission NUMBER."""
    from bci_stream.contest.keys import read_team_file
    from bci_stream.season.client import SeasonClient, describe_submission, list_lines

    client = SeasonClient(server, read_team_file(team_file))
    if number is None:
        if choose:
            raise click.UsageError("--choose needs the number of a submission")
        lines = list_lines(client.submissions())
    else:
        shown = client.choose(number) if choose else client.submission(number)
        lines = describe_submission(shown)
    for line in lines:
        click.echo(line)
