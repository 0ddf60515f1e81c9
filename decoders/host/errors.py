"""The errors of a submission, and the ending of the run for each.

    SubmissionError                   (DecoderFailure, BciError)
    ├── PackageError                  never started: unusable folder or archive
    ├── EnvironmentFailed             never started: interpreter or packages not found
    ├── SubmissionCrashed             `crashed`: exception, exit or early return
    │   └── SubmissionLimit           `crashed`: memory, disk or process limit exceeded
    ├── SubmissionTimeout             `timeout`: too slow, or never returned
    ├── SubmissionStopped             `stopped`: the run was stopped meanwhile
    └── SubmissionDisqualified        `disqualified`: flooding, or writing to the host's pipe
        └── SubmissionRefused         `disqualified`: channels that break the rules

A resource limit is noticed by the submission (MemoryError, disk full) or by the host, whichever is
first; both count as a crash, so that the score does not depend on a race.
"""

from decoders.decoder import DecoderFailure


class SubmissionError(DecoderFailure):
    """A submission that can't go on; `ending` and `results` as in DecoderFailure."""


class PackageError(SubmissionError):
    """A folder or archive that can't be used as a submission."""


class EnvironmentFailed(SubmissionError):
    """A submission's own Python environment that can't be made."""


class SubmissionCrashed(SubmissionError):
    """It failed; what it reported before is scored."""


class SubmissionLimit(SubmissionCrashed):
    """It exceeded a resource limit."""


class SubmissionTimeout(SubmissionError):
    """It did not answer in time; the run scores 0."""

    ending = "timeout"


class SubmissionStopped(SubmissionError):
    """The run was stopped; not a fault of the submission."""

    ending = "stopped"


class SubmissionDisqualified(SubmissionError):
    """It misused the interface; the run scores 0."""

    ending = "disqualified"


class SubmissionRefused(SubmissionDisqualified):
    """Its choice of channels breaks the rules; raised before any data."""


def escape_text(text: str, most: int = 2000) -> str:
    """Escape untrusted text for a terminal: one line, at most `most` characters."""
    shown = "".join(
        char if char.isprintable() or char == "\t" else char.encode("unicode_escape").decode()
        for char in text[:most]
    )
    return shown if len(text) <= most else f"{shown} ... ({len(text)} characters)"
