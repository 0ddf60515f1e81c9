"""Names of the streams of a contest.

source_id = bci/CONTEST/ROLE/OWNER, where ROLE is one of those below and OWNER the replay or the team.
Contests do not see each other's streams, because each searches for its own prefix only.
"""

import re
from typing import Literal

from bci_stream.errors import ContestError
from bci_stream.packet import Lead
from bci_stream.wire.transport import StreamSpec

Role = Literal["control", "signal", "markers", "codes", "truth", "results", "asks", "judge"]

TRIGGER = Lead("TRIGGER", "STIM", "none")

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None


def checked_name(name: str, what: str) -> str:
    """Return a name that is safe in a stream's id, a file name and a terminal; raises ContestError."""
    if not is_name(name):
        raise ContestError(
            f"{what} {name!r} can't be used: 1 to 64 letters, digits, '_', '.' or '-' are allowed"
        )
    return name


def prefix(contest: str, role: Role) -> str:
    return f"bci/{contest}/{role}/"


def source_id(contest: str, role: Role, owner: str) -> str:
    return prefix(contest, role) + owner


def owner(stream_source_id: str) -> str:
    return stream_source_id.rsplit("/", 1)[-1]


def contest_of(stream_source_id: str, role: Role) -> str:
    """The contest of a stream of this role; empty if it is no such stream."""
    match stream_source_id.split("/"):
        case ["bci", contest, found, _] if found == role:
            return contest
    return ""


def text_stream(contest: str, role: Role, owner: str, **meta: str) -> StreamSpec:
    """A stream of messages or markers."""
    kind = "Markers" if role == "markers" else f"BCI-{role.capitalize()}"
    return StreamSpec(f"{contest}-{owner}-{role}", kind, source_id(contest, role, owner), meta=meta)


def code_stream(contest: str, owner: str) -> StreamSpec:
    """The int32 mirror of the trigger codes, for tools that read no strings."""
    sid = source_id(contest, "codes", owner)
    return StreamSpec(f"{contest}-{owner}-codes", "Markers", sid, "int32")


def signal_stream(
    contest: str, owner: str, rate: float, leads: tuple[Lead, ...], **meta: str
) -> StreamSpec:
    """Leads first, TRIGGER last."""
    return StreamSpec(
        f"{contest}-{owner}-signal",
        "EEG",
        source_id(contest, "signal", owner),
        "float32",
        rate,
        (*leads, TRIGGER),
        meta,
    )
