"""Processes that verify, score and compare run logs for a season's server.

A log has a line for each packet: one of a whole season's subjects takes minutes. In a thread of the server it
would hold up every request.
"""

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.connection import Connection
from typing import Final, ParamSpec, TypeVar

from bci_stream.errors import LogError

logger = logging.getLogger(__name__)

POLL_S: Final = 1.0
READ_S: Final = 3600.0
"""The longest time for one log: that of 18 people of 1.5 h takes minutes (docs/scale.md)."""
TRIES: Final = 3
"""With a log whose process is killed: it may not have been the log's fault."""

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class LogPool:
    """At most `processes` processes, started when needed; they end with this one, however it ends."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._lock = threading.Lock()
        self._pool: _Pool | None = None

    def call(
        self,
        go_on: Callable[[], bool],
        function: Callable[Given, Answer],
        *values: Given.args,
        **named: Given.kwargs,
    ) -> Answer | None:
        """Call a function of a module in one of the processes; several threads may call.

        go_on: called every POLL_S; if it returns False, the result is None. Raises what the function raises,
        and LogError if its process was killed TRIES times or took longer than READ_S.
        """
        for _ in range(TRIES):
            pool, called = self._submit(partial(function, *values, **named))
            try:
                return called.result() if _is_done(called, go_on) else None
            except _ReadingHangs:
                self._discard(pool)
                raise LogError(f"the run log was not read within {READ_S:g} s") from None
            except BrokenProcessPool:
                self._discard(pool)
                if not go_on():
                    return None
                logger.warning("a process that reads run logs was killed; the log is read again")
        raise LogError(f"the process that reads the run log was killed {TRIES} times")

    def close(self) -> None:
        """End the processes, also those that are at work."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.close()

    def _submit(self, work: Callable[[], Answer]) -> tuple["_Pool", Future[Answer]]:
        with self._lock:  # no other thread closes the pool meanwhile
            if self._pool is not None:
                try:
                    return self._pool, self._pool.executor.submit(work)
                except BrokenProcessPool:  # a process was killed while it had no work
                    self._pool.close()
            self._pool = _Pool(self._processes)
            return self._pool, self._pool.executor.submit(work)

    def _discard(self, broken: "_Pool") -> None:
        with self._lock:
            if self._pool is broken:
                self._pool = None
        broken.close()


class _ReadingHangs(Exception):
    """A log has been read for READ_S."""


def _is_done(called: Future[Answer], go_on: Callable[[], bool]) -> bool:
    """Wait for a call; False if `go_on` returned False. READ_S begins when a process takes it."""
    began: float | None = None
    while not wait([called], POLL_S).done:
        if not go_on():
            called.cancel()
            return False
        if began is None and called.running():
            began = time.monotonic()
        if began is not None and time.monotonic() - began > READ_S:
            raise _ReadingHangs
    return True


class _Pool:
    """An executor, and the pipe whose end ends its processes."""

    def __init__(self, processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        reader, self._writer = context.Pipe(duplex=False)
        self.executor = ProcessPoolExecutor(
            processes, mp_context=context, initializer=_end_with_pipe, initargs=(reader,)
        )

    def close(self) -> None:
        """End the processes; calls that have not ended raise BrokenProcessPool."""
        self._writer.close()
        self.executor.shutdown()


def _end_with_pipe(reader: Connection) -> None:
    """In a process of the pool: end when the server closes its end of the pipe, or is gone.

    The signals of Ctrl-C and of systemd reach the whole group; the server's answer to them is what counts.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)

    def end() -> None:
        try:
            reader.recv_bytes()
        except (EOFError, OSError):
            os._exit(0)

    threading.Thread(target=end, name="server", daemon=True).start()
