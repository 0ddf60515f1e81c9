"""The judge's local socket: how the console's page and the operator's commands reach a running judge.

A Unix socket of mode 0600 in the contest's folder, one request and one answer a connection, each a line of
JSON. Whoever may open it owns the contest's keys anyway. The socket's threads only queue requests: the
judge's own thread takes them and answers.
"""

import contextlib
import getpass
import os
import queue
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bci_stream.contest.actions import (
    MOST_REQUEST,
    OperatorAction,
    OperatorAnswer,
    OperatorRequest,
    read_request,
)
from bci_stream.errors import BciError, ContestError

ANSWER_S = 10.0
"""How long a request may wait for the judge's thread."""

READ_S = 5.0
LONGEST_PATH = 100
"""Bytes of a socket's path; the system's limit is 103 to 107."""

MOST_WAITING = 64

HAS_UNIX_SOCKETS = hasattr(socketserver, "ThreadingUnixStreamServer")
"""Windows has none: a judge there takes no commands of an operator."""

if TYPE_CHECKING or HAS_UNIX_SOCKETS:
    _UnixServer = socketserver.ThreadingUnixStreamServer
else:
    _UnixServer = socketserver.ThreadingTCPServer  # never opened

WaitingRequest = tuple[OperatorRequest, "Future[OperatorAnswer]"]


def socket_path(folder: Path, contest: str) -> Path:
    return folder / f"judge-{contest}.sock"


@contextmanager
def _short_path(path: Path) -> Iterator[str]:
    """A name of this path that fits into a socket address; on Linux a long folder has one by its number."""
    text = str(path)
    if len(os.fsencode(text)) <= LONGEST_PATH:
        yield text
        return
    if sys.platform != "linux":
        raise ContestError(
            f"the path of the judge's socket is too long ({path}): at most {LONGEST_PATH} bytes; move "
            "the contest to a folder with a shorter path"
        )
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class ControlSocket:
    """The judge's end. The judge's thread calls `take`; nothing else of the judge is touched from here."""

    def __init__(self, path: Path) -> None:
        """Raises OSError if the socket can't be made; one that a judge left behind is replaced."""
        self.path = path
        self._waiting: queue.Queue[WaitingRequest] = queue.Queue(MOST_WAITING)
        path.unlink(missing_ok=True)
        with _short_path(path) as address:
            before = os.umask(0o177)
            try:
                self._server = _Server(address, _Connection)
            finally:
                os.umask(before)
        self._server.waiting = self._waiting
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="operator", daemon=True
        )
        self._thread.start()

    def take(self, handle: Callable[[OperatorRequest], OperatorAnswer]) -> None:
        """Answer the requests that wait; called by the judge's thread."""
        while True:
            try:
                request, answer = self._waiting.get_nowait()
            except queue.Empty:
                return
            if not answer.set_running_or_notify_cancel():
                continue  # it has waited too long, and its sender knows that nothing was done
            try:
                answer.set_result(handle(request))
            except BaseException as error:
                answer.set_result(OperatorAnswer(False, f"the judge failed: {error}"))
                raise

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.path.unlink(missing_ok=True)


class _Server(_UnixServer):
    daemon_threads = True
    block_on_close = False
    waiting: "queue.Queue[WaitingRequest]"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves early is no error of the judge."""


class _Connection(socketserver.StreamRequestHandler):
    timeout = READ_S
    server: _Server

    def handle(self) -> None:
        answer = self._answer()
        self.wfile.write(msgspec.json.encode(answer) + b"\n")

    def _answer(self) -> OperatorAnswer:
        line = self.rfile.readline(MOST_REQUEST + 1)
        if len(line) > MOST_REQUEST:
            return OperatorAnswer(False, f"a request has at most {MOST_REQUEST} bytes")
        answer: Future[OperatorAnswer] = Future()
        try:
            self.server.waiting.put_nowait((read_request(line), answer))
            return answer.result(ANSWER_S)
        except queue.Full:
            return OperatorAnswer(False, f"{MOST_WAITING} requests wait already; try again")
        except FutureTimeout:
            if answer.cancel():
                return OperatorAnswer(
                    False, f"the judge did not take the request within {ANSWER_S:g} s"
                )
            return answer.result()
        except BciError as error:
            return OperatorAnswer(False, str(error))


def ask_judge(path: Path, action: OperatorAction, by: str = "") -> OperatorAnswer:
    """Send an action to the judge of this socket, and return its answer.

    Raises ContestError if no judge is there, or if it does not answer.
    """
    by = by or f"command by {this_user()}"
    with contextlib.ExitStack() as opened:
        connection = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        connection.settimeout(ANSWER_S + READ_S)
        try:
            connection.connect(opened.enter_context(_short_path(path)))
            connection.sendall(msgspec.json.encode({"do": action, "by": by}) + b"\n")
            line = opened.enter_context(connection.makefile("rb")).readline()
            return msgspec.json.decode(line, type=OperatorAnswer)
        except (FileNotFoundError, ConnectionRefusedError):
            raise ContestError(
                f"no judge of this contest runs here ({path} is not open): start `bci-judge live` with "
                "the same --contest and --room, on this machine"
            ) from None
        except PermissionError:
            raise ContestError(
                f"{path} is another user's: run the command as the user who runs the judge"
            ) from None
        except (OSError, msgspec.DecodeError) as error:
            raise ContestError(f"the judge did not answer on {path}: {error}") from None


def this_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
