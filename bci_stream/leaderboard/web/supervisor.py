"""Starts the page's process again whenever it ends: python -m bci_stream.leaderboard.web.supervisor.

Starting a process keeps the interpreter of its parent busy for milliseconds, so a process of its own does
it, and not the judge's. Arguments: the descriptors of the control socket and of the listening socket,
and the judge's process id. For each page the supervisor makes a feed, a socket pair, and sends
one end to the judge. It imports nothing but the standard library.
"""

import ctypes
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Final

PAGE: Final = "bci_stream.leaderboard.web"
ANNOUNCEMENT: Final = struct.Struct("!ii")
"""Sent with each feed: the page's process id, and the exit code of the one before (NONE_BEFORE)."""
NONE_BEFORE: Final = -(1 << 31)
REPLACE: Final = b"r"
"""Sent by the judge: end this page and start another one."""

FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 30.0
LIVED_S: Final = 60.0
LOOK_S: Final = 0.05
END_S: Final = 2.0
PR_SET_PDEATHSIG: Final = 1


class RestartPause:
    """How long to wait before a process that ended is started again.

    Doubled each time, from FIRST_PAUSE_S to LONGEST_PAUSE_S; short again after one that lived LIVED_S.
    """

    def __init__(
        self, first_s: float = FIRST_PAUSE_S, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._now = now
        self._first_s = self._next_s = first_s
        self._started_at = now()

    def started(self) -> None:
        self._started_at = self._now()

    def next_s(self) -> float:
        lived = self._now() - self._started_at > LIVED_S
        pause_s = self._first_s if lived else self._next_s
        self._next_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return pause_s


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent has ended (Linux); a stopped process too."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit  # it has ended meanwhile


def start_page(
    control: socket.socket, listening: int, last_exit_code: int
) -> "subprocess.Popen[bytes]":
    """Start a page, and send the judge's end of its feed."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        descriptors = theirs.fileno(), listening
        arguments = map(str, (*descriptors, os.getpid()))
        page = subprocess.Popen(
            [sys.executable, "-P", "-m", PAGE, *arguments], pass_fds=descriptors
        )
        announcement = ANNOUNCEMENT.pack(page.pid, last_exit_code)
        socket.send_fds(control, [announcement], [ours.fileno()])
    return page


def wait_for_end(page: "subprocess.Popen[bytes]", control: socket.socket) -> bool:
    """Wait until the page has ended or is to be replaced; False if the judge has closed `control`."""
    while page.poll() is None:
        if select.select([control], [], [], LOOK_S)[0]:
            if control.recv(1) != REPLACE:
                return False
            page.kill()
    return True


def end_page(page: "subprocess.Popen[bytes]") -> None:
    """Wait for a page whose feed the judge has closed; kill it after END_S."""
    try:
        page.wait(END_S)
    except subprocess.TimeoutExpired:
        page.kill()
        page.wait()


def supervise(control: socket.socket, listening: int) -> None:
    """Keep a page running until the judge closes `control` or ends."""
    pause, exit_code = RestartPause(), NONE_BEFORE
    while True:
        page = start_page(control, listening, exit_code)
        pause.started()
        if not wait_for_end(page, control):
            end_page(page)
            return
        exit_code = page.wait()
        until = time.monotonic() + pause.next_s()
        while (left_s := until - time.monotonic()) > 0:
            if select.select([control], [], [], left_s)[0] and control.recv(1) != REPLACE:
                return


def main(control_descriptor: int, listening: int, parent: int) -> None:
    end_with_parent(parent)
    try:
        supervise(socket.socket(fileno=control_descriptor), listening)
    except (BrokenPipeError, ConnectionResetError):
        return  # the judge has ended meanwhile


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
