"""Opening a submission for a worker: announced in words, its log where the team finds it."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

from bci_stream.contest.contest import Limits as ContestLimits
from bci_stream.home import home
from decoders.host.limits import limits_of
from decoders.host.sandbox import Strength, at_least
from decoders.host.submission import SubmissionDecoder


def open_submission(
    package: Path,
    track: str,
    *,
    interface: str | None = None,
    python: str | None = None,
    positions: str | None = None,
    granted: ContestLimits | None = None,
    strength: Strength | None = None,
    log: Path | None = None,
    stop: threading.Event | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> SubmissionDecoder:
    """The submission as a decoder; close() it when the run is over. granted: by the contest's file."""
    granted = granted or ContestLimits()
    decoder = SubmissionDecoder(
        package,
        track,
        interface=interface,
        python=python,
        positions=positions,
        limits=limits_of(granted),
        strength=at_least(granted.strength, strength),
        log=log or own_log(package),
        stop=stop,
    )
    say(f"submission {decoder.title}")
    say(f"its output goes to {decoder.log}")
    return decoder


def own_log(package: Path) -> Path:
    """A new file a run, in the service's own folder."""
    folder = home() / "submissions"
    folder.mkdir(exist_ok=True)
    return folder / f"{package.stem}-{os.getpid()}.log"
