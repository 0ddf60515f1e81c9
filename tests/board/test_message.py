"""Messages on the wire: squeezed once, and read by any browser in any order of pieces."""

import zlib

from hypothesis import given
from hypothesis import strategies as st

from bci_stream.leaderboard.updates import GZIP_HEAD, LeaderboardUpdate, deflate


@given(st.lists(st.binary(max_size=200)))
def test_pieces_that_were_squeezed_each_on_its_own_make_one_gzip_stream(texts: list[bytes]) -> None:
    reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
    read = reader.decompress(GZIP_HEAD)
    for text in texts:
        piece = reader.decompress(deflate(text))
        assert piece == text  # at once: nothing waits for the next piece
        read += piece
    assert read == b"".join(texts)


def test_a_message_is_one_event_with_its_id_in_both_forms() -> None:
    message = LeaderboardUpdate("boot", 7, "update", {"rows": ["é\n"]})
    assert message.encoded == 'id: boot-7\nevent: update\ndata: {"rows":["é\\n"]}\n\n'.encode()
    assert zlib.decompress(GZIP_HEAD + message.squeezed + squeeze_end(message), 31)


def squeeze_end(message: LeaderboardUpdate) -> bytes:
    """What a gzip stream ends with: an empty last block, a checksum, a length."""
    size = len(message.encoded)
    return (
        b"\x03\x00" + zlib.crc32(message.encoded).to_bytes(4, "little") + size.to_bytes(4, "little")
    )
