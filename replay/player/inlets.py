"""The streams that one replay receives: messages of teams, messages of the judge, packet requests."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from bci_stream.errors import LostError, NotFoundError, WireError
from bci_stream.wire import names
from bci_stream.wire.crypto import PublicKey
from bci_stream.wire.groups import OPEN_S, StreamGroup, StreamLimits
from bci_stream.wire.messages import JudgeMessage, ReportMessage, ResultsMessage, Status
from bci_stream.wire.results import REQUEST_LEADS, decode_request
from bci_stream.wire.transport import FoundStream, SampleInlet, TextInlet, Transport
from bci_stream.wire.verify import JudgeVerifier, MessageVerifier, TeamText
from replay.player.clocks import HostClocks

SEARCH_EVERY_S = 0.1
"""Listing the streams on the network costs far more than reading those that are open."""

JUDGE_SILENT_S = 2.0
"""A judge sends four messages a second; one that is silent for this long counts as gone."""


@dataclass(frozen=True, slots=True)
class FromTeam:
    """A verified message of a team, its text as received, and the uid of the stream that brought it."""

    message: ResultsMessage
    text: str
    uid: str


@dataclass(frozen=True, slots=True)
class UnverifiedText:
    """A text in a team's name that could not be verified, and the uid of the stream that brought it."""

    claimed: TeamText
    uid: str


@dataclass(frozen=True, slots=True)
class JudgeLost:
    """The last judge's stream has ended, or it has been silent for too long; `at` is LSL time."""

    at: float


ReplayEvent: TypeAlias = FromTeam | UnverifiedText | JudgeMessage | JudgeLost | Status | Exception
"""What is posted to the playing thread: network events, a device's status, an error of the network thread."""


@dataclass
class ReplayInlets:
    """Receives and verifies messages. One thread at a time uses it.

    In real time reports are dropped here: the judge receives them itself, and the replay does not need them.
    A judge counts once a message of it was verified. limits: of each team's stream in real time.
    """

    transport: Transport
    contest: str
    run: str
    public_key: PublicKey
    verifier: MessageVerifier
    lockstep: bool
    limits: StreamLimits | None = None

    def __post_init__(self) -> None:
        limits = None if self.lockstep else self.limits
        self._results = StreamGroup(self.transport, self.contest, "results", limits=limits)
        self._judge = StreamGroup(self.transport, self.contest, "judge")
        self._judge_verifier = JudgeVerifier(self.contest, self.public_key)
        self._judge_message_at = 0.0
        self._gone_at: dict[str, float] = {}
        self._requests: PacketRequests | None = None
        self._clocks = HostClocks(self.transport.now)
        self._searched_at = 0.0
        self._judge_is_here = False

    @property
    def judges(self) -> int:
        """Verified judges whose streams are open."""
        return len(self._judge.owners)

    @property
    def clocks(self) -> dict[str, dict[str, Any]]:
        """Clock offsets of the judge's and the teams' hosts, see `HostClocks`; any thread may read them."""
        return self._clocks.readings

    def _open_streams(self) -> dict[str, TextInlet]:
        """The verified streams, by whose they are."""
        judges = dict(self._judge.verified())
        return judges | {f"team {owner}": inlet for owner, inlet in self._results.verified()}

    @property
    def dropped(self) -> int:
        """Messages of teams that were not accepted."""
        return sum(self.verifier.dropped.values())

    @property
    def has_requests(self) -> bool:
        """Whether the team's stream of packet requests is open."""
        return self._requests is not None and self._requests.is_open

    def is_live(self, uid: str) -> bool:
        """Whether a team's verified stream, by its uid, is still open."""
        return uid in self._results.uids

    def teams_gone(self, longer_than_s: float) -> set[str]:
        """Teams whose streams ended this long ago, and which have not returned."""
        now, here = self.transport.now(), set(self._results.owners)
        gone = set(self._results.gone) - here
        self._gone_at = {team: self._gone_at.get(team, now) for team in gone}
        return {team for team, at in self._gone_at.items() if now - at >= longer_than_s}

    def expect_requests(self, team: str, token: bytes, uid: str, first_number: int) -> None:
        """Lockstep: search for this team's stream of packet requests; uid: empty if it is unknown.

        first_number: of the messages of the team's worker.
        """
        if self._requests is None:
            self._requests = PacketRequests(self.transport, self.contest, team, self.run, token)
        self._requests.uid, self._requests.first_number = uid, first_number

    def receive(self, timeout_s: float = 0.0) -> list[ReplayEvent]:
        """Everything that has arrived; opens streams that are new on the network."""
        now = self.transport.now()
        if now - self._searched_at > SEARCH_EVERY_S:
            self._searched_at = now
            self._results.look()
            self._judge.look()
            if self._requests is not None:
                self._requests.search()
            self._clocks.follow(self._open_streams)
        return [*self.receive_judge(), *self.receive_results(timeout_s)]

    def receive_results(self, timeout_s: float) -> list[FromTeam | UnverifiedText]:
        """Messages of the teams; waits up to timeout_s where there is one stream."""
        events: list[FromTeam | UnverifiedText] = []
        for uid, owner, text, _ in self._results.pull(timeout_s):
            claimed = self.verifier.read(text)
            message = None if claimed is None else self.verifier.authenticate(claimed, uid, owner)
            if message is None:
                self._results.reject(uid)
                if claimed is not None and not self.verifier.opens(claimed):
                    events.append(UnverifiedText(claimed, uid))
                continue
            self._results.accept(uid)
            needed = self.lockstep or not isinstance(message, ReportMessage)
            if needed and self.verifier.admits(message):
                events.append(FromTeam(message, text, uid))
        return events

    def receive_requests(self, timeout_s: float) -> list[tuple[int, int]] | None:
        """(packet, n) of the team's requests; None where it has no stream for them."""
        return None if self._requests is None else self._requests.pull(timeout_s)

    def receive_judge(self) -> list[ReplayEvent]:
        """Verified messages of the judges whose streams are open, and whether the last one is lost."""
        events: list[ReplayEvent] = []
        for uid, _, text, _ in self._judge.pull():
            message = self._judge_verifier.verify(text, uid)
            if message is None:
                self._judge.reject(uid)
                continue
            self._judge.accept(uid)
            self._judge_message_at = self.transport.now()
            if message.run in ("", self.run):
                events.append(message)
        silent_s = self.transport.now() - self._judge_message_at
        is_here = bool(self._judge.owners) and silent_s < JUDGE_SILENT_S
        if self._judge_is_here and not is_here:
            events.append(JudgeLost(self._judge_message_at))
        self._judge_is_here = is_here
        return events

    def close(self) -> None:
        self._clocks.close()
        self._results.close()
        self._judge.close()
        if self._requests is not None:
            self._requests.close()


class PacketRequests:
    """Reads a team's stream of packet requests; only signed requests count.

    uid: the stream's, which the team's join names; empty: every stream of the team's name is read.
    """

    def __init__(
        self, transport: Transport, contest: str, team: str, run: str, token: bytes
    ) -> None:
        self._transport = transport
        self._source_id = names.source_id(contest, "asks", team)
        self._watch = transport.watch(self._source_id)
        self._run = run
        self._token = token
        self.uid = ""
        self.first_number = 0
        self._inlets: dict[str, SampleInlet] = {}
        self._rejected: set[str] = set()

    @property
    def is_open(self) -> bool:
        return bool(self._inlets)

    def search(self) -> None:
        """Open the streams that have newly appeared."""
        for found in self._watch.found():
            is_the_teams = found.source_id == self._source_id and self.uid in ("", found.uid)
            if is_the_teams and found.uid not in (self._inlets.keys() | self._rejected):
                self._open(found)

    def _open(self, found: FoundStream) -> None:
        try:
            inlet = self._transport.sample_inlet(found, OPEN_S)
        except (NotFoundError, LostError):
            return  # it ended before it could be opened
        except WireError:
            self._rejected.add(found.uid)
            return
        if inlet.spec.format == "int32" and inlet.spec.channels == len(REQUEST_LEADS):
            self._inlets[found.uid] = inlet
        else:
            self._rejected.add(found.uid)
            inlet.close()

    def pull(self, timeout_s: float) -> list[tuple[int, int]]:
        """(packet, n) of each request; waits up to timeout_s where there is one stream."""
        wait_s = timeout_s if len(self._inlets) == 1 else 0.0
        requests = []
        for uid, inlet in list(self._inlets.items()):
            try:
                rows, _ = inlet.pull(1, wait_s)
            except LostError:
                self._rejected.add(uid)
                self._inlets.pop(uid).close()
                continue
            requests += [
                decode_request(np.asarray(row, np.int32), self._run, self._token, self.first_number)
                for row in rows
            ]
        return [request for request in requests if request is not None]

    def close(self) -> None:
        self._watch.close()
        for inlet in self._inlets.values():
            inlet.close()
        self._inlets.clear()
