"""What an operator may ask of a running judge: typed requests, the same for the console and the commands.

Sessions, blocks and trials are counted from 1 here, as everywhere people read; the run log counts from 0.
"""

from typing import Annotated, Any, TypeAlias

import msgspec

from bci_stream.errors import ContestError

MOST_TEXT = 200
"""Characters of a reason or an announcement."""

MOST_REQUEST = 1 << 15
"""Bytes of a request."""

Text = Annotated[str, msgspec.Meta(max_length=MOST_TEXT)]
Given = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_TEXT)]
Number = Annotated[int, msgspec.Meta(ge=1)]


class OperatorAction(msgspec.Struct, frozen=True, tag_field="action", forbid_unknown_fields=True):
    """Base of all actions. track: empty for every track."""

    def words(self) -> str:
        """The action and its fields in one line, for the journal's reader and the log."""
        fields = msgspec.to_builtins(self)
        action = fields.pop("action")
        given = ", ".join(f"{name} {value}" for name, value in fields.items() if value)
        return f"{action} ({given})" if given else str(action)


class GiveGo(OperatorAction, frozen=True, tag="go"):
    """Begin with the teams that are ready."""

    track: str = ""


class PauseRuns(OperatorAction, frozen=True, tag="pause"):
    """Hold the packets back until `resume`."""

    track: str = ""
    reason: Text = ""


class ResumeRuns(OperatorAction, frozen=True, tag="resume"):
    track: str = ""


class StopRuns(OperatorAction, frozen=True, tag="stop"):
    """End the runs as `stopped`, and the replays with them."""

    reason: Given
    track: str = ""


class ForfeitTeam(OperatorAction, frozen=True, tag="forfeit"):
    """From now on nothing that the team reports counts, and no start waits for it."""

    team: Given
    reason: Given
    track: str = ""


class ReadmitTeam(OperatorAction, frozen=True, tag="readmit"):
    """Let a team that forfeited, or was kept out before its run, back in."""

    team: Given
    track: str = ""


class DisqualifyTeam(OperatorAction, frozen=True, tag="disqualify"):
    """End the team's run as `disqualified`, also one that is over: its score is 0."""

    team: Given
    reason: Given
    track: str = ""


class VoidTrials(OperatorAction, frozen=True, tag="void"):
    """Take a trial, or without `trial` a whole block, out of the score.

    team: empty for every team of the track.
    """

    reason: Given
    block: Number
    trial: Number | None = None
    session: Number = 1
    team: Text = ""
    track: str = ""


class PlayBlockAgain(OperatorAction, frozen=True, tag="replay-block"):
    """Void a block, and play it again at the end of its session.

    team: in lockstep, where each team has a replay of its own; empty for every team of the track.
    """

    reason: Given
    block: Number
    session: Number = 1
    team: Text = ""
    track: str = ""


class Announce(OperatorAction, frozen=True, tag="announce"):
    """Show a line of text on the leaderboard; empty removes it."""

    text: Text = ""


class LogIn(OperatorAction, frozen=True, tag="login"):
    """The console's page: whether this is the organiser's token."""

    token: Text


class ReadState(OperatorAction, frozen=True, tag="state"):
    """Who is here, who is missing and why, and what the runs do. Not written to the journal."""


AnyAction: TypeAlias = (
    GiveGo | PauseRuns | ResumeRuns | StopRuns | ForfeitTeam | ReadmitTeam | DisqualifyTeam
    | VoidTrials | PlayBlockAgain | Announce | LogIn | ReadState
)  # fmt: skip


class OperatorRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An action, and who asks for it: `console 192.0.2.1` or `command by kim`."""

    do: AnyAction
    by: Text = ""


class OperatorAnswer(msgspec.Struct, frozen=True):
    """Whether the action was done; text: what was done, or why not. state: the answer to `ReadState`."""

    done: bool
    text: str = ""
    state: dict[str, Any] = {}


_requests: msgspec.json.Decoder[OperatorRequest] = msgspec.json.Decoder(OperatorRequest)
_actions: msgspec.json.Decoder[AnyAction] = msgspec.json.Decoder(AnyAction)


def read_request(text: bytes) -> OperatorRequest:
    """Raises ContestError for a request that can't be read."""
    request: OperatorRequest = _checked_request(text, _requests)
    return request


def read_action(text: bytes) -> AnyAction:
    """An action of the console's page; raises ContestError for one that can't be read."""
    action: AnyAction = _checked_request(text, _actions)
    if isinstance(action, LogIn | ReadState):
        raise ContestError(f"{action.words()} is not an action of the console")
    return action


def _checked_request(text: bytes, decoder: "msgspec.json.Decoder[Any]") -> Any:
    try:
        request = decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ContestError(f"the request can't be read: {error}") from None
    action = request.do if isinstance(request, OperatorRequest) else request
    for name, value in msgspec.structs.asdict(action).items():
        if isinstance(value, str) and not value.isprintable():
            raise ContestError(f"`{name}` must be one line of printable text; got {value!r:.60}")
    return request
