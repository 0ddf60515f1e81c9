"""The messages on the wire: JSON objects, distinguished by `kind` and validated on arrival.

By sender: the replay (control stream; truth stream, sealed for the judge), a team (results stream, signed
under its token), the judge (judge stream, signed under the contest's key). See docs/protocol.md.
"""

from typing import Any, TypeAlias, TypeVar

import msgspec

from bci_stream.errors import WireError

VERSION = 1

MAX_TEXT = 1 << 20
"""Longest accepted results message, in characters."""


class Message(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=False):
    """Base of all messages; unknown fields are ignored."""


# --- the replay, to everyone ------------------------------------------------------------------


class Offer(Message, frozen=True, tag="offer"):
    """A run that teams can join. Sent while the replay waits, and in answer to hello."""

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
    """A team (or the judge, whose name is empty) has joined; signal: source_id of its signal stream."""

    run: str
    team: str
    signal: str
    proof: str


class Refused(Message, frozen=True, tag="refused"):
    """A team was refused; elsewhere: another replay may accept it."""

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
    """A packet of n samples was sent on the signal stream.

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
    """Lockstep: packets i to i + count - 1 are plain, and no note is sent for them.

    A plain packet has `packet_samples` samples, follows the one before it in the same block, is not the
    last, and its TRIGGER channel holds all of its triggers. Sent to teams that joined with `plain`.
    """

    i: int
    count: int


class Status(Message, frozen=True, tag="status"):
    """An event of the source: a gap, a stall, a reconnect; `alive` if there is none."""

    state: str
    detail: str = ""


class Stopped(Message, frozen=True, tag="stopped"):
    """The replay ends before its last packet, and why."""

    reason: str


# --- a team, to replay and judge --------------------------------------------------------------


class TeamMessage(Message, frozen=True):
    """Base of a team's messages; seq: sequence number, which grows from message to message."""

    contest: str
    run: str
    team: str
    seq: int


class Hello(TeamMessage, frozen=True, tag="hello"):
    """A team looks for a run; `run` is still empty."""


class Join(TeamMessage, frozen=True, tag="join"):
    """A team joins; channels: its chosen leads (from 1) by subject, if the track lets teams choose.

    Lockstep: plain: the team needs no notes of plain packets. asks: it has a stream of packet requests.
    """

    channels: dict[str, list[int]] = {}
    plain: bool = False
    asks: bool = False


class Ready(TeamMessage, frozen=True, tag="ready"):
    """The team has received a probe on each of its streams: no sample will be lost."""


class PacketRequest(TeamMessage, frozen=True, tag="next"):
    """Lockstep: a request for a packet. n numbers requests, reports and done from 0."""

    packet: int
    n: int = -1


class ReportMessage(TeamMessage, frozen=True, tag="report"):
    """A result: any JSON value, read by the track's rules."""

    result: Any
    n: int = -1


class Behind(TeamMessage, frozen=True, tag="behind"):
    """Real time: the decoder is this far behind the stream. Displayed, never scored."""

    seconds: float


class Done(TeamMessage, frozen=True, tag="done"):
    """The team has ended; reason: finished, crashed, timeout, disqualified or stopped."""

    reason: str = "finished"
    detail: str = ""
    n: int = -1


# --- the judge, to everyone -------------------------------------------------------------------


class JudgeReady(Message, frozen=True, tag="seated"):
    """The judge follows this run, with these teams; ready: it receives the control and truth streams."""

    contest: str
    run: str
    teams: list[str]
    ready: bool = False


class Go(Message, frozen=True, tag="go"):
    """The run may begin."""

    contest: str
    run: str


class Closed(Message, frozen=True, tag="closed"):
    """A team's run has ended and is logged; the team may leave."""

    contest: str
    run: str
    team: str
    reason: str


class ResendResults(Message, frozen=True, tag="recall"):
    """A request to a team to send its messages from number n on again, after a restart of the judge."""

    contest: str
    run: str
    team: str
    n: int


class ReplayHistory(Message, frozen=True, tag="catch"):
    """A request to the replay to send its truth and all events of the run again."""

    contest: str
    run: str


# --- the replay, to the judge alone (sealed) --------------------------------------------------


class TruthNote(Message, frozen=True, tag="truth"):
    """Truth of a session, logged before packet `packet` of the run.

    event: a truth line of the run log without its kind; None announces the session only.
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
    """Shows the judge that it receives the truth stream."""


class TruthComplete(Message, frozen=True, tag="complete"):
    """All truth that is known beforehand has been sent."""


class PacketEvent(msgspec.Struct, frozen=True, tag="sent"):
    """A packet that was sent: its note, its stamp, and when it was sent."""

    note: PacketNote
    stamp: float
    at: float


class TeamMessageEvent(msgspec.Struct, frozen=True, tag="said"):
    """Lockstep: a signed message of the team, and when the replay received it."""

    text: str
    at: float


class RunEvents(Message, frozen=True, tag="told"):
    """Events of a run, in order; first: the number of the first of these events.

    team: whose run it is, in lockstep; empty in real time, where all teams receive the same.

    In lockstep the replay is authoritative for the order of packets and messages. Events are sent in
    batches, which leaves the CPU to the decoder, and all of them again to a restarted judge.
    """

    team: str
    first: int
    events: list[PacketEvent | TeamMessageEvent]


class HistoryComplete(Message, frozen=True, tag="retold_all"):
    """All events have been sent again; gone_at: when the previous judge was last seen."""

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
