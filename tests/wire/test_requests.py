import numpy as np
import pytest

from bci_stream.wire.results import decode_request, encode_request

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
