"""A packet request as ten int32, which LSL carries faster than a text.

packet, n, and the HMAC-SHA256 of `ask RUN PACKET N` under the team's token, as eight int32.
"""

import hmac
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from bci_stream.packet import Lead
from bci_stream.wire import names
from bci_stream.wire.transport import StreamSpec

LEADS = tuple(
    Lead(name, "MISC", "none") for name in ("packet", "n", *(f"hmac{k}" for k in range(8)))
)


def request_stream(contest: str, team: str) -> StreamSpec:
    source_id = names.source_id(contest, "asks", team)
    return StreamSpec(f"{contest}-{team}-asks", "BCI-Asks", source_id, "int32", leads=LEADS)


def encode_request(run: str, packet: int, n: int, token: bytes) -> NDArray[np.int32]:
    """One row for the stream of packet requests."""
    row = np.empty((1, len(LEADS)), dtype=np.int32)
    row[0, :2] = packet, n
    row[0, 2:] = np.frombuffer(_digest(run, packet, n, token), dtype="<i4")
    return row


def decode_request(row: NDArray[np.int32], run: str, token: bytes) -> tuple[int, int] | None:
    """(packet, n), or None if it was not signed for this run under this token."""
    packet, n = int(row[0]), int(row[1])
    signature = row[2:].astype("<i4").tobytes()
    return (packet, n) if hmac.compare_digest(signature, _digest(run, packet, n, token)) else None


def _digest(run: str, packet: int, n: int, token: bytes) -> bytes:
    return hmac.digest(token, f"ask {run} {packet} {n}".encode(), sha256)
