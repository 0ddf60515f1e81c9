"""Pages behind odd connections: an old proxy, one that asks for the head only, one that never reads."""

import re
import socket
from collections.abc import Iterator

import numpy as np
import pytest

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.web.server import WebBoard
from tracks.registry import TRACKS

PATIENCE_S = 20


@pytest.fixture
def page() -> Iterator[WebBoard]:
    served = WebBoard(Leaderboard("Finals"), port=0, period_s=0.01)
    served.start()
    yield served
    served.stop()


def ask(page: WebBoard, request: str) -> socket.socket:
    link = socket.create_connection((page.host, page.port), timeout=PATIENCE_S)
    link.sendall(f"{request}\r\nHost: hall\r\n\r\n".encode())
    return link


def read_until(link: socket.socket, wanted: bytes) -> bytes:
    heard = bytearray()
    while heard.find(wanted, -len(wanted) - (1 << 16)) < 0:
        piece = link.recv(1 << 16)
        assert piece, f"the stream ended without {wanted!r}"
        heard += piece
    return bytes(heard)


def test_a_proxy_that_speaks_http_1_0_gets_no_chunks(page: WebBoard) -> None:
    with ask(page, "GET /api/v1/events HTTP/1.0") as link:
        heard = read_until(link, b"Finals")
    head, _, body = heard.partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body.startswith(b"retry: 1000\n\nid: ")


def test_a_page_that_takes_chunks_gets_whole_ones(page: WebBoard) -> None:
    with ask(page, "GET /api/v1/events HTTP/1.1") as link:
        body = read_until(link, b"}\n\n\r\n").partition(b"\r\n\r\n")[2]
    while body:
        size, _, rest = body.partition(b"\r\n")
        message, body = rest[: int(size, 16)], rest[int(size, 16) + 2 :]
        assert message.endswith(b"\n\n")


def test_the_head_of_a_stream_that_never_ends_is_refused(page: WebBoard) -> None:
    with ask(page, "HEAD /api/v1/events HTTP/1.1") as link:
        assert b" 405 " in read_until(link, b"\r\n\r\n")


def test_a_page_that_reads_late_holds_up_nobody_and_misses_nothing(page: WebBoard) -> None:
    """Sixty updates of some 130 kB are more than a connection holds."""
    noise = np.random.default_rng(7).normal(0, 1e6, (6000, 8)).astype(np.float32)
    with (
        ask(page, "GET /api/v1/events HTTP/1.1") as late,
        ask(page, "GET /api/v1/events HTTP/1.1") as reader,
    ):
        read_until(reader, b"Finals")
        for number in range(60):
            for track in TRACKS:
                page.board.signal(track, noise, 1000.0, tuple("abcdefgh"))
            page.board.team(f"team-{number}-", "mi", "running")
            read_until(reader, f"team-{number}-".encode())
        heard = read_until(late, b"team-59-")
    ids = [int(number) for number in re.findall(rb"\nid: [0-9a-f]+-(\d+)\n", heard)]
    assert len(ids) >= 60
    assert ids == list(range(ids[0], ids[-1] + 1))
