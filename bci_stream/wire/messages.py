"""The messages on the wire: JSON objects, distinguished by `kind` and validated on arrival.

By sender: the replay (control stream, signed; truth stream, sealed for the judge), a team (results stream,
signed under its token or sealed), the judge (judge stream, signed). See docs/protocol.md.
"""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from bci_stream.errors import WireError

VERSION = 1

MAX_TEXT = 1 << 20
"""Longest accepted message of a team, a judge or a control stream, in characters."""

MAX_SEALED_TEXT = 1 << 26
"""The same on the truth stream, where a message may hold many events."""


NUMBERS_A_WORKER = 1 << 32
"""Each worker of a team numbers its messages from a multiple of this on, so that none repeats a number."""


SOFTWARE = "bci-stream"


@cache
def software() -> str:
    """Name and version of this software, such as `bci-stream 0.1.0`."""
    try:
        return f"{SOFTWARE} {version(SOFTWARE)}"
    except PackageNotFoundError:
        return SOFTWARE  # used from its sources


class Message(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=False):
    """Base of all messages; unknown fields are ignored."""


class StreamedMessage(Message, frozen=True, kw_only=True):
    """stream: uid of the stream on which it is sent; a copy on another one is refused. Empty: unknown."""

    stream: str = ""


# --- the replay, to everyone ------------------------------------------------------------------


class Offer(Message, frozen=True, tag="offer"):
    """A run that teams can join. Sent while the replay waits, and in answer to hello.

    results: `sealed` or `signed`, how teams must send their messages. name: the replay's name.
    control_uid: of the stream on which it is sent; an offer that was copied to another one is refused.
    """

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
    results: str = "signed"
    name: str = ""
    control_uid: str = ""

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
    """A team (or the judge, whose name is empty) has joined.

    signal: source_id of its signal stream. nonce: the one of the team's join. control_uid, signal_uid: the
    LSL uids of the streams. n: number of the team's next message, above 0 for a team that has returned into
    a run. packet: number of the next packet of a lockstep run that has begun; else -1.
    """

    run: str
    team: str
    signal: str
    proof: str
    nonce: str = ""
    control_uid: str = ""
    signal_uid: str = ""
    n: int = 0
    packet: int = -1


class Refused(Message, frozen=True, tag="refused"):
    """A team was refused; elsewhere: another replay may accept it.

    worker: LSL uid of the results stream whose messages can't be verified; `team` is empty then, because
    anyone may have sent them in the team's name.
    """

    run: str
    team: str
    reason: str
    elsewhere: bool = False
    worker: str = ""


class SessionStart(Message, frozen=True, tag="session"):
    """A subject begins."""

    index: int
    subject: str
    rate: float
    packet_samples: int
    leads: list[str]
    run: str = ""


class PacketNote(Message, frozen=True, tag="packet"):
    """A packet of n samples was sent on the signal stream.

    The note's LSL stamp is that of the packet's last sample. `i` counts packets over the whole run. digest:
    of its samples as sent (`crypto.sample_digest`); empty if teams receive different leads.
    """

    i: int
    session: int
    block: int
    start: int
    n: int
    triggers: list[tuple[int, int]] = []
    finish: bool = False
    run: str = ""
    digest: str = ""


class UnannouncedPackets(Message, frozen=True, tag="plain"):
    """Lockstep: packets i to i + count - 1 are plain, and no note is sent for them.

    A plain packet has `packet_samples` samples, follows the one before it in the same block, is not the
    last, and its TRIGGER channel holds all of its triggers. Sent to teams that joined with `plain`.
    digest: of the samples of all these packets.
    """

    i: int
    count: int
    run: str = ""
    digest: str = ""


class Status(Message, frozen=True, tag="status"):
    """An event of the source: a gap, a stall, a reconnect; `alive` if there is none."""

    state: str
    detail: str = ""
    run: str = ""


class Stopped(Message, frozen=True, tag="stopped"):
    """The replay ends before its last packet, and why."""

    reason: str
    run: str = ""


# --- a team, to replay and judge --------------------------------------------------------------


class TeamMessage(StreamedMessage, frozen=True):
    """Base of a team's messages; seq: sequence number, which grows from message to message."""

    contest: str
    run: str
    team: str
    seq: int


class Hello(TeamMessage, frozen=True, tag="hello"):
    """A team looks for a run; `run` is still empty."""


class Join(TeamMessage, frozen=True, tag="join"):
    """A team joins; channels: its chosen leads (from 1) by subject, if the track lets teams choose.

    Lockstep: plain: the team needs no notes of plain packets. asks: it has a stream of packet requests,
    with the uid asks_uid (empty: any stream with the team's name).
    nonce: random, of at most 128 characters; the welcome, which all teams receive, repeats it, so that an
    earlier welcome can't be used again.
    """

    channels: dict[str, list[int]] = {}
    plain: bool = False
    asks: bool = False
    nonce: Annotated[str, msgspec.Meta(max_length=128)] = ""
    asks_uid: str = ""


class Ready(TeamMessage, frozen=True, tag="ready"):
    """The team has received a probe on each of its streams: no sample will be lost.

    software: name and version of the team's client, which the organiser sees; may be empty.
    """

    software: str = ""


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


class FromJudge(StreamedMessage, frozen=True):
    """Base of the judge's messages; seq: sequence number, which grows from message to message."""

    contest: str
    run: str
    seq: int = 0


class JudgeReady(FromJudge, frozen=True, tag="seated", kw_only=True):
    """The judge follows this run, with these teams. Repeated as long as it does.

    ready: it receives the truth stream, so that the run may begin.
    """

    teams: list[str] = []
    ready: bool = False


class Go(FromJudge, frozen=True, tag="go", kw_only=True):
    """The run may begin, and goes on: repeated, with the state that the operator wants.

    now: begin without waiting for teams that have joined and are not ready. paused: hold the packets back.
    stopped: end the run. again: (session, block) of each block that is to be played again at the end of its
    session, counted from 0, in the order in which the operator asked.
    """

    now: bool = False
    paused: bool = False
    stopped: bool = False
    again: list[tuple[int, int]] = []


class Closed(FromJudge, frozen=True, tag="closed", kw_only=True):
    """A team's run has ended and is logged; the team may leave. The signed text is the team's receipt.

    head, lines: last hash of the run log's chain, and its number of lines.
    """

    team: str
    reason: str
    head: str = ""
    lines: int = 0


class ResendResults(FromJudge, frozen=True, tag="recall", kw_only=True):
    """A request to a team to send its messages from number n on again, after a restart of the judge."""

    team: str
    n: int


class ReplayHistory(FromJudge, frozen=True, tag="catch"):
    """A request to the replay to send its truth and all events of the run again."""


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


class StallEvent(msgspec.Struct, frozen=True, tag="stall"):
    """The replay's process stood still from `since` until `at`, in seconds of its clock."""

    since: float
    at: float


class RunEvents(Message, frozen=True, tag="told"):
    """Events of a run, in order; first: the number of the first of these events.

    team: whose run it is, in lockstep; empty in real time, where all teams receive the same.

    In lockstep the replay is authoritative for the order of packets and messages. Events are sent in
    batches, which leaves the CPU to the decoder, and all of them again to a restarted judge.
    """

    team: str
    first: int
    events: list[PacketEvent | TeamMessageEvent | StallEvent]


class HistoryComplete(Message, frozen=True, tag="retold_all"):
    """All events have been sent again; gone_at: when the previous judge was last seen."""

    gone_at: float


ControlMessage: TypeAlias = (
    Offer | Welcome | Refused | SessionStart | PacketNote | UnannouncedPackets | Status | Stopped
)
ResultsMessage: TypeAlias = Hello | Join | Ready | PacketRequest | ReportMessage | Behind | Done
JudgeMessage: TypeAlias = JudgeReady | Go | Closed | ResendResults | ReplayHistory
TruthMessage: TypeAlias = (
    TruthNote | TruthProbe | TruthComplete | RunEvents | HistoryComplete
    | Offer | Welcome | Status | Stopped
)  # fmt: skip
JournalEvent: TypeAlias = PacketEvent | TeamMessageEvent | StallEvent


class SealedMessage(msgspec.Struct, frozen=True):
    """What is sealed on the truth stream; seq counts the messages of a stream from 0."""

    seq: int
    message: TruthMessage


T = TypeVar("T")

_encoder = msgspec.json.Encoder()
_control: msgspec.json.Decoder[ControlMessage] = msgspec.json.Decoder(ControlMessage)
_results: msgspec.json.Decoder[ResultsMessage] = msgspec.json.Decoder(ResultsMessage)
_judge: msgspec.json.Decoder[JudgeMessage] = msgspec.json.Decoder(JudgeMessage)
_truth: msgspec.json.Decoder[SealedMessage] = msgspec.json.Decoder(SealedMessage)


def encode(message: Message | SealedMessage) -> str:
    return _encoder.encode(message).decode()


def read_control(text: str) -> ControlMessage:
    return _read(_control, text, "control")


def read_results(text: str) -> ResultsMessage:
    return _read(_results, text, "results")


def read_judge(text: str) -> JudgeMessage:
    return _read(_judge, text, "judge")


def read_sealed(text: str) -> SealedMessage:
    return _read(_truth, text, "truth", MAX_SEALED_TEXT)


def _read(decoder: "msgspec.json.Decoder[T]", text: str, stream: str, most: int = MAX_TEXT) -> T:
    if len(text) > most:
        raise WireError(
            f"a message of {len(text)} characters on a {stream} stream; at most {most} are read"
        )
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        shown = text if len(text) <= 80 else text[:77] + "..."
        raise WireError(
            f"a message on a {stream} stream can't be read: {error}; got {shown!r}"
        ) from error
