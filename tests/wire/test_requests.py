import numpy as np
import pytest

from bci_stream.wire.memory import MemoryTransport
from bci_stream.wire.messages import NUMBERS_A_WORKER
from bci_stream.wire.results import (
    ResultsPublisher,
    decode_request,
    encode_request,
    request_stream,
)

TOKEN = b"t" * 32


def test_a_request_is_decoded_with_the_token() -> None:
    row = encode_request("run", 12345, 678, TOKEN)
    assert row.shape == (1, 10)
    assert decode_request(row[0], "run", TOKEN) == (12345, 678)


@pytest.mark.parametrize(("run", "token"), [("another", TOKEN), ("run", b"x" * 32)])
def test_a_request_of_another_run_or_team_is_rejected(run: str, token: bytes) -> None:
    assert decode_request(encode_request("run", 1, 2, TOKEN)[0], run, token) is None


@pytest.mark.parametrize("place", range(10))
def test_a_changed_request_is_rejected(place: int) -> None:
    row = encode_request("run", 1, 2, TOKEN)[0]
    row[place] ^= np.int32(1)
    assert decode_request(row, "run", TOKEN) is None


def test_a_worker_that_has_returned_can_request_packets() -> None:
    """Its messages are numbered from 2^32 on, which no channel of 32 bits can hold."""
    transport = MemoryTransport()
    publisher = ResultsPublisher(transport, "c", "alice", TOKEN)
    publisher.run = "run"
    publisher.open_requests()
    (found,) = transport.visible(request_stream("c", "alice").source_id)
    inlet = transport.sample_inlet(found, 1.0)
    publisher.number_from(NUMBERS_A_WORKER + 7)
    publisher.request_packet(40)
    rows, _ = inlet.pull(1, 1.0)
    assert rows[0][1] == 7
    number = NUMBERS_A_WORKER + 7
    assert decode_request(rows[0], "run", TOKEN, NUMBERS_A_WORKER) == (40, number)
