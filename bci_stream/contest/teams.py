"""`bci-judge team`: lists the teams of a contest, and writes, replaces and revokes what lets them in."""

from collections.abc import Iterator

from bci_stream.contest.contest import Contest
from bci_stream.errors import ContestError
from bci_stream.wire.names import checked_name


def describe_teams(contest: Contest) -> Iterator[str]:
    """A line on each team of the contest's list."""
    if not contest.teams:
        yield "the contest lists no teams: anyone who has a token may take part"
    for team in contest.teams:
        state = contest.keys.token_state(team)
        replaced = f"token replaced {state.generation} times" if state.generation else "first token"
        yield f"{team}: {'token revoked' if state.revoked else replaced}"


def write_team_file(contest: Contest, team: str) -> str:
    """Write the team's file; returns a line with its place."""
    _check_listed(contest, team)
    if contest.keys.token_state(team).revoked:
        raise ContestError(
            f"the token of team {team!r} is revoked; `bci-judge team rotate {team}` gives it a new one"
        )
    path = contest.keys.team_file(team, contest.name, contest.results)
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
    if contest.teams and team not in contest.teams:
        known = ", ".join(contest.teams)
        raise ContestError(
            f"team {team!r} is not on the list of contest {contest.name!r}; it has {known}. Add the team "
            "to `teams` in contest.toml first"
        )
