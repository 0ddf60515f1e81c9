"""The judge's side of the page: listens on the port, starts the page's supervisor, and feeds the page.

The page's process gets the listening socket and one end of a socket pair. A thread writes to the other
end without ever waiting: while the page does not read, nothing is encoded for it, and later it gets the
updates that it missed, or a snapshot. The judge's own threads do no more than change the leaderboard.
"""

import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from os import getpid
from typing import Final

from bci_stream.leaderboard.board import Leaderboard
from bci_stream.leaderboard.embargo import TeamKey
from bci_stream.leaderboard.team_view import DetailMark
from bci_stream.leaderboard.web.published import (
    FeedMessage,
    PageLimits,
    PageSettings,
    PublishedDetail,
    PublishedHistory,
    PublishedSnapshot,
    PublishedUpdate,
    SignalSource,
    SnapshotComplete,
    encode_message,
)
from bci_stream.leaderboard.web.supervisor import (
    ANNOUNCEMENT,
    NONE_BEFORE,
    REPLACE,
    RestartPause,
)
from bci_stream.page_server import listen
from tracks.common.reasons import Reason

logger = logging.getLogger(__name__)

PERIOD_S: Final = 0.2
RETRY_S: Final = 0.01
"""How soon the feed is tried again while its buffer is full."""
TRIALS_AT_ONCE: Final = 100
"""Trials of a team in one message: encoding one takes less than a millisecond."""
STALLED_S: Final = 30.0
"""A page that reads nothing of its feed for this long is ended, and started again."""
END_S: Final = 4.0
"""A page and its supervisor that are still there this long after the feed was closed are killed."""


class PageFeed:
    """Writes the leaderboard to a page's process, without waiting and with one message in memory."""

    def __init__(self, board: Leaderboard, link: socket.socket, settings: PageSettings) -> None:
        link.setblocking(False)
        self._board = board
        self._link = link
        self._unsent = memoryview(encode_message(settings))
        self._cursor = ""
        self._marks: dict[TeamKey, DetailMark] = {}
        self._messages: Iterator[FeedMessage] = iter(())
        self.full_since: float | None = None

    def write(self) -> bool:
        """Write all that is new, as far as the page reads; False if its buffer is full.

        Raises OSError if the page has ended.
        """
        while True:
            while self._unsent:
                try:
                    sent = self._link.send(self._unsent)
                except BlockingIOError:
                    self.full_since = self.full_since or time.monotonic()
                    return False
                self._unsent = self._unsent[sent:]
                self.full_since = None
            message = next(self._messages, None)
            if message is None:
                self._messages = self._new_messages()
                message = next(self._messages, None)
            if message is None:
                return True
            self._unsent = memoryview(encode_message(message))

    def close(self) -> None:
        self._link.close()

    def _new_messages(self) -> Iterator[FeedMessage]:
        updates = self._board.after(self._cursor)
        if updates is None:
            yield from self._snapshot()
            return
        yield from self._details()  # first: a browser asks for them when it gets the update
        for update in updates:
            self._cursor = update.id
            yield PublishedUpdate(update.data)

    def _snapshot(self) -> Iterator[FeedMessage]:
        snapshot = self._board.snapshot()
        self._cursor = snapshot.id
        data = dict(snapshot.data)
        histories = data.pop("history")
        yield PublishedSnapshot(data)
        for team, points in histories.items():
            yield PublishedHistory(team, points)
        yield from self._details()
        yield SnapshotComplete()

    def _details(self) -> Iterator[FeedMessage]:
        for key in self._board.team_keys():
            while new := self._board.detail_after(key, self._marks.get(key), TRIALS_AT_ONCE):
                detail, self._marks[key] = new
                yield PublishedDetail(*key, detail)


class WebBoard:
    """Serves `board` on host:port (0: any free port) from a process of its own.

    store: of past runs; empty for none. signal: where the page finds the live signal; None for none.
    console, metrics: the judge's local socket, for the operator's console and for `/metrics`; empty for none.
    """

    def __init__(
        self,
        board: Leaderboard,
        host: str = "127.0.0.1",
        port: int = 8000,
        *,
        store: str = "",
        period_s: float = PERIOD_S,
        limits: PageLimits | None = None,
        signal: SignalSource | None = None,
        console: str = "",
        metrics: str = "",
    ) -> None:
        self.board = board
        self.host = host
        self.port = port
        level = logging.getLogger("bci_stream").getEffectiveLevel()
        self._settings = PageSettings(
            period_s, store, limits or PageLimits(), signal, level, console, metrics
        )
        self._listening: socket.socket | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="page-feed", daemon=True)
        self._supervisor: Supervisor | None = None
        self._feed: PageFeed | None = None
        self._restart = RestartPause()
        self.pid: int | None = None
        """Of the page's process; None while there is none."""

    @property
    def url(self) -> str:
        host = "127.0.0.1" if self.host in ("0.0.0.0", "") else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def start(self) -> None:
        """Listen and start the page, without waiting for it: connections wait in the socket's queue.

        Raises PageError if the port can't be used.
        """
        self._listening = listen(self.host, self.port)
        self.port = self._listening.getsockname()[1]
        self._thread.start()

    def stop(self) -> None:
        """End the page and free the port; does nothing if it was never started."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._listening is not None:
            self._listening.close()

    def _run(self) -> None:
        """The thread also starts the supervisor: the kernel ends a process with the thread that made it."""
        wait_s = 0.0
        try:
            while not self._stop.wait(wait_s):
                begun = time.monotonic()
                self.board.tick()
                is_full = not self._write()
                left_s = self._settings.period_s - (time.monotonic() - begun)
                wait_s = RETRY_S if is_full or self._feed is None else max(RETRY_S, left_s)
        finally:
            self._close_feed()
            if self._supervisor is not None:
                self._supervisor.end()

    def _write(self) -> bool:
        """Feed the page; False if its buffer is full."""
        try:
            if self._supervisor is None:
                assert self._listening is not None
                self._supervisor = Supervisor(self._listening)
                self._restart.started()
            self._take_feed(self._supervisor)
        except OSError as error:
            self._restart_supervisor(error)
        if self._feed is None:
            return True
        try:
            is_written = self._feed.write()
        except OSError:
            self._close_feed()  # the page has ended; the supervisor sends another feed
            return True
        full_since = self._feed.full_since
        if full_since is not None and time.monotonic() - full_since > STALLED_S:
            self._close_feed()
            assert self._supervisor is not None
            self._supervisor.replace_page()
        return is_written

    def _take_feed(self, supervisor: "Supervisor") -> None:
        """Use the feed of a new page if there is one. Raises OSError if the supervisor has ended."""
        if (announced := supervisor.next_page()) is None:
            return
        self._close_feed()
        self.pid, exit_code, link = announced
        self._feed = PageFeed(self.board, link, self._settings)
        if exit_code != NONE_BEFORE:
            self.board.alarm(Reason("page_ended", exit_code=exit_code))

    def _restart_supervisor(self, error: OSError) -> None:
        """The next write starts another one, after a pause."""
        self._close_feed()
        if self._supervisor is not None:
            self._supervisor.end(0.0)
            self._supervisor = None
        pause_s = self._restart.next_s()
        logger.warning("the page can't run (%s); it is tried again in %g s", error, pause_s)
        self._stop.wait(pause_s)

    def _close_feed(self) -> None:
        if self._feed is not None:
            self._feed.close()
        self._feed = self.pid = None


class Supervisor:
    """The process that starts the pages. Raises OSError if it can't be started."""

    def __init__(self, listening: socket.socket) -> None:
        self._control, theirs = socket.socketpair()
        self._control.setblocking(False)
        descriptors = theirs.fileno(), listening.fileno()
        arguments = map(str, (*descriptors, getpid()))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "bci_stream.leaderboard.web.supervisor", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=descriptors,
                start_new_session=True,  # Ctrl-C is for the judge, which then ends the page
            )

    def next_page(self) -> tuple[int, int, socket.socket] | None:
        """Process id of a new page, exit code of the last one, feed; None if there is no new page.

        Raises OSError if the supervisor has ended.
        """
        try:
            text, descriptors, _, _ = socket.recv_fds(self._control, ANNOUNCEMENT.size, 1)
        except BlockingIOError:
            return None
        if not descriptors:
            raise ConnectionResetError("its supervisor has ended")
        pid, exit_code = ANNOUNCEMENT.unpack(text)
        return pid, exit_code, socket.socket(fileno=descriptors[0])

    def replace_page(self) -> None:
        with suppress(OSError):
            self._control.send(REPLACE)

    def end(self, wait_s: float = END_S) -> None:
        """End the page, whose feed is closed, and the supervisor; kill them after wait_s."""
        self._control.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(wait_s)
        self._process.kill()
        self._process.wait()
