"""`bci_stream.replay`: a replay on LSL in a process of its own, as a context manager."""

import os
import secrets
import time
from dataclasses import dataclass
from os import PathLike, fspath
from types import TracebackType
from typing import Any, Literal

from bci_stream.child_process import ChildProcess
from bci_stream.errors import SourceError
from bci_stream.wire import names
from decoders.notebook.recording import uri_with
from replay.daemon import OVER, log_path, read_state

POLL_S = 0.05
CONTEST = "default"
"""The open contest of a replay without a contest file, which is part of its streams' names."""

StartCondition = Literal["judge", "team", "consumer", "now"]


@dataclass(frozen=True)
class ReplayStatus:
    """Where a replay stands.

    state: starting, waiting, playing, paused, finished, stopped, failed or crashed. played_s: seconds
    played so far. share: of the whole, from 0 to 1. detail: why it failed.
    """

    state: str
    played_s: float
    share: float
    detail: str


class RunningReplay:
    """A replay that `bci_stream.replay` has started; it ends with its `with` block, or with `stop`.

    Attributes
    ----------
    name : str
        Of the replay, for `bci-replay status`.
    signal : str
        Name of the LSL stream with the leads and TRIGGER.
    markers : str
        Name of the LSL stream with the triggers as text.
    """

    def __init__(self, name: str, arguments: list[str], wait_s: float) -> None:
        self.name = name
        self.signal = names.signal_stream(CONTEST, name, 1.0, ()).name
        self.markers = names.text_stream(CONTEST, "markers", name).name
        self._process = ChildProcess("replay", arguments, log_path(name))
        try:
            self._wait_for_streams(wait_s)
        except BaseException:
            self.stop()
            raise

    @property
    def status(self) -> ReplayStatus:
        """Where it stands now."""
        state = read_state(self.name)
        if state is None:
            return ReplayStatus("starting", 0.0, 0.0, "")
        played, total = (float(state.progress.get(key) or 0.0) for key in ("played", "total"))
        return ReplayStatus(
            state.state,
            played / state.rate if state.rate else 0.0,
            played / total if total else 0.0,
            state.detail,
        )

    def wait(self, timeout_s: float = 600.0) -> ReplayStatus:
        """Wait until it has played everything.

        Raises SourceError if it fails, or is not over after `timeout_s` seconds.
        """
        deadline = time.monotonic() + timeout_s
        while self._process.exit_code() is None:
            if time.monotonic() > deadline:
                status = self.status
                raise SourceError(
                    f"replay {self.name!r} is not over after {timeout_s:g} s: {status.state}, "
                    f"{status.share:.0%} played"
                )
            time.sleep(POLL_S)
        if self._process.exit_code() != 0:
            raise SourceError(f"replay {self.name!r} failed: {self._process.last_line()}")
        return self.status

    def stop(self) -> None:
        """Stop it and its process."""
        self._process.end()

    def __enter__(self) -> "RunningReplay":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        status = self.status
        return f"<replay {self.name}, {status.state}, {status.share:.0%} played: {self.signal}>"

    def _wait_for_streams(self, wait_s: float) -> None:
        deadline = time.monotonic() + wait_s
        while self.status.state in ("starting", *OVER):
            if self._process.exit_code() is not None:
                if self._process.exit_code() == 0:
                    return  # it was short, and is over
                raise SourceError(f"the replay can't start: {self._process.last_line()}")
            if time.monotonic() > deadline:
                raise SourceError(f"the replay {self.name!r} has no streams after {wait_s:g} s")
            time.sleep(POLL_S)


def replay(
    recording: str | PathLike[str],
    track: str | None = None,
    *,
    pace: float | Literal["realtime", "lockstep"] = "realtime",
    start: StartCondition = "consumer",
    loop: bool = False,
    name: str | None = None,
    wait_s: float = 90.0,
    **options: Any,
) -> RunningReplay:
    """Play a recording, or a live device, on LSL; use it in a `with` block.

    Parameters
    ----------
    recording : str or path-like
        A file, a folder or a URI, as in `bci_stream.open`, or a device such as
        `"brainflow:SYNTHETIC_BOARD"`.
    track : str, optional
        Mask and pack for this track.
    pace : "realtime", float or "lockstep"
        In real time, faster by a factor, or packet by packet as a team asks.
    start : {"consumer", "now", "judge", "team"}
        Who must be there before the first sample leaves.
    loop : bool
        Begin again at the end.
    name : str, optional
        Of the replay; a new one by default.
    wait_s : float
        How long it may take until the streams are there.
    **options
        Of the recording, as in `bci_stream.open`.

    Returns
    -------
    replay : RunningReplay
        `signal` and `markers` are the names of its streams; `wait()` waits for its end.

    Raises
    ------
    SourceError
        If it can't start; the message says why.

    Examples
    --------
    >>> import bci_stream as bci
    >>> with bci.replay("synthetic:mi?trials=1&blocks=1&subjects=1", name="doc") as replay:
    ...     replay.signal
    'default-doc-signal'
    """
    name = name or f"notebook-{secrets.token_hex(4)}"
    uri = uri_with(fspath(recording), options)
    session = os.environ.get("BCI_LSL_SESSION", "default")
    arguments = [
        *("start", uri, "--foreground", "--name", name, "--pace", str(pace), "--start", start),
        *(("--track", track) if track else ()),
        *(("--loop",) if loop else ()),
        *("--lsl-session", session),
    ]
    return RunningReplay(name, arguments, wait_s)
