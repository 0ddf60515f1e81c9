"""`bci-judge team`: lists and adds the teams of a contest, and writes, replaces and revokes their tokens."""

from collections.abc import Iterator, Sequence

from bci_stream.contest.checks import check_title, suggest
from bci_stream.contest.contest import Contest
from bci_stream.errors import ContestError
from bci_stream.wire.names import checked_name


def describe_teams(contest: Contest) -> Iterator[str]:
    """A line on each team of the contest's list."""
    teams = contest.team_list()
    if not teams:
        yield "the contest lists no teams: anyone who has a token may take part"
    for team in teams:
        state = contest.keys.token_state(team)
        replaced = f"token replaced {state.generation} times" if state.generation else "first token"
        tracks = [track for track in contest.tracks if contest.takes(team, track)]
        some = f"; {', '.join(tracks)} only" if len(tracks) < len(contest.tracks) else ""
        shown = f" ({contest.display_name(team)})" if contest.display_name(team) else ""
        yield f"{team}{shown}: {'token revoked' if state.revoked else replaced}{some}"


def add_team(contest: Contest, team: str, title: str = "", tracks: Sequence[str] = ()) -> str:
    """Put a team on the contest's list and write its file; returns a line with its place.

    The list of added teams lies beside the keys: judge and replay read it again when it changes.
    """
    checked_name(team, "team")
    if team in contest.team_list():
        raise ContestError(
            f"team {team!r} is on the list of contest {contest.name!r} already; `bci-judge team file {team}` "
            f"writes its file again, `bci-judge team rotate {team}` replaces its token"
        )
    for track in tracks:
        if contest.tracks and track not in contest.tracks:
            raise ContestError(
                f"contest {contest.name!r} has no track {track!r}; it has {', '.join(contest.tracks)}"
            )
    was_open = not contest.team_list()
    contest.keys.add_team(team, check_title(title, "--name") if title else "", tracks)
    closed = "; the contest has a list now, and only its teams may take part" if was_open else ""
    return write_team_file(contest, team) + closed


def write_team_file(contest: Contest, team: str) -> str:
    """Write the team's file; returns a line with its place."""
    _check_listed(contest, team)
    if contest.keys.token_state(team).revoked:
        raise ContestError(
            f"the token of team {team!r} is revoked; `bci-judge team rotate {team}` gives it a new one"
        )
    path = contest.keys.team_file(team, contest.name, contest.results, contest.peers)
    return f"file of team {team}, for that team alone: {path}"


def rotate_token(contest: Contest, team: str) -> str:
    """Replace the team's token and write its new file; returns a line with its place."""
    _check_listed(contest, team)
    contest.keys.rotate(team)
    return f"the old token is refused from now on; {write_team_file(contest, team)}"


def revoke_token(contest: Contest, team: str) -> str:
    """Revoke the team's token; returns a line that says so."""
    _check_listed(contest, team)
    contest.keys.revoke(team)
    return f"the token of team {team} is refused from now on"


def _check_listed(contest: Contest, team: str) -> None:
    checked_name(team, "team")
    listed = contest.team_list()
    if listed and team not in listed:
        raise ContestError(
            f"team {team!r} is not on the list of contest {contest.name!r}; it has {', '.join(listed)}"
            f"{suggest(team, listed)}; `bci-judge team add {team}` adds it"
        )
