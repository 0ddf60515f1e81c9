"""How a submission can fail, and as what the run then ends.

    SubmissionError                   (DecoderFailure, BciError)
    ├── PackageError                  never started: a folder or archive that can't be used
    ├── EnvironmentFailed             never started: no such interpreter, or packages not found
    ├── SubmissionCrashed             `crashed`: an exception of its own, an exit, an early return
    │   └── SubmissionLimit           `crashed`: more memory, disk or processes than are granted
    ├── SubmissionTimeout             `timeout`: too slow, or it never came back or never ended
    ├── SubmissionStopped             `stopped`: the run was told to stop while it computed
    └── SubmissionDisqualified        `disqualified`: a flood, or it wrote into its host's pipe
        └── SubmissionRefused         `disqualified`: it named channels that the rules don't allow

A machine's limit shows inside the submission (a MemoryError, a full disk) or to the host, whichever
comes first; both are a crash, so that the score does not hang on a race.
"""

from decoders.decoder import DecoderFailure


class SubmissionError(DecoderFailure):
    """A submission that can't go on; `ending` and `results` as in DecoderFailure."""


class PackageError(SubmissionError):
    """A folder or archive that can't be used as a submission."""


class EnvironmentFailed(SubmissionError):
    """A submission's own Python environment that can't be made."""


class SubmissionCrashed(SubmissionError):
    """It ended by a fault of its own; what it reported before is scored."""


class SubmissionLimit(SubmissionCrashed):
    """It took more of the machine than it is granted."""


class SubmissionTimeout(SubmissionError):
    """It did not come back in time; a run that ends so scores 0."""

    ending = "timeout"


class SubmissionStopped(SubmissionError):
    """Nothing of its own: the run was told to stop."""

    ending = "stopped"


class SubmissionDisqualified(SubmissionError):
    """It did what no honest submission does; a run that ends so scores 0."""

    ending = "disqualified"


class SubmissionRefused(SubmissionDisqualified):
    """Its choice of channels breaks the rules, before any data."""


def escape_text(text: str, most: int = 2000) -> str:
    """The same in one line of at most so many signs; each sign that does not print as its escape."""
    shown = "".join(
        sign if sign.isprintable() or sign == "\t" else sign.encode("unicode_escape").decode()
        for sign in text[:most]
    )
    return shown if len(text) <= most else f"{shown} ... ({len(text)} signs)"
