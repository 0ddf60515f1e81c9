"""A team's results stream: every message is numbered, and signed or sealed.

In lockstep a team may also have a stream of packet requests, which share the numbers of its messages.
"""

import hmac
import time
from collections import deque
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Lead
from bci_stream.wire import names
from bci_stream.wire.crypto import seal_results, sign
from bci_stream.wire.messages import (
    NUMBERS_A_WORKER,
    Done,
    PacketRequest,
    Refused,
    ReportMessage,
    ResultsMessage,
    encode,
)
from bci_stream.wire.transport import SampleOutlet, StreamSpec, Transport

REQUEST_LEADS = tuple(
    Lead(name, "MISC", "none") for name in ("packet", "n", *(f"hmac{k}" for k in range(8)))
)


def request_stream(contest: str, team: str) -> StreamSpec:
    source_id = names.source_id(contest, "asks", team)
    return StreamSpec(f"{contest}-{team}-asks", "BCI-Asks", source_id, "int32", leads=REQUEST_LEADS)


def encode_request(run: str, packet: int, n: int, token: bytes) -> NDArray[np.int32]:
    """One row for the stream of packet requests; n is counted from the worker's first number in it."""
    row = np.empty((1, len(REQUEST_LEADS)), dtype=np.int32)
    row[0, :2] = packet, n % NUMBERS_A_WORKER
    row[0, 2:] = np.frombuffer(_request_digest(run, packet, n, token), dtype="<i4")
    return row


def decode_request(
    row: NDArray[np.int32], run: str, token: bytes, first_number: int = 0
) -> tuple[int, int] | None:
    """(packet, n), or None if it was not signed for this run under this token.

    first_number: of the worker's messages.
    """
    packet, n = int(row[0]), first_number + int(row[1])
    signature = row[2:].astype("<i4").tobytes()
    return (
        (packet, n)
        if hmac.compare_digest(signature, _request_digest(run, packet, n, token))
        else None
    )


def _request_digest(run: str, packet: int, n: int, token: bytes) -> bytes:
    return hmac.digest(token, f"ask {run} {packet} {n}".encode(), sha256)


KEPT = 20_000
"""How many messages are kept, to send them again to a restarted judge."""


class ResultsPublisher:
    """Sends a team's messages.

    run: the id of the run that was joined; empty before that. sealed: whether messages are encrypted.
    """

    def __init__(
        self, transport: Transport, contest: str, team: str, token: bytes, *, sealed: bool = False
    ) -> None:
        self.contest = contest
        self.team = names.checked_name(team, "team")
        self.token = token
        self.sealed = sealed
        self.run = ""
        # The clock, so that numbers grow when a worker is restarted in the middle of a run.
        self._seq = time.time_ns() // 1000
        self._n = 0
        self._sent: deque[tuple[int, str]] = deque(maxlen=KEPT)
        self._transport = transport
        self._outlet = transport.text_outlet(names.text_stream(contest, "results", team))
        self._requests: SampleOutlet | None = None
        self._last_request: NDArray[np.int32] | None = None

    @property
    def uid(self) -> str:
        """The LSL uid of the results stream."""
        return self._outlet.uid

    def refused_by(self, message: object) -> bool:
        """Whether a replay refuses what this stream brings, because it can't be verified."""
        return isinstance(message, Refused) and message.worker == self.uid

    def send(self, kind: type[ResultsMessage], **fields: object) -> None:
        """Send a message; requests, reports and done are numbered in the run, and can be sent again."""
        self._seq += 1
        numbered = kind in (PacketRequest, ReportMessage, Done)
        if numbered:
            fields["n"] = self._n
        fields["stream"] = self._outlet.uid
        message = kind(self.contest, self.run, self.team, self._seq, **fields)  # type: ignore[arg-type]
        text = self._protected(encode(message))
        if numbered:
            self._sent.append((self._n, text))
            self._n += 1
        self._outlet.push(text)

    def _protected(self, text: str) -> str:
        if not self.sealed:
            return sign(text, self.token)
        return seal_results(text, self.token, self.contest, self.team, self.run, self._seq)

    def number_from(self, n: int) -> None:
        """Number the next message n; a worker that has returned into a run does not begin at 0."""
        self._n = n

    def resend(self, n: int) -> None:
        """Send all messages from number n on again, unchanged."""
        for number, text in list(self._sent):
            if number >= n:
                self._outlet.push(text)

    def open_requests(self) -> str:
        """Open the stream of packet requests; returns its uid."""
        if self._requests is None:
            self._requests = self._transport.sample_outlet(request_stream(self.contest, self.team))
        return self._requests.uid

    def request_packet(self, packet: int) -> None:
        """Lockstep: request this packet on the stream of packet requests."""
        assert self._requests is not None  # opened before the run was joined
        self._last_request = encode_request(self.run, packet, self._n, self.token)
        self._n += 1
        self._requests.push(self._last_request, self._transport.now())

    def repeat_request(self) -> None:
        """Send the last packet request again, in case the replay opened its inlet too late."""
        if self._requests is not None and self._last_request is not None:
            self._requests.push(self._last_request, self._transport.now())

    def close(self) -> None:
        self._outlet.close()
        if self._requests is not None:
            self._requests.close()
