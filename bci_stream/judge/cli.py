"""bci-judge: judges runs, scores logs, and shows leaderboards and reports."""

from pathlib import Path
from typing import Any

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
    version_option,
    wait_option,
    wire_options,
)
from bci_stream.judge.operator.commands import OPERATOR_COMMANDS
from tracks.registry import DEFAULT

contest_option = click.option(
    "--contest",
    "contest_path",
    type=click.Path(path_type=Path),
    required=True,
    help="contest.toml or its folder.",
)


store_option = click.option(
    "--store",
    default="",
    help="postgresql://... or a SQLite file (default: season.sqlite in the contest's folder).",
)


@click.group(cls=Commands)
@version_option
def main() -> None:
    """Judge a BCI contest: live, in lockstep, or again from its run logs."""


@main.command()
@click.argument("log", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def score(log: Path, as_json: bool) -> None:
    """Score a run log: each trial with what was reported, what counted, and why not."""
    from bci_stream.judge.score_command import score_log

    score_log(log, as_json)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), default=".")
@click.option("--name", default=None, help="The contest's name (default: the folder's).")
@click.option(
    "--track",
    "tracks",
    type=TrackName(),
    multiple=True,
    default=(DEFAULT,),
    show_default=True,
    help="A track of the contest; repeatable.",
)
@click.option(
    "--team",
    "teams",
    multiple=True,
    metavar="ID[=NAME]",
    help="A team that may take part, and its display name; repeatable.",
)
@click.option(
    "--pace", default="realtime", show_default=True, help="realtime, lockstep or a factor."
)
def init(folder: Path, name: str | None, **options: Any) -> None:
    """Write contest.toml into FOLDER, and keys beside it."""
    from bci_stream.contest.init import write_contest

    for line in write_contest(folder, name or folder.resolve().name, **options):
        click.echo(line)


@main.command()
@click.option(
    "--teams",
    "team_count",
    default=1,
    show_default=True,
    help="How many teams must be ready before the start (if the contest file lists none).",
)
@wait_option(600.0, "a replay")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8000,
    show_default=True,
    help="Of the web page; 0: any free one.",
)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option(
    "--page-connections",
    type=click.IntRange(min=1),
    default=2000,
    show_default=True,
    help="Connections to the page at a time; more are answered with 503.",
)
@click.option(
    "--page-per-address",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Of these, from one client address (a hall may share one).",
)
@click.option("--no-web", is_flag=True, help="No web page.")
@click.option("--stay", is_flag=True, help="Stay after the last run, for the next one.")
@click.option(
    "--console",
    is_flag=True,
    help="An operator's console on the page, at /console, for whoever has the organiser's token.",
)
@click.option("--metrics", is_flag=True, help="/metrics on the page, for Prometheus.")
@wire_options
def live(**options: Any) -> None:
    """Judge what is on the wire, with a live leaderboard here and on a web page."""
    if not options["no_web"]:
        require_posix("bci-judge live with its page", "give --no-web")
    stop = stop_on_signals()
    from bci_stream.judge.live_command import PageOptions, judge_live

    contest = open_contest(options.pop("contest_path"), options.pop("room"))
    page = PageOptions(
        options.pop("host"),
        options.pop("port"),
        options.pop("page_connections"),
        options.pop("page_per_address"),
        options.pop("scope"),
        options.pop("lsl_session"),
        options.pop("console"),
        options.pop("metrics"),
    )
    transport = open_wire(page.scope, page.lsl_session)
    no_web = options.pop("no_web")
    judge_live(transport, contest, page=None if no_web else page, stop=stop, **options)


@main.command()
@click.option("--track", type=TrackName(), required=True)
@click.option(
    "--decoder", "decoders", multiple=True, help="NAME, module:Class or NAME=MODEL; repeatable."
)
@click.option(
    "--submission",
    "submissions",
    multiple=True,
    metavar="PATH[?interface=...&python=...&positions=...]",
    help="A contestant's folder, .zip or .tar.gz; repeatable.",
)
@click.option(
    "--recording",
    "recordings",
    multiple=True,
    help="What is played (default: the contest file's, else synthetic ones); repeatable.",
)
@click.option(
    "--calibration",
    multiple=True,
    metavar="RECORDING",
    help="Labelled recordings of the same subjects, for submissions of 2026; repeatable.",
)
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Runs at the same time.",
)
@click.option("--json", "as_json", is_flag=True, help="The outcome as JSON.")
@click.option("--resume", is_flag=True, help="Go on after an interruption: what has run is kept.")
@click.option(
    "--engine",
    default="",
    metavar="local:N|tcp://HOST:PORT",
    help="Run in units, as a season does: N at a time here, or on a Dask cluster.",
)
@wire_options
def run(**options: Any) -> None:
    """Run a whole contest in lockstep, as fast as the machine goes."""
    require_posix(
        "bci-judge run", "start bci-replay, bci-decode and bci-judge live --no-web yourself"
    )
    stop = stop_on_signals()
    from bci_stream.judge.run_command import run_contest

    path = options.pop("contest_path")
    contest = open_contest(path, options.pop("room"))
    engine = options.pop("engine")
    if not engine:
        run_contest(contest, path, stop=stop, **options)
        return
    if options["jobs"] != 1:
        raise click.UsageError("--jobs and --engine: give one; local:N runs N at a time")
    from bci_stream.season.organiser import running_on

    with running_on(engine, contest, stop) as runner:
        run_contest(contest, path, stop=stop, runner=runner, **options)


@main.command()
@stay_option
@click.option("--json", "as_json", is_flag=True, help="One JSON list.")
@wire_options
def doctor(**options: Any) -> None:
    """Check whether a contest can be held here, and what to do where it can't."""
    from bci_stream.judge.run_command import submission_findings

    run_doctor(**options, more=(submission_findings,))


@main.command()
@click.argument("store", default="", required=False)
@click.option(
    "--logs",
    type=click.Path(path_type=Path, file_okay=False),
    help="Rebuild the store from the run logs of this folder first.",
)
@click.option("--track", type=TrackName())
@click.option(
    "--form", type=click.Choice(["table", "json", "csv"]), default="table", show_default=True
)
@wire_options
def leaderboard(
    store: str, logs: Path | None, track: str | None, form: str, contest_path: Path | None, **_: Any
) -> None:
    """Print the leaderboard of a contest's runs (STORE: a file, or postgresql://...)."""
    from bci_stream.judge.results_commands import print_leaderboard
    from bci_stream.leaderboard.ranking import Qualifying

    contest = open_contest(contest_path, "")
    print_leaderboard(
        store or str(contest.folder / "contest.sqlite"),
        logs=logs or (None if store else contest.runs),
        contest=contest.name
        if contest_path or not store
        else None,  # a store has its contest's name
        track=track,
        form=form,
        qualifying=Qualifying(contest.qualify.top, contest.qualify.least_score),
        expected={name: contest.teams_of(name) for name in contest.tracks},
        awards=contest.awards,
        display_name=contest.display_name,
    )


@main.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default="report.html",
    show_default=True,
)
@click.option(
    "--recording",
    "recordings",
    multiple=True,
    help="A labelled recording, anything that bci-replay plays, for signal quality and topographies; "
    "repeatable.",
)
@click.option("--title", default="Contest report", show_default=True)
def report(runs: tuple[Path, ...], out: Path, recordings: tuple[str, ...], title: str) -> None:
    """One self-contained HTML page on RUNS: run logs, or folders of them."""
    from bci_stream.judge.results_commands import write_report

    write_report(runs, out, recordings, title)
    click.echo(f"report: {out}")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@contest_option
@click.option("--no-logs", is_flag=True, help="Without the run logs, which hold the labels.")
@click.option("--force", is_flag=True, help="Also while a judge of the contest is at work.")
def publish(folder: Path, contest_path: Path, no_logs: bool, force: bool) -> None:
    """Write the results of a contest that is over into FOLDER, for any web server.

    The page, the report, results as JSON and CSV, awards, the public key and the run logs; `bci-judge verify
    FOLDER/logs --public-key FOLDER/public-key.txt` checks them without any secret.
    """
    from bci_stream.judge.results_commands import publish_results

    for line in publish_results(contest_path, folder, with_logs=not no_logs, force=force):
        click.echo(line)


@main.command()
@click.argument("logs", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option(
    "--receipt",
    "receipts",
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="A receipt that bci-decode saved at the end of a run; repeatable.",
)
@click.option(
    "--public-key",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The contest's public key (64 hexadecimal digits), or a team file (.bci).",
)
@click.option(
    "--contest",
    type=click.Path(path_type=Path),
    help="contest.toml or its folder, with the contest's key (organisers).",
)
@click.option(
    "--reveal",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file that `bci-judge reveal` wrote after the contest.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def verify(logs: tuple[Path, ...], **options: Any) -> None:
    """Check that LOGS (run logs, or folders of them) are as the judge wrote them.

    Finds lines that were changed, removed, added or moved; checks the signed seal at the end, the team's
    receipt, and that each report is what the team sent. Exit status 0 only if all that could be checked
    holds; what could not be checked for lack of a key is listed.
    """
    from bci_stream.judge.verify_command import verify_logs

    if not verify_logs(logs, **options):
        click.get_current_context().exit(1)


@main.command()
@click.option(
    "--contest",
    "contest_path",
    required=True,
    type=click.Path(path_type=Path),
    help="contest.toml or its folder.",
)
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Also while a judge of the contest is at work.")
def reveal(contest_path: Path, out: Path, force: bool) -> None:
    """Publish the keys of a contest that is over, so that anybody can check its run logs.

    The file holds the contest's public key, the key that sealed the truth, and every team's token. With
    these anybody could take part as any team: replace the contest's key before another contest.
    """
    from bci_stream.judge.verify_command import reveal_keys

    teams = reveal_keys(contest_path, out, force=force)
    click.echo(f"reveal file: {out} (public key, truth key, tokens of {len(teams)} teams)")
    click.echo(
        "the tokens are public once you publish it: delete the contest's keys folder before another contest"
    )


@main.command()
@contest_option
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="Of page and API; 0: any free one.",
)
@click.option(
    "--engine",
    default="local:1",
    show_default=True,
    help="Where submissions run: local:N, N at a time on this machine, or a Dask scheduler (tcp://...).",
)
@store_option
@click.option("--upload-mb", type=click.IntRange(min=1), default=256, show_default=True)
@click.option(
    "--units-a-team",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many submissions of one team run at the same time.",
)
@click.option("--tls-cert", type=click.Path(path_type=Path), help="A certificate (PEM), for HTTPS.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its key, unless it holds it.")
def serve(contest_path: Path, **options: Any) -> None:
    """Run a season: teams upload submissions, which are checked, run and ranked in phases."""
    from bci_stream.season.serve_command import serve_season

    stop = stop_on_signals()
    serve_season(open_contest(contest_path, ""), stop=stop, **options)


@main.command()
@contest_option
@store_option
@click.option("--track", type=TrackName(), required=True)
@click.option("--phase", default="", help="Which phase (default: the first).")
@click.option("--top", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--engine", default="local:1", show_default=True, help="As of `serve`.")
def rerun(contest_path: Path, **options: Any) -> None:
    """Run the best submissions of a season again, and compare their logs line by line."""
    from bci_stream.season.organiser import print_rerun

    stop = stop_on_signals()
    if not print_rerun(open_contest(contest_path, ""), stop=stop, **options):
        click.get_current_context().exit(1)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@contest_option
@click.option("--track", type=TrackName(), help="Needed if the contest has several.")
@click.option(
    "--image",
    default="bci-stream:latest",
    show_default=True,
    help="The container image that Codabench runs; FOLDER/Dockerfile makes it.",
)
def bundle(folder: Path, contest_path: Path, track: str | None, image: str) -> None:
    """Write a track of a contest into FOLDER as a Codabench competition bundle (version 2)."""
    from bci_stream.season.bundle import write_bundle

    for line in write_bundle(open_contest(contest_path, ""), folder, track or "", image):
        click.echo(line)


@main.group()
def season() -> None:
    """The organiser's view of a season; works beside a running server."""


@season.command("status")
@contest_option
@store_option
def season_status(contest_path: Path, store: str) -> None:
    """What waits, what runs, what failed, and what the organiser did."""
    import time
    from contextlib import closing

    from bci_stream.season.organiser import open_organiser_store, status_lines

    with closing(open_organiser_store(open_contest(contest_path, ""), store)) as opened:
        for line in status_lines(opened, time.time()):
            click.echo(line)


def _season_change(contest_path: Path, store: str, action: str, **fields: str) -> None:
    """Do an action of the organiser and print what was done."""
    from contextlib import closing

    from bci_stream.season.organiser import change, open_organiser_store

    contest = open_contest(contest_path, "")
    with closing(open_organiser_store(contest, store)) as opened:
        click.echo(change(contest, opened, action, **fields))


@season.command("retry")
@click.argument("number")
@contest_option
@store_option
def season_retry(number: str, contest_path: Path, store: str) -> None:
    """Do submission NUMBER again now, which failed through the organiser's side."""
    _season_change(contest_path, store, "retry", number=number)


@season.command("disqualify")
@click.argument("number")
@click.option("--reason", required=True, help="Shown to the team.")
@contest_option
@store_option
def season_disqualify(number: str, reason: str, contest_path: Path, store: str) -> None:
    """Let submission NUMBER count for nothing."""
    _season_change(contest_path, store, "disqualify", number=number, reason=reason)


@season.command("announce")
@click.argument("text")
@contest_option
@store_option
def season_announce(text: str, contest_path: Path, store: str) -> None:
    """Show TEXT on all pages; the console removes it."""
    _season_change(contest_path, store, "announce", text=text)


@season.command("dates")
@click.argument("phase")
@click.option(
    "--opens", default="", help="Such as 2026-03-01T18:00, in the phase's zone; none: no start."
)
@click.option("--closes", default="", help="None: no end.")
@contest_option
@store_option
def season_dates(phase: str, opens: str, closes: str, contest_path: Path, store: str) -> None:
    """Change when PHASE opens and closes."""
    _season_change(contest_path, store, "dates", phase=phase, opens=opens, closes=closes)


@season.command("approve")
@click.argument("number")
@click.option("--refuse", is_flag=True, help="Refuse it instead.")
@contest_option
@store_option
def season_approve(number: str, refuse: bool, contest_path: Path, store: str) -> None:
    """Approve application NUMBER of a team; `bci-judge season status` lists those that wait."""
    _season_change(contest_path, store, "refuse" if refuse else "approve", number=number)


@season.command("export")
@click.option("--form", type=click.Choice(["json", "csv"]), default="json", show_default=True)
@contest_option
@store_option
def season_export(form: str, contest_path: Path, store: str) -> None:
    """Print all submissions and leaderboards, whatever the phases show."""
    from contextlib import closing

    from bci_stream.season.organiser import export_text, open_organiser_store

    contest = open_contest(contest_path, "")
    with closing(open_organiser_store(contest, store)) as opened:
        click.echo(export_text(contest, opened, form), nl=False)


@main.group()
def team() -> None:
    """Teams' files and tokens; the judge and the replay take changes while they run."""


@team.command("list")
@contest_option
def list_teams(contest_path: Path) -> None:
    """The teams of the contest, and the state of their tokens."""
    from bci_stream.contest.teams import describe_teams

    for line in describe_teams(open_contest(contest_path, "")):
        click.echo(line)


@team.command("add")
@click.argument("team_id", metavar="ID")
@click.option("--name", "title", default="", help="Its display name: any script, with blanks.")
@click.option(
    "--track", "tracks", type=TrackName(), multiple=True, help="Only on this track; repeatable."
)
@contest_option
def add(team_id: str, title: str, tracks: tuple[str, ...], contest_path: Path) -> None:
    """Put a team on the contest's list and write its file; a judge that runs takes it at once."""
    from bci_stream.contest.teams import add_team

    click.echo(add_team(open_contest(contest_path, ""), team_id, title, tracks))


@team.command("file")
@click.argument("name")
@contest_option
def team_file(name: str, contest_path: Path) -> None:
    """Write the file of team NAME, for that team alone."""
    from bci_stream.contest.teams import write_team_file

    click.echo(write_team_file(open_contest(contest_path, ""), name))


@team.command()
@click.argument("name")
@contest_option
def rotate(name: str, contest_path: Path) -> None:
    """Replace the token of team NAME; the old one is refused from now on."""
    from bci_stream.contest.teams import rotate_token

    click.echo(rotate_token(open_contest(contest_path, ""), name))


@team.command()
@click.argument("name")
@contest_option
def revoke(name: str, contest_path: Path) -> None:
    """Refuse the token of team NAME from now on; `rotate` lets the team in again."""
    from bci_stream.contest.teams import revoke_token

    click.echo(revoke_token(open_contest(contest_path, ""), name))


for operator_command in OPERATOR_COMMANDS:
    main.add_command(operator_command)
