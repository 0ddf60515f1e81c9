"""Commands of this project as child processes, which end when their parent does, however it ends.

The parent holds the writing end of a pipe, and the child reads from the other end. The parent never
writes, so the child's read returns when the parent is gone, also after SIGKILL. Unlike
PR_SET_PDEATHSIG this works on every POSIX system, and a parent's thread may end before its process.
"""

import contextlib
import logging
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

logger = logging.getLogger(__name__)

TERM_S = 5.0
"""How long a process has to stop after SIGTERM, before it and all that it started are killed."""

PARENT_PIPE = "BCI_PARENT_PIPE"
"""The environment variable that gives a child the file descriptor of its end of the pipe."""


class ChildProcess:
    """`python -P -m module arguments` in a process group of its own; its output goes to a log file.

    -P: a file replay.py in the current folder is not taken for our package.

    The child must call `end_with_parent`, as all our commands do (`bci_stream.cli.Commands`).
    """

    def __init__(self, module: str, arguments: Sequence[str], log: Path) -> None:
        self.log = log
        reader, writer = os.pipe()
        self._pipe = os.fdopen(writer, "wb", buffering=0)
        try:
            with log.open("ab") as out:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", module, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    pass_fds=[reader],
                    env={**os.environ, PARENT_PIPE: str(reader)},
                )
        except OSError:
            self._pipe.close()
            raise
        finally:
            os.close(reader)

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def lines(self) -> list[str]:
        """The complete lines that it has printed."""
        written = self.log.read_text(errors="replace")
        return written[: written.rfind("\n") + 1].splitlines()

    def last_line(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("Error: ") if lines else "it printed nothing"

    def end(self) -> None:
        """Terminate the process; after TERM_S kill it, and all processes that it started."""
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(TERM_S)
        self._signal(signal.SIGKILL)
        self._process.wait()
        self._pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def end_with_parent() -> None:
    """In a `ChildProcess`: stop this process when its parent is gone. Elsewhere: do nothing.

    The process gets SIGTERM; after TERM_S it is killed with all processes of its group.
    """
    given = os.environ.pop(PARENT_PIPE, "")  # not for the processes that this one starts
    if given.isdecimal() and _is_pipe(int(given)):
        os.set_inheritable(int(given), False)
        threading.Thread(
            target=_stop_at_end_of, args=(int(given),), name="parent", daemon=True
        ).start()


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def _stop_at_end_of(pipe: int) -> None:
    os.read(pipe, 1)
    logger.warning("the process that started this one is gone: stopping")
    own = os.getpid()
    os.kill(own, signal.SIGTERM)
    threading.Event().wait(TERM_S)
    if os.getpgrp() == own:
        os.killpg(own, signal.SIGKILL)
    os.kill(own, signal.SIGKILL)
