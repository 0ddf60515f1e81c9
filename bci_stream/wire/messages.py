"""The messages on the wire: JSON objects, told apart by `kind`, checked on arrival.

Three groups, by who speaks: the replay (control stream), a team (results stream, signed under its
token), the judge (judge stream, signed under the contest's key). docs/protocol.md shows each.
"""

from typing import Any, TypeAlias, TypeVar

import msgspec

from bci_stream.errors import WireError

VERSION = 1

MAX_TEXT = 1 << 20
"""The longest results message that is read at all, in characters."""


class Message(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=False):
    """Any message; fields that a reader does not know are passed over."""


# --- the replay, to everyone ------------------------------------------------------------------


class Offer(Message, frozen=True, tag="offer"):
    """Here is a run; join it. Sent while the replay waits, and again to whoever says hello."""

    contest: str
    run: str
    track: str
    pace: str
    rate: float
    packet_samples: int
    leads: list[str]
    subjects: list[str]
    choose: int | None = None
    v: int = VERSION

    @property
    def lockstep(self) -> bool:
        return self.pace == "lockstep"

    @property
    def speed(self) -> float:
        """How many times faster than the recording it is played; time stamps of lockstep are at 1."""
        return 1.0 if self.pace in ("lockstep", "realtime") else float(self.pace)

    @property
    def packet_s(self) -> float:
        """Seconds from packet to packet at this pace."""
        return self.packet_samples / self.rate / self.speed


class Welcome(Message, frozen=True, tag="welcome"):
    """A team (or the judge, whose name is empty) is in; `signal` is the stream that it is to open."""

    run: str
    team: str
    signal: str
    proof: str


class Refused(Message, frozen=True, tag="refused"):
    """elsewhere: another replay may take this team."""

    run: str
    team: str
    reason: str
    elsewhere: bool = False


class SessionStart(Message, frozen=True, tag="session"):
    """A subject begins."""

    index: int
    subject: str
    rate: float
    packet_samples: int
    leads: list[str]


class PacketNote(Message, frozen=True, tag="packet"):
    """A packet has just been sent on the signal stream: these n samples belong together.

    The note's LSL stamp is that of the packet's last sample. `i` counts packets over the whole run.
    """

    i: int
    session: int
    block: int
    start: int
    n: int
    triggers: list[tuple[int, int]] = []
    finish: bool = False


class UnannouncedPackets(Message, frozen=True, tag="plain"):
    """Lockstep: packets i .. i + count - 1 will be plain, and no note is sent for them.

    A plain packet has `packet_samples` samples, follows the one before it in the same block, is not the
    last, and its TRIGGER channel says all of its triggers. Sent to teams that joined with `plain`.
    """

    i: int
    count: int


class Status(Message, frozen=True, tag="status"):
    """Something about the source that everyone should know: a gap, a stall, a reconnect."""

    state: str
    detail: str = ""


class Stopped(Message, frozen=True, tag="stopped"):
    """The replay ends before its last packet, and why."""

    reason: str


# --- a team, to replay and judge --------------------------------------------------------------


class TeamMessage(Message, frozen=True):
    """What every message of a team says: whose it is, for which run, and its number."""

    contest: str
    run: str
    team: str
    seq: int


class Hello(TeamMessage, frozen=True, tag="hello"):
    """I am here; `run` is still empty."""


class Join(TeamMessage, frozen=True, tag="join"):
    """I take part; `channels`: for each subject, the chosen leads (from 1), where the track asks.

    plain: in lockstep I can do without the notes of plain packets. asks: I have a stream of asks.
    """

    channels: dict[str, list[int]] = {}
    plain: bool = False
    asks: bool = False


class Ready(TeamMessage, frozen=True, tag="ready"):
    """I have seen a probe on each of my streams: nothing will be lost."""


class PacketRequest(TeamMessage, frozen=True, tag="next"):
    """Lockstep: let me have packet `packet`. n numbers next, report and done messages from 0."""

    packet: int
    n: int = -1


class ReportMessage(TeamMessage, frozen=True, tag="report"):
    """A result; whatever JSON can say. The track's rules read it."""

    result: Any
    n: int = -1


class Behind(TeamMessage, frozen=True, tag="behind"):
    """Real time: I am so far behind the stream. Shown to people, never judged."""

    seconds: float


class Done(TeamMessage, frozen=True, tag="done"):
    """I have ended by myself, and how: finished, crashed, timeout, disqualified, stopped."""

    reason: str = "finished"
    detail: str = ""
    n: int = -1


# --- the judge, to everyone -------------------------------------------------------------------


class JudgeReady(Message, frozen=True, tag="seated"):
    """The judge hears this run's control and truth, and the results of these teams."""

    contest: str
    run: str
    teams: list[str]
    ready: bool = False


class Go(Message, frozen=True, tag="go"):
    contest: str
    run: str


class Closed(Message, frozen=True, tag="closed"):
    """A team's run is over and safely logged; the team may leave."""

    contest: str
    run: str
    team: str
    reason: str


class ResendResults(Message, frozen=True, tag="recall"):
    """The judge was started again: this team's messages from number n on are to be said once more."""

    contest: str
    run: str
    team: str
    n: int


class ReplayHistory(Message, frozen=True, tag="catch"):
    """The same to the replay: truth, and all that happened in the run."""

    contest: str
    run: str


# --- the replay, to the judge alone (sealed) --------------------------------------------------


class TruthNote(Message, frozen=True, tag="truth"):
    """Truth of a session, to be written before packet `packet` of the run.

    `event` is a truth line of the run log without its kind; None announces the session alone.
    """

    session: int
    subject: str
    packet: int
    rate: float
    leads: int
    packet_samples: int
    n_samples: int | None = None
    event: dict[str, Any] | None = None


class TruthProbe(Message, frozen=True, tag="probe"):
    """Sent so that the judge can tell that it hears the truth stream."""


class TruthComplete(Message, frozen=True, tag="complete"):
    """All truth that is known beforehand has been sent."""


class PacketEvent(msgspec.Struct, frozen=True, tag="sent"):
    """A packet that was sent: its note and stamp, and when (in lockstep it was asked for just before)."""

    note: PacketNote
    stamp: float
    at: float


class TeamMessageEvent(msgspec.Struct, frozen=True, tag="said"):
    """Lockstep: what the team said, signed as it was, and when it was heard."""

    text: str
    at: float


class RunEvents(Message, frozen=True, tag="told"):
    """What happened in a run, in order; first: the number of the first of these events.

    team: whose run it is, in lockstep; in real time all teams are sent the same.

    In lockstep the replay is the scribe: it alone knows what a team had asked for when it said something.
    The judge hears of it in lots, which leaves the machine to the decoder; and a judge that was started
    again hears of all that it missed.
    """

    team: str
    first: int
    events: list[PacketEvent | TeamMessageEvent]


class HistoryComplete(Message, frozen=True, tag="retold_all"):
    """The judge has caught up; gone_at: when the one before it was last there."""

    gone_at: float


ControlMessage: TypeAlias = (
    Offer | Welcome | Refused | SessionStart | PacketNote | UnannouncedPackets | Status | Stopped
)
ResultsMessage: TypeAlias = Hello | Join | Ready | PacketRequest | ReportMessage | Behind | Done
JudgeMessage: TypeAlias = JudgeReady | Go | Closed | ResendResults | ReplayHistory
TruthMessage: TypeAlias = TruthNote | TruthProbe | TruthComplete | RunEvents | HistoryComplete

T = TypeVar("T")

_encoder = msgspec.json.Encoder()
_control: msgspec.json.Decoder[ControlMessage] = msgspec.json.Decoder(ControlMessage)
_results: msgspec.json.Decoder[ResultsMessage] = msgspec.json.Decoder(ResultsMessage)
_judge: msgspec.json.Decoder[JudgeMessage] = msgspec.json.Decoder(JudgeMessage)
_truth: msgspec.json.Decoder[TruthMessage] = msgspec.json.Decoder(TruthMessage)


def encode(message: Message) -> str:
    return _encoder.encode(message).decode()


def read_control(text: str) -> ControlMessage:
    return _read(_control, text, "control")


def read_results(text: str) -> ResultsMessage:
    if len(text) > MAX_TEXT:
        raise WireError(f"a results message of {len(text)} characters; at most {MAX_TEXT} are read")
    return _read(_results, text, "results")


def read_judge(text: str) -> JudgeMessage:
    return _read(_judge, text, "judge")


def read_truth(text: str) -> TruthMessage:
    return _read(_truth, text, "truth")


def _read(decoder: "msgspec.json.Decoder[T]", text: str, stream: str) -> T:
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        shown = text if len(text) <= 80 else text[:77] + "..."
        raise WireError(
            f"a message on a {stream} stream can't be read: {error}; got {shown!r}"
        ) from error
