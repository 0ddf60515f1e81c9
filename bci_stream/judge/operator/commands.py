"""The operator's commands: `bci-judge go`, `pause`, `void` and the others, for a judge that runs here."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bci_stream.cli import TrackName, open_contest

if TYPE_CHECKING:
    from bci_stream.contest.actions import OperatorAction, OperatorAnswer

track_option = click.option("--track", type=TrackName(), default=None, help="Only this track.")
reason_option = click.option("--reason", required=True, help="Shown to everyone, and logged.")
block_option = click.option(
    "--block", type=click.IntRange(min=1), required=True, help="Counted from 1."
)
session_option = click.option(
    "--session",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="The subject's place.",
)


def contest_options(command: Callable[..., None]) -> Callable[..., None]:
    """--contest and --room, as `bci-judge live` has them."""
    command = click.option("--room", default="", help="As that of the judge.")(command)
    return click.option(
        "--contest",
        "contest_path",
        type=click.Path(path_type=Path),
        default=None,
        help="contest.toml or its folder, as that of the judge.",
    )(command)


def _ask(contest_path: Path | None, room: str, action: "OperatorAction") -> "OperatorAnswer":
    """The judge's answer; raises ClickException if the action was not done."""
    import msgspec

    from bci_stream.contest.actions import read_request
    from bci_stream.contest.control_socket import ask_judge, socket_path

    read_request(msgspec.json.encode({"do": action}))  # the same checks as at the judge
    contest = open_contest(contest_path, room)
    answer = ask_judge(socket_path(contest.folder, contest.name), action)
    if not answer.done:
        raise click.ClickException(answer.text)
    return answer


def _do(contest_path: Path | None, room: str, action: "OperatorAction") -> None:
    click.echo(_ask(contest_path, room, action).text)


@click.command()
@track_option
@contest_options
def go(contest_path: Path | None, room: str, track: str | None) -> None:
    """Begin now, with the teams that are ready."""
    from bci_stream.contest.actions import GiveGo

    _do(contest_path, room, GiveGo(track or ""))


@click.command()
@track_option
@click.option("--reason", default="", help="Logged.")
@contest_options
def pause(contest_path: Path | None, room: str, track: str | None, reason: str) -> None:
    """Hold all packets back until `resume`; it costs no team anything."""
    from bci_stream.contest.actions import PauseRuns

    _do(contest_path, room, PauseRuns(track or "", reason))


@click.command()
@track_option
@contest_options
def resume(contest_path: Path | None, room: str, track: str | None) -> None:
    """Go on after `pause`, with the next packet."""
    from bci_stream.contest.actions import ResumeRuns

    _do(contest_path, room, ResumeRuns(track or ""))


@click.command()
@track_option
@reason_option
@contest_options
def stop(contest_path: Path | None, room: str, track: str | None, reason: str) -> None:
    """End the runs, and the replays with them; what was judged so far is scored."""
    from bci_stream.contest.actions import StopRuns

    _do(contest_path, room, StopRuns(reason, track or ""))


@click.command()
@click.argument("team")
@track_option
@reason_option
@contest_options
def forfeit(
    contest_path: Path | None, room: str, team: str, track: str | None, reason: str
) -> None:
    """TEAM gives up: its reports do not count from now on, and no start waits for it."""
    from bci_stream.contest.actions import ForfeitTeam

    _do(contest_path, room, ForfeitTeam(team, reason, track or ""))


@click.command()
@click.argument("team")
@track_option
@contest_options
def readmit(contest_path: Path | None, room: str, team: str, track: str | None) -> None:
    """Let TEAM back in after `forfeit`: its reports count again from now on."""
    from bci_stream.contest.actions import ReadmitTeam

    _do(contest_path, room, ReadmitTeam(team, track or ""))


@click.command()
@click.argument("team")
@click.argument("logs", nargs=-1, type=click.Path(path_type=Path, dir_okay=False, exists=True))
@track_option
@reason_option
@contest_options
def disqualify(
    contest_path: Path | None,
    room: str,
    team: str,
    logs: tuple[Path, ...],
    track: str | None,
    reason: str,
) -> None:
    """Disqualify TEAM: its run scores 0, also one that is over.

    With LOGS, run logs of an earlier contest, no judge is needed.
    """
    from bci_stream.contest.actions import DisqualifyTeam

    action = DisqualifyTeam(team, reason, track or "")
    if not logs:
        _do(contest_path, room, action)
        return
    from bci_stream.contest.control_socket import this_user
    from bci_stream.judge.operator.appeals import disqualify_in_logs

    contest = open_contest(contest_path, room)
    for line in disqualify_in_logs(contest, logs, action, f"command by {this_user()}"):
        click.echo(line)


@click.command()
@click.argument("logs", nargs=-1, type=click.Path(path_type=Path, dir_okay=False, exists=True))
@block_option
@click.option(
    "--trial", type=click.IntRange(min=1), help="Counted from 1; without it the whole block."
)
@session_option
@click.option("--team", default="", help="Only of this team (default: of all teams).")
@track_option
@reason_option
@contest_options
def void(
    contest_path: Path | None, room: str, logs: tuple[Path, ...], track: str | None, **what: Any
) -> None:
    """Take a trial or a block out of the score, after an appeal.

    In the runs of the judge that is at work; with LOGS, in the run logs of runs that are over. The line is
    added to the log, with a new seal; the team's receipt stays valid.
    """
    from bci_stream.contest.actions import VoidTrials

    action = VoidTrials(track=track or "", **what)
    if not logs:
        _do(contest_path, room, action)
        return
    from bci_stream.contest.control_socket import this_user
    from bci_stream.judge.operator.appeals import void_in_logs

    contest = open_contest(contest_path, room)
    for line in void_in_logs(contest, logs, action, f"command by {this_user()}"):
        click.echo(line)


@click.command("replay-block")
@block_option
@session_option
@click.option("--team", default="", help="In lockstep: only for this team (default: for all).")
@track_option
@reason_option
@contest_options
def replay_block(contest_path: Path | None, room: str, track: str | None, **what: Any) -> None:
    """Void a block, and play it again at the end of its session.

    It counts then as a block of its own, with the next number. A block can be played again until the last
    packet of its session has left.
    """
    from bci_stream.contest.actions import PlayBlockAgain

    _do(contest_path, room, PlayBlockAgain(track=track or "", **what))


@click.command()
@click.argument("text", default="")
@contest_options
def announce(contest_path: Path | None, room: str, text: str) -> None:
    """Show TEXT on the leaderboard; without TEXT, remove it."""
    from bci_stream.contest.actions import Announce

    _do(contest_path, room, Announce(text))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@contest_options
def status(contest_path: Path | None, room: str, as_json: bool) -> None:
    """Who is here, who is missing and why, and how well the streams arrive."""
    import json

    from bci_stream.contest.actions import ReadState

    state = _ask(contest_path, room, ReadState()).state
    if as_json:
        click.echo(json.dumps(state))
        return
    from rich.console import Console

    from bci_stream.judge.operator.overview import render_overview

    Console().print(render_overview(state))


OPERATOR_COMMANDS: tuple[click.Command, ...] = (
    go, pause, resume, stop, forfeit, readmit, disqualify, void, replay_block, announce,
    status,
)  # fmt: skip
