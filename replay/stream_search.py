"""A search for the streams that are on the wire, in a process of its own.

liblsl reads its settings once a process, and this one may have others than LabRecorder gets.
"""

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bci_stream.errors import SourceError
from replay.lab_recorder import ENDED_EARLY, lsl_environment

SEARCH_S = 1.5
LOOK_S = 0.5
UNWRITABLE = "int64"
"""LabRecorder writes every other format of LSL, and finds that out when it is too late."""

_SEARCH = """
import json, sys
from bci_stream.wire.lsl import streams_now
print(json.dumps(streams_now(sys.argv[2:], float(sys.argv[1]))))
"""


@dataclass(frozen=True)
class OnWire:
    """A stream that was found."""

    uid: str
    name: str
    kind: str
    form: str

    @property
    def writable(self) -> bool:
        return self.form != UNWRITABLE

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


def look_for(
    queries: Sequence[str], lsl_config: str | None, stop: threading.Event
) -> list[list[OnWire]]:
    """The streams that are on the wire now, for each query."""
    with tempfile.TemporaryDirectory(prefix="bci-record-") as folder:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _SEARCH, str(SEARCH_S), *queries],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=lsl_environment(lsl_config, Path(folder)),
            start_new_session=True,  # Ctrl-C is for us
        )
        with process:
            try:
                out, trouble = _ended(process, stop)
            finally:
                process.kill()
    if process.returncode:
        raise SourceError(f"the search for streams failed: {trouble.strip()[-300:]}")
    return [[OnWire(*stream) for stream in streams] for streams in json.loads(out)]


def _ended(process: subprocess.Popen[str], stop: threading.Event) -> tuple[str, str]:
    while not stop.is_set():
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=LOOK_S)
    raise SourceError(ENDED_EARLY)
