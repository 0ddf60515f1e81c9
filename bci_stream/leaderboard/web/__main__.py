"""The page's process: python -m bci_stream.leaderboard.web FEED LISTENING PARENT.

The supervisor starts it. FEED and LISTENING are inherited sockets, PARENT is the supervisor's process
id. The process ends when the feed ends; where the kernel can do that, it is killed with its parent.
"""

import asyncio
import socket
import sys
from contextlib import ExitStack

from bci_stream.cli import configure_logging, open_wire
from bci_stream.leaderboard.web.published import (
    LENGTH,
    PageSettings,
    PublishedBoard,
    decode_message,
)
from bci_stream.leaderboard.web.server import serve
from bci_stream.leaderboard.web.signal_view import SignalView
from bci_stream.leaderboard.web.supervisor import end_with_parent
from tracks.registry import TRACKS


def read_settings(feed: socket.socket) -> PageSettings:
    """The first message of the feed."""
    header = feed.recv(LENGTH.size, socket.MSG_WAITALL)
    if len(header) < LENGTH.size:
        raise SystemExit  # the judge has ended meanwhile
    settings = decode_message(feed.recv(LENGTH.unpack(header)[0], socket.MSG_WAITALL))
    assert isinstance(settings, PageSettings), "the judge's process sends them first"
    return settings


def main(feed_descriptor: int, listening_descriptor: int, parent: int) -> None:
    end_with_parent(parent)
    feed, listening = (
        socket.socket(fileno=feed_descriptor),
        socket.socket(fileno=listening_descriptor),
    )
    settings = read_settings(feed)
    configure_logging(settings.log_level)
    board = PublishedBoard()
    with ExitStack() as opened:
        if (source := settings.signal) is not None:
            transport = open_wire(source.scope, source.lsl_session)
            view = SignalView(transport, source.contest, board.signals, frozenset(TRACKS))
            opened.enter_context(view)
        asyncio.run(serve(board, feed, listening, settings))


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
