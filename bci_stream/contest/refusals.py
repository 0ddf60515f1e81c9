"""Why a team's message was not accepted: its token is revoked, was replaced, or is not of this contest."""

from dataclasses import dataclass, field

from bci_stream.contest.contest import Contest
from bci_stream.wire.names import is_name
from bci_stream.wire.verify import TeamText, made_with
from tracks.common.reasons import Reason

CHECK_EVERY_S = 1.0
"""How often the messages of one stream are looked at: a flood of them must cost little."""

MOST_STREAMS = 1000


def token_problem(contest: Contest, claimed: TeamText) -> Reason | None:
    """Why the message of this team is refused; None if its token is valid, or if it names no team.

    A message that was made with a present or an earlier token of the team is of this contest; any other token
    is of another contest, or made up.
    """
    team = claimed.team
    if not is_name(team):
        return None
    listed = contest.team_list()
    if listed and team not in listed:
        return Reason("team_unlisted", team=team)
    state = contest.keys.token_state(team)
    for number, token in enumerate(contest.keys.issued_tokens(team)):
        if made_with(claimed, token, contest.name):
            if state.revoked:
                return Reason("token_revoked", team=team)
            return Reason("token_replaced", team=team) if number else None
    return Reason("token_wrong", team=team)


def refusal(code: str, team: str) -> Reason | None:
    """The reason that another process of the organiser's has named by its code; None for any other code."""
    reasons = (
        Reason("team_unlisted", team=team),
        Reason("token_revoked", team=team),
        Reason("token_replaced", team=team),
        Reason("token_wrong", team=team),
    )
    return next((why for why in reasons if why.code == code), None)


@dataclass
class TokenRefusals:
    """The last refusal of each team, until a message of it is accepted."""

    contest: Contest
    _by_team: dict[str, Reason] = field(default_factory=dict)
    _checked_at: dict[str, float] = field(default_factory=dict)

    def refuse(self, claimed: TeamText, uid: str, at: float) -> Reason | None:
        """Why a message that could not be verified is refused; None if it is a copy, or was looked at.

        uid: of its stream. at: time in seconds.
        """
        if at - self._checked_at.get(uid, -CHECK_EVERY_S) < CHECK_EVERY_S:
            return None
        if len(self._checked_at) >= MOST_STREAMS:
            self._checked_at.clear()
        self._checked_at[uid] = at
        why = token_problem(self.contest, claimed)
        if why is not None:
            self.add(claimed.team, why)
        return why

    def add(self, team: str, why: Reason) -> None:
        """A team was refused, here or by a replay."""
        if len(self._by_team) < MOST_STREAMS:
            self._by_team[team] = why

    def accept(self, team: str) -> None:
        """A message of this team was verified."""
        self._by_team.pop(team, None)

    def of_team(self, team: str) -> Reason | None:
        if self.contest.keys.token_state(team).revoked:
            return Reason("token_revoked", team=team)
        return self._by_team.get(team)
