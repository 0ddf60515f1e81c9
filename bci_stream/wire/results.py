"""A team's results stream: every message is numbered and signed.

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
from bci_stream.wire.crypto import sign
from bci_stream.wire.messages import Done, PacketRequest, ReportMessage, ResultsMessage, encode
from bci_stream.wire.transport import SampleOutlet, StreamSpec, Transport

REQUEST_LEADS = tuple(
    Lead(name, "MISC", "none") for name in ("packet", "n", *(f"hmac{k}" for k in range(8)))
)


def request_stream(contest: str, team: str) -> StreamSpec:
    source_id = names.source_id(contest, "asks", team)
    return StreamSpec(f"{contest}-{team}-asks", "BCI-Asks", source_id, "int32", leads=REQUEST_LEADS)


def encode_request(run: str, packet: int, n: int, token: bytes) -> NDArray[np.int32]:
    """One row for the stream of packet requests."""
    row = np.empty((1, len(REQUEST_LEADS)), dtype=np.int32)
    row[0, :2] = packet, n
    row[0, 2:] = np.frombuffer(_request_digest(run, packet, n, token), dtype="<i4")
    return row


def decode_request(row: NDArray[np.int32], run: str, token: bytes) -> tuple[int, int] | None:
    """(packet, n), or None if it was not signed for this run under this token."""
    packet, n = int(row[0]), int(row[1])
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
    """Sends a team's messages. run: the id of the run that was joined; empty before that."""

    def __init__(self, transport: Transport, contest: str, team: str, token: bytes) -> None:
        self.contest = contest
        self.team = names.checked_name(team, "team")
        self.token = token
        self.run = ""
        # The clock, so that numbers grow when a worker is restarted in the middle of a run.
        self._seq = time.time_ns() // 1000
        self._n = 0
        self._sent: deque[tuple[int, str]] = deque(maxlen=KEPT)
        self._transport = transport
        self._outlet = transport.text_outlet(names.text_stream(contest, "results", team))
        self._requests: SampleOutlet | None = None
        self._last_request: NDArray[np.int32] | None = None

    def send(self, kind: type[ResultsMessage], **fields: object) -> None:
        """Send a message; requests, reports and done are numbered in the run, and can be sent again."""
        self._seq += 1
        numbered = kind in (PacketRequest, ReportMessage, Done)
        if numbered:
            fields["n"] = self._n
        message = kind(self.contest, self.run, self.team, self._seq, **fields)  # type: ignore[arg-type]
        text = sign(encode(message), self.token)
        if numbered:
            self._sent.append((self._n, text))
            self._n += 1
        self._outlet.push(text)

    def resend(self, n: int) -> None:
        """Send all messages from number n on again, unchanged."""
        for number, text in list(self._sent):
            if number >= n:
                self._outlet.push(text)

    def open_requests(self) -> None:
        """Open the stream of packet requests."""
        if self._requests is None:
            self._requests = self._transport.sample_outlet(request_stream(self.contest, self.team))

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
