"""The streams that one replay receives: messages of teams, messages of the judge, packet requests."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from bci_stream.errors import LostError, NotFoundError, WireError
from bci_stream.wire import names
from bci_stream.wire.crypto import verified
from bci_stream.wire.groups import StreamGroup
from bci_stream.wire.messages import JudgeMessage, ReportMessage, ResultsMessage, Status, read_judge
from bci_stream.wire.results import REQUEST_LEADS, decode_request
from bci_stream.wire.transport import FoundStream, SampleInlet, Transport
from bci_stream.wire.verify import MessageVerifier

OPEN_S = 5.0
SEARCH_EVERY_S = 0.1
"""Listing the streams on the network costs far more than reading those that are open."""


@dataclass(frozen=True, slots=True)
class FromTeam:
    """A verified message of a team, and its signed text."""

    message: ResultsMessage
    text: str


@dataclass(frozen=True, slots=True)
class JudgeLost:
    """The last judge's stream has ended; `at` is LSL time."""

    at: float


ReplayEvent: TypeAlias = FromTeam | JudgeMessage | JudgeLost | Status | Exception
"""What is posted to the playing thread: network events, a device's status, an error of the network thread."""


@dataclass
class ReplayInlets:
    """Receives and verifies messages. One thread at a time uses it.

    In real time reports are dropped here: the judge receives them itself, and the replay does not need them.
    """

    transport: Transport
    contest: str
    run: str
    contest_key: bytes
    verifier: MessageVerifier
    lockstep: bool

    def __post_init__(self) -> None:
        self._results = StreamGroup(self.transport, self.contest, "results")
        self._judge = StreamGroup(self.transport, self.contest, "judge")
        self._requests: PacketRequests | None = None
        self._searched_at = 0.0
        self._judge_seen = False

    @property
    def judges(self) -> int:
        """Judges whose streams are open."""
        return len(self._judge.owners)

    @property
    def dropped(self) -> int:
        """Messages of teams that were not accepted."""
        return sum(self.verifier.dropped.values())

    @property
    def has_requests(self) -> bool:
        """Whether the team's stream of packet requests is open."""
        return self._requests is not None and self._requests.is_open

    def teams_gone(self) -> set[str]:
        """Teams whose streams have ended."""
        return set(self._results.gone) - set(self._results.owners)

    def expect_requests(self, team: str, token: bytes) -> None:
        """Lockstep: search for this team's stream of packet requests."""
        if self._requests is None:
            self._requests = PacketRequests(self.transport, self.contest, team, self.run, token)

    def receive(self, timeout_s: float = 0.0) -> list[ReplayEvent]:
        """Everything that has arrived; opens streams that are new on the network."""
        now = self.transport.now()
        if now - self._searched_at > SEARCH_EVERY_S:
            self._searched_at = now
            self._results.look()
            self._judge.look()
            if self._requests is not None:
                self._requests.search()
        return [*self._receive_judge(), *self.receive_results(timeout_s)]

    def receive_results(self, timeout_s: float) -> list[FromTeam]:
        """Verified messages of the teams; waits up to timeout_s where there is one stream."""
        events = []
        for _, text, _ in self._results.pull(timeout_s):
            message = self.verifier.verify(text)
            if message is None or (isinstance(message, ReportMessage) and not self.lockstep):
                continue
            events.append(FromTeam(message, text))
        return events

    def receive_requests(self, timeout_s: float) -> list[tuple[int, int]] | None:
        """(packet, n) of the team's requests; None where it has no stream for them."""
        return None if self._requests is None else self._requests.pull(timeout_s)

    def _receive_judge(self) -> list[ReplayEvent]:
        events: list[ReplayEvent] = []
        for _, text, _ in self._judge.pull():
            message = self._read_judge(text)
            if message is not None:
                events.append(message)
        if self._judge_seen and not self._judge.owners:
            events.append(JudgeLost(self.transport.now()))
        self._judge_seen = bool(self._judge.owners)
        return events

    def _read_judge(self, text: str) -> JudgeMessage | None:
        plain = verified(text, self.contest_key)
        if plain is None:
            return None
        try:
            message = read_judge(plain)
        except WireError:
            return None
        return message if message.run in ("", self.run) else None

    def close(self) -> None:
        self._results.close()
        self._judge.close()
        if self._requests is not None:
            self._requests.close()


class PacketRequests:
    """Reads every stream of packet requests that has the team's name; only signed requests count."""

    def __init__(
        self, transport: Transport, contest: str, team: str, run: str, token: bytes
    ) -> None:
        self._transport = transport
        self._watch = transport.watch(names.source_id(contest, "asks", team))
        self._run = run
        self._token = token
        self._inlets: dict[str, SampleInlet] = {}
        self._rejected: set[str] = set()

    @property
    def is_open(self) -> bool:
        return bool(self._inlets)

    def search(self) -> None:
        """Open the streams that have newly appeared."""
        for found in self._watch.found():
            if found.uid not in self._inlets and found.uid not in self._rejected:
                self._open(found)

    def _open(self, found: FoundStream) -> None:
        try:
            inlet = self._transport.sample_inlet(found, OPEN_S)
        except (NotFoundError, LostError):
            return  # it ended before it could be opened
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
                decode_request(np.asarray(row, np.int32), self._run, self._token) for row in rows
            ]
        return [request for request in requests if request is not None]

    def close(self) -> None:
        self._watch.close()
        for inlet in self._inlets.values():
            inlet.close()
        self._inlets.clear()
