"""bci-judge: judges runs, scores logs, and shows leaderboards and reports."""

from pathlib import Path
from typing import Any

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
from tracks.registry import DEFAULT


@click.group(cls=Commands)
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
@click.option("--track", type=TrackName(), default=DEFAULT, show_default=True)
@click.option("--team", "teams", multiple=True, help="A team that may take part; repeatable.")
def init(folder: Path, name: str | None, track: str, teams: tuple[str, ...]) -> None:
    """Write contest.toml into FOLDER, and keys beside it."""
    from bci_stream.contest.init import write_contest

    for line in write_contest(folder, name or folder.resolve().name, track, teams):
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
@click.option("--port", default=8000, show_default=True, help="Of the web page; 0: any free one.")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--no-web", is_flag=True, help="No web page.")
@click.option("--stay", is_flag=True, help="Stay after the last run, for the next one.")
@wire_options
def live(**options: Any) -> None:
    """Judge what is on the wire, with a live leaderboard here and on a web page."""
    from bci_stream.judge.live_command import judge_live

    stop = stop_on_signals()
    contest = open_contest(options.pop("contest_path"), options.pop("room"))
    transport = open_wire(options.pop("scope"), options.pop("lsl_session"))
    judge_live(transport, contest, stop=stop, **options)


@main.command()
@click.option("--track", type=TrackName(), required=True)
@click.option(
    "--decoder", "decoders", multiple=True, help="NAME, module:Class or NAME=MODEL; repeatable."
)
@click.option(
    "--submission",
    "submissions",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A contestant's folder, .zip or .tar.gz; repeatable.",
)
@click.option(
    "--recording",
    "recordings",
    multiple=True,
    help="What is played (default: the contest file's, else synthetic ones); repeatable.",
)
@click.option("--jobs", "-j", default=1, show_default=True, help="Runs at the same time.")
@click.option("--json", "as_json", is_flag=True, help="The outcome as JSON.")
@click.option("--resume", is_flag=True, help="Go on after an interruption: what has run is kept.")
@wire_options
def run(**options: Any) -> None:
    """Run a whole contest in lockstep, as fast as the machine goes."""
    from bci_stream.judge.run_command import run_contest

    stop = stop_on_signals()
    path = options.pop("contest_path")
    contest = open_contest(path, options.pop("room"))
    run_contest(contest, path, stop=stop, **options)


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
